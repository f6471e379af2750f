"""Further steps of an explanation: the node that claimed a run, limits, backoff, and what followed.

They answer the questions of a person who looks at one run: what does it wait for, who holds that, where could it run.
"""

from collections.abc import Mapping, Sequence

from chronos.core.config import EffectiveSettings
from chronos.core.execution import Attempt, AttemptStatus, Execution, Status
from chronos.core.job import UpstreamCondition
from chronos.core.lane import Lane
from chronos.core.node import Node
from chronos.core.schedule.durations import format_duration
from chronos.core.shortage import is_suitable_node
from chronos.core.task_group import Layout
from chronos.service.serializers import id_text
from chronos.service.why_steps import TimeFormat, WhyNumbers, WhyRef, WhyStep, WhyVerdict
from chronos.store.contract import ExecutionView
from chronos.store.overview import Blockage, Load

_RETRIED = (AttemptStatus.FAILED, AttemptStatus.TIMED_OUT, AttemptStatus.LOST)
_CONDITIONS = {
    UpstreamCondition.SUCCESS: (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS),
    UpstreamCondition.FAILURE: (Status.FAILED, Status.STALE),
}
_MAX_REFS = 10


def explain_claim(execution: Execution, node: Node | None, lane: Lane | None) -> list[WhyStep]:
    """Explain which node took the run, and what the run requires of a node."""
    if execution.started_us is None or node is None:
        return []
    requires = "" if lane is None else f" It requires {_describe_lane(lane)}."
    labels = _format_labels(tuple(sorted(node.labels.items())))
    offers = f", which offers {labels}" if labels else ""
    return [
        WhyStep(
            at_us=execution.started_us,
            verdict=WhyVerdict.CLAIMED,
            sentence=f"Claimed by {node.name}{offers}.{requires}",
            refs=(WhyRef("node", node.name, node.name),),
        )
    ]


def explain_backoffs(view: ExecutionView, layout: Layout | None) -> list[WhyStep]:
    """Explain the pauses between the attempts of each task, and the rule that sets them."""
    settings = {} if layout is None else {plan.name: plan.effective for plan in layout.tasks}
    by_task: dict[str, list[Attempt]] = {}
    for attempt in view.attempts:
        by_task.setdefault(attempt.task, []).append(attempt)
    steps = []
    for task, attempts in by_task.items():
        starts_us: list[int | None] = [attempt.started_us for attempt in attempts[1:]]
        starts_us.append(view.execution.wake_us if view.execution.status is Status.WAITING else None)
        for attempt, next_us in zip(attempts, starts_us, strict=True):
            if next_us is None or attempt.finished_us is None or attempt.status not in _RETRIED:
                continue
            rule = f" ({_describe_backoff(settings[task])})" if task in settings else ""
            pause = format_duration(max(0, next_us - attempt.finished_us))
            steps.append(
                WhyStep(
                    at_us=attempt.finished_us,
                    verdict=WhyVerdict.BACKOFF,
                    sentence=f"{task}: paused {pause} before attempt {attempt.number + 1}{rule}.",
                    task=task,
                    attempt=attempt.number + 1,
                    numbers=_attempt_numbers(attempt.number, settings.get(task)),
                )
            )
    return steps


def explain_slots(lane: Lane, nodes: Sequence[Node], loads: Sequence[Load], times: TimeFormat) -> WhyStep | None:
    """Explain how many slots are in use on the nodes that could run a ready execution."""
    able = [node for node in nodes if node.stopped_us is None and node.slots > 0 and is_suitable_node(lane, node)]
    if not able:
        return None
    numbers = {node.number for node in able}
    running = [load for load in loads if load.status is Status.RUNNING and load.node in numbers]
    used, slots = sum(load.runs for load in running), sum(node.slots for node in able)
    since_us = min((load.started_us for load in running if load.started_us is not None), default=None)
    longest = "" if since_us is None else f", the longest since {times.format(since_us)}"
    names = ", ".join(node.name for node in able[:_MAX_REFS])
    if used < slots:
        sentence = f"{used} of {slots} slots are in use on {names}; it is claimed next."
    else:
        sentence = f"Waiting for a slot: {used} of {slots} in use on {names}{longest}."
    return WhyStep(
        at_us=times.now_us,
        verdict=WhyVerdict.LIMITS,
        sentence=sentence,
        refs=tuple(WhyRef("node", node.name, node.name) for node in able[:_MAX_REFS]),
        numbers=WhyNumbers("slots", used, slots),
    )


def explain_blockage(blockage: Blockage, times: TimeFormat) -> list[WhyStep]:
    """Explain which limit a queued execution waits for, and who holds it."""
    steps = []
    if blockage.key_limit is not None and (blockage.key_used or 0) >= blockage.key_limit:
        used, allowed = blockage.key_used or 0, blockage.key_limit
        sentence = (
            f"Waiting for its concurrency key: {used} of {allowed} places in use{_since(blockage.key_holders, times)}."
        )
        steps.append(_limit_step(sentence, "key", used, allowed, blockage.key_holders, times))
    if blockage.limit and blockage.used >= blockage.limit:
        ahead = f" {blockage.ahead:,} queued before it." if blockage.ahead else ""
        sentence = (
            f"Waiting for an earlier run of the job: {blockage.used} of {blockage.limit} in progress"
            f"{_since(blockage.holders, times)}.{ahead}"
        )
        steps.append(_limit_step(sentence, "runs", blockage.used, blockage.limit, blockage.holders, times))
    return steps


def explain_followers(
    execution: Execution, followers: Mapping[str, UpstreamCondition], *, is_dead_letter: bool
) -> list[WhyStep]:
    """Explain what followed the end of a run: downstream jobs, and its dead letter."""
    if not execution.status.final or execution.finished_us is None:
        return []
    steps = []
    if is_dead_letter:
        sentence = "It is a dead letter: replay it or discard it."
        ref = WhyRef("dead_letter", id_text(execution.id), "dead letter")
        steps.append(
            WhyStep(at_us=execution.finished_us, verdict=WhyVerdict.DEAD_LETTER, sentence=sentence, refs=(ref,))
        )
    started = sorted(name for name, on in followers.items() if execution.status in _CONDITIONS.get(on, tuple(Status)))
    if started:
        more = f" and {len(started) - _MAX_REFS:,} more" if len(started) > _MAX_REFS else ""
        sentence = f"Its end starts the downstream jobs {', '.join(started[:_MAX_REFS])}{more}."
        steps.append(
            WhyStep(
                at_us=execution.finished_us,
                verdict=WhyVerdict.FOLLOWERS,
                sentence=sentence,
                refs=tuple(WhyRef("job", name, name) for name in started[:_MAX_REFS]),
            )
        )
    return steps


def _limit_step(
    sentence: str, what: str, used: int, allowed: int, holders: Sequence[Execution], times: TimeFormat
) -> WhyStep:
    return WhyStep(
        at_us=times.now_us,
        verdict=WhyVerdict.LIMITS,
        sentence=sentence,
        refs=tuple(
            WhyRef("run", id_text(holder.id), f"the run of {times.format(holder.scheduled_us)}") for holder in holders
        ),
        numbers=WhyNumbers(what, used, allowed),
    )


def _since(holders: Sequence[Execution], times: TimeFormat) -> str:
    starts_us = [holder.started_us for holder in holders if holder.started_us is not None]
    return f", the longest since {times.format(min(starts_us))}" if starts_us else ""


def _describe_lane(lane: Lane) -> str:
    parts = [f"the queue {lane.queue}"]
    if lane.labels:
        parts.append(_format_labels(lane.labels))
    parts += [f"the function {name}" for name in lane.functions]
    return ", ".join(parts)


def _format_labels(labels: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels)


def _describe_backoff(effective: EffectiveSettings) -> str:
    parts = [format_duration(effective.retry_initial_us)]
    if effective.retry_multiplier != 1:
        parts.append(f"times {effective.retry_multiplier:g} per attempt")
    parts.append(f"at most {format_duration(effective.retry_max_us)}")
    if effective.retry_jitter:
        parts.append(f"up to {effective.retry_jitter:.0%} jitter")
    return f"backoff: {', '.join(parts)}"


def _attempt_numbers(used: int, effective: EffectiveSettings | None) -> WhyNumbers | None:
    return (
        None
        if effective is None or not effective.max_attempts
        else WhyNumbers("attempts", used, effective.max_attempts)
    )
