"""Handles of jobs: trigger, change, pause and look at a job, and the decorated function that is one."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from chronos.core.calendar import rfc3339
from chronos.core.execution import Execution, Span
from chronos.core.job import Job as StoredJob
from chronos.core.job import JobState
from chronos.core.planner import MAX_PREVIEW
from chronos.errors import Invalid
from chronos.sdk.backfill import run_backfill
from chronos.sdk.declarations import DecoratedFunction, prefix_errors
from chronos.sdk.home_loop import LoopResult, OnHomeLoop, blocking, on_home_loop
from chronos.sdk.info import JobInfo, RunInfo, SpanInfo, to_run_info, to_span_info
from chronos.sdk.job_options import Duration, Instant, build_start_options, to_instant_us
from chronos.sdk.job_update import JobUpdate, UpdateOptions, build_update
from chronos.sdk.run_handle import Run
from chronos.sdk.version_info import (
    DiffInfo,
    EffectiveInfo,
    PreviewInfo,
    VersionInfo,
    describe_without_schedule,
    to_diff_info,
    to_effective_info,
    to_preview_info,
    to_version_info,
)
from chronos.service.job_state import StateChange
from chronos.service.jobs import JobService
from chronos.store.contract import ExecutionFilter

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

log = logging.getLogger("chronos.sdk")

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
_DEFAULT_LIMIT = 20


class JobHandle(OnHomeLoop):
    """A job of the store, by its name.

    Every method reads or changes the store; the handle caches nothing. ``name`` is the name of the job. Each method
    raises ``NotFound`` when the store has no such job.
    """

    def __init__(self, runtime: "Runtime", name: str) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self.name = name

    # --- runs

    @on_home_loop
    async def atrigger(
        self,
        payload: Any = None,
        *,
        at: Instant | None = None,
        in_: Duration | None = None,
        expires: Duration | Instant | None = None,
        key: str | None = None,
    ) -> Run:
        """Run the job once, now or later. The job needs no schedule, and may be paused.

        - ``payload``: a JSON value that fills a function's parameters by name. None uses the job's own payload.
        - ``at``: the instant that the run is for; by default now. If it is in the future, the run waits until then.
        - ``in_``: how long the run waits. Use ``at`` or ``in_``.
        - ``expires``: an instant, or a duration from now on. A run that has not started by then is skipped.
        - ``key``: an idempotency key. Calls with the same key return the same run.

        Returns the ``Run``. Raises ``Invalid`` for a payload that is not JSON or does not fit the function, and
        ``Unavailable`` when too many runs are queued.

        Example::

            send_report.trigger({"month": "2027-01"}).result()
        """
        options = build_start_options(in_, at, expires, delay_name="in_")
        payload = self._runtime.declared.to_checked_payload(self.name, payload)
        session = await self._runtime.session()
        triggered = await session.service.runs.trigger(
            self.name, payload, idempotency=check_key(key), namespace=self._runtime.namespace, **options
        )
        await session.wake_delayed([triggered])
        return Run(self._runtime, triggered.id, self.name)

    @on_home_loop
    async def abackfill(self, start: Instant, end: Instant, *, reason: str | None = None) -> list[Run]:
        """Run every instant of the schedule in a past range, oldest first.

        - ``start``, ``end``: the ends of the range, both included: text or aware datetimes.
        - ``reason``: a sentence for the history.

        Returns one ``Run`` per instant. When the job's queue is full, the call waits for room. Raises ``Unavailable``
        when the queue stays full for a minute; its message names the instant to continue from.
        """
        session = await self._runtime.session()
        to_us = to_instant_us(end, "end")

        async def request(from_text: str) -> tuple[list[Run], str | None]:
            created = await session.service.backfills.run(
                self.name, to_instant_us(from_text, "start"), to_us, reason=reason, namespace=self._runtime.namespace
            )
            runs = [Run(self._runtime, id_, self.name) for id_ in created.ids]
            return runs, None if created.next_us is None else rfc3339(created.next_us)

        return await run_backfill(request, rfc3339(to_instant_us(start, "start")))

    @on_home_loop
    async def aexecutions(self, limit: int = _DEFAULT_LIMIT) -> list[RunInfo | SpanInfo]:
        """List the latest runs, newest first.

        - ``limit``: how many items to return at most.

        Returns a ``RunInfo`` per run. Many instants that did not run are one ``SpanInfo``.
        """
        session = await self._runtime.session()
        where = ExecutionFilter(job=(await self._load_job()).id)
        items = (await session.store.list_executions(where, limit=check_limit(limit))).items
        nodes = await session.service.runs.node_names([item.node for item in items if isinstance(item, Execution)])
        return [
            to_span_info(item) if isinstance(item, Span) else to_run_info(item, job=self.name, nodes=nodes)
            for item in items
        ]

    # --- state

    @on_home_loop
    async def apause(self, reason: str = "") -> None:
        """Pause the job: running work finishes, queued work is held, and triggers still run.

        - ``reason``: a sentence that ``info().note`` shows.
        """
        await self._change_state(StateChange.PAUSE, reason)

    @on_home_loop
    async def aresume(self) -> None:
        """Resume a paused job. The instants that passed meanwhile are recorded as skipped."""
        await self._change_state(StateChange.RESUME)

    @on_home_loop
    async def adisable(self, reason: str = "") -> None:
        """Switch the schedule off. Instants that were due and had not started are recorded as skipped.

        - ``reason``: a sentence that ``info().note`` shows.
        """
        await self._change_state(StateChange.DISABLE, reason)

    @on_home_loop
    async def aenable(self) -> None:
        """Switch the schedule on again, from now on."""
        await self._change_state(StateChange.ENABLE)

    async def astart(self) -> None:
        """Another name of ``enable``."""
        await self.aenable()

    async def astop(self, reason: str = "") -> None:
        """Another name of ``disable``."""
        await self.adisable(reason)

    # --- definition

    @on_home_loop
    async def aupdate(self, **options: Unpack[UpdateOptions]) -> JobInfo:
        """Change the job in the store.

        Takes the keywords of ``Chronos.job`` except ``name`` and ``isolation``. Each replaces what the job has; None
        removes it, so that the default applies. ``retries`` keeps the rest of the retry policy. ``schedule=None``
        leaves a job that runs when it is triggered. A webhook also takes ``url`` and the keywords of a request, a
        command ``argv`` and its keywords.

        A change is a new version. A job that this program declares returns to its declaration when the program is
        started again.

        Returns the changed job. Raises ``Invalid`` for a wrong keyword or value.

        Example::

            send_report.update(cron="0 10 * * *", retries=5)
        """
        with prefix_errors(f"job {self.name}"):
            update = build_update(
                options, to_job_name=self._runtime.declared.to_job_name, timezone=self._runtime.timezone
            )
            await self._save_update(update)
        return await self.ainfo()

    async def _save_update(self, update: JobUpdate) -> None:
        service = await self._load_service()
        saved = await service.edit(self.name, update.apply, namespace=self._runtime.namespace)
        self._runtime.declared.keep_stored(self.name)
        for warning in saved.warnings if saved.changed else ():
            log.warning('job "%s": %s', self.name, warning.message)

    @on_home_loop
    async def aversions(self, limit: int = _DEFAULT_LIMIT) -> list[VersionInfo]:
        """List the versions of the job, newest first.

        - ``limit``: how many to return at most.
        """
        versions = await (await self._load_service()).versions(
            self.name, namespace=self._runtime.namespace, limit=check_limit(limit)
        )
        return [to_version_info(version) for version in versions]

    @on_home_loop
    async def adiff(self, from_: int | None = None, to: int | None = None) -> DiffInfo:
        """Compare two versions of the job: their fields, and the effect on the coming runs.

        - ``from_``: the older version; by default the one before ``to``.
        - ``to``: the newer version; by default the current one.

        Raises ``NotFound`` for a version that does not exist.
        """
        old, new = check_version(from_, "from_"), check_version(to, "to")
        service = await self._load_service()
        new = (await self._load_job()).version if new is None else new
        old = max(1, new - 1) if old is None else old
        return to_diff_info(await service.diff(self.name, old, new, namespace=self._runtime.namespace))

    @on_home_loop
    async def arollback(self, version: int) -> JobInfo:
        """Save the definition of an old version as a new version.

        A job that this program declares returns to its declaration when the program is started again.

        Returns the changed job. Raises ``NotFound`` for a version that does not exist.
        """
        check_version(version, "version")
        await (await self._load_service()).rollback(self.name, version, namespace=self._runtime.namespace)
        self._runtime.declared.keep_stored(self.name)
        return await self.ainfo()

    @on_home_loop
    async def apreview(self, count: int = 10) -> PreviewInfo:
        """Describe the schedule in words, with its next instants and what may surprise.

        - ``count``: how many instants to show at most.
        """
        count = check_count(count)
        preview = await (await self._load_service()).preview_job(self.name, count, namespace=self._runtime.namespace)
        if preview is not None:
            return to_preview_info(preview)
        spec = (await self._load_job()).spec
        return describe_without_schedule(tuple(one.job for one in spec.after))

    @on_home_loop
    async def aeffective(self) -> EffectiveInfo:
        """Read every setting that the next run of the job gets, with its value and the level it came from."""
        service = (await self._runtime.session()).service
        return to_effective_info(await service.effective.of_job(await self._load_job()))

    @on_home_loop
    async def adelete(self) -> None:
        """Delete the job. Its history stays. A job that the program still declares returns at its next start."""
        await (await self._load_service()).delete(self.name, namespace=self._runtime.namespace)

    # --- properties

    @on_home_loop
    async def ainfo(self) -> JobInfo:
        """Read the job from the store."""
        session = await self._runtime.session()
        [info] = await session.read_job_infos([await self._load_job()])
        return info

    async def anext_run(self) -> datetime | None:
        """When the schedule fires next. None without a schedule, after its end, and while paused or disabled."""
        info = await self.ainfo()
        return None if info.held else info.next_run

    @on_home_loop
    async def ais_running(self) -> bool:
        """Whether a run of the job has started and is not over, on any node; also while it waits for a retry."""
        session = await self._runtime.session()
        where = ExecutionFilter(job=(await self._load_job()).id, started=True)
        return bool((await session.store.list_executions(where, limit=1)).items)

    async def ais_paused(self) -> bool:
        """Whether the job is paused."""
        return (await self._load_state()) is JobState.PAUSED

    async def ais_enabled(self) -> bool:
        """Whether instants of the schedule run: neither paused nor disabled, and between its start and its end."""
        if (await self._load_state()) is not JobState.ACTIVE:
            return False
        return (await self.ainfo()).schedule is None or await self.ais_active()

    @on_home_loop
    async def ais_active(self) -> bool:
        """Whether the job has a schedule, and now is between its start and its end."""
        stored, now_us = await self._load_job(), self._runtime.clock.now_us()
        schedule = stored.spec.schedule
        if schedule is None or stored.state is JobState.DONE:
            return False
        return (schedule.start_us or now_us) <= now_us <= (schedule.end_us or now_us)

    trigger = blocking(atrigger)
    backfill = blocking(abackfill)
    executions = blocking(aexecutions)
    pause = blocking(apause)
    resume = blocking(aresume)
    disable = blocking(adisable)
    enable = blocking(aenable)
    start = blocking(astart)
    stop = blocking(astop)
    update = blocking(aupdate)
    versions = blocking(aversions)
    diff = blocking(adiff)
    rollback = blocking(arollback)
    preview = blocking(apreview)
    effective = blocking(aeffective)
    delete = blocking(adelete)
    info = blocking(ainfo)
    next_run = LoopResult(anext_run)
    is_running = LoopResult(ais_running)
    is_paused = LoopResult(ais_paused)
    is_enabled = LoopResult(ais_enabled)
    is_active = LoopResult(ais_active)

    @on_home_loop
    async def _load_job(self) -> StoredJob:
        return await (await self._load_service()).get(self.name, self._runtime.namespace)

    async def _load_service(self) -> JobService:
        return (await self._runtime.session()).service.jobs

    async def _change_state(self, change: StateChange, reason: str = "") -> None:
        session = await self._runtime.session()
        await session.service.job_states.change(await self._load_job(), change, reason=reason)

    async def _load_state(self) -> JobState:
        return (await self._load_job()).state

    def _format_call(self, method: str) -> str:
        return f"{self.name}.{method}(…)"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Job(DecoratedFunction[P, R_co], JobHandle):
    """A function that is a job.

    Calling it calls the function, without Chronos. All other methods are those of a ``JobHandle``.

    Example::

        @app.job(cron="0 9 * * *")
        def send_report(month: str = "latest") -> int: ...

        send_report("2027-01")                        # a plain call
        send_report.trigger({"month": "2027-01"})     # a run, with a record
    """

    def __init__(self, runtime: "Runtime", name: str, function: Callable[P, R_co]) -> None:
        DecoratedFunction.__init__(self, function)
        JobHandle.__init__(self, runtime, name)


def check_limit(limit: int) -> int:
    """Return a limit of at least one. Raises ``Invalid``."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise Invalid(f"limit is {limit!r}; use a whole number of 1 or more")
    return limit


def check_count(count: int) -> int:
    """Return how many instants to show. Raises ``Invalid``."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_PREVIEW:
        raise Invalid(f"count is {count!r}; use a whole number from 1 to {MAX_PREVIEW}")
    return count


def check_version(version: int | None, argument: str) -> int | None:
    """Return the number of a version, or None. Raises ``Invalid``."""
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 1):
        raise Invalid(f"{argument} is {version!r}; use the number of a version, from 1")
    return version


def check_key(key: str | None) -> str | None:
    """Return an idempotency key. Raises ``Invalid``."""
    if key is not None and (not isinstance(key, str) or not key):
        raise Invalid(f"key is {key!r}; use text that is the same for the same request")
    return key
