"""One writing connection: applies batches, each in one transaction, whatever becomes of the connection meanwhile.

What can go wrong, and what follows:

    an error of one command       roll back; what came before it, itself and what comes after are applied by themselves
    another got in the way        roll back, begin again (serialization, deadlock, the same thing created twice)
    cut before COMMIT was sent    nothing happened: begin again on a new connection
    cut after COMMIT was sent     the transaction carries a note; whether it is there says whether all of it is. If so
                                  the answers, known before the commit, hold; if not, begin again
    cut in a standalone statement       send it again as ``resent``: the command finds what it did by its request id
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from chronos.errors import ChronosError, Unavailable
from chronos.store.command_merge import merge_commands, split_result
from chronos.store.commands import Admit, Command
from chronos.store.contract import Hint
from chronos.store.hints import NO_HINT, hint_of
from chronos.store.sql.base_store import ResentRequests
from chronos.store.sql.command_handlers import CommandHandlers
from chronos.store.sql.postgres.connection import Connect, Connection, ReconnectingConnection, ReconnectPolicy
from chronos.store.sql.postgres.dialect import to_column_arrays
from chronos.store.sql.postgres.errors import (
    DRIVER_ERRORS,
    ConnectionPlace,
    is_connection_lost,
    is_deadlock,
    is_transaction_conflict,
    is_user_statement_error,
    to_store_error_if_postgres,
)
from chronos.store.sql.postgres.routing import list_awaited_gates
from chronos.store.sql.query import Query, Row, Steps
from chronos.store.sql.user_statements import statement_failed

MAX_CONFLICTS = 6
_NOTES_PER_DELETE = 64  # deleted together, with a later commit
_LOCK = "select count(*) from (select 1 from gate where job = any($1::uuid[]) order by job for update) as locked"
_SELECT_KEYS_IN_USE = "select exists (select from key_gate where active > 0 or queued > 0)"
_SELECT_NOTE = "select 1 from sent where id = $1"


class _CommitInFlight(NamedTuple):
    """A transaction that was about to be committed: the note it carries and what it answers."""

    note: bytes
    answers: list[Any]


class _BatchError(Exception):
    """A batch did not come to its end: by which error, in which of its commands, and how far it had come."""

    def __init__(
        self,
        error: Exception,
        positions: Sequence[int],
        *,
        standalone: bool = False,
        committing: _CommitInFlight | None = None,
    ) -> None:
        self.error, self.positions, self.standalone, self.committing = error, positions, standalone, committing


class _RefusedCommands(NamedTuple):
    """The error of some neighbouring commands of a batch; nothing of the batch was applied."""

    error: Exception
    first: int
    last: int


class WriteConnection:
    """Applies batches one after the other."""

    def __init__(
        self,
        connect: Connect,
        handlers: CommandHandlers,
        place: ConnectionPlace,
        reconnect_policy: ReconnectPolicy,
        resent_requests: ResentRequests,
        on_hint: Callable[[Hint], None],
    ) -> None:
        self._reconnecting = ReconnectingConnection(connect, reconnect_policy, self._on_replan)
        self._handlers, self._place, self._reconnect_policy = handlers, place, reconnect_policy
        self._resent_requests, self._on_hint = resent_requests, on_hint
        self._old_notes: list[bytes] = []
        self._one_by_one = False

    async def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """The answer of each command, or its error: its own alone, or that the store is not to be had."""
        answers: list[Any] = []
        for batch in self._batches(commands):
            answers += await self._run(batch)
        return answers

    async def close(self) -> None:
        """Let go of the connection."""
        await self._reconnecting.close()

    async def _on_replan(self, connection: Connection) -> None:
        self._one_by_one = await connection.fetchval(_SELECT_KEYS_IN_USE)

    def _batches(self, commands: Sequence[Command[Any]]) -> list[Sequence[Command[Any]]]:
        """What goes into one transaction: everything, unless there are concurrency keys, or was a deadlock lately.

        Each command locks gates and then keys, in order. What keys it will lock it does not know beforehand, so two
        commands in one transaction could lock keys out of order.
        """
        if not self._one_by_one:
            return [commands]
        return [[commands[i] for i in positions] for _, positions in merge_commands(commands)]

    async def _run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        answers: list[Any] = []
        rest = commands
        while rest:
            try:
                outcome = await self._apply_or_refuse(rest)
            except ChronosError as error:
                return answers + [error] * len(rest)
            if not isinstance(outcome, _RefusedCommands):
                answers += outcome
                break
            if len(rest) == 1:
                answers.append(outcome.error)
                break
            if outcome.first > 0:
                answers += await self._run(rest[: outcome.first])
            for command in rest[outcome.first : outcome.last + 1]:
                answers += await self._run([command])
            rest = rest[outcome.last + 1 :]
        return answers

    async def _apply_or_refuse(self, commands: Sequence[Command[Any]]) -> list[Any] | _RefusedCommands:
        """Apply all of the commands, or find out which of them cannot be applied."""
        resent = False
        conflicts = 0
        committing: _CommitInFlight | None = None
        while True:
            try:
                connection = await self._reconnecting.get()
                if committing is not None and await _was_committed(connection, committing):
                    answers = committing.answers
                else:
                    committing = None
                    answers = await self._transaction(connection, commands, resent=resent)
                break
            except _BatchError as stopped:
                error = stopped.error
                if is_connection_lost(error):
                    self._reconnecting.lose()
                    committing, resent = stopped.committing, resent or stopped.standalone
                elif is_transaction_conflict(error) and conflicts < MAX_CONFLICTS:
                    conflicts += 1
                    self._one_by_one = self._one_by_one or is_deadlock(error)
                    await asyncio.sleep(random.uniform(0, 0.01 * 2**conflicts))
                    continue
                else:
                    return _RefusedCommands(
                        to_store_error_if_postgres(error, self._place), stopped.positions[0], stopped.positions[-1]
                    )
            except Unavailable:
                self._remember_resent(commands if resent or committing else ())
                raise
            try:
                await self._reconnect_policy.wait_or_raise(error)
            except Unavailable:
                self._remember_resent(commands)
                raise
        self._reconnect_policy.reset()
        hint = NO_HINT
        for command, answer in zip(commands, answers, strict=True):
            hint |= hint_of(command, answer)
        if hint:
            self._on_hint(hint)
        return answers

    def _remember_resent(self, commands: Sequence[Command[Any]]) -> None:
        for command in commands:
            self._resent_requests.add(command)

    # --- one try

    async def _transaction(
        self, connection: Connection, commands: Sequence[Command[Any]], *, resent: bool
    ) -> list[Any]:
        try:
            return await self._apply_all(connection, commands, resent=resent)
        except _BatchError as stopped:
            if not is_connection_lost(stopped.error):
                await self._roll_back(connection)
            raise
        except BaseException:  # cancelled in the middle: nobody knows what the connection is in for
            self._reconnecting.lose()
            raise

    async def _apply_all(self, connection: Connection, commands: Sequence[Command[Any]], *, resent: bool) -> list[Any]:
        answers: list[Any] = [None] * len(commands)
        positions: Sequence[int] = range(len(commands))
        standalone = begun = False
        committing: _CommitInFlight | None = None
        try:
            merged = merge_commands(commands)
            for command, positions in merged:
                steps = TransactionSteps(
                    self._handlers.steps(command, resent=resent or self._resent_requests.contains(command))
                )
                if len(merged) == 1 and steps.query is not None and steps.query.standalone:
                    standalone = True
                    await steps.step(connection)
                if steps.query is not None and not begun:
                    begun = True
                    await self._begin(connection, [command for command, _ in merged])
                answer = await steps.finish(connection)
                parts = split_result(command, [commands[i] for i in positions], answer)
                for position, part in zip(positions, parts, strict=True):
                    answers[position] = part
            if begun:
                positions = range(len(commands))
                committing = _CommitInFlight(uuid4().bytes, answers)
                await connection.execute(self._commit(committing.note))
                self._old_notes.append(committing.note)
        except Exception as error:
            raise _BatchError(error, positions, standalone=standalone, committing=committing) from error
        return answers

    async def _begin(self, connection: Connection, commands: Sequence[Command[Any]]) -> None:
        await connection.execute("begin")
        if jobs := _list_gates_to_lock(commands):
            await connection.fetch(_LOCK, jobs)

    def _commit(self, note: bytes) -> str:
        """One message to the server: the note, and the commit."""
        forget = ""
        if len(self._old_notes) >= _NOTES_PER_DELETE:
            forget = f"delete from sent where id in ({', '.join(map(_literal, self._old_notes))}); "
            self._old_notes.clear()
        return f"{forget}insert into sent (id) values ({_literal(note)}); commit"

    async def _roll_back(self, connection: Connection) -> None:
        if connection.is_closed() or not connection.is_in_transaction():
            return
        try:
            await connection.execute("rollback")
        except DRIVER_ERRORS:
            self._reconnecting.lose()


class TransactionSteps:
    """Steps on their way: the statement that comes next, or, after the last one, the answer."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self.query: Query | None = None
        self.answer: Any = None
        self._send_rows(None)

    async def finish(self, connection: Connection) -> Any:
        """Run all statements that are left."""
        while self.query is not None:
            await self.step(connection)
        return self.answer

    async def step(self, connection: Connection) -> None:
        """Run the next statement."""
        if self.query is not None:
            query = self.query
            rows = query.rows
            args = _to_driver_args(query.args) if query.from_user else query.args
            try:
                found = await connection.fetch(query.sql, *args, *(() if rows is None else to_column_arrays(rows)))
            except Exception as error:
                if query.from_user and is_user_statement_error(error) and not connection.is_closed():
                    raise statement_failed(error) from error
                raise
            self._send_rows([tuple(row) for row in found])

    def _send_rows(self, rows: list[Row] | None) -> None:
        try:
            self.query = self._steps.send(rows)  # type: ignore[arg-type]
        except StopIteration as stop:
            self.query, self.answer = None, stop.value


def _to_driver_args(args: Sequence[Any]) -> list[Any]:
    """A user's arguments: ids are bytes on our connections."""
    return [arg.bytes if isinstance(arg, UUID) else arg for arg in args]


async def _was_committed(connection: Connection, committing: _CommitInFlight) -> bool:
    try:
        return bool(await connection.fetch(_SELECT_NOTE, committing.note))
    except DRIVER_ERRORS as error:
        raise _BatchError(error, (0,), committing=committing) from error


def _list_gates_to_lock(commands: Sequence[Command[Any]]) -> list[bytes]:
    """Gates to lock before all else: those of all commands, where one would wait while an earlier one holds some.

    So a batch locks gates in order, as a single command does. (Admissions of plain jobs wait for nobody, but hold.)
    """
    waited_for = [list_awaited_gates(command) for command in commands]
    holding = [bool(jobs) or isinstance(command, Admit) for command, jobs in zip(commands, waited_for, strict=True)]
    if not any(jobs and any(holding[:i]) for i, jobs in enumerate(waited_for)):
        return []
    return sorted({job for jobs in waited_for for job in jobs})


def _literal(note: bytes) -> str:
    return f"'{note.hex()}'"
