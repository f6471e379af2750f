"""Sentences about what was decided: of an execution as it is on record, and of instants that did not run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from chronos.core.calendar import SECOND_US, rfc3339
from chronos.core.execution import Attempt, AttemptStatus, CancelRequest, Cause, Execution, Span, Status
from chronos.core.node import Node
from chronos.core.schedule.durations import format_period
from chronos.core.schedule.iso8601 import Period
from chronos.service.serializers import id_text
from chronos.service.serializers.execution import lateness_us, read_detail
from chronos.store.contract import ExecutionView


class WhyVerdict(StrEnum):
    """What a step says, for programs and for colours."""

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
    OFF = "off"  # disabled, deleted or not there yet
    NO_INSTANT = "no_instant"
    UNKNOWN = "unknown"
    COMING = "coming"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyStep:
    """One decision, and when it was made."""

    at_us: int
    verdict: WhyVerdict
    sentence: str


_VERDICTS = {
    Status.SUCCEEDED: WhyVerdict.ENDED,
    Status.COMPLETED_WITH_ERRORS: WhyVerdict.FAILED,
    Status.FAILED: WhyVerdict.FAILED,
    Status.STALE: WhyVerdict.FAILED,
    Status.CANCELED: WhyVerdict.CANCELED,
    Status.SKIPPED: WhyVerdict.SKIPPED,
    Status.MISSED: WhyVerdict.MISSED,
}
_CAUSES = {
    Cause.SCHEDULE: "The schedule names this instant.",
    Cause.RECOVERY: "The schedule names this instant, which was missed, and the job's recovery runs it.",
    Cause.BACKFILL: "A backfill asked for this instant.",
    Cause.MANUAL: "Somebody asked for it.",
    Cause.REPLAY: "It was asked for again.",
    Cause.DEPENDENCY: "A job that it follows has ended.",
}
_REQUESTS = {Cause.BACKFILL: "backfill", Cause.MANUAL: "trigger", Cause.REPLAY: "replay"}
_ATTEMPT_VERBS = {
    AttemptStatus.RUNNING: "is running",
    AttemptStatus.CANCELED: "was canceled",
    AttemptStatus.LOST: "was lost",
}
_CANCEL_SENTENCES = {
    CancelRequest.REQUESTED: "It was asked to stop.",
    CancelRequest.REPLACED: "It was asked to stop, because a newer execution takes its place.",
    CancelRequest.DELETED: "It was asked to stop, because its job was deleted.",
}


def explain_execution(
    view: ExecutionView, nodes: Mapping[int, str], requester: str | None, shortage: str | None = None
) -> list[WhyStep]:
    """What happened to an execution, in order. ``shortage``: why no live node can take it."""
    one = view.execution
    steps = [_explain_due(one, requester)]
    if one.status not in (Status.SKIPPED, Status.MISSED):
        steps.append(WhyStep(at_us=one.admitted_us, verdict=WhyVerdict.ADMITTED, sentence=_describe_admission(one)))
    if one.started_us is not None:
        late_us = lateness_us(one) or 0
        late = f", {format_elapsed(late_us)} late" if late_us >= SECOND_US else ""
        sentence = f"{_node_name(_first_node(view), nodes)} started it{late}."
        steps.append(WhyStep(at_us=one.started_us, verdict=WhyVerdict.STARTED, sentence=sentence))
    steps += _explain_attempts(view, nodes)
    steps.append(_explain_current_status(view, shortage))
    if one.cancel is not CancelRequest.NO:
        steps.append(
            WhyStep(at_us=one.admitted_us, verdict=WhyVerdict.CANCELED, sentence=_CANCEL_SENTENCES[one.cancel])
        )
    return steps


def _explain_attempts(view: ExecutionView, nodes: Mapping[int, str]) -> list[WhyStep]:
    """Its attempts; those of one task stay in their order where the clock went back between them."""
    reached_us: dict[str, int] = {}
    steps: list[WhyStep] = []
    for attempt in view.attempts:
        step = _explain_attempt(attempt, nodes)
        reached_us[attempt.task] = max(step.at_us, reached_us.get(attempt.task, step.at_us))
        steps.append(replace(step, at_us=reached_us[attempt.task]))
    return steps


def summarize(item: Execution | Span, shortage: str | None = None) -> WhyStep:
    """One item of a job's history in one sentence. ``shortage``: why no live node can take what is ready."""
    if isinstance(item, Span):
        return explain_span(item)
    status = item.status.name.lower().replace("_", " ")
    reason = "" if item.reason is None or item.status is Status.SUCCEEDED else f": {_lower_first(item.reason.message)}"
    late_us = lateness_us(item) or 0
    late = f", {format_elapsed(late_us)} late" if late_us >= SECOND_US else ""
    took = ""
    if item.started_us is not None and item.finished_us is not None:
        took = f", in {format_elapsed(item.finished_us - item.started_us)}"
    if shortage is not None and item.status is Status.READY and not item.held:
        reason = f", and waits: {shortage}."
    sentence = f"The run of {rfc3339(item.scheduled_us)} {_auxiliary(item.status)}{status}{late}{took}{reason or '.'}"
    verdict = _VERDICTS.get(item.status, WhyVerdict.STARTED if item.started_us is not None else WhyVerdict.WAITS)
    return WhyStep(at_us=item.scheduled_us, verdict=verdict, sentence=sentence)


def explain_span(span: Span) -> WhyStep:
    """Why a run of instants did not run."""
    verdict = WhyVerdict.SKIPPED if span.status is Status.SKIPPED else WhyVerdict.MISSED
    if span.count == 1:
        status = f"The instant {rfc3339(span.from_us)} was"
    else:
        status = f"{span.count} instants from {rfc3339(span.from_us)} to {rfc3339(span.to_us)} were"
    sentence = f"{status} {span.status.name.lower()}: {_lower_first(span.reason.message)}"
    return WhyStep(at_us=span.from_us, verdict=verdict, sentence=sentence)


def explain_requested_run(item: Execution) -> WhyStep:
    """A run of an instant that somebody asked for."""
    status = item.status.name.lower().replace("_", " ")
    sentence = f"A {_REQUESTS[item.cause]} asked for it at {rfc3339(item.admitted_us)}: {id_text(item.id)} "
    verdict = _VERDICTS.get(item.status, WhyVerdict.STARTED if item.started_us is not None else WhyVerdict.WAITS)
    return WhyStep(at_us=item.admitted_us, verdict=verdict, sentence=f"{sentence}{_auxiliary(item.status)}{status}.")


def format_elapsed(us: int) -> str:
    """``2 hours 5 minutes``; milliseconds only of what is short."""
    if us < 10 * SECOND_US:
        us -= us % 1000
        return format_period(Period(us=us)) if us else "less than a millisecond"
    return format_period(Period(us=us - us % SECOND_US))


def _explain_due(one: Execution, requester: str | None) -> WhyStep:
    sentence = _CAUSES[one.cause]
    detail = read_detail(one)
    if requester is not None and one.cause in (Cause.MANUAL, Cause.REPLAY, Cause.BACKFILL):
        sentence = f"{requester} asked for it."
    if detail.replay_of is not None:
        sentence += f" It runs {id_text(bytes.fromhex(detail.replay_of))} again."
    if detail.reason:
        sentence += f" The reason given: {detail.reason}"
    if detail.span is not None:
        sentence += f" It stands for {detail.span.count} instants since {rfc3339(detail.span.from_us)}."
    return WhyStep(at_us=one.scheduled_us, verdict=WhyVerdict.DUE, sentence=sentence)


def _describe_admission(one: Execution) -> str:
    waited_us = None if one.started_us is None else one.started_us - one.admitted_us
    sentence = f"It was admitted under version {one.job_version} of the job."
    if waited_us is not None and waited_us >= SECOND_US:
        sentence += f" It waited {format_elapsed(waited_us)} for its turn."
    return sentence


def _explain_attempt(attempt: Attempt, nodes: Mapping[int, str]) -> WhyStep:
    took = "" if attempt.finished_us is None else f" after {format_elapsed(attempt.finished_us - attempt.started_us)}"
    error = f": {attempt.error}" if attempt.error else "."
    how = _ATTEMPT_VERBS.get(attempt.status, attempt.status.name.lower().replace("_", " "))
    sentence = f'Attempt {attempt.number} of "{attempt.task}" on {_node_name(attempt.node, nodes)} {how}{took}{error}'
    return WhyStep(at_us=attempt.started_us, verdict=WhyVerdict.ATTEMPT, sentence=sentence)


def _first_node(view: ExecutionView) -> int | None:
    """The node that started an execution: its first attempt's. The execution itself names its latest."""
    one = view.execution
    first = min(view.attempts, key=lambda attempt: attempt.started_us, default=None)
    return one.node if first is None or first.node is None else first.node


def _explain_current_status(view: ExecutionView, shortage: str | None) -> WhyStep:
    """Where it is now, or how it ended."""
    one = view.execution
    if one.status.final:
        message = "" if one.reason is None else f" {one.reason.message}"
        status = one.status.name.lower().replace("_", " ")
        at_us = one.admitted_us if one.finished_us is None else one.finished_us
        return WhyStep(
            at_us=at_us, verdict=_VERDICTS[one.status], sentence=f"It {_auxiliary(one.status)}{status}.{message}"
        )
    if one.held:
        return WhyStep(
            at_us=one.admitted_us, verdict=WhyVerdict.PAUSED, sentence="It is held, because its job is paused."
        )
    match one.status:
        case Status.READY:
            sentence = "It waits for a worker with a free slot that may run it."
            if shortage is not None:
                sentence = f"It waits: {shortage}."
        case Status.QUEUED:
            sentence = "It waits behind an earlier execution that has to end first."
        case Status.WAITING:
            return WhyStep(at_us=_waiting_since_us(view), verdict=WhyVerdict.WAITS, sentence=_describe_wait(one))
        case _:
            sentence = f"It runs, at attempt {one.attempt}."
    at_us = one.started_us if one.status is Status.RUNNING and one.started_us is not None else one.admitted_us
    verdict = WhyVerdict.STARTED if one.status is Status.RUNNING else WhyVerdict.WAITS
    return WhyStep(at_us=at_us, verdict=verdict, sentence=sentence)


def _describe_wait(one: Execution) -> str:
    """What an execution waits for."""
    group = read_detail(one).group
    signals = sorted({task.signal for task in group.tasks if task.signal is not None}) if group is not None else []
    if not signals:
        return (
            "It sleeps until a signal comes."
            if one.wake_us is None
            else f"It sleeps until {rfc3339(one.wake_us)}: a retry's pause, or a wait."
        )
    named = " or ".join(f'"{signal}"' for signal in signals)
    return f"It waits for the signal {named}" + (
        "." if one.wake_us is None else f", and wakes at {rfc3339(one.wake_us)}."
    )


def _waiting_since_us(view: ExecutionView) -> int:
    """Since when it does: the end of its last try, or the begin of the one that waits."""
    one = view.execution
    ends_us = [attempt.finished_us for attempt in view.attempts if attempt.finished_us is not None]
    starts_us = [us for us in (one.attempt_us, one.started_us) if us is not None]
    return max([one.admitted_us, *ends_us, *starts_us])


def _auxiliary(status: Status) -> str:
    verbs = (Status.SUCCEEDED, Status.FAILED, Status.COMPLETED_WITH_ERRORS)
    return "" if status in verbs else "was " if status.final and status is not Status.STALE else "is "


def _node_name(number: int | None, nodes: Mapping[int, str]) -> str:
    return "a node" if number is None else nodes.get(number, f"node {number}")


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def sort_steps(steps: Sequence[WhyStep]) -> list[WhyStep]:
    """By time; what happened at the same time stays in its order."""
    return sorted(steps, key=lambda step: step.at_us)


_ALIVE_US = 10 * SECOND_US  # a node that beat so recently lives, though its last beat may be older than the question


def find_absence(nodes: Sequence[Node], at_us: int, now_us: int) -> tuple[int, int] | None:
    """From when to when no node gave a sign of life around an instant; None: one did, or it is not known any more."""
    before = [_last_seen_us(node, now_us) for node in nodes if node.started_us <= at_us]
    after = [node.started_us for node in nodes if node.started_us > at_us]
    if not before or not after or max(before) >= at_us:
        return None
    return max(before), min(after)


def _last_seen_us(node: Node, now_us: int) -> int:
    """The last that was heard of a node."""
    if node.stopped_us is not None:
        return node.stopped_us
    return now_us if now_us - node.beat_us <= _ALIVE_US else node.beat_us
