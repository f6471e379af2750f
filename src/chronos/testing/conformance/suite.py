"""Gathers the cases of every room into one list, and runs one."""

from collections.abc import Awaitable, Callable

from chronos.store.contract import Store
from chronos.testing.conformance import (
    admission,
    asking,
    at_once,
    creating,
    fence,
    following,
    hints,
    holding,
    jobs,
    lookups,
    nodes,
    odd,
    placing,
    reading,
    removing,
    retention,
    running,
    schedule_ends,
    sharing,
    switching,
    task_ends,
    together,
    tokens,
)
from chronos.testing.conformance.world import World

Case = Callable[[World], Awaitable[None]]
_ROOMS = (
    jobs,
    switching,
    schedule_ends,
    holding,
    creating,
    at_once,
    removing,
    retention,
    admission,
    together,
    asking,
    sharing,
    running,
    fence,
    task_ends,
    placing,
    following,
    nodes,
    reading,
    lookups,
    hints,
    tokens,
    odd,
)
CASES: list[Case] = [
    case for room in _ROOMS for name, case in vars(room).items() if callable(case) and name.startswith("case_")
]


async def run(case: Case, store: Store) -> None:
    """Check one promise on an open, empty store, and that the store is sound afterwards."""
    await case(World(store))
    assert await store.verify() == []
