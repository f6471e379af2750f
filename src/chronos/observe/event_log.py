"""Engine events as log lines: what went well is said quietly, what a person should know is not.

::

    debug    admitted, started, waiting, succeeded         warning  a try failed, a gap, a lost node, trouble
    info     skipped, canceled, changed                    error    failed for good, stale, a broken job

A failed attempt comes with its traceback, at most one per job and minute (``log_quota``).
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
    JobUnschedulable,
    NodeLost,
    ProblemReported,
    WorkUnclaimable,
)
from chronos.core.execution import AttemptStatus, Status
from chronos.core.job import DEFAULT_NAMESPACE
from chronos.observe.log_line import line_logger
from chronos.observe.log_quota import MINUTE_US, LogQuota

#: Namespace and name of a job, where this process knows them.
JobNameLookup = Callable[[bytes], tuple[str, str] | None]


def format_job_name(named: tuple[str, str]) -> str:
    """One text: the name, after its namespace where that is not the usual one."""
    namespace, name = named
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"


ENGINE_LOGGER_NAME = "chronos.engine"
_REPEAT_INTERVAL_US = 10_000_000  # how long the same trouble is not told again
_MAX_TROUBLES = 1_000
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
    """Hears the engine and logs."""

    def __init__(self, name_of: JobNameLookup, logger: str = ENGINE_LOGGER_NAME, quota: LogQuota | None = None) -> None:
        self._name_of = name_of
        self._log = line_logger(logger)
        #: Whether events of what went well become lines, too. It is asked for every execution, so it is a direct call.
        self.wants_routine = partial(logging.getLogger(logger).isEnabledFor, _DEBUG)
        self._troubles: dict[tuple[str, str], tuple[int, int]] = {}  # when it was told, and how often not since
        self._quota = LogQuota() if quota is None else quota
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, event: Event) -> None:
        """Log what happened, if anybody reads at that level."""
        found = _FORMATTERS.get(type(event))
        if found is None:
            return
        level, text, fields = found(event)
        if not self._log.is_enabled_for(level):
            return
        if isinstance(event, ProblemReported) and not self._is_new(event, fields):
            return
        about = getattr(event, "job", None) or getattr(event, "where", None)
        if level > _DEBUG and about is not None:
            if self._quota.is_over(event.at_us):
                self._end_minute()
            if not self._quota.take_line(about, event.at_us):
                self._end_minute_later()
                return
            trace = getattr(event, "traceback", None)
            if trace is not None and self._quota.take_traceback(about):
                fields["exception"] = trace
        self._log.log(level, text, **self._named(event), **fields)

    def _end_minute_later(self) -> None:
        """The counts are told even if nothing happens any longer."""
        if self._timer is None:
            with suppress(RuntimeError):  # without a loop, the next event tells them
                self._timer = asyncio.get_running_loop().call_later(MINUTE_US / 1e6, self._end_minute)

    def _end_minute(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for about, count in self._quota.end():
            match about:
                case bytes():
                    self._log.warning("more lines were left out", job=self._shown(about), count=count)
                case str():
                    self._log.warning("more lines were left out", where=about, count=count)
                case None:
                    self._log.warning("more lines were left out", count=count)

    def _named(self, event: Any) -> dict[str, Any]:
        """Which job and execution it is about."""
        said: dict[str, Any] = {}
        if isinstance(job := getattr(event, "job", None), bytes):
            said["job"] = self._shown(job)
        if isinstance(execution := getattr(event, "execution", None), bytes):
            said["execution"] = str(UUID(bytes=execution))
        return said

    def _shown(self, job: bytes) -> str:
        named = self._name_of(job)
        return str(UUID(bytes=job)) if named is None else format_job_name(named)

    def _is_new(self, event: ProblemReported, fields: dict[str, Any]) -> bool:
        """The same trouble is told once in a while, with how often it was not."""
        key = event.where, event.error
        told_us, left_out = self._troubles.get(key, (0, 0))
        if told_us and 0 <= event.at_us - told_us < _REPEAT_INTERVAL_US:
            self._troubles[key] = told_us, left_out + 1
            return False
        if len(self._troubles) >= _MAX_TROUBLES:
            self._troubles.clear()
        self._troubles[key] = event.at_us, 0
        if left_out:
            fields["repeated"] = left_out
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
    return _DEBUG, "execution waits", {"until": None if event.wake_us is None else rfc3339(event.wake_us)}


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
    WorkUnclaimable: lambda event: (
        _WARNING,
        "work that no node can take",
        {"queue": event.queue, "error": event.error},
    ),
    JobChanged: lambda event: (_INFO, f"job {event.action}", {}),
    NodeLost: lambda event: (_WARNING, "node lost", {"lost_node": event.node, "taken_over": event.reaped}),
    ClockJumped: lambda event: (_WARNING, "the clock was set", {"by_s": event.by_us / 1e6}),
    ProblemReported: lambda event: (_WARNING, "trouble", {"where": event.where, "error": event.error}),
}
