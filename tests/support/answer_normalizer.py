"""Sorts the results of stores where engines may order them differently."""

from typing import Any

from chronos.store.commands import Saved, Settled
from chronos.store.contract import DueGate, Store


async def due(store: Store, until_us: int) -> list[DueGate]:
    """The due gates, sorted: PostgreSQL may return gates of the same instant in any order."""
    return sorted(await store.due(until_us, 10), key=lambda gate: (gate.next_us, gate.job))


def plain(answer: Any) -> Any:
    """The result of a command, sorted."""
    if isinstance(answer, Settled):
        return Settled(sorted(answer.settled), sorted(answer.started_successors), answer.woken)
    if (
        isinstance(answer, list)
        and answer
        and isinstance(answer[0], bytes | tuple)
        and not isinstance(answer[0], Saved)
    ):
        return sorted(answer)
    return answer
