"""The event log: writes the engine's events as log lines.

::

    debug    admitted, started, waiting, succeeded         warning  failed attempt, missed instants, lost node, problem
    info     skipped, canceled, changed                    error    failed or stale execution, broken job

A failed attempt is logged with its traceback, at most one per job and minute (``log_quota``).
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from chronos.core.calendar import rfc3339
from chronos.core.events import (
    AttemptEnded,
    ClockJumped,
    Event,
    ExecutionAdmitted,
    ExecutionEnded,
    ExecutionStarted,
    ExecutionWaits,
    GapFound,
    JobChanged,
    JobLeftAlone,
    JobUnschedulable,
    NodeLost,
    ProblemReported,
    WorkUnclaimable,
)
from chronos.core.execution import AttemptStatus, Status
from chronos.core.job import DEFAULT_NAMESPACE
from chronos.observe.log_line import line_logger
from chronos.observe.log_quota import MINUTE_US, LogQuota

#: Returns the namespace and name of a job, or None if this process does not know them.
JobNameLookup = Callable[[bytes], tuple[str, str] | None]


def format_job_name(full_name: tuple[str, str]) -> str:
    """Format a namespace and name; the default namespace is left out."""
    namespace, name = full_name
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"


ENGINE_LOGGER_NAME = "chronos.engine"
_REPEAT_INTERVAL_US = 10_000_000  # the same problem is logged once per interval
_MAX_PROBLEMS = 1_000
_DEBUG, _INFO, _WARNING, _ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

_LEVEL_BY_STATUS = {
    Status.SUCCEEDED: _DEBUG,
    Status.SKIPPED: _INFO,
    Status.CANCELED: _INFO,
    Status.COMPLETED_WITH_ERRORS: _WARNING,
    Status.FAILED: _ERROR,
    Status.STALE: _ERROR,
    Status.MISSED: _WARNING,
}
_LEVEL_BY_ATTEMPT_STATUS = {
    AttemptStatus.RUNNING: _DEBUG,
    AttemptStatus.SUCCEEDED: _DEBUG,
    AttemptStatus.CANCELED: _INFO,
    AttemptStatus.FAILED: _WARNING,
    AttemptStatus.TIMED_OUT: _WARNING,
    AttemptStatus.LOST: _WARNING,
}
LineParts = tuple[int, str, dict[str, Any]]


class EventLog:
    """Logs the events of an engine."""

    def __init__(self, name_of: JobNameLookup, logger: str = ENGINE_LOGGER_NAME, quota: LogQuota | None = None) -> None:
        self._name_of = name_of
        self._log = line_logger(logger)
        #: Returns whether routine events are logged too. A partial, because it is called for every execution.
        self.wants_routine = partial(logging.getLogger(logger).isEnabledFor, _DEBUG)
        self._problems: dict[tuple[str, str], tuple[int, int]] = {}  # last logged at, and repeats since
        self._quota = LogQuota() if quota is None else quota
        self._timer: asyncio.TimerHandle | None = None

    def log_event(self, event: Event) -> None:
        """Log an event, if its level is enabled and the quota allows it."""
        format_line = _FORMATTERS.get(type(event))
        if format_line is None:
            return
        level, text, fields = format_line(event)
        if not self._log.is_enabled_for(level):
            return
        if isinstance(event, ProblemReported) and not self._is_new(event, fields):
            return
        subject = getattr(event, "job", None) or getattr(event, "where", None)
        if level > _DEBUG and subject is not None:
            if self._quota.is_over(event.at_us):
                self._end_minute()
            if not self._quota.take_line(subject, event.at_us):
                self._schedule_end_of_minute()
                return
            trace = getattr(event, "traceback", None)
            if trace is not None and self._quota.take_traceback(subject):
                fields["exception"] = trace
        self._log.log(level, text, **self._identify(event), **fields)

    def _schedule_end_of_minute(self) -> None:
        """Log the counts of left-out lines at the end of the minute, even if no other event follows."""
        if self._timer is None:
            with suppress(RuntimeError):  # without a loop, the next event logs them
                self._timer = asyncio.get_running_loop().call_later(MINUTE_US / 1e6, self._end_minute)

    def _end_minute(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for subject, count in self._quota.end():
            match subject:
                case bytes():
                    self._log.warning("log lines left out", job=self._format_job(subject), count=count)
                case str():
                    self._log.warning("log lines left out", where=subject, count=count)
                case None:
                    self._log.warning("log lines left out", count=count)

    def _identify(self, event: Any) -> dict[str, Any]:
        """Return the fields that identify the job and execution of an event."""
        fields: dict[str, Any] = {}
        if isinstance(job := getattr(event, "job", None), bytes):
            fields["job"] = self._format_job(job)
        if isinstance(execution := getattr(event, "execution", None), bytes):
            fields["execution"] = str(UUID(bytes=execution))
        return fields

    def _format_job(self, job: bytes) -> str:
        full_name = self._name_of(job)
        return str(UUID(bytes=job)) if full_name is None else format_job_name(full_name)

    def _is_new(self, event: ProblemReported, fields: dict[str, Any]) -> bool:
        """Return whether a problem should be logged: once per interval, with the number of repeats since."""
        key = event.where, event.error
        logged_us, repeats = self._problems.get(key, (0, 0))
        if logged_us and 0 <= event.at_us - logged_us < _REPEAT_INTERVAL_US:
            self._problems[key] = logged_us, repeats + 1
            return False
        if len(self._problems) >= _MAX_PROBLEMS:
            self._problems.clear()
        self._problems[key] = event.at_us, 0
        if repeats:
            fields["repeated"] = repeats
        return True


def _format_admitted(event: ExecutionAdmitted) -> LineParts:
    skipped = event.status is Status.SKIPPED
    fields = {"cause": event.cause.name.lower(), "status": event.status.name.lower()}
    if event.code is not None:
        fields["reason"] = event.code.value
    return (_INFO, "execution skipped", fields) if skipped else (_DEBUG, "execution admitted", fields)


def _format_started(event: ExecutionStarted) -> LineParts:
    return _DEBUG, "execution started", {"attempt": event.attempt, "late_s": event.late_us / 1e6}


def _format_attempt_ended(event: AttemptEnded) -> LineParts:
    word = event.status.name.lower()
    fields = {"task": event.task, "attempt": event.number, "status": word, "duration_s": event.duration_us / 1e6}
    if event.error is not None:
        fields["error"] = event.error
    return _LEVEL_BY_ATTEMPT_STATUS[event.status], f"attempt {word.replace('_', ' ')}", fields


def _format_waits(event: ExecutionWaits) -> LineParts:
    return _DEBUG, "execution waiting", {"until": None if event.wake_us is None else rfc3339(event.wake_us)}


def _format_ended(event: ExecutionEnded) -> LineParts:
    word = event.status.name.lower()
    fields = {"status": word, "reason": event.code.value, "duration_s": event.duration_us / 1e6}
    if event.message is not None and event.status is not Status.SUCCEEDED:
        fields["message"] = event.message
    return _LEVEL_BY_STATUS.get(event.status, _INFO), f"execution {word.replace('_', ' ')}", fields


def _format_gap(event: GapFound) -> LineParts:
    return _WARNING, "missed instants", {"strategy": event.strategy, "run": event.runs, "left_out": event.left_out}


_FORMATTERS: dict[type[Event], Callable[[Any], LineParts]] = {
    ExecutionAdmitted: _format_admitted,
    ExecutionStarted: _format_started,
    AttemptEnded: _format_attempt_ended,
    ExecutionWaits: _format_waits,
    ExecutionEnded: _format_ended,
    GapFound: _format_gap,
    JobUnschedulable: lambda event: (_ERROR, "job broken", {"error": event.error}),
    JobLeftAlone: lambda event: (_INFO, "job left alone", {"reason": event.reason}),
    WorkUnclaimable: lambda event: (
        _WARNING,
        "no node can run ready work",
        {"queue": event.queue, "error": event.error},
    ),
    JobChanged: lambda event: (_INFO, f"job {event.action}", {}),
    NodeLost: lambda event: (_WARNING, "node lost", {"lost_node": event.node, "taken_over": event.reaped}),
    ClockJumped: lambda event: (_WARNING, "clock changed", {"by_s": event.by_us / 1e6}),
    ProblemReported: lambda event: (_WARNING, "problem", {"where": event.where, "error": event.error}),
}
