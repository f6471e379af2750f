"""Why: for a job and an instant, or for an execution, what was decided and for what reason.

Everything is read from records: history, spans, versions, the audit log; and from the schedule where nothing is
recorded, because nothing was to run.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

from chronos.clock import Clock
from chronos.core.calendar import rfc3339
from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.ids import id_floor, scheduled_execution_id
from chronos.core.job import DEFAULT_NAMESPACE, Job, JobSpec, JobState, Unreadable
from chronos.core.lane import build_lane
from chronos.core.node import AuditEntry
from chronos.core.reasons import ReasonCode
from chronos.core.schedule.exclusions import NO_EXCLUSIONS
from chronos.core.schedule_change import resolve_instants
from chronos.core.shortage import explain_shortage
from chronos.service.executions import ExecutionService
from chronos.service.jobs import JobService
from chronos.service.serializers import id_text
from chronos.service.why_steps import (
    WhyStep,
    WhyVerdict,
    explain_execution,
    explain_requested_run,
    explain_span,
    find_absence,
    format_elapsed,
    sort_steps,
    summarize,
)
from chronos.store.contract import ExecutionFilter, Store

__all__ = ["WhyService", "WhyStep", "WhyVerdict"]

_PAGE = 200
_REQUEST_ACTIONS = ("trigger", "replay")  # whose lines of the audit log begin with the execution's id
_MAX_PAGES = 10  # of history or of the audit log that one question may read
_REQUESTED_CAUSES = (Cause.MANUAL, Cause.REPLAY, Cause.BACKFILL)
_STATE_CHANGE_ACTIONS = ("pause", "resume", "disable", "enable")


class WhyService:
    """Explains. Reads only."""

    def __init__(self, store: Store, clock: Clock, jobs: JobService, runs: ExecutionService) -> None:
        self._store, self._clock, self._jobs, self._runs = store, clock, jobs, runs

    async def why_execution(self, execution: str | bytes) -> list[WhyStep]:
        """What happened to an execution, in order. Raises ``NotFound``."""
        view = await self._runs.get(execution)
        one = view.execution
        nodes = {node.number: node.name for node in await self._store.nodes()}
        steps = explain_execution(view, nodes, await self._find_requester(one), await self._shortage(one))
        if one.cause is Cause.RECOVERY:
            steps += await self._explain_node_absence(one.scheduled_us)
        if one.status is Status.SKIPPED and one.reason is not None and one.reason.code is ReasonCode.OVERLAP:
            steps += await self._explain_overlap(one.job, one.scheduled_us)
        return sort_steps(steps)

    async def why(
        self, ref: str, at_us: int | None = None, *, namespace: str = DEFAULT_NAMESPACE, last: int = 10
    ) -> list[WhyStep]:
        """Why a job ran or did not run at an instant; without one, its last instants and the next."""
        job = await self._jobs.get(ref, namespace)
        if at_us is not None:
            return [
                *await self._explain_instant(job, at_us),
                *await self._explain_requested_runs(job, at_us),
                self._explain_next_run(job),
            ]
        page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=last)
        ready = next((item for item in page.items if isinstance(item, Execution) and item.status is Status.READY), None)
        shortage = None if ready is None else await self._shortage(ready)
        steps = sort_steps([summarize(item, shortage) for item in page.items])
        state_change = await self._explain_state_change(job, self._clock.now_us())
        if state_change is not None and job.state in (JobState.PAUSED, JobState.DISABLED):
            steps.append(state_change)
        return [*steps, self._explain_next_run(job)]

    async def _shortage(self, one: Execution) -> str | None:
        """Why no live node can take an execution that is ready; None: one can."""
        if one.status is not Status.READY or one.held:
            return None
        job = (await self._store.jobs_by_id([one.job])).get(one.job)
        if job is None or isinstance(job.spec, Unreadable):
            return None
        return explain_shortage(build_lane(job.spec, self._jobs.effective(job.spec)), await self._store.nodes())

    # --- one instant

    async def _explain_instant(self, job: Job, at_us: int) -> list[WhyStep]:
        view = await self._store.execution(scheduled_execution_id(job.id, at_us))
        if view is not None:
            return await self.why_execution(view.execution.id)
        span = await self._find_span(job, at_us)
        if span is not None:
            absence = await self._explain_node_absence(at_us) if span.status is Status.MISSED else []
            steps = [*absence, explain_span(span), *await self._explain_recovery(job, span)]
            state_change = (
                await self._explain_state_change(job, span.from_us) if span.reason.code is ReasonCode.PAUSED else None
            )
            return steps if state_change is None else [state_change, *steps]
        if at_us < job.created_us:
            sentence = f"The job did not exist then: it was created at {rfc3339(job.created_us)}."
            return [WhyStep(at_us=job.created_us, verdict=WhyVerdict.OFF, sentence=sentence)]
        spec, version = await self._spec_in_force(job, at_us)
        unscheduled = _explain_unscheduled(spec, job.name, version, at_us)
        if unscheduled is not None:
            return [unscheduled]
        now_us = self._clock.now_us()
        if at_us > now_us:
            return await self._explain_future_instant(job, at_us)
        return [await self._explain_missing_record(job, at_us, now_us)]

    async def _explain_future_instant(self, job: Job, at_us: int) -> list[WhyStep]:
        state_change = await self._explain_state_change(job, self._clock.now_us())
        if job.state is JobState.ACTIVE or state_change is None:
            return [
                WhyStep(at_us=at_us, verdict=WhyVerdict.COMING, sentence="The instant is still to come, and will run.")
            ]
        sentence = "The instant is still to come, and will not run as things are."
        return [state_change, WhyStep(at_us=at_us, verdict=state_change.verdict, sentence=sentence)]

    async def _explain_missing_record(self, job: Job, at_us: int, now_us: int) -> WhyStep:
        """An instant of the schedule that passed, and of which nothing is on record."""
        state_change = await self._explain_state_change(job, at_us)
        if state_change is not None and state_change.verdict is not WhyVerdict.COMING:
            return state_change
        if job.state is JobState.ACTIVE and job.next_us is not None and job.next_us <= at_us:
            sentence = f"It is due since {format_elapsed(now_us - at_us)}, and no node has dealt with it yet."
            return WhyStep(at_us=at_us, verdict=WhyVerdict.WAITS, sentence=sentence)
        settings = self._jobs.effective(job.spec)
        sentence = (
            f"Nothing is on record. Of this job {settings.keep_count} executions are kept, for "
            f"{format_elapsed(settings.keep_age_us)}"
            " at most: the record may be gone, or the instant belonged to a schedule that was replaced."
        )
        return WhyStep(at_us=at_us, verdict=WhyVerdict.UNKNOWN, sentence=sentence)

    async def _find_span(self, job: Job, at_us: int) -> Span | None:
        """The span that an instant lies in: its id begins with its own first instant, so it is looked for backwards."""
        async for item in self._history_before(job.id, at_us):
            if isinstance(item, Span) and item.from_us <= at_us <= item.to_us:
                return item
        return None

    async def _explain_recovery(self, job: Job, span: Span) -> list[WhyStep]:
        """The runs that the same decision admitted."""
        filter_ = ExecutionFilter(job=job.id)
        page = await self._store.list_executions(filter_, limit=_PAGE)
        found = [
            item
            for item in page.items
            if isinstance(item, Execution) and item.cause is Cause.RECOVERY and item.admitted_us == span.recorded_us
        ]
        return [
            WhyStep(
                at_us=item.admitted_us,
                verdict=WhyVerdict.RECOVERED,
                sentence=f"The instant {rfc3339(item.scheduled_us)} was recovered as {id_text(item.id)}.",
            )
            for item in reversed(found[:5])
        ]

    async def _explain_node_absence(self, at_us: int) -> list[WhyStep]:
        """That no node was there to run an instant, where that is known."""
        found = find_absence(await self._store.nodes(), at_us, self._clock.now_us())
        if found is None:
            return []
        sentence = f"No node was alive from {rfc3339(found[0])} to {rfc3339(found[1])}."
        return [WhyStep(at_us=found[0], verdict=WhyVerdict.MISSED, sentence=sentence)]

    async def _explain_requested_runs(self, job: Job, at_us: int) -> list[WhyStep]:
        """The runs of an instant that somebody asked for later: backfills, triggers, replays."""
        found: list[WhyStep] = []
        cursor: bytes | None = None
        for _ in range(_MAX_PAGES):
            page = await self._store.list_executions(ExecutionFilter(job=job.id), limit=_PAGE, cursor=cursor)
            requested = (item for item in page.items if isinstance(item, Execution) and item.scheduled_us == at_us)
            found += [explain_requested_run(item) for item in requested if item.cause in _REQUESTED_CAUSES]
            cursor = page.cursor
            if cursor is None or cursor < id_floor(at_us):  # none was asked for before it came
                break
        return sort_steps(found)

    async def _explain_overlap(self, job: bytes, at_us: int) -> list[WhyStep]:
        """What was under way when an instant was skipped."""
        async for item in self._history_before(job, at_us):
            if not isinstance(item, Execution) or item.scheduled_us >= at_us or item.status is Status.SKIPPED:
                continue
            if item.finished_us is None or item.finished_us >= at_us:
                sentence = f"{id_text(item.id)}, of {rfc3339(item.scheduled_us)}, was under way."
                return [WhyStep(at_us=at_us, verdict=WhyVerdict.SKIPPED, sentence=sentence)]
        return []

    # --- records

    async def _history_before(self, job: bytes, at_us: int) -> AsyncIterator[Execution | Span]:
        """The history of a job from an instant backwards, as far as one question may read."""
        cursor: bytes | None = id_floor(at_us + 1_000)
        for _ in range(_MAX_PAGES):
            page = await self._store.list_executions(ExecutionFilter(job=job), limit=_PAGE, cursor=cursor)
            for item in page.items:
                yield item
            cursor = page.cursor
            if cursor is None:
                return

    async def _spec_in_force(self, job: Job, at_us: int) -> tuple[JobSpec, int]:
        """What the job said at a time."""
        if at_us >= job.updated_us:
            return job.spec, job.version
        for version in await self._store.versions(job.id, limit=_PAGE):
            if version.saved_us <= at_us:
                return version.spec, version.version
        return job.spec, job.version

    async def _explain_state_change(self, job: Job, at_us: int) -> WhyStep | None:
        """Who had switched the job off or on last, at a time."""
        entry = await self._find_state_change(job, at_us)
        if entry is None:
            return None
        reason = f": {entry.detail}" if entry.detail else "."
        when = rfc3339(entry.at_us)
        match entry.action:
            case "pause":
                sentence, verdict = f"The job was paused by {entry.actor} at {when}{reason}", WhyVerdict.PAUSED
            case "disable":
                sentence, verdict = f"The job was disabled by {entry.actor} at {when}{reason}", WhyVerdict.OFF
            case _:
                sentence, verdict = f"The job was switched on by {entry.actor} at {when}.", WhyVerdict.COMING
        return WhyStep(at_us=entry.at_us, verdict=verdict, sentence=sentence)

    async def _find_state_change(self, job: Job, at_us: int) -> AuditEntry | None:
        cursor: bytes | None = id_floor(at_us + 1_000)
        for _ in range(_MAX_PAGES):
            page = await self._store.audit(namespace=job.namespace, limit=_PAGE, cursor=cursor)
            for entry in page.items:
                if entry.subject == job.name and entry.action in _STATE_CHANGE_ACTIONS and entry.at_us <= at_us:
                    return entry
            cursor = page.cursor
            if cursor is None:
                break
        return None

    async def _find_requester(self, one: Execution) -> str | None:
        """Who asked for an execution: the audit log has its id; of a backfill when, and of which job."""
        if one.cause not in _REQUESTED_CAUSES:
            return None
        job = (await self._store.names_of([one.job])).get(one.job)
        page = await self._store.audit(namespace=None, limit=_PAGE, cursor=id_floor(one.admitted_us + 1_000))
        for entry in page.items:
            if entry.action in _REQUEST_ACTIONS and entry.detail.partition(" ")[0] == one.id.hex():
                return entry.actor
            is_backfill = entry.action == "backfill" and one.cause is Cause.BACKFILL and entry.at_us == one.admitted_us
            if is_backfill and job is not None and (entry.namespace, entry.subject) == (job.namespace, job.name):
                return entry.actor
        return None

    def _explain_next_run(self, job: Job) -> WhyStep:
        now_us = self._clock.now_us()
        if isinstance(job.spec, Unreadable):
            return WhyStep(at_us=now_us, verdict=WhyVerdict.OFF, sentence=f"It cannot run: {job.spec.error}.")
        match job.state:
            case JobState.ACTIVE if job.next_us is not None:
                return WhyStep(
                    at_us=job.next_us,
                    verdict=WhyVerdict.COMING,
                    sentence=f"It will next run at {rfc3339(job.next_us)}.",
                )
            case JobState.ACTIVE:
                after = " or a job that it follows has ended" if job.spec.after else ""
                sentence = f"It runs only when it is triggered{after}."
            case JobState.PAUSED:
                sentence = "It will not run until it is resumed."
            case JobState.DISABLED:
                sentence = "It will not run until it is enabled."
            case JobState.DONE if job.spec.schedule is None:
                sentence = "It was to run once, and runs again only when it is triggered."
            case JobState.DONE:
                sentence = "It has no instants to come."
        return WhyStep(at_us=now_us, verdict=WhyVerdict.COMING, sentence=sentence)


def _explain_unscheduled(spec: JobSpec, name: str, version: int, at_us: int) -> WhyStep | None:
    """Why the schedule does not name an instant; None: it does."""
    if isinstance(spec, Unreadable):
        sentence = f"What version {version} of the job, in force then, says is not known: {spec.error}."
        return WhyStep(at_us=at_us, verdict=WhyVerdict.UNKNOWN, sentence=sentence)
    instants = resolve_instants(spec, name)
    if instants is None or spec.schedule is None:
        sentence = f"Version {version} of the job, in force then, has no schedule."
        return WhyStep(at_us=at_us, verdict=WhyVerdict.NO_INSTANT, sentence=sentence)
    following_us = instants.next_us(at_us - 1)
    if following_us == at_us:
        return None
    schedule = spec.schedule.parse(name)
    if replace(schedule, exclude=NO_EXCLUSIONS).next_us(at_us - 1) == at_us:
        sentence = "The schedule leaves it out: " + ", ".join(spec.schedule.exclude) + " are excluded."
    else:
        after = "none follows it" if following_us is None else f"the next after it is {rfc3339(following_us)}"
        sentence = f"It is no instant of the schedule ({schedule.describe()}); {after}."
    return WhyStep(at_us=at_us, verdict=WhyVerdict.NO_INSTANT, sentence=sentence)
