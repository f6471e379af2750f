"""Group commit: commands that arrive while a transaction is under way wait and go into the next one together.

Idle, a command is sent at once. Under load the batches grow by themselves, up to a bound, so that one fsync serves
many. Heartbeats, settlements and control go first and are never refused; admissions and requests wait their turn, and
are refused, retryably, when too many wait already.

A command may be larger than a batch by itself: thousands of jobs. Large commands share transactions of their own, of a
few thousand rows, which take turns with all others: what is due waits for one of them at the most.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from chronos.errors import ChronosError, StoreBusy, StoreUnavailable
from chronos.store.command_merge import count_rows
from chronos.store.commands import Admit, Backfill, Claim, Command, Recover, SaveJobs, Trigger, Trim, WriteOutput
from chronos.store.commands.batch_size import MAX_BATCH_CHARACTERS, MAX_BATCH_ROWS, count_characters

R = TypeVar("R")
MAX_ROWS_OF_LARGE_COMMANDS = (
    5_000  # rows that large commands bring into one transaction: together they write fewer pages
)
MAX_WAITING_COMMANDS = 10_000
_REFUSABLE_COMMANDS = (Admit, Backfill, Claim, Recover, SaveJobs, Trigger, Trim, WriteOutput)


@dataclass(slots=True, eq=False)
class PendingCommand:
    """A command that waits, and whoever waits for its answer."""

    command: Command[Any]
    answer: asyncio.Future[Any]
    rows: int
    text: int  # characters


#: What became of a batch: each command's answer, or the error that is its own alone; or what is wrong with all of it.
BatchOutcome = list[Any] | BaseException
#: Begins to apply a batch in one transaction, and calls back, on the loop, with its outcome.
BeginBatch = Callable[[Sequence[Command[Any]], Callable[[BatchOutcome], None]], None]
#: Told of each transaction that was committed: how many rows it was about, and how long it took, in seconds.
CommitListener = Callable[[int, float], None]


class GroupCommit:
    """One lane of group commit."""

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
        self._refusable: deque[PendingCommand] = deque()
        self._large: deque[PendingCommand] = deque()  # saved jobs, more than a batch of them
        self._large_go_next = False  # of the large ones: others went before them
        self._one_by_one: deque[PendingCommand] = deque()  # of a batch that broke: they are sent one by one
        self._sent: list[PendingCommand] = []
        self._started_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None  # while there is work
        self._drain_waiters: list[asyncio.Future[None]] = []

    async def apply(self, command: Command[R]) -> R:
        """Send a command with the next batch and wait for its answer."""
        # Cancelling the waiter cancels its future only: a command that is on its way has no use for that.
        return await self.submit(command)

    def submit(self, command: Command[R]) -> asyncio.Future[R]:
        """Put a command in line; gives what its answer will be."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        pending = PendingCommand(command, answer, count_rows(command), count_characters(command))
        if isinstance(command, _REFUSABLE_COMMANDS):
            waiting = len(self._refusable) + len(self._large)
            if waiting >= self._max_waiting:
                raise StoreBusy(f"{waiting} changes wait to be written already; try again soon")
            is_large = isinstance(command, SaveJobs) and pending.rows > self._max_rows
            (self._large if is_large else self._refusable).append(pending)
        else:
            self._urgent.append(pending)
        if self._loop is None or self._loop.is_closed():
            self._loop = loop
            loop.call_soon(self._send_next_batch)  # what else is sent in this turn of the loop goes with it
        return answer

    async def drain(self) -> None:
        """Wait until everything that was sent has been answered."""
        loop = asyncio.get_running_loop()
        while self._loop is loop:
            done = loop.create_future()
            self._drain_waiters.append(done)
            await done

    def _send_next_batch(self) -> None:
        """Send the next batch, if there is one."""
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
        """Give everybody their answer, and go on."""
        batch, self._sent = self._sent, []
        if isinstance(outcome, list):
            if self._on_commit is not None:
                self._on_commit(sum(pending.rows for pending in batch), self._now_s() - self._started_s)
            for pending, answer in zip(batch, outcome, strict=True):
                _resolve(pending, answer)
        elif not isinstance(outcome, Exception):  # all is coming to an end
            for pending in batch:
                _resolve(pending, StoreUnavailable("the store is being closed; whether this was written is unknown"))
            for waiting in (self._one_by_one, self._urgent, self._refusable, self._large):
                while waiting:
                    _resolve(waiting.popleft(), StoreUnavailable("the store is being closed; this was not written"))
            self._become_idle()
            return
        elif isinstance(outcome, ChronosError) or len(batch) == 1:
            for pending in batch:  # the store's own trouble, the same for all
                _resolve(pending, outcome)
        else:  # something that should not happen, in one of them: alone, each gets what it deserves
            self._one_by_one.extend(batch)
        self._send_next_batch()

    def _next_batch(self) -> list[PendingCommand]:
        if self._one_by_one:
            return [self._one_by_one.popleft()]
        if self._large and (self._large_go_next or not (self._urgent or self._refusable)):
            self._large_go_next = False
            return _take_batch(self._max_large, self._large)
        self._large_go_next = bool(self._large)
        return _take_batch(self._max_rows, self._urgent, self._refusable)

    def _now_s(self) -> float:
        assert self._loop is not None
        return self._loop.time()


def _take_batch(max_rows: int, *queues: deque[PendingCommand]) -> list[PendingCommand]:
    """The first of some lines that fit together, by their rows and by their text; one at least."""
    batch: list[PendingCommand] = []
    rows = text = 0
    for queue in queues:
        while queue and (
            not batch or (rows + queue[0].rows <= max_rows and text + queue[0].text <= MAX_BATCH_CHARACTERS)
        ):
            batch.append(queue.popleft())
            rows += batch[-1].rows
            text += batch[-1].text
    return batch


def begin_in_task(run: Callable[[Sequence[Command[Any]]], Coroutine[Any, Any, list[Any]]]) -> BeginBatch:
    """For a store that applies a batch by waiting for it."""
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
        pending.answer.exception()  # looked at, so that a waiter that went away leaves no warning behind
    else:
        pending.answer.set_result(answer)
