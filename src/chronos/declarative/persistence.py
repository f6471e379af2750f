"""Writes a resolution to the store, completely or not at all.

- All definitions are one command and one transaction, so a killed process leaves all of them or none.
- Before that, tasks that never ran skip the occurrences they missed. Each skip is independent, and the next
  ``initialize`` would decide the same.
- If anything fails, the writes so far are undone, as far as the store can be reached.
- A command that was sent cannot be called back, so a cancelled caller waits for its result.
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
_BATCH_SIZE = 500  # small commands that are sent together and share transactions
T = TypeVar("T")


class TaskWriter:
    """Writes one resolution, and can undo it."""

    def __init__(self, store: Store, resolution: Resolution, jobs: Mapping[str, Job], now_us: int) -> None:
        self._store, self._resolution, self._jobs, self._now_us = store, resolution, jobs, now_us
        self._changed: Sequence[SetJobState] = ()
        self._saved: list[Saved] = []

    async def apply(self) -> None:
        """Write everything, or undo and raise."""
        try:
            await run_to_completion(self._apply())
        except BaseException:
            await self.undo()
            raise

    async def undo(self) -> None:
        """Restore the previous definitions and states. A failure is only logged."""
        try:
            await run_to_completion(self._undo())
        except ChronosError:
            log.exception("cannot undo the writes of the failed initialize")

    async def _apply(self) -> None:
        self._changed = self._resolution.changes
        await apply_all(self._store, self._changed)
        if self._resolution.save is not None:
            self._saved = await self._store.apply(self._resolution.save)

    async def _undo(self) -> None:
        saved, self._saved = self._saved, []
        changed, self._changed = self._changed, ()
        if saved and self._resolution.save is not None:
            await self._store.apply(undo_save(self._resolution.save, self._jobs, saved, self._now_us))
        await apply_all(self._store, undo_changes(changed, self._jobs, self._now_us))


async def apply_all(store: Store, commands: Iterable[Command[Any]]) -> None:
    """Apply independent commands in any order. Raises the first error after its whole batch has been applied."""
    pending = list(commands)
    for start in range(0, len(pending), _BATCH_SIZE):
        calls = (store.apply(command) for command in pending[start : start + _BATCH_SIZE])
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result


async def run_to_completion(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end even if the caller is cancelled. The cancellation is raised afterwards."""
    task = asyncio.ensure_future(coroutine)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # retrieved, and dropped in favour of the cancellation
        raise cancelled
    return task.result()
