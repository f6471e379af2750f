"""UnclaimableWork: reports ready work that no live node can take, so that a missing worker is noticed soon."""

import asyncio

from chronos.core.events import WorkUnclaimable
from chronos.core.lane import read_lane
from chronos.core.shortage import explain_shortage
from chronos.engine.event_bus import EventBus
from chronos.engine.node_clock import NodeClock
from chronos.store.contract import Store

CHECK_INTERVAL_S = 20.0
_REPEAT_EVENT_INTERVAL_S = 3600.0
_MAX_LANES_PER_CHECK = 1_000


class UnclaimableWork:
    """Checks the lanes with ready work regularly, and emits an event for each that no live node can run."""

    def __init__(self, store: Store, clock: NodeClock, bus: EventBus) -> None:
        self._store, self._clock, self._bus = store, clock, bus
        self._due_s = 0.0
        self._reported: dict[str, tuple[str, float]] = {}  # by lane: the reason, and when

    async def look(self) -> None:
        """Check, if it is time. Raises the store's errors."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._due_s:
            return
        self._due_s = now_s + CHECK_INTERVAL_S
        ready = (await self._store.ready_lanes())[:_MAX_LANES_PER_CHECK]
        if not ready:
            self._reported.clear()
            return
        lanes, nodes = await self._store.lanes(), await self._store.nodes()
        shortages = {
            text: reason
            for lane in ready
            if (text := lanes.get(lane)) and (reason := explain_shortage(read_lane(text), nodes))
        }
        self._reported = {text: report for text, report in self._reported.items() if text in shortages}
        for text, reason in shortages.items():
            last_reason, at_s = self._reported.get(text, ("", 0.0))
            if last_reason != reason or now_s - at_s >= _REPEAT_EVENT_INTERVAL_S:
                self._reported[text] = reason, now_s
                self._bus.emit(WorkUnclaimable(at_us=self._clock.now_us(), queue=read_lane(text).queue, error=reason))
