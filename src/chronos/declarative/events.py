"""What the declarative scheduler tells: the events of its specification, as values.

They go to the ``on_event`` given to the scheduler and to the logger ``chronos.declarative``, in the order in which
things happen. A watcher that raises is logged and otherwise ignored: nobody who watches can stop the work.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from chronos.core.outcome import to_storable_text

LOGGER = logging.getLogger("chronos.declarative")
MAX_WORDS = 4_000  # characters of an error's own
TRACE_AGAIN = timedelta(minutes=1)  # from one traceback of a task in the log to the next
LATE = timedelta(minutes=1)  # what a start may take after its minute; more is told as a warning


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerEvent:
    """Something that happened; ``at`` is in UTC."""

    at: datetime


# --- the scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerInitializationStarted(SchedulerEvent):
    """``initialize`` was called and begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerInitializationCompleted(SchedulerEvent):
    """The scheduler runs. Each task is in one of the four classes; ``unregistered`` ones are kept and not run."""

    new: tuple[str, ...] = ()
    preserved: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    unregistered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerInitializationFailed(SchedulerEvent):
    """``initialize`` failed; the scheduler is as if it had not been called."""

    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStopRequested(SchedulerEvent):
    """``stop`` was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStopped(SchedulerEvent):
    """Nothing of the scheduler runs any more."""


# --- its tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent(SchedulerEvent):
    """Something about one task."""

    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunStarted(TaskEvent):
    """The callback is called for an occurrence, ``late`` after it."""

    occurrence: datetime
    late: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunCompleted(TaskEvent):
    """The callback came to its end."""

    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunFailed(TaskEvent):
    """The callback raised; it is called again at ``pending_retry_until``, unless an occurrence comes first."""

    error: BaseException
    duration: timedelta
    pending_retry_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetryStarted(TaskEvent):
    """The callback is called again after it failed, ``late`` after the time of its retry."""

    attempt: int
    late: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetryPreempted(TaskEvent):
    """A retry is given up, because an occurrence came first; ``TaskRunStarted`` follows."""


# --- polling


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingStarted(SchedulerEvent):
    """Schedules are being watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingStopRequested(SchedulerEvent):
    """Nothing new is started from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingStopped(SchedulerEvent):
    """Nothing runs, nothing is watched."""


OnEvent = Callable[[SchedulerEvent], None]


class EventEmitter:
    """Tells one watcher and the logger."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._traced: dict[str, datetime] = {}  # the last traceback of each task

    def tell(self, event: SchedulerEvent) -> None:
        """Tell an event."""
        level = _level(event)
        if LOGGER.isEnabledFor(level):
            name = type(event).__name__
            said = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "at"}
            text = " ".join(f"{key}={_shown(value)}" for key, value in said.items())
            extra = {"event": name, "details": said}
            LOGGER.log(level, "%s", f"{name} {text}".rstrip(), extra=extra, exc_info=self._traceback(event))
        if self._on_event is not None:
            try:
                self._on_event(event)
            except (Exception, asyncio.CancelledError):
                LOGGER.exception("on_event raised for %s", type(event).__name__)

    def _traceback(self, event: SchedulerEvent) -> BaseException | None:
        """The error of a run that failed, whose traceback is logged; at most one per task and minute.

        None for one that holds lone surrogates, which no handler could write.
        """
        if not isinstance(event, TaskRunFailed):
            return None
        last = self._traced.get(event.task)
        if last is not None and timedelta(0) <= event.at - last < TRACE_AGAIN:
            return None
        self._traced[event.task] = event.at
        try:
            "".join(traceback.format_exception(event.error)).encode()
        except UnicodeEncodeError:
            return None
        return event.error


def _level(event: SchedulerEvent) -> int:
    match event:
        case SchedulerInitializationFailed():
            return logging.ERROR
        case TaskRunFailed():
            return logging.WARNING
        case TaskRunStarted(late=late) | TaskRetryStarted(late=late) if late > LATE:
            return logging.WARNING
        case _:
            return logging.INFO


def _shown(value: object) -> str:
    match value:
        case tuple():
            return str(len(value))
        case datetime():
            return value.isoformat()
        case str():
            return f'"{value}"'
        case BaseException():
            return f'"{in_words(value)}"'
        case _:
            return str(value)


def in_words(error: BaseException) -> str:
    """An error as text that can be shown and stored, whatever its own words are or do."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - an error that cannot say what it is
        text = type(error).__name__
    if len(text) > MAX_WORDS:
        text = text[: MAX_WORDS - 1] + "…"
    return to_storable_text(text)
