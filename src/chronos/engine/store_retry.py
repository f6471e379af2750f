"""Asking a store that may be out of reach for a while: the same again, until it is answered.

Every command does no harm when it is sent twice, so "unknown" becomes "known" by asking again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from chronos.errors import StoreUnavailable
from chronos.store.commands import Command
from chronos.store.contract import Store

R = TypeVar("R")
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


async def apply_with_retry(store: Store, command: Command[R], on_trouble: Callable[[StoreUnavailable], None]) -> R:
    """Apply a command, sending it again after each time the store could not be reached."""
    try:
        return await store.apply(command)  # which is how it goes: the rest is for when it does not
    except StoreUnavailable as error:
        on_trouble(error)
    await asyncio.sleep(FIRST_PAUSE_S)
    return await ask_with_retry(lambda: store.apply(command), on_trouble)


async def ask_with_retry(ask: Callable[[], Awaitable[R]], on_trouble: Callable[[StoreUnavailable], None]) -> R:
    """The same for whatever is asked of a store."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await ask()
        except StoreUnavailable as error:
            on_trouble(error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
