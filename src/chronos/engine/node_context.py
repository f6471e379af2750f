"""What every piece of work on a node needs: the store, the clock, runners, the settler, whoever watches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chronos.engine.event_bus import EventBus
from chronos.engine.execution.output_buffer import OutputBuffers
from chronos.engine.execution.settler import Settler
from chronos.engine.heartbeat import Heartbeat
from chronos.engine.node_clock import NodeClock
from chronos.engine.options import EngineOptions
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.store.contract import Store
from chronos.timers import Timers


@dataclass(slots=True, kw_only=True)
class NodeContext:
    """Shared by all works of one node."""

    store: Store
    clock: NodeClock
    node: Heartbeat
    options: EngineOptions
    runners: Mapping[str, Runner]
    functions: FunctionRegistry
    bus: EventBus
    settler: Settler
    book: OutputBuffers
    wakes_at: Callable[[int], None]  # hears when something sleeps until then
    deadlines: Timers = field(default_factory=Timers)
    closing: bool = False  # the node shuts down: nothing new is started
