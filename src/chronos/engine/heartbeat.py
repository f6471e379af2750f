"""One node's life: it registers, beats, and knows whether it may still start work.

Liveness is judged on monotonic time only. A node that could not beat for two thirds of the timeout starts nothing new;
shortly before the timeout it kills its own work, because others are about to take it over::

    last beat ─────────────── 2/3 ─────────── 11/12 ── timeout ──►
       works                   │ starts nothing │ kills │ others take over
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from chronos.clock import Clock, nearest_offset_us
from chronos.core.events import ClockJumped, ProblemReported
from chronos.engine.duties import Duties
from chronos.engine.event_bus import EventBus
from chronos.engine.options import EngineOptions
from chronos.engine.store_retry import apply_with_retry
from chronos.engine.wakeup import Wakeup
from chronos.errors import ChronosError
from chronos.process_identity import identify_this_process
from chronos.store.commands import Beat, BeatResult, HeldExecution, RegisterNode, StopNode
from chronos.store.contract import Store

R = TypeVar("R")
MAX_SKEW_US = 1_000_000
WORKER_ONLY_LABEL = "chronos/only-works"  # the label of a node that does not schedule
JUMP_US = 1_000_000
_MAX_REMEMBERED_JUMPS = 16
_MAX_CLOCK_READS = 4
_QUICK_CLOCK_READ_S = 0.01  # there and back
_HEARTBEAT_LOST_MESSAGE = "the node could not say that it is alive"


class HeldWork(Protocol):
    """What a node asks of the work that it does."""

    def reconcile(self, held: list[HeldExecution]) -> None:
        """The store says that this is what the node holds."""

    def kill_all(self, why: str) -> None:
        """End all work by force; nothing of it is settled, as it is not this node's any more."""


class NodeClock:
    """The local clock plus its measured offset to the store's, so that all nodes agree on the time.

    A clock that is set is noticed at the next look at it, by monotonic time. Until the offset is measured again the
    clock counts as skewed; where the store has a clock, time goes on from the last measurement by monotonic time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wall_us = clock.now_us
        self.offset_us = 0
        self.on_jump: Callable[[], None] = lambda: None
        self._set_forward: deque[tuple[int, int]] = deque(maxlen=_MAX_REMEMBERED_JUMPS)  # from when, by how much
        self._monotonic_s: Callable[[], float] | None = None  # monotonic time, once the offset has been measured
        self._ahead_us = 0.0  # wall time against monotonic time, at that moment
        self._has_store_clock = False  # the store has a clock
        self._jumped = False

    def now_us(self) -> int:
        wall_us = self.wall_us()
        if self._monotonic_s is None:
            return wall_us + self.offset_us
        steady_us = self._monotonic_s() * 1e6 + self._ahead_us
        if not self._jumped and not -JUMP_US <= wall_us - steady_us <= JUMP_US:
            self._jumped = True
            self.on_jump()
        return (round(steady_us) if self._jumped and self._has_store_clock else wall_us) + self.offset_us

    def outside(self) -> AbstractContextManager[None]:
        """As of the local clock."""
        return self._clock.outside()

    def since_us(self, at_us: int) -> int:
        """How much time has passed since then. Where the clock was set forward while the node ran, no time passed."""
        skipped_us = sum(by_us for before_us, by_us in self._set_forward if at_us < before_us + by_us)
        return max(0, self.now_us() - at_us - skipped_us)

    def record_jump(self, before_us: int, by_us: int) -> None:
        """Somebody set the clock, some time after it showed ``before_us``."""
        if by_us > 0:
            self._set_forward.append((before_us, by_us))

    @property
    def wrong(self) -> bool:
        """Whether what it showed when it was looked at last is not to be relied on."""
        return self._jumped or abs(self.offset_us) > MAX_SKEW_US

    @property
    def skewed(self) -> bool:
        """The same of what it shows now."""
        self.now_us()
        return self.wrong

    @property
    def skew(self) -> str | None:
        """How far the local clock is off, in a sentence; None: it is within what is allowed."""
        if abs(self.offset_us) <= MAX_SKEW_US:
            return None
        side = "behind" if self.offset_us > 0 else "ahead of"
        return (
            f"this node's clock is {abs(self.offset_us) / 1e6:.1f} s {side} the store's, and up to "
            f"{MAX_SKEW_US / 1e6:g} s is allowed: the node starts nothing until the clock is set right"
        )

    async def measure(self, store: Store) -> None:
        """Ask the store for its time, and move the offset only as far as the answers demand.

        The moment at which a slow answer was given is not known, so a slow answer demands little: the store is asked
        again, a few times, until an answer is quick.
        """
        loop_s = asyncio.get_running_loop().time
        offset_us = self.offset_us
        for _ in range(_MAX_CLOCK_READS):
            asked_s = loop_s()
            told_us = await store.clock_us()
            answered_us, took_s = self.wall_us(), loop_s() - asked_s
            if told_us is None:
                break
            took_us = math.ceil(took_s * 1e6)
            offset_us = nearest_offset_us(offset_us, remote_us=told_us, received_us=answered_us, round_trip_us=took_us)
            if took_s <= _QUICK_CLOCK_READ_S:
                break
        self.offset_us, self._has_store_clock = offset_us, told_us is not None
        self._monotonic_s = loop_s
        self._ahead_us, self._jumped = answered_us - loop_s() * 1e6, False


@dataclass(slots=True)
class ClockDrift:
    """Wall time against monotonic time, to notice when somebody sets the clock."""

    wall_us: int
    loop_s: float

    def measure_jump_us(self, wall_us: int, loop_s: float) -> int:
        by_us = (wall_us - self.wall_us) - round((loop_s - self.loop_s) * 1e6)
        self.wall_us, self.loop_s = wall_us, loop_s
        return by_us


class Heartbeat:
    """Registration and heartbeats. ``number`` changes when the node was declared dead and registered anew."""

    def __init__(
        self,
        store: Store,
        clock: NodeClock,
        options: EngineOptions,
        bus: EventBus,
        *,
        new_incarnation: Callable[[], bytes],
        offer: Callable[[], str],
    ) -> None:
        self._store, self._clock, self._options, self._bus = store, clock, options, bus
        self._new_incarnation, self._offer = new_incarnation, offer
        self._offered = ""  # what the store was told last
        self.number = 0
        self.former: set[int] = set()  # numbers of this node before it registered again; it has ended their work
        self._beat = 0
        self._last_beat_s = 0.0
        self._is_skew_reported = False
        self._start_cutoff_s = options.heartbeat_timeout_s * 2 / 3  # after which it admits and claims nothing
        self._kill_cutoff_s = options.heartbeat_timeout_s * 11 / 12  # after which others may soon take its work
        self._wakeup = Wakeup()
        self.duties = Duties(
            lambda: asyncio.get_running_loop().time(), after_s=options.heartbeat_timeout_s, tell=self._report_failure
        )

    @property
    def may_start(self) -> bool:
        """Whether it may admit and claim: it is heard, and its clock is right."""
        quiet_s = asyncio.get_running_loop().time() - self._last_beat_s
        return self.number > 0 and quiet_s < self._start_cutoff_s and not self._clock.skewed

    @property
    def fault(self) -> str | None:
        """Why it may not admit and claim, in a sentence; None: it may."""
        if self.may_start:
            return None
        if self.number == 0:
            return "this node is not registered with the store"
        if self._clock.skew is not None:
            return self._clock.skew
        if self._clock.wrong:
            return "this node's clock was set, and has not been compared with the store's since"
        return "this node could not say that it is alive, so it starts nothing until the store hears it"

    @property
    def has_lost_heartbeat(self) -> bool:
        """Whether it has been silent for so long that what was given to it may be another's by now."""
        return asyncio.get_running_loop().time() - self._last_beat_s >= self._kill_cutoff_s

    async def register(self) -> None:
        """Become a node of the store."""
        if self.number:
            self.former.add(self.number)
        self.number = 0
        self._report_skew()
        loop = asyncio.get_running_loop()
        self._offered = self._offer()
        command = RegisterNode(
            name=self._options.node_name,
            incarnation=self._new_incarnation(),
            now_us=self._clock.now_us(),
            slots=self._options.slots if self._options.works else 0,
            labels={**self._options.labels, **({} if self._options.schedules else {WORKER_ONLY_LABEL: "yes"})},
            offer=self._offered,
            process=identify_this_process(),
        )
        while True:
            asked_s = loop.time()
            number = await apply_with_retry(self._store, command, self.trouble)
            if loop.time() - asked_s < self._options.heartbeat_s:
                break
            self.beat_soon()  # others may have seen it silent for long already; asked again, the answer is quick
        self.number, self._beat, self._last_beat_s = number, 0, asked_s

    def beat_soon(self) -> None:
        """Something about the work that is held has changed in the store."""
        self._wakeup.wake()

    async def run(self, works: HeldWork) -> None:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        self._clock.on_jump = partial(_call_soon_from_any_thread, loop, self.beat_soon)
        wall = ClockDrift(self._clock.wall_us(), loop.time())
        drift = ClockDrift(self._clock.now_us(), loop.time())
        while True:
            await self._wakeup.wait(self._until_next_s())
            before_us = drift.wall_us
            by_us = drift.measure_jump_us(self._clock.now_us(), loop.time())
            if abs(by_us) > JUMP_US:  # the local clock was set and the store has none, or the store's was set
                self._clock.record_jump(before_us, by_us)
            wall_by_us = wall.measure_jump_us(self._clock.wall_us(), loop.time())
            told_us = max(wall_by_us, by_us, key=abs)
            if abs(told_us) > JUMP_US:
                self._bus.emit(ClockJumped(at_us=self._clock.now_us(), by_us=told_us))
            await self._beat_once(works)

    async def stop(self) -> None:
        """Say goodbye, if the store can hear it."""
        try:
            await self._store.apply(StopNode(node=self.number, now_us=self._clock.now_us()))
        except ChronosError as error:
            self.trouble(error)

    def trouble(self, error: ChronosError) -> None:
        """Tell whoever watches that the store cannot be reached."""
        self._bus.emit(ProblemReported(at_us=self._clock.now_us(), where="store", error=str(error)))

    def _report_failure(self, duty: str, error: ChronosError) -> None:
        self._bus.emit(ProblemReported(at_us=self._clock.now_us(), where="store", error=str(error), duty=duty))

    async def _beat_once(self, works: HeldWork) -> None:
        """One heartbeat, answered before the timeout; unheard for too long, the node ends its own work.

        If it is too late already (the process stood still, or registering took long) the work is ended first.
        """
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        until_s = self._last_beat_s + self._kill_cutoff_s
        if asked_s >= until_s:  # what was killed is lost, and not this incarnation's to give back
            works.kill_all(_HEARTBEAT_LOST_MESSAGE)
            await self.register()
            return
        self._beat += 1
        offer = self._offer()
        try:
            answer = await _wait_for_result_until(self._send_beat(self.number, self._beat, offer), until_s)
        except (ChronosError, TimeoutError) as error:
            if loop.time() >= until_s:
                works.kill_all(_HEARTBEAT_LOST_MESSAGE)
                await self.register()
            elif isinstance(error, ChronosError):
                self.duties.failed("heartbeat", error)
            return
        self.duties.done("heartbeat")
        self._last_beat_s = asked_s
        if answer.alive:
            self._offered = offer
            works.reconcile(answer.held)
        else:
            works.kill_all("the node was declared dead")
            await self.register()

    async def _send_beat(self, number: int, beat: int, offer: str) -> BeatResult:
        await self._clock.measure(self._store)
        self._report_skew()
        changed = None if offer == self._offered else offer
        return await self._store.apply(Beat(node=number, beat=beat, now_us=self._clock.now_us(), offer=changed))

    def _report_skew(self) -> None:
        """Once each time that the clock is found to be wrong."""
        skew = self._clock.skew
        if skew is not None and not self._is_skew_reported:
            self._bus.emit(ProblemReported(at_us=self._clock.now_us(), where="clock", error=skew))
        self._is_skew_reported = skew is not None

    def _until_next_s(self) -> float:
        """A beat in time, or, after one that failed, soon again."""
        quiet_s = asyncio.get_running_loop().time() - self._last_beat_s
        every_s = self._options.heartbeat_s
        return max(every_s - quiet_s, min(1.0, every_s / 10))


async def _wait_for_result_until(asking: Coroutine[Any, Any, R], until_s: float) -> R:
    """Wait for an answer until a time, and raise ``TimeoutError`` then.

    ``asyncio.timeout`` would wait for the cancelled call as well, and a driver whose connection hangs ends it only
    once the server answers.
    """
    task = asyncio.ensure_future(asking)
    try:
        await asyncio.wait((task,), timeout=until_s - asyncio.get_running_loop().time())
    finally:
        task.cancel()
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # an error is not news by then
    if not task.done():
        raise TimeoutError
    return task.result()


def _call_soon_from_any_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Also from another thread, where functions ask for the time; a loop that is closed has nothing left to do."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
