"""A backfill from a program: request after request, as the queue empties."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from chronos.errors import QueueFull

One = TypeVar("One")

_PAUSE_S = 0.5
_PATIENCE_S = 60.0  # for a queue in which nothing moves


async def fill(ask: Callable[[str], Awaitable[tuple[list[One], str | None]]], start: str) -> list[One]:
    """Everything from the instant ``start``; ``ask`` answers what it was given, and where to go on.

    Raises ``QueueFull``, with where to go on, when there was no room for a minute.
    """
    found: list[One] = []
    at: str | None = start
    waited_s = 0.0
    while at is not None:
        try:
            some, at = await ask(at)
        except QueueFull as error:
            if waited_s >= _PATIENCE_S:
                raise QueueFull(f"{len(found)} runs were asked for, those before {at}: {error}") from error
            await asyncio.sleep(_PAUSE_S)
            waited_s += _PAUSE_S
        else:
            found += some
            waited_s = 0.0
    return found
