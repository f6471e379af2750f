"""Heartbeat: registers the node, sends its heartbeats, and knows whether it may still start work.

Only monotonic time counts. A node whose heartbeats fail for two thirds of the timeout starts nothing new. Shortly
before the timeout it kills its own work, because other nodes are about to take it over::

    last beat ─────────────── 2/3 ─────────── 11/12 ── timeout ──►
       works                   │ starts nothing │ kills │ others take over
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from chronos.core.events import ClockJumped, ProblemReported
from chronos.engine.duties import Duties
from chronos.engine.event_bus import EventBus
from chronos.engine.node_clock import JUMP_US, ClockDrift, NodeClock
from chronos.engine.options import EngineOptions
from chronos.engine.store_retry import apply_with_retry
from chronos.engine.wakeup import Wakeup
from chronos.errors import ChronosError
from chronos.process_identity import identify_this_process
from chronos.store.commands import Beat, BeatResult, NodeExecution, RegisterNode, StopNode
from chronos.store.contract import Store

R = TypeVar("R")
WORKER_ONLY_LABEL = "chronos/only-works"  # the label of a node that does not schedule
_HEARTBEAT_LOST_MESSAGE = "the node's heartbeats did not reach the store"


class HeldWork(Protocol):
    """The work that the node holds, as the heartbeat sees it."""

    def reconcile(self, held: list[NodeExecution]) -> None:
        """Compare the running work with the executions that the store assigns to this node."""

    def kill_all(self, reason: str) -> None:
        """Kill all work without settling it: it no longer belongs to this node."""


class Heartbeat:
    """Registration and heartbeats. ``number`` changes when the node was declared dead and registers again."""

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
        self._offered = ""  # the offer that the store has
        self.number = 0
        self.former_numbers: set[int] = set()  # before it registered again; the node has killed their work
        self._beat_number = 0
        self._last_beat_s = 0.0
        self._is_skew_reported = False
        self._start_cutoff_s = options.heartbeat_timeout_s * 2 / 3  # after this it admits and claims nothing
        self._kill_cutoff_s = (
            options.heartbeat_timeout_s * 11 / 12
        )  # after this other nodes may soon take over its work
        self._wakeup = Wakeup()
        self.duties = Duties(
            lambda: asyncio.get_running_loop().time(), after_s=options.heartbeat_timeout_s, report=self._report_failure
        )

    @property
    def may_start(self) -> bool:
        """Whether the node may admit and claim: its heartbeats succeed and its clock is right."""
        silent_s = asyncio.get_running_loop().time() - self._last_beat_s
        return self.number > 0 and silent_s < self._start_cutoff_s and not self._clock.is_wrong_now

    @property
    def fault(self) -> str | None:
        """Why the node may not admit and claim, as a message; None if it may."""
        if self.may_start:
            return None
        if self.number == 0:
            return "this node is not registered with the store"
        if self._clock.skew_message is not None:
            return self._clock.skew_message
        if self._clock.is_wrong:
            return "this node's clock was set; the node starts nothing until it has compared the clock with the store's"
        return "this node's heartbeats do not reach the store; the node starts nothing until one succeeds"

    @property
    def has_lost_heartbeat(self) -> bool:
        """Whether the last heartbeat is so old that another node may have taken over this node's work."""
        return asyncio.get_running_loop().time() - self._last_beat_s >= self._kill_cutoff_s

    async def register(self) -> None:
        """Register as a node of the store, under a new number."""
        if self.number:
            self.former_numbers.add(self.number)
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
            number = await apply_with_retry(self._store, command, self.report_store_error)
            if loop.time() - asked_s < self._options.heartbeat_s:
                break
            self.beat_soon()  # other nodes may take it for dead already; the same request again is answered quickly
        self.number, self._beat_number, self._last_beat_s = number, 0, asked_s

    def beat_soon(self) -> None:
        """Send the next heartbeat now: the store has news about the held work."""
        self._wakeup.wake()

    async def run(self, work: HeldWork) -> None:
        """Send heartbeats until cancelled."""
        loop = asyncio.get_running_loop()
        self._clock.on_jump = partial(_call_soon_from_any_thread, loop, self.beat_soon)
        wall = ClockDrift(self._clock.wall_us(), loop.time())
        drift = ClockDrift(self._clock.now_us(), loop.time())
        while True:
            await self._wakeup.wait(self._until_next_s())
            before_us = drift.wall_us
            by_us = drift.measure_jump_us(self._clock.now_us(), loop.time())
            if abs(by_us) > JUMP_US:  # the store's clock was set, or the local one where the store has none
                self._clock.record_jump(before_us, by_us)
            wall_by_us = wall.measure_jump_us(self._clock.wall_us(), loop.time())
            jump_us = max(wall_by_us, by_us, key=abs)
            if abs(jump_us) > JUMP_US:
                self._bus.emit(ClockJumped(at_us=self._clock.now_us(), by_us=jump_us))
            await self._beat_once(work)

    async def stop(self) -> None:
        """Sign off from the store, if it can be reached."""
        try:
            await self._store.apply(StopNode(node=self.number, now_us=self._clock.now_us()))
        except ChronosError as error:
            self.report_store_error(error)

    def report_store_error(self, error: ChronosError) -> None:
        """Emit a ``ProblemReported`` event: the store cannot be reached."""
        self._bus.emit(ProblemReported(at_us=self._clock.now_us(), where="store", error=str(error)))

    def _report_failure(self, duty: str, error: ChronosError) -> None:
        self._bus.emit(ProblemReported(at_us=self._clock.now_us(), where="store", error=str(error), duty=duty))

    async def _beat_once(self, work: HeldWork) -> None:
        """Send one heartbeat and wait for its answer. Without an answer in time, the node kills its own work.

        If it is already too late (the process was suspended, or registering took long), the work is killed first.
        """
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        until_s = self._last_beat_s + self._kill_cutoff_s
        if asked_s >= until_s:  # the killed work is lost: this incarnation does not release it
            work.kill_all(_HEARTBEAT_LOST_MESSAGE)
            await self.register()
            return
        self._beat_number += 1
        offer = self._offer()
        try:
            answer = await _wait_for_result_until(self._send_beat(self.number, self._beat_number, offer), until_s)
        except (ChronosError, TimeoutError) as error:
            if loop.time() >= until_s:
                work.kill_all(_HEARTBEAT_LOST_MESSAGE)
                await self.register()
            elif isinstance(error, ChronosError):
                self.duties.record_failure("heartbeat", error)
            return
        self.duties.record_success("heartbeat")
        self._last_beat_s = asked_s
        if answer.alive:
            self._offered = offer
            work.reconcile(answer.running)
        else:
            work.kill_all("another node declared this node dead")
            await self.register()

    async def _send_beat(self, number: int, beat: int, offer: str) -> BeatResult:
        await self._clock.measure(self._store)
        self._report_skew()
        changed = None if offer == self._offered else offer
        return await self._store.apply(Beat(node=number, beat=beat, now_us=self._clock.now_us(), offer=changed))

    def _report_skew(self) -> None:
        """Report a wrong clock once, until it is right again."""
        skew = self._clock.skew_message
        if skew is not None and not self._is_skew_reported:
            self._bus.emit(ProblemReported(at_us=self._clock.now_us(), where="clock", error=skew))
        self._is_skew_reported = skew is not None

    def _until_next_s(self) -> float:
        """Return the time until the next heartbeat: the interval, or less after a failure."""
        silent_s = asyncio.get_running_loop().time() - self._last_beat_s
        every_s = self._options.heartbeat_s
        return max(every_s - silent_s, min(1.0, every_s / 10))


async def _wait_for_result_until(call: Coroutine[Any, Any, R], until_s: float) -> R:
    """Wait for a result until a time; raises ``TimeoutError`` then.

    ``asyncio.timeout`` would also wait for the cancelled call, and a driver with a hanging connection ends the call
    only when the server answers.
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,), timeout=until_s - asyncio.get_running_loop().time())
    finally:
        task.cancel()
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # a late error does not matter
    if not task.done():
        raise TimeoutError
    return task.result()


def _call_soon_from_any_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Schedule ``call`` on the loop, also from threads of functions. Does nothing if the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
