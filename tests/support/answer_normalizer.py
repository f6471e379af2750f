"""Answers of stores without what engines may order differently."""

from typing import Any

from chronos.store.commands import Saved, Settled
from chronos.store.contract import DueGate, Store


async def due(store: Store, until_us: int) -> list[DueGate]:
    """What is due; PostgreSQL leaves open which of those at the same instant comes first."""
    return sorted(await store.due(until_us, 10), key=lambda gate: (gate.next_us, gate.job))


def plain(answer: Any) -> Any:
    """The answer to a command."""
    if isinstance(answer, Settled):
        return Settled(sorted(answer.settled), sorted(answer.taken), answer.woken)
    if (
        isinstance(answer, list)
        and answer
        and isinstance(answer[0], bytes | tuple)
        and not isinstance(answer[0], Saved)
    ):
        return sorted(answer)
    return answer
