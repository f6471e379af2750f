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
        watch: CommitListener | None = None,
    ) -> None:
        self._begin = begin
        self._watch = watch
        self._max_rows = max_rows
        self._max_large = max_large
        self._max_waiting = max_waiting
        self._urgent: deque[PendingCommand] = deque()
        self._refusable: deque[PendingCommand] = deque()
        self._large: deque[PendingCommand] = deque()  # saved jobs, more than a batch of them
        self._large_are_next = False  # of the large ones: others went before them
        self._apart: deque[PendingCommand] = deque()  # of a batch that broke: they are sent one by one
        self._sent: list[PendingCommand] = []
        self._began_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None  # while there is work
        self._draining: list[asyncio.Future[None]] = []

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
            loop.call_soon(self._next)  # what else is sent in this turn of the loop goes with it
        return answer

    async def drain(self) -> None:
        """Wait until everything that was sent has been answered."""
        loop = asyncio.get_running_loop()
        while self._loop is loop:
            done = loop.create_future()
            self._draining.append(done)
            await done

    def _next(self) -> None:
        """Send the next batch, if there is one."""
        self._sent = batch = self._next_batch()
        if not batch:
            self._rest()
            return
        self._began_s = self._now_s()
        self._begin([pending.command for pending in batch], self._done)

    def _rest(self) -> None:
        self._loop = None
        for done in self._draining:
            if not done.done():
                done.set_result(None)
        self._draining.clear()

    def _done(self, outcome: BatchOutcome) -> None:
        """Give everybody their answer, and go on."""
        batch, self._sent = self._sent, []
        if isinstance(outcome, list):
            if self._watch is not None:
                self._watch(sum(pending.rows for pending in batch), self._now_s() - self._began_s)
            for pending, answer in zip(batch, outcome, strict=True):
                _resolve(pending, answer)
        elif not isinstance(outcome, Exception):  # all is coming to an end
            for pending in batch:
                _resolve(pending, StoreUnavailable("the store is being closed; whether this was written is unknown"))
            for waiting in (self._apart, self._urgent, self._refusable, self._large):
                while waiting:
                    _resolve(waiting.popleft(), StoreUnavailable("the store is being closed; this was not written"))
            self._rest()
            return
        elif isinstance(outcome, ChronosError) or len(batch) == 1:
            for pending in batch:  # the store's own trouble, the same for all
                _resolve(pending, outcome)
        else:  # something that should not happen, in one of them: alone, each gets what it deserves
            self._apart.extend(batch)
        self._next()

    def _next_batch(self) -> list[PendingCommand]:
        if self._apart:
            return [self._apart.popleft()]
        if self._large and (self._large_are_next or not (self._urgent or self._refusable)):
            self._large_are_next = False
            return _take_batch(self._max_large, self._large)
        self._large_are_next = bool(self._large)
        return _take_batch(self._max_rows, self._urgent, self._refusable)

    def _now_s(self) -> float:
        assert self._loop is not None
        return self._loop.time()


def _take_batch(room: int, *lines: deque[PendingCommand]) -> list[PendingCommand]:
    """The first of some lines that fit together, by their rows and by their text; one at least."""
    batch: list[PendingCommand] = []
    rows = text = 0
    for line in lines:
        while line and (not batch or (rows + line[0].rows <= room and text + line[0].text <= MAX_BATCH_CHARACTERS)):
            batch.append(line.popleft())
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
