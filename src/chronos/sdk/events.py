"""Events: what happens to the runs of jobs, as values for callbacks (``app.on``) and iterators (``app.events``).

``app.on`` reports what this program does, as it does it. So where three programs send an alert with ``app.on``, it is
sent once. ``app.events`` reports what ended on any node, from the records of the store.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from chronos.core import events as engine_events
from chronos.core.calendar import from_us
from chronos.core.execution import Execution, Span, Status
from chronos.core.execution_report import to_status_name
from chronos.errors import Invalid
from chronos.sdk.info import RunInfo, SpanInfo, to_span_info
from chronos.service.serializers import id_text


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """Something that happened to a job. ``job`` is its name, ``at`` is when it happened."""

    job: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(JobEvent):
    """A run started, or started again after a wait: its id, the number of the attempt, and how late it was."""

    run_id: str
    attempt: int
    lateness: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished(JobEvent):
    """An attempt of a task ended.

    ``status`` is ``succeeded``, ``failed``, ``timed_out``, ``canceled`` or ``lost``. ``error`` says why it failed;
    ``traceback`` is that of a Python function that raised.
    """

    run_id: str
    task: str
    attempt: int
    status: str
    duration: timedelta
    error: str | None
    traceback: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(JobEvent):
    """A run reached its final status, or was skipped.

    ``reason`` and ``message`` are the code and the sentence that explain the status.
    """

    run_id: str
    status: str
    reason: str | None
    message: str | None
    duration: timedelta | None

    @property
    def succeeded(self) -> bool:
        """Whether the run ended with the status ``succeeded``."""
        return self.status == to_status_name(Status.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantsMissed(JobEvent):
    """A job missed instants while no node scheduled it: ``recovered`` of them run now, ``left_out`` do not.

    ``strategy`` is that of the job's ``recovery``.
    """

    strategy: str
    recovered: int
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecorded(JobEvent):
    """One record for many instants that did not run: skipped or missed. ``span`` says how many, and why."""

    span: SpanInfo


class Selection(NamedTuple):
    """The events that a callback receives."""

    kind: type[JobEvent]
    engine_kinds: tuple[type[engine_events.Event], ...]
    statuses: frozenset[str] | None = None  # None: any
    wants_routine: bool = True  # False: events about success are not needed


def _to_names(*statuses: Status) -> frozenset[str]:
    return frozenset(to_status_name(status) for status in statuses)


_ENDED = (engine_events.ExecutionEnded,)
_SUCCESSES = (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS)
_FAILURES = (Status.FAILED, Status.STALE)
#: By class, and by the names that ``app.on`` accepts besides. They mean the same as in ``after``.
_SELECTIONS: Mapping[object, Selection] = {
    RunStarted: Selection(RunStarted, (engine_events.ExecutionStarted,)),
    AttemptFinished: Selection(AttemptFinished, (engine_events.AttemptEnded,)),
    RunEnded: Selection(RunEnded, (*_ENDED, engine_events.ExecutionAdmitted)),
    InstantsMissed: Selection(InstantsMissed, (engine_events.GapFound,)),
    "start": Selection(RunStarted, (engine_events.ExecutionStarted,)),
    "attempt": Selection(AttemptFinished, (engine_events.AttemptEnded,)),
    "success": Selection(RunEnded, _ENDED, _to_names(*_SUCCESSES)),
    "failure": Selection(RunEnded, _ENDED, _to_names(*_FAILURES), wants_routine=False),
    "completion": Selection(RunEnded, _ENDED, _to_names(*(one for one in Status if one is not Status.SKIPPED))),
    "skip": Selection(
        RunEnded, (*_ENDED, engine_events.ExecutionAdmitted), _to_names(Status.SKIPPED), wants_routine=False
    ),
    "missed": Selection(InstantsMissed, (engine_events.GapFound,), wants_routine=False),
}


def select_events(event: object) -> Selection:
    """The events that a class or a name stands for. Raises ``Invalid``."""
    selection = _SELECTIONS.get(event) if isinstance(event, str | type) else None
    if selection is not None:
        return selection
    if event is SpanRecorded:
        raise Invalid("spans are read from the store; iterate over app.events()")
    names = ", ".join(f'"{name}"' for name in _SELECTIONS if isinstance(name, str))
    classes = ", ".join(kind.__name__ for kind in _SELECTIONS if isinstance(kind, type))
    raise Invalid(f"unknown event {event!r}; use one of {names}, or a class: {classes}")


def to_event(event: engine_events.Event, job: str) -> JobEvent | None:
    """An event of the engine as users see it; None for what is not shown, such as an admission."""
    at = from_us(event.at_us)
    match event:
        case engine_events.ExecutionStarted():
            lateness = timedelta(microseconds=event.late_us)
            return RunStarted(job=job, at=at, run_id=id_text(event.execution), attempt=event.attempt, lateness=lateness)
        case engine_events.AttemptEnded():
            return AttemptFinished(
                job=job,
                at=at,
                run_id=id_text(event.execution),
                task=event.task,
                attempt=event.number,
                status=event.status.name.lower(),
                duration=timedelta(microseconds=event.duration_us),
                error=event.error,
                traceback=event.traceback,
            )
        case engine_events.ExecutionEnded():
            return RunEnded(
                job=job,
                at=at,
                run_id=id_text(event.execution),
                status=to_status_name(event.status),
                reason=event.code.value,
                message=event.message,
                duration=timedelta(microseconds=event.duration_us),
            )
        case engine_events.ExecutionAdmitted(status=Status.SKIPPED):
            return RunEnded(
                job=job,
                at=at,
                run_id=id_text(event.execution),
                status=to_status_name(event.status),
                reason=None if event.code is None else event.code.value,
                message=None,
                duration=None,
            )
        case engine_events.GapFound():
            return InstantsMissed(
                job=job, at=at, strategy=event.strategy, recovered=event.runs, left_out=event.left_out
            )
        case _:
            return None


def to_recorded_event(item: Execution | Span, job: str) -> RunEnded | SpanRecorded:
    """A record of the store as an event."""
    if isinstance(item, Span):
        return SpanRecorded(job=job, at=from_us(item.recorded_us), span=to_span_info(item))
    duration_us = None
    if item.started_us is not None and item.finished_us is not None:
        duration_us = max(0, item.finished_us - item.started_us)
    return RunEnded(
        job=job,
        at=from_us(item.finished_us or item.admitted_us),
        run_id=id_text(item.id),
        status=to_status_name(item.status),
        reason=None if item.reason is None else item.reason.code.value,
        message=None if item.reason is None else item.reason.message,
        duration=None if duration_us is None else timedelta(microseconds=duration_us),
    )


def read_recorded_event(item: RunInfo | SpanInfo, job: str, recorded_at: datetime) -> RunEnded | SpanRecorded:
    """An item of a server's stream as an event. ``recorded_at`` is the time of a span."""
    if isinstance(item, SpanInfo):
        return SpanRecorded(job=job, at=recorded_at, span=item)
    return RunEnded(
        job=job,
        at=item.finished_at or recorded_at,
        run_id=item.id,
        status=item.status,
        reason=item.reason,
        message=item.message,
        duration=item.duration,
    )


EventCallback = Callable[[Any], object]
