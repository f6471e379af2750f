"""Writing what was resolved, so that all of it stands or nothing of it.

Definitions are one command, and one transaction. Before it, tasks that have never run let go of what they missed, each
for itself. Should anything fail, what was done by then is taken back, as far as the store can be reached.
"""

import logging
from collections.abc import Mapping

from chronos.core.job import Job
from chronos.declarative.overrides import Resolution, undo_changes, undo_save
from chronos.errors import ChronosError
from chronos.store.commands import Saved, SetJobState
from chronos.store.contract import Store

log = logging.getLogger("chronos.declarative")


class Writing:
    """One resolution on its way into a store."""

    def __init__(self, store: Store, resolution: Resolution, jobs: Mapping[str, Job], now_us: int) -> None:
        self._store, self._resolution, self._jobs, self._now_us = store, resolution, jobs, now_us
        self._changed: list[SetJobState] = []
        self._saved: list[Saved] = []

    async def apply(self) -> None:
        """Write all of it, or raise with nothing of it written."""
        try:
            for change in self._resolution.changes:
                self._changed.append(change)
                await self._store.apply(change)
            if self._resolution.save is not None:
                self._saved = await self._store.apply(self._resolution.save)
        except BaseException:
            await self.take_back()
            raise

    async def take_back(self) -> None:
        """Set everything back to how it was."""
        save, self._saved = self._saved, []
        changed, self._changed = self._changed, []
        try:
            if save and self._resolution.save is not None:
                before, new = undo_save(self._resolution.save, self._jobs, save, self._now_us)
                if before.rows:
                    await self._store.apply(before)
                for delete in new:
                    await self._store.apply(delete)
            for change in undo_changes(changed, self._jobs, self._now_us):
                await self._store.apply(change)
        except ChronosError:
            log.exception("what initialize had written could not be taken back")
