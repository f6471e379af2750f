"""Reports ready work that no live node can take, so that a missing worker is noticed within a minute."""

import asyncio

from chronos.core.events import WorkUnclaimable
from chronos.core.lane import read_lane
from chronos.core.shortage import explain_shortage
from chronos.engine.event_bus import EventBus
from chronos.engine.node_clock import NodeClock
from chronos.store.contract import Store

CHECK_INTERVAL_S = 20.0
_REPEAT_EVENT_INTERVAL_S = 3600.0
_MAX_LANES_PER_CHECK = 1_000  # that one look goes through


class UnclaimableWork:
    """Looks now and then at the lanes that hold ready work, and emits an event for each that no live node suits."""

    def __init__(self, store: Store, clock: NodeClock, bus: EventBus) -> None:
        self._store, self._clock, self._bus = store, clock, bus
        self._due_s = 0.0
        self._told: dict[str, tuple[str, float]] = {}  # by lane: what was said, and when

    async def look(self) -> None:
        """Look, if it is time. Raises what the store raises."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._due_s:
            return
        self._due_s = now_s + CHECK_INTERVAL_S
        ready = (await self._store.ready_lanes())[:_MAX_LANES_PER_CHECK]
        if not ready:
            self._told.clear()
            return
        lanes, nodes = await self._store.lanes(), await self._store.nodes()
        found = {
            text: why
            for lane in ready
            if (text := lanes.get(lane)) and (why := explain_shortage(read_lane(text), nodes))
        }
        self._told = {text: told for text, told in self._told.items() if text in found}
        for text, why in found.items():
            said, at_s = self._told.get(text, ("", 0.0))
            if said != why or now_s - at_s >= _REPEAT_EVENT_INTERVAL_S:
                self._told[text] = why, now_s
                self._bus.emit(WorkUnclaimable(at_us=self._clock.now_us(), queue=read_lane(text).queue, error=why))
