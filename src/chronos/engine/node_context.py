"""NodeContext: the store, clock, runners and event bus shared by everything that runs on a node."""

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
    """The parts that all loops and executions of one node share."""

    store: Store
    clock: NodeClock
    node: Heartbeat  # the node's registration: its number, and whether it may start work
    options: EngineOptions
    runners: Mapping[str, Runner]
    functions: FunctionRegistry
    bus: EventBus
    settler: Settler
    outputs: OutputBuffers
    schedule_wake: Callable[[int], None]  # called when an execution suspends until a time
    deadlines: Timers = field(default_factory=Timers)
    closing: bool = False  # the node is shutting down: nothing new starts
