"""Converts tasks to jobs of the engine, and stored jobs back to the state of tasks.

A task is a job with one Python target, in a namespace of its own. The options of the target keep the registration as
written, so that later registrations can be compared with it. Schedule and settings follow from it:

=========================  ==========================================================================================
the specification          the engine's setting
=========================  ==========================================================================================
strict POSIX cron          dialect ``posix``, dst ``literal``, the host's zone
retry until success        ``max_attempts`` without limit, a constant interval without jitter
the next occurrence goes   overlap ``replace``: it ends a waiting retry at once. A running callback ignores the
before a retry             request to stop, so the latest occurrence waits for it
at most one make-up run    recovery ``last``, for occurrences that are a whole minute late
callbacks here only        a lane with a function that no other program has
=========================  ==========================================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from chronos.core.admission_policy import GateSpec, build_gate_spec
from chronos.core.calendar import from_us
from chronos.core.config import (
    DAY_US,
    MINUTE_US,
    UNLIMITED,
    Delivery,
    Mode,
    OnFailure,
    Overlap,
    Recovery,
    RecoveryStrategy,
    Retention,
    Retry,
    Settings,
    resolve_settings,
)
from chronos.core.job import Job, JobSpec, Target, Task
from chronos.core.lane import PYTHON, Lane
from chronos.declarative.errors import (
    InvalidCronExpressionError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
)
from chronos.declarative.posix_cron import is_rare, parse_cron_expression, to_schedule_spec
from chronos.declarative.registration import Registration

NAMESPACE = "declarative"
FUNCTION = "chronos.declarative"  # the function in the lane, which only a declarative scheduler has
TASK = "callback"
_RETENTION_US = 90 * DAY_US
_LONG_RETENTION_US = 3_660 * DAY_US  # the 29th of February may be eight years away
_US = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTaskState:
    """The persisted state of one task. Times are in UTC."""

    name: str
    cron_expression: str
    retry_delay: timedelta
    last_attempt_at: datetime | None = None
    last_success_at: datetime | None = None
    pending_retry_until: datetime | None = None

    @property
    def retry_delay_us(self) -> int:
        return self.retry_delay // _US


def to_job_spec(registration: Registration, zone: str) -> JobSpec:
    """The job definition of a registration."""
    options = {
        "name": FUNCTION,
        "cron_expression": registration.expression,
        "retry_delay_us": registration.retry_delay_us,
    }
    return JobSpec(
        schedule=to_schedule_spec(registration.expression, registration.cron, zone),
        tasks=(Task(name=TASK, target=Target(kind=PYTHON, options=options)),),
        settings=_make_settings(
            registration.retry_delay_us, _LONG_RETENTION_US if is_rare(registration.cron) else _RETENTION_US
        ),
    )


def to_gate_spec(spec: JobSpec) -> GateSpec:
    """The gate of a task's job."""
    retention = spec.settings.retention
    return _make_gate_spec(None if retention is None else retention.max_age_us)


@lru_cache
def _make_gate_spec(retention_us: int | None) -> GateSpec:
    """The gate is the same for all tasks, except for the retention."""
    effective = resolve_settings(_make_settings(0, _RETENTION_US if retention_us is None else retention_us))
    return build_gate_spec(effective, Lane(queue=NAMESPACE, functions=(FUNCTION,)).text)


def is_task(job: Job) -> bool:
    """Return whether a job of the namespace is a task of a declarative scheduler, in any state."""
    tasks = job.spec.tasks
    return len(tasks) == 1 and tasks[0].target.kind == PYTHON and tasks[0].target.options.get("name") == FUNCTION


def read_task_state(job: Job, record: Mapping[str, Any] | None = None) -> DeclaredTaskState:
    """The state of a job's task; ``record`` has the times from its executions. Raises ``TaskTryDeserializeError``."""
    if not is_task(job):
        raise TaskInvalidStructureError(
            f'The job "{job.name}" of the namespace "{NAMESPACE}" is not a task of this scheduler; rename or delete it',
            job.spec.tasks,
        )
    options = {key: value for key, value in job.spec.tasks[0].target.options.items() if key != "name"}
    return deserialize({"name": job.name, **options, **(record or {})})


def deserialize(value: object) -> DeclaredTaskState:
    """Read the state of a task from plain values; times are microseconds. Raises ``TaskTryDeserializeError``."""
    if not isinstance(value, Mapping):
        raise TaskInvalidStructureError("The persisted state of a task is not an object", value)
    expression = _check_expression(_read_text(value, "cron_expression"))
    return DeclaredTaskState(
        name=_read_text(value, "name"),
        cron_expression=expression,
        retry_delay=_read_number(value, "retry_delay_us") * _US,
        last_attempt_at=_read_time(value, "last_attempt_us"),
        last_success_at=_read_time(value, "last_success_us"),
        pending_retry_until=_read_time(value, "pending_retry_us"),
    )


def _make_settings(delay_us: int, retention_us: int) -> Settings:
    return Settings(
        mode=Mode.SEQUENTIAL,
        on_failure=OnFailure.FAIL_FAST,
        retry=Retry(
            max_attempts=UNLIMITED, initial_us=delay_us, multiplier=1.0, max_us=delay_us, jitter=0.0, retry_on=()
        ),
        execution_timeout_us=0,
        task_timeout_us=0,
        overlap=Overlap.REPLACE,
        delivery=Delivery.AT_LEAST_ONCE,
        recovery=Recovery(strategy=RecoveryStrategy.LAST, after_us=MINUTE_US - 1),
        retention=Retention(max_age_us=retention_us),
        queue=NAMESPACE,
    )


def _read_text(value: Mapping[Any, Any], field: str) -> str:
    content = _get_field(value, field)
    if not isinstance(content, str):
        raise TaskInvalidTypeError(field, content, "str")
    if not content:
        raise TaskInvalidValueError(field, content, "must be a non-empty string")
    return content


def _check_expression(text: str) -> str:
    try:
        parse_cron_expression(text)
    except InvalidCronExpressionError as error:
        raise TaskInvalidValueError("cron_expression", text, str(error)).caused_by(error) from error
    return text


def _read_number(value: Mapping[Any, Any], field: str) -> int:
    content = _get_field(value, field)
    if not isinstance(content, int) or isinstance(content, bool):
        raise TaskInvalidTypeError(field, content, "int")
    if content < 0:
        raise TaskInvalidValueError(field, content, "must be non-negative")
    return content


def _read_time(value: Mapping[Any, Any], field: str) -> datetime | None:
    if value.get(field) is None:
        return None
    content = _read_number(value, field)
    try:
        return from_us(content)
    except (OverflowError, ValueError) as error:
        raise TaskInvalidValueError(field, content, "is outside the calendar").caused_by(error) from error


def _get_field(value: Mapping[Any, Any], field: str) -> Any:
    if field not in value:
        raise TaskMissingFieldError(field)
    return value[field]
