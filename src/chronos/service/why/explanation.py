"""WhyService: explains why a job ran or did not run at a time, and what happened to an execution.

It reads records only: history, spans, versions and the audit log. Where nothing is recorded because nothing was due, it
reads the schedule.
"""

from collections.abc import AsyncIterator, Sequence

from chronos.clock import Clock
from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.ids import id_floor, scheduled_execution_id
from chronos.core.job import DEFAULT_NAMESPACE, Job, JobSpec, JobState, Unreadable, UpstreamCondition
from chronos.core.lane import build_lane
from chronos.core.node import AuditEntry, Node
from chronos.core.reasons import ReasonCode
from chronos.core.schedule.durations import format_duration
from chronos.core.schedule.timezones import get_zone
from chronos.core.shortage import explain_shortage
from chronos.service.executions import ExecutionService
from chronos.service.jobs import JobService
from chronos.service.serializers import id_text
from chronos.service.why.detail import (
    explain_backoffs,
    explain_blockage,
    explain_claim,
    explain_followers,
    explain_slots,
)
from chronos.service.why.steps import (
    TimeFormat,
    WhyStep,
    WhyVerdict,
    explain_execution,
    explain_next_run,
    explain_requested_run,
    explain_span,
    explain_unscheduled,
    find_absence,
    run_ref,
    sort_steps,
    summarize,
)
from chronos.store.contract import ExecutionFilter, ExecutionView, Store

_PAGE = 200
_REQUEST_ACTIONS = ("trigger", "replay")  # their audit entries start with the execution's id
_MAX_PAGES = 10  # of history or of the audit log that one explanation may read
_DEAD_STATUSES = (Status.FAILED, Status.STALE)  # of which a dead letter may exist
_MAX_RECOVERED = 5  # recovered runs that an explanation lists
_REQUESTED_CAUSES = (Cause.MANUAL, Cause.REPLAY, Cause.BACKFILL)
_STATE_CHANGES = {
    "pause": ("Paused", WhyVerdict.PAUSED),
    "disable": ("Disabled", WhyVerdict.OFF),
    "resume": ("Resumed", WhyVerdict.COMING),
    "enable": ("Enabled", WhyVerdict.COMING),
}


class WhyService:
    """Explains jobs and executions. Read-only."""

    def __init__(self, store: Store, clock: Clock, jobs: JobService, runs: ExecutionService) -> None:
        self._store, self._clock, self._jobs, self._runs = store, clock, jobs, runs

    async def why_execution(
        self, execution: str | bytes, *, detail: bool = False, zone: str | None = None
    ) -> list[WhyStep]:
        """Explain what happened to an execution, in order. Raises ``NotFound``.

        ``detail`` adds the steps of ``why_detail``. Times in sentences are in ``zone``, by default in the job's.
        """
        view = await self._runs.get(execution)
        record = view.execution
        job = (await self._store.jobs_by_id([record.job])).get(record.job)
        times = self._times(job, zone)
        all_nodes = await self._store.nodes()
        nodes = {node.number: node.name for node in all_nodes}
        requester, shortage = await self._find_requester(record), await self._shortage(record, job)
        steps = explain_execution(view, nodes, requester, times, shortage)
        if record.cause is Cause.RECOVERY:
            steps += await self._explain_node_absence(record.scheduled_us, times)
        if record.status is Status.SKIPPED and record.reason is not None and record.reason.code is ReasonCode.OVERLAP:
            steps += await self._explain_overlap(record.job, record.scheduled_us, times)
        if detail:
            steps += await self._explain_detail(view, job, all_nodes, times)
        return sort_steps(steps)

    async def _explain_detail(
        self, view: ExecutionView, job: Job | None, nodes: Sequence[Node], times: TimeFormat
    ) -> list[WhyStep]:
        execution = view.execution
        spec = await self._spec_of(execution, job)
        lane = None if spec is None else build_lane(spec, await self._jobs.settings_of(execution, spec))
        steps = explain_claim(execution, next((node for node in nodes if node.number == execution.node), None), lane)
        steps += explain_backoffs(view, None if spec is None else await self._jobs.layout(execution, spec))
        if execution.status is Status.READY and not execution.held and lane is not None:
            slots = explain_slots(lane, nodes, await self._store.loads(), times)
            steps += [] if slots is None else [slots]
        if execution.status is Status.QUEUED and (blockage := await self._store.blockage(execution.id)) is not None:
            steps += explain_blockage(blockage, times)
        if execution.status.final:
            names: dict[str, UpstreamCondition] = {}
            if job is not None and (followers := dict(await self._store.followers(job.namespace, job.name))):
                known = await self._store.names_of(sorted(followers))
                names = {known[follower].name: on for follower, on in followers.items() if follower in known}
            is_dead = execution.status in _DEAD_STATUSES and await self._runs.is_dead_letter(execution.id)
            steps += explain_followers(execution, names, is_dead_letter=is_dead)
        return steps

    async def _spec_of(self, execution: Execution, job: Job | None) -> JobSpec | None:
        """Return the readable definition that an execution ran with; None if it is gone."""
        if job is not None and job.version == execution.job_version:
            spec: JobSpec | None = job.spec
        else:
            key = (execution.job, execution.job_version)
            spec = (await self._store.specs_at([key])).get(key)
        return None if isinstance(spec, Unreadable) else spec

    async def why(
        self,
        ref: str,
        at_us: int | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        last: int = 10,
        detail: bool = False,
        zone: str | None = None,
    ) -> list[WhyStep]:
        """Explain why a job ran or did not run at ``at_us``; without it, explain its last runs and the next one.

        ``detail`` and ``zone``: see ``why_execution``.
        """
        job = await self._jobs.get(ref, namespace)
        times = self._times(job, zone)
        if at_us is not None:
            view = await self._store.execution(scheduled_execution_id(job.id, at_us))
            steps = (
                await self._explain_instant(job, at_us, times)
                if view is None
                else await self.why_execution(view.execution.id, detail=detail, zone=zone)
            )
            return [
                *steps,
                *await self._explain_requested_runs(job, at_us, times),
                explain_next_run(job, times),
            ]
        page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=last)
        ready = next((item for item in page.items if isinstance(item, Execution) and item.status is Status.READY), None)
        shortage = None if ready is None else await self._shortage(ready, job)
        steps = sort_steps([summarize(item, times, shortage) for item in page.items])
        state_change = await self._explain_state_change(job, self._clock.now_us(), times)
        if state_change is not None and job.state in (JobState.PAUSED, JobState.DISABLED):
            steps.append(state_change)
        return [*steps, explain_next_run(job, times)]

    def _times(self, job: Job | None, zone: str | None) -> TimeFormat:
        """Return the format of times in a zone, by default in that of a job; UTC if the job was deleted."""
        if zone is not None:
            return TimeFormat(get_zone(zone), self._clock.now_us())
        spec, name = (None, "") if job is None else (job.spec, job.name)
        return TimeFormat.of_job(spec, name, self._clock.now_us())

    async def _shortage(self, execution: Execution, job: Job | None) -> str | None:
        """Return why no live node can run a ready execution, or None if one can."""
        if execution.status is not Status.READY or execution.held:
            return None
        if job is None or isinstance(job.spec, Unreadable):
            return None
        effective = await self._jobs.effective_settings(job)
        return explain_shortage(build_lane(job.spec, effective), await self._store.nodes())

    # --- one scheduled time

    async def _explain_instant(self, job: Job, at_us: int, times: TimeFormat) -> list[WhyStep]:
        span = await self._find_span(job, at_us)
        if span is not None:
            return await self._explain_span(job, span, at_us, times)
        if at_us < job.created_us:
            sentence = f"The job did not exist yet. It was created on {times.format(job.created_us)}."
            return [WhyStep(at_us=job.created_us, verdict=WhyVerdict.OFF, sentence=sentence)]
        spec, version = await self._spec_in_force(job, at_us)
        unscheduled = explain_unscheduled(spec, job.name, version, at_us, times)
        if unscheduled is not None:
            return [unscheduled]
        now_us = self._clock.now_us()
        if at_us > now_us:
            return await self._explain_future_instant(job, at_us, times)
        return [await self._explain_missing_record(job, at_us, now_us, times)]

    async def _explain_span(self, job: Job, span: Span, at_us: int, times: TimeFormat) -> list[WhyStep]:
        absence = await self._explain_node_absence(at_us, times) if span.status is Status.MISSED else []
        steps = [*absence, explain_span(span, times), *await self._explain_recovery(job, span, times)]
        if span.reason.code is not ReasonCode.PAUSED:
            return steps
        state_change = await self._explain_state_change(job, span.from_us, times)
        return steps if state_change is None else [state_change, *steps]

    async def _explain_future_instant(self, job: Job, at_us: int, times: TimeFormat) -> list[WhyStep]:
        state_change = await self._explain_state_change(job, self._clock.now_us(), times)
        if job.state is JobState.ACTIVE or state_change is None:
            sentence = "This scheduled time is still to come. Nothing is blocking it."
            return [WhyStep(at_us=at_us, verdict=WhyVerdict.COMING, sentence=sentence)]
        state = job.state.name.lower()
        sentence = f"This scheduled time is still to come, but it will not run while the job is {state}."
        return [state_change, WhyStep(at_us=at_us, verdict=state_change.verdict, sentence=sentence)]

    async def _explain_missing_record(self, job: Job, at_us: int, now_us: int, times: TimeFormat) -> WhyStep:
        """Explain a scheduled time that has passed without a record."""
        state_change = await self._explain_state_change(job, at_us, times)
        if state_change is not None and state_change.verdict is not WhyVerdict.COMING:
            return state_change
        if job.state is JobState.ACTIVE and job.next_us is not None and job.next_us <= at_us:
            sentence = f"{format_duration(now_us - at_us)} late: no node has admitted it yet."
            return WhyStep(at_us=at_us, verdict=WhyVerdict.WAITS, sentence=sentence)
        settings = await self._jobs.effective_settings(job)
        kept = f"{settings.keep_count:,} runs for at most {format_duration(settings.keep_age_us)}"
        sentence = (
            f"No record of this time. The job keeps {kept}, so the record may have been removed; "
            "or the time belonged to a schedule that was replaced."
        )
        return WhyStep(at_us=at_us, verdict=WhyVerdict.UNKNOWN, sentence=sentence)

    async def _find_span(self, job: Job, at_us: int) -> Span | None:
        """Find the span that covers an instant. Its id starts with its first instant, so the search goes back."""
        async for item in self._history_before(job.id, at_us):
            if isinstance(item, Span) and item.from_us <= at_us <= item.to_us:
                return item
        return None

    async def _explain_recovery(self, job: Job, span: Span, times: TimeFormat) -> list[WhyStep]:
        """Explain the runs that the same recovery admitted."""
        page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=_PAGE)
        recovered = [
            item
            for item in page.items
            if isinstance(item, Execution) and item.cause is Cause.RECOVERY and item.admitted_us == span.recorded_us
        ]
        return [
            WhyStep(
                at_us=item.admitted_us,
                verdict=WhyVerdict.RECOVERED,
                sentence=f"Recovered the run of {times.format(item.scheduled_us)} as {id_text(item.id)}.",
                refs=(run_ref(item, times),),
            )
            for item in reversed(recovered[:_MAX_RECOVERED])
        ]

    async def _explain_node_absence(self, at_us: int, times: TimeFormat) -> list[WhyStep]:
        """Explain that no node was alive at an instant, if that is known."""
        absence = find_absence(await self._store.nodes(), at_us, self._clock.now_us())
        if absence is None:
            return []
        sentence = f"No live node {times.format_range(*absence)}."
        return [WhyStep(at_us=absence[0], verdict=WhyVerdict.MISSED, sentence=sentence)]

    async def _explain_requested_runs(self, job: Job, at_us: int, times: TimeFormat) -> list[WhyStep]:
        """Explain the backfills, triggers and replays of an instant."""
        steps: list[WhyStep] = []
        cursor: bytes | None = None
        for _ in range(_MAX_PAGES):
            page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=_PAGE, cursor=cursor)
            runs = (item for item in page.items if isinstance(item, Execution) and item.scheduled_us == at_us)
            steps += [explain_requested_run(item, times) for item in runs if item.cause in _REQUESTED_CAUSES]
            cursor = page.cursor
            if cursor is None or cursor < id_floor(at_us):  # a past instant cannot be requested in advance
                break
        return sort_steps(steps)

    async def _explain_overlap(self, job: bytes, at_us: int, times: TimeFormat) -> list[WhyStep]:
        """Name the run that was in progress when an instant was skipped."""
        async for item in self._history_before(job, at_us):
            if not isinstance(item, Execution) or item.scheduled_us >= at_us or item.status is Status.SKIPPED:
                continue
            if item.finished_us is None or item.finished_us >= at_us:
                sentence = f"The run of {times.format(item.scheduled_us)} was still in progress ({id_text(item.id)})."
                step = WhyStep(at_us=at_us, verdict=WhyVerdict.SKIPPED, sentence=sentence, refs=(run_ref(item, times),))
                return [step]
        return []

    # --- records

    async def _history_before(self, job: bytes, at_us: int) -> AsyncIterator[Execution | Span]:
        """Yield the history of a job from an instant backwards, up to the page limit."""
        cursor: bytes | None = id_floor(at_us + 1_000)
        for _ in range(_MAX_PAGES):
            page = await self._store.list_executions(ExecutionFilter(job=job), limit=_PAGE, cursor=cursor)
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return

    async def _spec_in_force(self, job: Job, at_us: int) -> tuple[JobSpec, int]:
        """Return the definition that was in force at an instant, and its version."""
        if at_us >= job.updated_us:
            return job.spec, job.version
        for version in await self._store.versions(job.id, limit=_PAGE):
            if version.saved_us <= at_us:
                return version.spec, version.version
        return job.spec, job.version

    async def _explain_state_change(self, job: Job, at_us: int, times: TimeFormat) -> WhyStep | None:
        """Explain the last change of the job's state before an instant."""
        entry = await self.find_state_change(job, at_us)
        if entry is None:
            return None
        verb, verdict = _STATE_CHANGES[entry.action]
        reason = f": {entry.detail}" if entry.detail and verdict is not WhyVerdict.COMING else "."
        sentence = f"{verb} by {entry.actor} on {times.format(entry.at_us)}{reason}"
        return WhyStep(at_us=entry.at_us, verdict=verdict, sentence=sentence)

    async def find_state_change(self, job: Job, at_us: int) -> AuditEntry | None:
        """Return the last change of a job's state before an instant, from the audit log; None if it is too far back."""
        cursor: bytes | None = id_floor(at_us + 1_000)
        for _ in range(_MAX_PAGES):
            page = await self._store.audit(namespace=job.namespace, limit=_PAGE, cursor=cursor)
            for entry in page.items:
                if entry.subject == job.name and entry.action in _STATE_CHANGES and entry.at_us <= at_us:
                    return entry
            cursor = page.cursor
            if cursor is None:
                break
        return None

    async def _find_requester(self, execution: Execution) -> str | None:
        """Find who requested an execution. The audit log has its id; for a backfill, the job and the time."""
        if execution.cause not in _REQUESTED_CAUSES:
            return None
        job = (await self._store.names_of([execution.job])).get(execution.job)
        page = await self._store.audit(namespace=None, limit=_PAGE, cursor=id_floor(execution.admitted_us + 1_000))
        for entry in page.items:
            if entry.action in _REQUEST_ACTIONS and entry.detail.partition(" ")[0] == execution.id.hex():
                return entry.actor
            is_backfill = (
                entry.action == "backfill"
                and execution.cause is Cause.BACKFILL
                and entry.at_us == execution.admitted_us
            )
            if is_backfill and job is not None and (entry.namespace, entry.subject) == (job.namespace, job.name):
                return entry.actor
        return None
