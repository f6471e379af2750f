"""One writing connection: applies batches, each in one transaction, and recovers when the connection is lost.

Errors and what follows:

    a command fails                  roll back; apply the commands before it, the command itself, and the commands
                                     after it in separate transactions
    another transaction conflicts    roll back and retry (serialization failure, deadlock, the same row created twice)
    the connection is lost
      before COMMIT was sent         nothing was written: retry on a new connection
      after COMMIT was sent          each transaction inserts a row with a random id (its note) into the table ``sent``.
                                     If the row exists, the transaction was committed, and the answers, which were known
                                     before the commit, are returned. Otherwise retry
      in a standalone statement      send it again as ``resent``: the command finds by its request id what it did
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
from chronos.store.sql.postgres.database_url import ConnectionAddress
from chronos.store.sql.postgres.dialect import to_column_arrays
from chronos.store.sql.postgres.errors import (
    DRIVER_ERRORS,
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
_NOTES_PER_DELETE = 64  # deleted together by a later commit
_LOCK = "select count(*) from (select 1 from gate where job = any($1::uuid[]) order by job for update) as locked"
_SELECT_KEYS_IN_USE = "select exists (select from key_gate where active > 0 or queued > 0)"
_SELECT_NOTE = "select 1 from sent where id = $1"


class _CommitInFlight(NamedTuple):
    """A transaction whose COMMIT was sent: its note and its answers."""

    note: bytes
    answers: list[Any]


class _BatchError(Exception):
    """A batch failed: with which error, in which of its commands, and how far it was."""

    def __init__(
        self,
        error: Exception,
        positions: Sequence[int],
        *,
        standalone: bool = False,
        committing: _CommitInFlight | None = None,
    ) -> None:
        self.error, self.positions, self.standalone, self.committing = error, positions, standalone, committing


class _RejectedCommands(NamedTuple):
    """The error of some adjacent commands. Nothing of their batch was applied."""

    error: Exception
    first: int
    last: int


class WriteConnection:
    """Applies batches one after the other on one connection."""

    def __init__(
        self,
        connect: Connect,
        handlers: CommandHandlers,
        place: ConnectionAddress,
        reconnect_policy: ReconnectPolicy,
        resent_requests: ResentRequests,
        on_hint: Callable[[Hint], None],
    ) -> None:
        self._reconnecting = ReconnectingConnection(connect, reconnect_policy, self._on_replan)
        self._handlers, self._place, self._reconnect_policy = handlers, place, reconnect_policy
        self._resent_requests, self._on_hint = resent_requests, on_hint
        self._old_notes: list[bytes] = []
        self._separate_transactions = False

    async def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Return the answer or the error of each command."""
        answers: list[Any] = []
        for batch in self._batches(commands):
            answers += await self._run(batch)
        return answers

    async def close(self) -> None:
        await self._reconnecting.close()

    async def _on_replan(self, connection: Connection) -> None:
        self._separate_transactions = await connection.fetchval(_SELECT_KEYS_IN_USE)

    def _batches(self, commands: Sequence[Command[Any]]) -> list[Sequence[Command[Any]]]:
        """Split commands into transactions: one for all, unless concurrency keys are in use or a deadlock occurred.

        Each command locks gates and then keys, in order. It does not know its keys beforehand, so two commands in one
        transaction could lock keys out of order.
        """
        if not self._separate_transactions:
            return [commands]
        return [[commands[i] for i in positions] for _, positions in merge_commands(commands)]

    async def _run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        answers: list[Any] = []
        rest = commands
        while rest:
            try:
                outcome = await self._apply_or_reject(rest)
            except ChronosError as error:
                return answers + [error] * len(rest)
            if not isinstance(outcome, _RejectedCommands):
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

    async def _apply_or_reject(self, commands: Sequence[Command[Any]]) -> list[Any] | _RejectedCommands:
        """Apply all of the commands, or find which of them fail."""
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
                    self._reconnecting.drop()
                    committing, resent = stopped.committing, resent or stopped.standalone
                elif is_transaction_conflict(error) and conflicts < MAX_CONFLICTS:
                    conflicts += 1
                    self._separate_transactions = self._separate_transactions or is_deadlock(error)
                    await asyncio.sleep(random.uniform(0, 0.01 * 2**conflicts))
                    continue
                else:
                    return _RejectedCommands(
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

    # --- one transaction

    async def _transaction(
        self, connection: Connection, commands: Sequence[Command[Any]], *, resent: bool
    ) -> list[Any]:
        try:
            return await self._apply_all(connection, commands, resent=resent)
        except _BatchError as stopped:
            if not is_connection_lost(stopped.error):
                await self._roll_back(connection)
            raise
        except BaseException:  # canceled: the state of the connection is unknown
            self._reconnecting.drop()
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
                await connection.execute(self._build_commit_sql(committing.note))
                self._old_notes.append(committing.note)
        except Exception as error:
            raise _BatchError(error, positions, standalone=standalone, committing=committing) from error
        return answers

    async def _begin(self, connection: Connection, commands: Sequence[Command[Any]]) -> None:
        await connection.execute("begin")
        if jobs := _list_gates_to_lock(commands):
            await connection.fetch(_LOCK, jobs)

    def _build_commit_sql(self, note: bytes) -> str:
        """Return one message that inserts the note and commits."""
        delete_notes = ""
        if len(self._old_notes) >= _NOTES_PER_DELETE:
            delete_notes = f"delete from sent where id in ({', '.join(map(_literal, self._old_notes))}); "
            self._old_notes.clear()
        return f"{delete_notes}insert into sent (id) values ({_literal(note)}); commit"

    async def _roll_back(self, connection: Connection) -> None:
        if connection.is_closed() or not connection.is_in_transaction():
            return
        try:
            await connection.execute("rollback")
        except DRIVER_ERRORS:
            self._reconnecting.drop()


class TransactionSteps:
    """Runs steps one by one. ``query`` is the next statement; after the last one, None, and ``answer`` is set."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self.query: Query | None = None
        self.answer: Any = None
        self._send_rows(None)

    async def finish(self, connection: Connection) -> Any:
        """Run all remaining statements."""
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
                rows_found = await connection.fetch(query.sql, *args, *(() if rows is None else to_column_arrays(rows)))
            except Exception as error:
                if query.from_user and is_user_statement_error(error) and not connection.is_closed():
                    raise statement_failed(error) from error
                raise
            self._send_rows([tuple(row) for row in rows_found])

    def _send_rows(self, rows: list[Row] | None) -> None:
        try:
            self.query = self._steps.send(rows)  # type: ignore[arg-type]
        except StopIteration as stop:
            self.query, self.answer = None, stop.value


def _to_driver_args(args: Sequence[Any]) -> list[Any]:
    """Convert the arguments of a user's statement: our connections pass UUIDs as bytes."""
    return [arg.bytes if isinstance(arg, UUID) else arg for arg in args]


async def _was_committed(connection: Connection, committing: _CommitInFlight) -> bool:
    try:
        return bool(await connection.fetch(_SELECT_NOTE, committing.note))
    except DRIVER_ERRORS as error:
        raise _BatchError(error, (0,), committing=committing) from error


def _list_gates_to_lock(commands: Sequence[Command[Any]]) -> list[bytes]:
    """Return the gates to lock at the start of a batch, in order. Empty if no command waits while others hold locks.

    Without these locks, two batches could lock the same gates in different orders and deadlock. Admissions without
    ``needs_gate_lock`` hold locks, but never wait for one.
    """
    awaited = [list_awaited_gates(command) for command in commands]
    holding = [bool(jobs) or isinstance(command, Admit) for command, jobs in zip(commands, awaited, strict=True)]
    if not any(jobs and any(holding[:i]) for i, jobs in enumerate(awaited)):
        return []
    return sorted({job for jobs in awaited for job in jobs})


def _literal(note: bytes) -> str:
    return f"'{note.hex()}'"
