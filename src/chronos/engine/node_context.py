"""What every piece of work on a node needs: the store, the clock, runners, the settler, whoever watches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chronos.engine.bus import Bus
from chronos.engine.deadlines import Deadlines
from chronos.engine.node import NodeClock, NodeLife
from chronos.engine.options import Options
from chronos.engine.output import OutputBook
from chronos.engine.runners.contract import Runner
from chronos.engine.runners.functions import Functions
from chronos.engine.settler import Settler
from chronos.store.contract import Store


@dataclass(slots=True, kw_only=True)
class Crew:
    """Shared by all works of one node."""

    store: Store
    clock: NodeClock
    node: NodeLife
    options: Options
    runners: Mapping[str, Runner]
    functions: Functions
    bus: Bus
    settler: Settler
    book: OutputBook
    wakes_at: Callable[[int], None]  # hears when something sleeps until then
    deadlines: Deadlines = field(default_factory=Deadlines)
    closing: bool = False  # the node shuts down: nothing new is started
