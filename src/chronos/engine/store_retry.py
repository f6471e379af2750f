"""Retries store commands until the store answers.

Every command is idempotent, so a command whose answer was lost is simply sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from chronos.errors import StoreUnavailable
from chronos.store.commands import Command
from chronos.store.contract import Store

R = TypeVar("R")
FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 2.0


async def apply_with_retry(store: Store, command: Command[R], on_unavailable: Callable[[StoreUnavailable], None]) -> R:
    """Apply a command. Sends it again each time the store cannot be reached."""
    try:
        return await store.apply(command)  # the normal case
    except StoreUnavailable as error:
        on_unavailable(error)
    await asyncio.sleep(FIRST_PAUSE_S)
    return await call_with_retry(lambda: store.apply(command), on_unavailable)


async def call_with_retry(call: Callable[[], Awaitable[R]], on_unavailable: Callable[[StoreUnavailable], None]) -> R:
    """Await ``call()`` again each time the store cannot be reached."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            on_unavailable(error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)
