"""All that this node works on: it begins works, stops them, holds them against what the store says, and shuts down."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine

from chronos.core.events import ExecutionStarted, Trouble
from chronos.core.execution import Cancel, Status
from chronos.core.reasons import Code
from chronos.engine.catalog import Entry
from chronos.engine.crew import Crew
from chronos.engine.sending import insist
from chronos.engine.slots import Slots
from chronos.engine.work import Work
from chronos.store.commands import Claimed, Held, Release, ReleaseRow, SettleRow

log = logging.getLogger("chronos.engine")

_CODES = {Cancel.ASKED: Code.CANCELED, Cancel.REPLACED: Code.REPLACED, Cancel.DELETED: Code.JOB_DELETED}
_STRIKES = 2  # heartbeats in a row that must disagree, as a claim or an outcome may be on its way


class Executor:
    """The works of one node by their execution's id."""

    def __init__(self, crew: Crew, slots: Slots) -> None:
        self._crew, self._slots = crew, slots
        self.freed: Callable[[], None] = lambda: None  # the dispatcher listens: a slot came free
        self._works: dict[bytes, tuple[Work, asyncio.Task[None]]] = {}
        self._strange: Counter[bytes] = Counter()
        self._errands: set[asyncio.Task[None]] = set()
        crew.settler.refused = self._refused

    @property
    def busy(self) -> int:
        """How many executions are being worked on."""
        return len(self._works)

    def begin(self, claimed: Claimed, entry: Entry) -> None:
        """Work on an execution that is this node's; its slot has been taken."""
        work = Work(self._crew, claimed, entry)
        task = asyncio.get_running_loop().create_task(self._drive(work))
        self._works[claimed.id] = (work, task)
        if self._crew.bus.watched:
            now_us = self._crew.clock.now_us()
            self._crew.bus.emit(
                ExecutionStarted(
                    at_us=now_us,
                    execution=claimed.id,
                    job=claimed.job,
                    attempt=claimed.attempt,
                    late_us=max(0, now_us - claimed.scheduled_us),
                )
            )

    async def _drive(self, work: Work) -> None:
        try:
            await work.drive()
        except asyncio.CancelledError:
            pass  # it was killed: what it had is another's, or nobody's for now
        except Exception as error:
            log.exception("execution %s of %s cannot be run", work.claimed.id.hex(), work.entry.name)
            self._give_up(work, f"It cannot be run: {type(error).__name__}: {error}")
        finally:
            self._works.pop(work.claimed.id, None)
            self._slots.give(work.entry.effective.queue)
            self.freed()

    # --- what the store says

    def reconcile(self, held: list[Held]) -> None:
        """Stop what was asked to stop; what only one side knows of is given back, or killed, if that lasts."""
        known, strange = set(), Counter[bytes]()
        for row in held:
            known.add(row.id)
            found = self._works.get(row.id)
            if found is not None:
                if row.cancel is not Cancel.NO:
                    found[0].stop(_CODES[row.cancel])
            elif not self._crew.settler.holds(row.id):
                strange[row.id] = self._strange[row.id] + 1
                if strange[row.id] >= _STRIKES:
                    self.errand(self._give_back(row))
        for id_ in self._works:
            if id_ not in known:
                strange[id_] = self._strange[id_] + 1
                if strange[id_] >= _STRIKES:
                    self._kill(id_)
        self._strange = strange

    def _give_up(self, work: Work, message: str) -> None:
        """A definition or a detail that nobody can run: it would break off again at every try."""
        claimed, now_us = work.claimed, self._crew.clock.now_us()
        self._trouble(f"{work.entry.name}: {message}")
        row = SettleRow(claimed.id, claimed.job, claimed.token, Status.FAILED, Code.TASK_FAILED, message, now_us)
        self._crew.settler.add(row._replace(dead_letter=True))

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
        for id_ in tuple(self._works):
            self._kill(id_)
        self._crew.settler.drop()

    async def drop_all(self) -> None:
        """Forget all work at once; nothing of it is left running."""
        tasks = [task for _, task in self._works.values()] + list(self._errands)
        for task in tasks:
            task.cancel()
        self._crew.settler.drop()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def shut_down(self, grace_s: float) -> None:
        """Let the work finish within the grace period, then stop it and give it back."""
        for work, _ in tuple(self._works.values()):
            work.tell_stopping()
        if self._works:
            await asyncio.wait([task for _, task in self._works.values()], timeout=grace_s)
        for work, _ in tuple(self._works.values()):
            work.put_down()
        while self._works:
            await asyncio.wait([task for _, task in self._works.values()])
        await self._crew.settler.drain()

    def _kill(self, id_: bytes) -> None:
        self._works[id_][1].cancel()

    def errand(self, coroutine: Coroutine[None, None, None]) -> None:
        """Do something beside, without anybody waiting for it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _trouble(self, error: str) -> None:
        self._crew.bus.emit(Trouble(at_us=self._crew.clock.now_us(), where="executor", error=error))
