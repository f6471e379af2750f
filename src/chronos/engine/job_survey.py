"""JobSurvey: checks the jobs of the store when a node starts, so that broken ones are known before they are due."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from chronos.core.job import Job, JobState
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.errors import ChronosError, MissingSchedule
from chronos.store.contract import JobFilter, Store

MAX_CHECKED_JOBS = 10_000  # a larger store has its other jobs checked when they are due
_PAGE_SIZE = 500
_CHECKS_PER_TURN = 50  # after these the survey yields to other tasks
_RECOVERED_STATES = (JobState.ACTIVE, JobState.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """How many jobs a node found when it started. ``found`` is the sum of the others but ``unchecked``."""

    found: int
    recovered: int  # active or paused, and not broken as far as was checked
    disabled: int
    done: int
    broken: int
    left_alone: int = 0  # only other programs have their custom schedules
    unchecked: int = 0  # of the recovered jobs: checked only when they are due

    def describe(self) -> str:
        """Return a sentence for a log."""
        parts = [f"{self.recovered} recovered"]
        if self.disabled:
            parts.append(f"{self.disabled} skipped because disabled")
        if self.done:
            parts.append(f"{self.done} done")
        if self.broken:
            parts.append(f"{self.broken} broken")
        if self.left_alone:
            parts.append(f"{self.left_alone} left alone, because their schedules are not registered here")
        jobs = f"{self.found:,} job{'' if self.found == 1 else 's'} found"
        later = f"; {self.unchecked:,} are checked when they are due" if self.unchecked else ""
        return f"{jobs}: {', '.join(parts)}{later}" if self.found else jobs


class JobSurvey:
    """Counts the jobs of a store, and checks active and paused ones. ``on_broken`` is called with each broken one."""

    def __init__(
        self, store: Store, catalog: JobCatalog, on_broken: Callable[[CatalogEntry, ChronosError], None]
    ) -> None:
        self._store, self._catalog, self._on_broken = store, catalog, on_broken
        self._checked = 0
        self._broken = self._left_alone = 0

    async def run(self, *, new: int = 0) -> StartReport:
        """Return the report. ``new`` active jobs were created by this start, and are not counted as found."""
        jobs = (await self._store.counts()).jobs
        for state in _RECOVERED_STATES:
            await self._check_all(state)
        present = sum(jobs.get(state, 0) for state in _RECOVERED_STATES)
        disabled, done = jobs.get(JobState.DISABLED, 0), jobs.get(JobState.DONE, 0)
        recovered = max(0, present - new - self._broken - self._left_alone)
        return StartReport(
            found=recovered + disabled + done + self._broken + self._left_alone,
            recovered=recovered,
            disabled=disabled,
            done=done,
            broken=self._broken,
            left_alone=self._left_alone,
            unchecked=max(0, present - self._checked),
        )

    async def _check_all(self, state: JobState) -> None:
        cursor: bytes | None = None
        while self._checked < MAX_CHECKED_JOBS:
            page = await self._store.list_jobs(JobFilter(state=state), limit=_PAGE_SIZE, cursor=cursor)
            for job in page.items:
                await self._check(job)
            cursor = page.cursor
            if cursor is None:
                return

    async def _check(self, job: Job) -> None:
        self._checked += 1
        error = await self._catalog.find_fault(job)
        if error is not None:
            if isinstance(error, MissingSchedule):
                self._left_alone += 1
            else:
                self._broken += 1
            key = (job.id, job.version, job.levels)
            entries = await self._catalog.fetch([key])  # cached, so that the log knows its name
            for entry in entries.values():
                self._on_broken(entry, error)
        elif self._checked % _CHECKS_PER_TURN == 0:
            await asyncio.sleep(0)
