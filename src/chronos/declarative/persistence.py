"""Writing what was resolved, so that all of it stands or nothing of it.

Definitions, which is every override, are one command, and one transaction: whoever is killed meanwhile leaves all of it
behind or nothing. Before it, tasks that have never run let go of what they missed. That is no override: each stands for
itself, and the next ``initialize`` would come to the same. Should anything fail, what was done by then is taken back,
as far as the store can be reached. What was sent cannot be called back, so neither can whoever waits for it.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from chronos.core.job import Job
from chronos.declarative.reconcile import Resolution, undo_changes, undo_save
from chronos.errors import ChronosError
from chronos.store.commands import Command, Saved, SetJobState
from chronos.store.contract import Store

log = logging.getLogger("chronos.declarative")
_AT_ONCE = 500  # small commands that are sent together, and share transactions
T = TypeVar("T")


class TaskWriter:
    """One resolution on its way into a store."""

    def __init__(self, store: Store, resolution: Resolution, jobs: Mapping[str, Job], now_us: int) -> None:
        self._store, self._resolution, self._jobs, self._now_us = store, resolution, jobs, now_us
        self._changed: Sequence[SetJobState] = ()
        self._saved: list[Saved] = []

    async def apply(self) -> None:
        """Write all of it, or raise with nothing of it written."""
        try:
            await patiently(self._apply())
        except BaseException:
            await self.take_back()
            raise

    async def take_back(self) -> None:
        """Set everything back to how it was."""
        try:
            await patiently(self._take_back())
        except ChronosError:
            log.exception("what initialize had written could not be taken back")

    async def _apply(self) -> None:
        self._changed = self._resolution.changes
        await send_all(self._store, self._changed)
        if self._resolution.save is not None:
            self._saved = await self._store.apply(self._resolution.save)

    async def _take_back(self) -> None:
        saved, self._saved = self._saved, []
        changed, self._changed = self._changed, ()
        if saved and self._resolution.save is not None:
            await self._store.apply(undo_save(self._resolution.save, self._jobs, saved, self._now_us))
        await send_all(self._store, undo_changes(changed, self._jobs, self._now_us))


async def send_all(store: Store, commands: Iterable[Command[Any]]) -> None:
    """Apply commands that stand for themselves, in any order; raises the first error when all have been answered."""
    waiting = list(commands)
    for begin in range(0, len(waiting), _AT_ONCE):
        sent = (store.apply(command) for command in waiting[begin : begin + _AT_ONCE])
        for answer in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer


async def patiently(work: Coroutine[Any, Any, T]) -> T:
    """Work that comes to its end although whoever waits for it is cancelled, and learns of that only afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # seen: being cancelled goes first
        raise cancelled
    return task.result()
