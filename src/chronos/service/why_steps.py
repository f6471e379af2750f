"""Builds the steps of a "why" explanation from an execution, a span, a job or the nodes, each with one sentence.

The sentences say run, scheduled time, in progress and finished. Times are in the job's zone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from chronos.core.calendar import SECOND_US
from chronos.core.execution import Attempt, AttemptStatus, CancelRequest, Cause, Execution, Span, Status
from chronos.core.job import Job, JobSpec, JobState, Unreadable
from chronos.core.node import Node
from chronos.core.schedule.durations import format_duration
from chronos.core.schedule.exclusions import NO_EXCLUSIONS
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.core.schedule_change import find_missing_schedule, parse_stored, resolve_instants
from chronos.errors import MissingSchedule
from chronos.service.serializers import id_text
from chronos.service.serializers.execution import lateness_us, read_detail
from chronos.store.contract import ExecutionView


class WhyVerdict(StrEnum):
    """The kind of a step, for programs and for colours."""

    DUE = "due"
    ADMITTED = "admitted"
    STARTED = "started"
    ATTEMPT = "attempt"
    WAITS = "waits"
    ENDED = "ended"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"
    MISSED = "missed"
    RECOVERED = "recovered"
    PAUSED = "paused"
    OFF = "off"  # disabled, deleted or not created yet
    NO_INSTANT = "no_instant"
    UNKNOWN = "unknown"
    COMING = "coming"
    LIMITS = "limits"
    CLAIMED = "claimed"
    BACKOFF = "backoff"
    FOLLOWERS = "followers"
    DEAD_LETTER = "dead_letter"


class WhyRef(NamedTuple):
    """Something that a sentence names: a ``run``, ``node``, ``version``, ``job`` or ``dead_letter``."""

    kind: str
    id: str
    text: str


class WhyNumbers(NamedTuple):
    """How much of a limit is used: of ``slots``, ``runs`` of a job, places of a ``key``, or ``attempts``."""

    what: str
    used: int
    allowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyStep:
    """One decision and its time."""

    at_us: int
    verdict: WhyVerdict
    sentence: str
    status: str | None = None  # of the run, attempt or span
    task: str | None = None
    attempt: int | None = None
    refs: tuple[WhyRef, ...] = ()
    numbers: WhyNumbers | None = None


_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """Writes times for people: ``Sat 7 Nov 02:00 Europe/Paris``, with the year unless it is the current one."""

    zone: Zone
    now_us: int

    @classmethod
    def of_job(cls, spec: JobSpec | None, name: str, now_us: int) -> "TimeFormat":
        """Use the zone of a job's schedule; UTC if it has none."""
        if spec is None or isinstance(spec, Unreadable) or spec.schedule is None:
            return cls(get_zone("UTC"), now_us)
        try:
            zone = parse_stored(spec.schedule, name).zone
        except MissingSchedule:
            zone = get_zone(spec.schedule.timezone or "UTC")
        return cls(zone, now_us)

    def format(self, at_us: int) -> str:
        """Format one time, with its zone."""
        return f"{self._format_wall(self._to_wall(at_us))} {self.zone.name}"

    def format_range(self, from_us: int, to_us: int) -> str:
        """Format a range: ``from Sat 7 Nov 18:41 to 18:52 UTC``. The date is repeated if it differs."""
        start, end = self._to_wall(from_us), self._to_wall(to_us)
        end_text = _format_clock(end) if start.date() == end.date() else self._format_wall(end)
        return f"from {self._format_wall(start)} to {end_text} {self.zone.name}"

    def _to_wall(self, at_us: int) -> datetime:
        seconds = at_us // SECOND_US
        return datetime.fromtimestamp(seconds + self.zone.offset_at(seconds), UTC)

    def _format_wall(self, wall: datetime) -> str:
        year = "" if wall.year == self._to_wall(self.now_us).year else f" {wall.year}"
        return f"{_WEEKDAYS[wall.weekday()]} {wall.day} {_MONTHS[wall.month - 1]}{year} {_format_clock(wall)}"


def _format_clock(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"


_VERDICTS = {
    Status.SUCCEEDED: WhyVerdict.ENDED,
    Status.COMPLETED_WITH_ERRORS: WhyVerdict.FAILED,
    Status.FAILED: WhyVerdict.FAILED,
    Status.STALE: WhyVerdict.FAILED,
    Status.CANCELED: WhyVerdict.CANCELED,
    Status.SKIPPED: WhyVerdict.SKIPPED,
    Status.MISSED: WhyVerdict.MISSED,
}
_STATUS_PHRASES = {
    Status.READY: "is waiting for a slot",
    Status.QUEUED: "is waiting for an earlier run to finish",
    Status.RUNNING: "is in progress",
    Status.WAITING: "is in progress, waiting",
    Status.SUCCEEDED: "succeeded",
    Status.COMPLETED_WITH_ERRORS: "completed with errors",
    Status.FAILED: "failed",
    Status.STALE: "is stale",
    Status.CANCELED: "was canceled",
    Status.SKIPPED: "was skipped",
    Status.MISSED: "was missed",
}
_REQUESTS = {Cause.BACKFILL: "a backfill", Cause.MANUAL: "a trigger", Cause.REPLAY: "a replay"}
_ATTEMPT_VERBS = {
    AttemptStatus.RUNNING: "is running",
    AttemptStatus.CANCELED: "was canceled",
    AttemptStatus.LOST: "was lost",
}
_CANCEL_SENTENCES = {
    CancelRequest.REQUESTED: "A cancellation was requested.",
    CancelRequest.REPLACED: "Asked to stop because a newer run replaces it.",
    CancelRequest.DELETED: "Asked to stop because its job was deleted.",
}


def explain_execution(
    view: ExecutionView,
    nodes: Mapping[int, str],
    requester: str | None,
    times: TimeFormat,
    shortage: str | None = None,
) -> list[WhyStep]:
    """Explain an execution, in order. ``shortage`` is the reason why no live node can run it."""
    execution = view.execution
    steps = [_explain_due(execution, requester, times)]
    if execution.status not in (Status.SKIPPED, Status.MISSED):
        sentence = _describe_admission(execution)
        steps.append(WhyStep(at_us=execution.admitted_us, verdict=WhyVerdict.ADMITTED, sentence=sentence))
    if execution.started_us is not None:
        sentence = f"Started on {_node_name(_first_node(view), nodes)}{_format_lateness(execution)}."
        steps.append(WhyStep(at_us=execution.started_us, verdict=WhyVerdict.STARTED, sentence=sentence))
    steps += _explain_attempts(view, nodes)
    steps.append(replace(_explain_current_status(view, times, shortage), status=execution.status.name.lower()))
    if execution.cancel is not CancelRequest.NO:
        sentence = _CANCEL_SENTENCES[execution.cancel]
        steps.append(WhyStep(at_us=execution.admitted_us, verdict=WhyVerdict.CANCELED, sentence=sentence))
    return steps


def _explain_attempts(view: ExecutionView, nodes: Mapping[int, str]) -> list[WhyStep]:
    """Explain the attempts. Those of one task keep their order even if the clock went back between them."""
    latest_us: dict[str, int] = {}
    steps: list[WhyStep] = []
    for attempt in view.attempts:
        step = _explain_attempt(attempt, nodes)
        latest_us[attempt.task] = max(step.at_us, latest_us.get(attempt.task, step.at_us))
        steps.append(replace(step, at_us=latest_us[attempt.task]))
    return steps


def summarize(item: Execution | Span, times: TimeFormat, shortage: str | None = None) -> WhyStep:
    """Summarize one item of a job's history. ``shortage`` is the reason why no live node can run a ready execution."""
    if isinstance(item, Span):
        return explain_span(item, times)
    status = _STATUS_PHRASES[item.status]
    reason = "" if item.reason is None or item.status is Status.SUCCEEDED else f": {_lower_first(item.reason.message)}"
    took = ""
    if item.started_us is not None and item.finished_us is not None:
        preposition = "in" if item.status is Status.SUCCEEDED else "after"
        took = f" {preposition} {format_duration(item.finished_us - item.started_us)}"
    if shortage is not None and item.status is Status.READY and not item.held:
        status, reason = "is waiting", f": {shortage}."
    late = _format_lateness(item)
    sentence = f"The run of {times.format(item.scheduled_us)} {status}{took}{late}{reason or '.'}"
    return WhyStep(
        at_us=item.scheduled_us,
        verdict=_find_verdict(item),
        sentence=sentence,
        status=item.status.name.lower(),
        refs=(run_ref(item, times),),
    )


def run_ref(item: Execution, times: "TimeFormat") -> WhyRef:
    """Return a reference to a run."""
    return WhyRef("run", id_text(item.id), f"the run of {times.format(item.scheduled_us)}")


def explain_span(span: Span, times: TimeFormat) -> WhyStep:
    """Explain why the scheduled times of a span did not run."""
    verdict = WhyVerdict.SKIPPED if span.status is Status.SKIPPED else WhyVerdict.MISSED
    if span.count == 1:
        subject = f"The scheduled time {times.format(span.from_us)} was"
    else:
        subject = f"{span.count:,} scheduled times {times.format_range(span.from_us, span.to_us)} were"
    sentence = f"{subject} {span.status.name.lower()}: {_lower_first(span.reason.message)}"
    return WhyStep(at_us=span.from_us, verdict=verdict, sentence=sentence, status=span.status.name.lower())


def explain_requested_run(item: Execution, times: TimeFormat) -> WhyStep:
    """Explain a backfill, trigger or replay of a scheduled time."""
    request = f"Requested as {_REQUESTS[item.cause]} on {times.format(item.admitted_us)}"
    sentence = f"{request}: the run {id_text(item.id)} {_STATUS_PHRASES[item.status]}."
    return WhyStep(
        at_us=item.admitted_us,
        verdict=_find_verdict(item),
        sentence=sentence,
        status=item.status.name.lower(),
        refs=(run_ref(item, times),),
    )


def _find_verdict(item: Execution) -> WhyVerdict:
    return _VERDICTS.get(item.status, WhyVerdict.STARTED if item.started_us is not None else WhyVerdict.WAITS)


def _explain_due(execution: Execution, requester: str | None, times: TimeFormat) -> WhyStep:
    when, version = times.format(execution.scheduled_us), f"v{execution.job_version}"
    by = "" if requester is None else f" by {requester}"
    match execution.cause:
        case Cause.SCHEDULE:
            sentence = f"Scheduled for {when} ({version})."
        case Cause.RECOVERY:
            sentence = f"Scheduled for {when} ({version}), missed, and run later by the job's recovery."
        case Cause.DEPENDENCY:
            sentence = f"Its upstream jobs finished ({version})."
        case Cause.BACKFILL:
            sentence = f"Requested{by} as a backfill of {when}."
        case Cause.MANUAL | Cause.REPLAY:
            sentence = f"Requested{by}."
    detail = read_detail(execution)
    refs = [WhyRef("version", str(execution.job_version), version)]
    if detail.replay_of is not None:
        replayed = id_text(bytes.fromhex(detail.replay_of))
        refs.append(WhyRef("run", replayed, replayed))
        sentence += f" It replays the run {id_text(bytes.fromhex(detail.replay_of))}."
    if detail.span is not None:
        sentence += f" It stands for {detail.span.count:,} scheduled times since {times.format(detail.span.from_us)}."
    if detail.reason:
        sentence += f" Reason: {detail.reason}"
    refs += [WhyRef("run", id_text(bytes.fromhex(one)), "upstream run") for one in detail.upstream]
    return WhyStep(at_us=execution.scheduled_us, verdict=WhyVerdict.DUE, sentence=sentence, refs=tuple(refs))


def _describe_admission(execution: Execution) -> str:
    waited_us = None if execution.started_us is None else execution.started_us - execution.admitted_us
    sentence = f"Admitted with v{execution.job_version} of the job."
    if waited_us is not None and waited_us >= SECOND_US:
        sentence += f" Waited {format_duration(waited_us)} for its turn."
    return sentence


def _explain_attempt(attempt: Attempt, nodes: Mapping[int, str]) -> WhyStep:
    took = "" if attempt.finished_us is None else f" after {format_duration(attempt.finished_us - attempt.started_us)}"
    error = f": {attempt.error}" if attempt.error else "."
    verb = _ATTEMPT_VERBS.get(attempt.status, attempt.status.name.lower().replace("_", " "))
    sentence = f"{attempt.task}: attempt {attempt.number} {verb}{took} on {_node_name(attempt.node, nodes)}{error}"
    node = None if attempt.node is None else _node_name(attempt.node, nodes)
    return WhyStep(
        at_us=attempt.started_us,
        verdict=WhyVerdict.ATTEMPT,
        sentence=sentence,
        status=attempt.status.name.lower(),
        task=attempt.task,
        attempt=attempt.number,
        refs=() if node is None else (WhyRef("node", node, node),),
    )


def _first_node(view: ExecutionView) -> int | None:
    """Return the node of the first attempt, which started the execution. The execution's own node is its latest."""
    first = min(view.attempts, key=lambda attempt: attempt.started_us, default=None)
    return view.execution.node if first is None or first.node is None else first.node


def _explain_current_status(view: ExecutionView, times: TimeFormat, shortage: str | None) -> WhyStep:
    """Explain the current status of an execution, or its outcome."""
    execution = view.execution
    if execution.status.final:
        status = execution.status.name.capitalize().replace("_", " ")
        message = "" if execution.reason is None else f" {execution.reason.message}"
        at_us = execution.admitted_us if execution.finished_us is None else execution.finished_us
        return WhyStep(at_us=at_us, verdict=_VERDICTS[execution.status], sentence=f"{status}.{message}")
    if execution.held:
        sentence = "Waiting: the job is paused."
        return WhyStep(at_us=execution.admitted_us, verdict=WhyVerdict.PAUSED, sentence=sentence)
    match execution.status:
        case Status.READY:
            sentence = "Waiting for a free slot on a live node that can run it."
            if shortage is not None:
                sentence = f"Waiting: {shortage}."
        case Status.QUEUED:
            sentence = "Waiting for an earlier run to finish."
        case Status.WAITING:
            sentence = _describe_wait(execution, times)
            return WhyStep(at_us=_waiting_since_us(view), verdict=WhyVerdict.WAITS, sentence=sentence)
        case _:
            sentence = f"In progress, attempt {execution.attempt}."
    is_running = execution.status is Status.RUNNING
    at_us = execution.started_us if is_running and execution.started_us is not None else execution.admitted_us
    return WhyStep(at_us=at_us, verdict=WhyVerdict.STARTED if is_running else WhyVerdict.WAITS, sentence=sentence)


def _describe_wait(execution: Execution, times: TimeFormat) -> str:
    group = read_detail(execution).group
    signals = sorted({task.signal for task in group.tasks if task.signal is not None}) if group is not None else []
    wake = None if execution.wake_us is None else times.format(execution.wake_us)
    if execution.started_us is None:
        return f"Waiting until {wake}, when it was requested to start."
    if signals:
        names = " or ".join(f'"{signal}"' for signal in signals)
        return f"Waiting for the signal {names}" + ("." if wake is None else f", until {wake}.")
    return "Waiting for a signal." if wake is None else f"Waiting until {wake}, for a retry or a wait task."


def _waiting_since_us(view: ExecutionView) -> int:
    """Return when the wait began: at the end of the last attempt, or at the start of the one that waits."""
    execution = view.execution
    ends_us = [attempt.finished_us for attempt in view.attempts if attempt.finished_us is not None]
    starts_us = [us for us in (execution.attempt_us, execution.started_us) if us is not None]
    return max([execution.admitted_us, *ends_us, *starts_us])


def _format_lateness(execution: Execution) -> str:
    late_us = lateness_us(execution) or 0
    return f", {format_duration(late_us)} late" if late_us >= SECOND_US else ""


def _node_name(number: int | None, nodes: Mapping[int, str]) -> str:
    return "a node" if number is None else nodes.get(number, f"node {number}")


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def sort_steps(steps: Sequence[WhyStep]) -> list[WhyStep]:
    """Sort steps by time. Steps of the same time keep their order."""
    return sorted(steps, key=lambda step: step.at_us)


_ALIVE_US = 10 * SECOND_US  # a node with a heartbeat this recent is alive


def find_absence(nodes: Sequence[Node], at_us: int, now_us: int) -> tuple[int, int] | None:
    """Return the period around ``at_us`` without a live node; None if a node was alive, or if that is unknown."""
    before = [_last_seen_us(node, now_us) for node in nodes if node.started_us <= at_us]
    after = [node.started_us for node in nodes if node.started_us > at_us]
    if not before or not after or max(before) >= at_us:
        return None
    return max(before), min(after)


def _last_seen_us(node: Node, now_us: int) -> int:
    if node.stopped_us is not None:
        return node.stopped_us
    return now_us if now_us - node.beat_us <= _ALIVE_US else node.beat_us


def explain_next_run(job: Job, times: TimeFormat) -> WhyStep:
    """Explain when the job runs next, or why it does not."""
    if isinstance(job.spec, Unreadable):
        return WhyStep(at_us=times.now_us, verdict=WhyVerdict.OFF, sentence=f"The job cannot run: {job.spec.error}.")
    match job.state:
        case JobState.ACTIVE if job.next_us is not None:
            missing = find_missing_schedule(job.spec, job.name)
            reason = "" if missing is None else f": {missing}"
            sentence = f"The next run is on {times.format(job.next_us)}{reason}."
            return WhyStep(at_us=job.next_us, verdict=WhyVerdict.COMING, sentence=sentence)
        case JobState.ACTIVE:
            after = ", or when its upstream jobs finish" if job.spec.after else ""
            sentence = f"The job runs only when it is triggered{after}."
        case JobState.PAUSED:
            sentence = "The job will not run until it is resumed."
        case JobState.DISABLED:
            sentence = "The job will not run until it is enabled."
        case JobState.DONE if job.spec.schedule is None:
            sentence = "The job ran once, and runs again only when it is triggered."
        case JobState.DONE:
            sentence = "The job has no more scheduled times."
    return WhyStep(at_us=times.now_us, verdict=WhyVerdict.COMING, sentence=sentence)


def explain_unscheduled(spec: JobSpec, name: str, version: int, at_us: int, times: TimeFormat) -> WhyStep | None:
    """Explain why a time is not a scheduled time; None if it is one."""
    if isinstance(spec, Unreadable):
        sentence = f"Version {version}, in force then, cannot be read: {spec.error}."
        return WhyStep(at_us=at_us, verdict=WhyVerdict.UNKNOWN, sentence=sentence)
    try:
        instants = resolve_instants(spec, name)
    except MissingSchedule as error:
        sentence = f"This process cannot tell whether {times.format(at_us)} is a scheduled time: {error}."
        return WhyStep(at_us=at_us, verdict=WhyVerdict.UNKNOWN, sentence=sentence)
    if instants is None or spec.schedule is None:
        sentence = f"Version {version}, in force then, has no schedule."
        return WhyStep(at_us=at_us, verdict=WhyVerdict.NO_INSTANT, sentence=sentence)
    following_us = instants.next_us(at_us - 1)
    if following_us == at_us:
        return None
    schedule = spec.schedule.parse(name)
    if any(replace(one, exclude=NO_EXCLUSIONS).next_us(at_us - 1) == at_us for one in schedule.members):
        sentence = "Excluded from the schedule by " + ", ".join(spec.schedule.exclude) + "."
    else:
        following = (
            "No scheduled time follows" if following_us is None else f"The next one is {times.format(following_us)}"
        )
        sentence = f"{times.format(at_us)} is not a scheduled time ({schedule.describe()}). {following}."
    return WhyStep(at_us=at_us, verdict=WhyVerdict.NO_INSTANT, sentence=sentence)
