"""All that this node works on: it begins works, stops them, holds them against what the store says, and shuts down."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Protocol

from chronos.core.detail import close_detail
from chronos.core.events import ExecutionStarted, Trouble
from chronos.core.execution import Cancel, Status, due_us
from chronos.core.lane import PYTHON
from chronos.core.outcome import Outcome
from chronos.core.reasons import Code
from chronos.engine.catalog import Entry
from chronos.engine.crew import Crew
from chronos.engine.instant import Instant, Line
from chronos.engine.plain import Plain
from chronos.engine.quick import Quick
from chronos.engine.runners.contract import Call
from chronos.engine.runners.functions import Function
from chronos.engine.sending import insist
from chronos.engine.slots import Slots
from chronos.engine.work import Work
from chronos.errors import ChronosError
from chronos.store.commands import Claimed, Held, Release, ReleaseRow, SettleRow

log = logging.getLogger("chronos.engine")

_CODES = {Cancel.ASKED: Code.CANCELED, Cancel.REPLACED: Code.REPLACED, Cancel.DELETED: Code.JOB_DELETED}
_LAST_WORDS_S = 5.0
_MAX_PAST = 20_000
_STRIKES = 2  # heartbeats in a row that must disagree, as a claim or an outcome may be on its way


class Working(Protocol):
    """One execution under way: a ``Work``, or one on a shorter way."""

    claimed: Claimed
    entry: Entry

    def stop(self, code: Code, message: str | None = None) -> None:
        """End all of it; the first word counts."""

    def tell_stopping(self) -> None:
        """The node shuts down; it may finish within the grace period."""

    def put_down(self) -> None:
        """The grace period is over: stop, and be given back."""

    def kill(self) -> None:
        """End by force and settle nothing."""


class Executor:
    """The works of one node by their execution's id."""

    def __init__(self, crew: Crew, slots: Slots) -> None:
        self._crew, self._slots = crew, slots
        self._directly: bool = getattr(crew.runners.get(PYTHON), "calls_directly", False)
        self._works: dict[bytes, Working] = {}
        self._line = Line(crew, self)
        self._idle = asyncio.Event()
        self._strange: Counter[bytes] = Counter()
        self._past: dict[tuple[bytes, int], None] = {}  # claims that are over, the newest last: none begins again
        self._errands: set[asyncio.Task[None]] = set()
        self.freed: Callable[[], None] = lambda: None  # the dispatcher listens: a slot came free
        crew.settler.refused = self._refused

    @property
    def busy(self) -> int:
        """How many executions are being worked on."""
        return len(self._works)

    def begin(self, claimed: Claimed, entry: Entry) -> None:
        """Work on an execution that is this node's; its slot has been taken.

        Not if the answer that gives it came before the process stood still, and is only seen now.
        """
        older = self._works.get(claimed.id)
        told_before = older is not None and older.claimed.token == claimed.token  # by two answers, one of them late
        if told_before or (claimed.id, claimed.token) in self._past or self._crew.node.unheard:
            self._slots.give(entry.effective.queue)
            self.freed()
            return
        if older is not None:  # it was taken from this node, and given to it again
            older.kill()
        if self._crew.bus.wants(ExecutionStarted, routine=True):
            self._tell_start(claimed)
        if not entry.plain or claimed.attempt > 1 or claimed.worked_us:
            work = Work(self._crew, claimed, entry)
            self._drive(work, work.drive())
        elif (function := self._quick_function(claimed, entry)) is None:
            self._works[claimed.id] = Plain(self._crew, claimed, entry, self)
        elif function.suspends:
            self._works[claimed.id] = Quick(self._crew, claimed, entry, function, self)
        else:
            instant = self._works[claimed.id] = Instant(
                claimed, entry, function, self._line, self._crew.book.sink(claimed.id, entry.spec.tasks[0].name, 1)
            )
            self._line.add(instant)

    def _quick_function(self, claimed: Claimed, entry: Entry) -> Function | None:
        """The function of an execution that can go the quickest way, or None."""
        if not self._directly or entry.function is None or claimed.detail is not None:
            return None
        function = self._crew.functions.get(entry.function)
        return function if function is not None and function.is_async and function.plain else None

    def over(self, work: Working) -> None:
        """An execution is not worked on any more; a newer claim of it may be."""
        if self._works.get(work.claimed.id) is work:
            del self._works[work.claimed.id]
        self._forget((work.claimed.id, work.claimed.token))
        self._slots.give(work.entry.effective.queue)
        self.freed()
        if not self._works:
            self._idle.set()

    def _forget(self, claim: tuple[bytes, int]) -> None:
        """A claim is over: an answer that comes late, or twice, must not begin it again."""
        self._past[claim] = None
        if len(self._past) > _MAX_PAST:
            del self._past[next(iter(self._past))]

    # --- from the short ways to the long one

    def go_on(self, quick: Quick | Instant) -> None:
        """A quick execution takes the long way from here."""
        work = Work(self._crew, quick.claimed, quick.entry)
        self._drive(work, self._driven_on(work, quick))

    def go_on_with(self, plain: Plain, call: Call, outcome: Outcome) -> None:
        """So does a plain one."""
        work = Work(self._crew, plain.claimed, plain.entry)
        self._drive(work, work.drive_on(call, outcome, plain.stopped))

    def take_long_way(self, plain: Plain) -> None:
        """It was no plain one after all."""
        work = Work(self._crew, plain.claimed, plain.entry)
        self._drive(work, work.drive())
        if plain.stopped is not None:
            work.stop(*plain.stopped)

    def broke(self, work: Plain, error: BaseException) -> None:
        """It cannot be run at all."""
        self._broken(work, error)
        self.over(work)

    async def _driven_on(self, work: Work, quick: Quick | Instant) -> None:
        call = await work.first_call(quick.started_us)
        call.sink = quick.sink
        outcome = quick.outcome(call)
        await self._crew.book.close(call.sink)
        await work.drive_on(call, outcome, quick.stopped)

    def _drive(self, work: Work, driving: Coroutine[None, None, None]) -> None:
        self._works[work.claimed.id] = work
        work.task = asyncio.get_running_loop().create_task(self._driven(work, driving))

    async def _driven(self, work: Work, driving: Coroutine[None, None, None]) -> None:
        try:
            await driving
        except asyncio.CancelledError:
            pass  # it was killed: what it had is another's, or nobody's for now
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not take the node down
            self._broken(work, error)
        finally:
            self.over(work)

    def _broken(self, work: Working, error: BaseException) -> None:
        log.error("execution %s of %s cannot be run", work.claimed.id.hex(), work.entry.name, exc_info=error)
        self._give_up(work, f"It cannot be run: {type(error).__name__}: {error}")

    def _tell_start(self, claimed: Claimed) -> None:
        now_us = self._crew.clock.now_us()
        self._crew.bus.emit(
            ExecutionStarted(
                at_us=now_us,
                execution=claimed.id,
                job=claimed.job,
                attempt=claimed.attempt,
                late_us=max(0, now_us - due_us(claimed.cause, claimed.scheduled_us, claimed.admitted_us)),
            )
        )

    # --- what the store says

    def reconcile(self, held: list[Held]) -> None:
        """Stop what was asked to stop; what only one side knows of is given back, or killed, if that lasts."""
        known, strange = set(), Counter[bytes]()
        for row in held:
            known.add(row.id)
            found = self._works.get(row.id)
            if found is not None:
                if row.cancel is not Cancel.NO:
                    found.stop(_CODES[row.cancel], row.message)
            elif not self._crew.settler.holds(row.id):
                strange[row.id] = self._strange[row.id] + 1
                if strange[row.id] >= _STRIKES:
                    self._forget((row.id, row.token))
                    self.errand(self._give_back(row))
        for id_, work in tuple(self._works.items()):
            if id_ not in known:
                strange[id_] = self._strange[id_] + 1
                if strange[id_] >= _STRIKES:
                    work.kill()
        self._strange = strange

    def _give_up(self, work: Working, message: str) -> None:
        """A definition or a detail that nobody can run: it would break off again at every try."""
        claimed, now_us = work.claimed, self._crew.clock.now_us()
        self._trouble(f"{work.entry.name}: {message}")
        detail = close_detail(claimed.detail, Code.TASK_FAILED, now_us)
        row = SettleRow(
            claimed.id, claimed.job, claimed.token, Status.FAILED, Code.TASK_FAILED, message, now_us, detail
        )
        self._crew.settler.add(row._replace(dead_letter=True), work.entry)

    def _refused(self, row: SettleRow) -> None:
        self._trouble(f"the outcome of execution {row.id.hex()} came too late: it was taken from this node")

    async def _give_back(self, row: Held) -> None:
        """The store says that this node runs it, and it does not: an answer was lost, or its work broke off."""
        release = Release(rows=(ReleaseRow(row.id, row.token),), now_us=self._crew.clock.now_us())
        await insist(self._crew.store, release, self._crew.node.trouble)

    # --- ends

    def kill_all(self, why: str) -> None:
        """End all work by force; none of it is settled."""
        if self._works:
            self._trouble(f"{len(self._works)} executions were put down: {why}")
        for work in tuple(self._works.values()):
            work.kill()
        self._crew.settler.drop()

    async def drop_all(self) -> None:
        """Forget all work at once; nothing of it is left running."""
        for work in tuple(self._works.values()):
            work.kill()
        for task in self._errands:
            task.cancel()
        self._crew.settler.drop()
        await self._until_idle()

    async def shut_down(self, grace_s: float) -> None:
        """Let the work finish within the grace period, then stop it and give it back."""
        for work in tuple(self._works.values()):
            work.tell_stopping()
        try:
            async with asyncio.timeout(grace_s):
                await self._until_idle()
        except TimeoutError:
            self.hurry()
            await self._until_idle()
        with suppress(TimeoutError):  # a store that cannot be reached is not waited for without end
            async with asyncio.timeout(max(grace_s, _LAST_WORDS_S)):
                await self._crew.settler.drain()

    def hurry(self) -> None:
        """The grace period is over: what still runs is stopped, to be given back."""
        for work in tuple(self._works.values()):
            work.put_down()

    async def _until_idle(self) -> None:
        while self._works:
            self._idle.clear()
            await self._idle.wait()

    def errand(self, coroutine: Coroutine[None, None, None]) -> None:
        """Do something beside, without anybody waiting for it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._errands.add(task)
        task.add_done_callback(self._errand_done)

    def _errand_done(self, errand: asyncio.Task[None]) -> None:
        self._errands.discard(errand)
        error = None if errand.cancelled() else errand.exception()
        if isinstance(error, ChronosError):  # the store says whose it still is: the heartbeats see to it
            self._crew.node.trouble(error)
        elif error is not None:
            raise error  # for the loop to tell

    def _trouble(self, error: str) -> None:
        self._crew.bus.emit(Trouble(at_us=self._crew.clock.now_us(), where="executor", error=error))
