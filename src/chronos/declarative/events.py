"""The events of the declarative scheduler, as its specification names them.

Each event goes to the ``on_event`` of the scheduler and to the logger ``chronos.declarative``, in order. An
``on_event`` that raises is logged and otherwise ignored, so it cannot stop the work.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from chronos.core.outcome import to_storable_text

LOGGER = logging.getLogger("chronos.declarative")
MAX_ERROR_LENGTH = 4_000  # characters
TRACEBACK_INTERVAL = timedelta(minutes=1)  # at most one traceback per task in this time
LATE_AFTER = timedelta(minutes=1)  # a start that is later is logged as a warning


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerEvent:
    """Base of the events. ``at`` is the time in UTC."""

    at: datetime


# --- the scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerInitializationStarted(SchedulerEvent):
    """``initialize`` was called and starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerInitializationCompleted(SchedulerEvent):
    """The scheduler runs. Each registered task is in one of the first four tuples.

    ``unregistered`` tasks are in the store only; they are kept, and not run.
    """

    new: tuple[str, ...] = ()
    preserved: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    unregistered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerInitializationFailed(SchedulerEvent):
    """``initialize`` failed and had no effect."""

    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStopRequested(SchedulerEvent):
    """``stop`` was called on the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStopped(SchedulerEvent):
    """The scheduler has stopped completely."""


# --- its tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent(SchedulerEvent):
    """Base of the events of one task."""

    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunStarted(TaskEvent):
    """The callback is called for an occurrence, with the delay ``late``."""

    occurrence: datetime
    late: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunCompleted(TaskEvent):
    """The callback of a task returned."""

    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunFailed(TaskEvent):
    """The callback raised. It is called again at ``pending_retry_until``, unless an occurrence comes first."""

    error: BaseException
    duration: timedelta
    pending_retry_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetryStarted(TaskEvent):
    """The callback is called again after a failure, with the delay ``late``."""

    attempt: int
    late: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetryPreempted(TaskEvent):
    """A retry is dropped because an occurrence came first. ``TaskRunStarted`` follows."""


# --- polling


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingStarted(SchedulerEvent):
    """The scheduler watches the schedules from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingStopRequested(SchedulerEvent):
    """The scheduler starts nothing new from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingStopped(SchedulerEvent):
    """No callback runs, and no schedule is watched."""


OnEvent = Callable[[SchedulerEvent], None]


class EventEmitter:
    """Sends events to ``on_event`` and to the logger."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._traced_at: dict[str, datetime] = {}  # the last traceback per task

    def emit(self, event: SchedulerEvent) -> None:
        """Log an event and pass it to ``on_event``."""
        level = _choose_level(event)
        if LOGGER.isEnabledFor(level):
            name = type(event).__name__
            details = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "at"}
            text = " ".join(f"{key}={_format_value(value)}" for key, value in details.items())
            extra = {"event": name, "details": details}
            LOGGER.log(level, "%s", f"{name} {text}".rstrip(), extra=extra, exc_info=self._choose_traceback(event))
        if self._on_event is not None:
            try:
                self._on_event(event)
            except (Exception, asyncio.CancelledError):
                LOGGER.exception("on_event raised for %s", type(event).__name__)

    def _choose_traceback(self, event: SchedulerEvent) -> BaseException | None:
        """The error whose traceback is to be logged: that of a failed run, once per task and minute.

        None for an error with lone surrogates, which log handlers cannot write.
        """
        if not isinstance(event, TaskRunFailed):
            return None
        last = self._traced_at.get(event.task)
        if last is not None and timedelta(0) <= event.at - last < TRACEBACK_INTERVAL:
            return None
        self._traced_at[event.task] = event.at
        try:
            "".join(traceback.format_exception(event.error)).encode()
        except UnicodeEncodeError:
            return None
        return event.error


def _choose_level(event: SchedulerEvent) -> int:
    match event:
        case SchedulerInitializationFailed():
            return logging.ERROR
        case TaskRunFailed():
            return logging.WARNING
        case TaskRunStarted(late=late) | TaskRetryStarted(late=late) if late > LATE_AFTER:
            return logging.WARNING
        case _:
            return logging.INFO


def _format_value(value: object) -> str:
    match value:
        case tuple():
            return str(len(value))
        case datetime():
            return value.isoformat()
        case str():
            return f'"{value}"'
        case BaseException():
            return f'"{describe_error(value)}"'
        case _:
            return str(value)


def describe_error(error: BaseException) -> str:
    """The type and message of an error as text that can be stored, even if its ``str()`` fails."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - str() of the error failed
        text = type(error).__name__
    if len(text) > MAX_ERROR_LENGTH:
        text = text[: MAX_ERROR_LENGTH - 1] + "…"
    return to_storable_text(text)
