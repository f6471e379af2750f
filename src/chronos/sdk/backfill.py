"""Backfill of a long range: one request after the other, as the job's queue empties."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from chronos.errors import QueueFull

R = TypeVar("R")

_PAUSE_S = 0.5
_MAX_WAIT_S = 60.0  # while the queue does not move


async def run_backfill(request: Callable[[str], Awaitable[tuple[list[R], str | None]]], start: str) -> list[R]:
    """Request runs from the instant ``start`` until the range is complete.

    ``request`` takes the instant to start from. It returns the runs it created and the instant to continue from, or
    None at the end of the range. Raises ``QueueFull``, which names the instant to continue from, when the queue has had
    no room for a minute.
    """
    runs: list[R] = []
    next_start: str | None = start
    waited_s = 0.0
    while next_start is not None:
        try:
            created, next_start = await request(next_start)
        except QueueFull as error:
            if waited_s >= _MAX_WAIT_S:
                raise QueueFull(
                    f"{len(runs)} runs are requested, all before {next_start}; continue from there later: {error}"
                ) from error
            await asyncio.sleep(_PAUSE_S)
            waited_s += _PAUSE_S
        else:
            runs += created
            waited_s = 0.0
    return runs
