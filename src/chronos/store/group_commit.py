"""Group commit: commands that arrive during a transaction wait and share the next one.

An idle store sends a command immediately. Under load, batches grow up to a limit, so that one fsync serves many
commands. There are three queues:

    urgent       heartbeats, settlements and the other commands: sent first, never rejected
    rejectable   admissions, requested runs, claims, saves, output and retention: sent after the urgent ones; rejected
                 with StoreBusy when too many wait
    large        SaveJobs commands that exceed a batch: they share transactions of a few thousand rows

Large transactions alternate with the others, so urgent commands wait for one large transaction at most.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from chronos.errors import ChronosError, StoreBusy, StoreUnavailable
from chronos.store.command_merge import count_rows
from chronos.store.commands import (
    Admit,
    Backfill,
    Claim,
    Command,
    Enqueue,
    Recover,
    SaveJobs,
    Trigger,
    Trim,
    WriteOutput,
)
from chronos.store.commands.batch_size import MAX_BATCH_CHARACTERS, MAX_BATCH_ROWS, count_characters

R = TypeVar("R")
MAX_ROWS_OF_LARGE_COMMANDS = 5_000  # per transaction; many rows together write fewer pages
MAX_WAITING_COMMANDS = 10_000
_REJECTABLE_COMMANDS = (Admit, Backfill, Claim, Enqueue, Recover, SaveJobs, Trigger, Trim, WriteOutput)


@dataclass(slots=True, eq=False)
class PendingCommand:
    """A command in a queue, with the future of its answer."""

    command: Command[Any]
    answer: asyncio.Future[Any]
    rows: int
    characters: int


#: The outcome of a batch: an answer or an error per command, or one error for the whole batch.
BatchOutcome = list[Any] | BaseException
#: Starts to apply a batch in one transaction, and calls back on the loop with the outcome.
BeginBatch = Callable[[Sequence[Command[Any]], Callable[[BatchOutcome], None]], None]
#: Called after each committed transaction with its number of rows and its seconds.
CommitListener = Callable[[int, float], None]


class GroupCommit:
    """Batches commands for one writer."""

    def __init__(
        self,
        begin: BeginBatch,
        *,
        max_rows: int = MAX_BATCH_ROWS,
        max_large: int = MAX_ROWS_OF_LARGE_COMMANDS,
        max_waiting: int = MAX_WAITING_COMMANDS,
        on_commit: CommitListener | None = None,
    ) -> None:
        self._begin = begin
        self._on_commit = on_commit
        self._max_rows = max_rows
        self._max_large = max_large
        self._max_waiting = max_waiting
        self._urgent: deque[PendingCommand] = deque()
        self._rejectable: deque[PendingCommand] = deque()
        self._large: deque[PendingCommand] = deque()  # SaveJobs commands with more rows than a batch
        self._large_go_next = False  # the previous batch was not a large one
        self._one_by_one: deque[PendingCommand] = deque()  # from a batch that failed unexpectedly
        self._sent: list[PendingCommand] = []
        self._started_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None  # None while idle
        self._drain_waiters: list[asyncio.Future[None]] = []

    async def apply(self, command: Command[R]) -> R:
        """Send a command with the next batch and wait for its answer."""
        # Canceling the caller cancels only its future. The command stays in its queue.
        return await self.submit(command)

    def submit(self, command: Command[R]) -> asyncio.Future[R]:
        """Queue a command and return the future of its answer. Raises ``StoreBusy`` if too many commands wait."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        pending = PendingCommand(command, answer, count_rows(command), count_characters(command))
        if isinstance(command, _REJECTABLE_COMMANDS):
            waiting = len(self._rejectable) + len(self._large)
            if waiting >= self._max_waiting:
                raise StoreBusy(f"{waiting} changes are waiting to be written; try again soon")
            is_large = isinstance(command, SaveJobs) and pending.rows > self._max_rows
            (self._large if is_large else self._rejectable).append(pending)
        else:
            self._urgent.append(pending)
        if self._loop is None or self._loop.is_closed():
            self._loop = loop
            loop.call_soon(self._send_next_batch)  # commands of the same loop iteration share the batch
        return answer

    async def drain(self) -> None:
        """Wait until every queued command has been answered."""
        loop = asyncio.get_running_loop()
        while self._loop is loop:
            done = loop.create_future()
            self._drain_waiters.append(done)
            await done

    def _send_next_batch(self) -> None:
        self._sent = batch = self._next_batch()
        if not batch:
            self._become_idle()
            return
        self._started_s = self._now_s()
        self._begin([pending.command for pending in batch], self._finish_batch)

    def _become_idle(self) -> None:
        self._loop = None
        for done in self._drain_waiters:
            if not done.done():
                done.set_result(None)
        self._drain_waiters.clear()

    def _finish_batch(self, outcome: BatchOutcome) -> None:
        """Resolve the futures of a batch and send the next one."""
        batch, self._sent = self._sent, []
        if isinstance(outcome, list):
            if self._on_commit is not None:
                self._on_commit(sum(pending.rows for pending in batch), self._now_s() - self._started_s)
            for pending, answer in zip(batch, outcome, strict=True):
                _resolve(pending, answer)
        elif not isinstance(outcome, Exception):  # the process or the loop is shutting down
            for pending in batch:
                _resolve(
                    pending,
                    StoreUnavailable(
                        "the store is closing, and this change may have been written; check before you send it again"
                    ),
                )
            for waiting in (self._one_by_one, self._urgent, self._rejectable, self._large):
                while waiting:
                    _resolve(
                        waiting.popleft(),
                        StoreUnavailable("the store is closing, and this change was not written; send it again later"),
                    )
            self._become_idle()
            return
        elif isinstance(outcome, ChronosError) or len(batch) == 1:
            for pending in batch:  # an error of the store itself
                _resolve(pending, outcome)
        else:  # one command failed unexpectedly: send each alone, so that only that one gets the error
            self._one_by_one.extend(batch)
        self._send_next_batch()

    def _next_batch(self) -> list[PendingCommand]:
        if self._one_by_one:
            return [self._one_by_one.popleft()]
        if self._large and (self._large_go_next or not (self._urgent or self._rejectable)):
            self._large_go_next = False
            return _take_batch(self._max_large, self._large)
        self._large_go_next = bool(self._large)
        return _take_batch(self._max_rows, self._urgent, self._rejectable)

    def _now_s(self) -> float:
        assert self._loop is not None
        return self._loop.time()


def _take_batch(max_rows: int, *queues: deque[PendingCommand]) -> list[PendingCommand]:
    """Remove the first commands that fit into one batch, by rows and by characters; at least one."""
    batch: list[PendingCommand] = []
    rows = characters = 0
    for queue in queues:
        while queue and (
            not batch or (rows + queue[0].rows <= max_rows and characters + queue[0].characters <= MAX_BATCH_CHARACTERS)
        ):
            batch.append(queue.popleft())
            rows += batch[-1].rows
            characters += batch[-1].characters
    return batch


def begin_in_task(run: Callable[[Sequence[Command[Any]]], Coroutine[Any, Any, list[Any]]]) -> BeginBatch:
    """Adapt a coroutine function that applies a batch."""
    running: set[asyncio.Task[list[Any]]] = set()

    def begin(commands: Sequence[Command[Any]], done: Callable[[BatchOutcome], None]) -> None:
        task = asyncio.create_task(run(commands))
        running.add(task)
        task.add_done_callback(partial(ended, done))

    def ended(done: Callable[[BatchOutcome], None], task: asyncio.Task[list[Any]]) -> None:
        running.discard(task)
        done(asyncio.CancelledError() if task.cancelled() else task.exception() or task.result())

    return begin


def _resolve(pending: PendingCommand, answer: Any) -> None:
    if pending.answer.done():
        return
    if isinstance(answer, Exception):
        pending.answer.set_exception(answer)
        pending.answer.exception()  # marked as retrieved, so that a canceled caller causes no warning
    else:
        pending.answer.set_result(answer)
