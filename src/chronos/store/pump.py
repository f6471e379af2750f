"""Group commit: commands that arrive while a transaction is under way wait and go into the next one together.

Idle, a command is sent at once. Under load the batches grow by themselves, up to a bound, so that one fsync serves
many. Heartbeats, settlements and control go first and are never refused; admissions and requests wait their turn, and
are refused, retryably, when too many wait already.

A command may be larger than a batch by itself: thousands of jobs. Where one transaction at a time is all there is,
several of these share one, as pages that each of them touches are then written once; as many as are done in the time
that whatever comes meanwhile can wait, going by how fast the last ones were.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from chronos.errors import ChronosError, StoreUnavailable
from chronos.store.commands import Admit, Claim, Command, Recover, SaveJobs, Trigger, Trim, WriteOutput
from chronos.store.merge import size

R = TypeVar("R")
MAX_ROWS = 500
MAX_WAITING = 10_000
_PATIENT = (Admit, Claim, Recover, SaveJobs, Trigger, Trim, WriteOutput)


@dataclass(slots=True, eq=False)
class Pending:
    """A command that waits, and whoever waits for its answer."""

    command: Command[Any]
    answer: asyncio.Future[Any]
    rows: int


#: Applies a batch in one transaction; gives each command's answer, or the error that is its own alone.
Run = Callable[[Sequence[Command[Any]]], Awaitable[list[Any]]]
#: Told of each transaction that was committed: how many rows it was about, and how long it took, in seconds.
Watch = Callable[[int, float], None]


class Pump:
    """One lane of group commit."""

    def __init__(
        self,
        run: Run,
        *,
        max_rows: int = MAX_ROWS,
        max_waiting: int = MAX_WAITING,
        bulk_s: float = 0,  # that a batch of large commands may take
        watch: Watch | None = None,
    ) -> None:
        self._run = run
        self._watch = watch
        self._max_rows = max_rows
        self._max_waiting = max_waiting
        self._bulk_s = bulk_s
        self._bulk_rows = 0  # of large commands that are written in that time
        self._urgent: deque[Pending] = deque()
        self._patient: deque[Pending] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def apply(self, command: Command[R]) -> R:
        """Send a command with the next batch and wait for its answer."""
        # Cancelling the waiter cancels its future only: a command that is on its way has no use for that.
        return await self.submit(command)

    def submit(self, command: Command[R]) -> asyncio.Future[R]:
        """Put a command in line; gives what its answer will be."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pending = Pending(command, answer, size(command))
        if isinstance(command, _PATIENT):
            if len(self._patient) >= self._max_waiting:
                raise StoreUnavailable(f"{len(self._patient)} changes wait to be written already; try again soon")
            self._patient.append(pending)
        else:
            self._urgent.append(pending)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return answer

    async def drain(self) -> None:
        """Wait until everything that was sent has been answered."""
        while self._worker is not None and not self._worker.done():
            await asyncio.shield(self._worker)

    async def _work(self) -> None:
        while batch := self._next_batch():
            await self._send(batch)

    async def _send(self, batch: list[Pending]) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            answers = await self._run([pending.command for pending in batch])
            self._note(sum(pending.rows for pending in batch), loop.time() - began_s)
        except ChronosError as error:  # the store's own trouble, the same for all
            answers = [error] * len(batch)
        except Exception as error:  # noqa: BLE001 - it goes to whoever waits
            # Something that should not happen, in one of them: alone, each gets what it deserves.
            if len(batch) > 1:
                for pending in batch:
                    await self._send([pending])
                return
            answers = [error]
        except BaseException:
            for pending in batch:
                _answer(pending, StoreUnavailable("the store is being closed; whether this was written is unknown"))
            raise
        for pending, answer in zip(batch, answers, strict=True):
            _answer(pending, answer)

    def _note(self, rows: int, took_s: float) -> None:
        if rows > self._max_rows and took_s > 0:
            self._bulk_rows = int(rows / took_s * self._bulk_s)
        if self._watch is not None:
            self._watch(rows, took_s)

    def _next_batch(self) -> list[Pending]:
        batch: list[Pending] = []
        rows, room = 0, self._max_rows
        if not self._urgent and self._patient and self._patient[0].rows > room:
            room = max(room, self._bulk_rows)
        for waiting in (self._urgent, self._patient):
            while waiting and (not batch or rows + waiting[0].rows <= room):
                batch.append(waiting.popleft())
                rows += batch[-1].rows
        return batch


def _answer(pending: Pending, answer: Any) -> None:
    if pending.answer.done():
        return
    if isinstance(answer, Exception):
        pending.answer.set_exception(answer)
        pending.answer.exception()  # looked at, so that a waiter that went away leaves no warning behind
    else:
        pending.answer.set_result(answer)
