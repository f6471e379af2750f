"""Tasks as jobs of the engine, and back: how a registration is stored, and how its state is read from the records.

A task is a job of one Python target in a namespace of its own. The target's options hold the registration as it was
written, which is what later ones are compared with; schedule and settings follow from it:

=========================  ==========================================================================================
the specification          the engine's setting
=========================  ==========================================================================================
strict POSIX cron          dialect ``posix``, dst ``literal``, the host's zone
retry until success        ``max_attempts`` without limit, a constant interval without jitter
the next occurrence goes   overlap ``replace``: it ends a waiting retry at once; a running callback does not listen
before a retry             when it is asked to end, so the occurrence waits for it, and the latest one only
at most one make-up run    recovery ``last``, for everything that is a whole minute late
callbacks here only        a lane that asks for a function which no other program has
=========================  ==========================================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

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
from chronos.core.policy import GateSpec, build_gate_spec
from chronos.declarative.errors import (
    InvalidCronExpressionError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
)
from chronos.declarative.posix_cron import parse_cron_expression, rare, schedule_spec
from chronos.declarative.registration import Registration

NAMESPACE = "declarative"
FUNCTION = "chronos.declarative"  # what a worker must have, and only this face has
TASK = "callback"
_KEPT_US = 90 * DAY_US
_KEPT_LONG_US = 3_660 * DAY_US  # the 29th of February may be eight years away
_US = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTaskState:
    """One task as it is persisted. Times are in UTC."""

    name: str
    cron_expression: str
    retry_delay: timedelta
    last_attempt_at: datetime | None = None
    last_success_at: datetime | None = None
    pending_retry_until: datetime | None = None

    @property
    def retry_delay_us(self) -> int:
        return self.retry_delay // _US


def job_spec(registration: Registration, zone: str) -> JobSpec:
    """The job of a registration."""
    options = {
        "name": FUNCTION,
        "cron_expression": registration.expression,
        "retry_delay_us": registration.retry_delay_us,
    }
    return JobSpec(
        schedule=schedule_spec(registration.expression, registration.cron, zone),
        tasks=(Task(name=TASK, target=Target(kind=PYTHON, options=options)),),
        settings=_settings(registration.retry_delay_us, _KEPT_LONG_US if rare(registration.cron) else _KEPT_US),
    )


def gate_of(spec: JobSpec) -> GateSpec:
    """What the store decides the job's admissions by."""
    retention = spec.settings.retention
    return _gate(None if retention is None else retention.max_age_us)


@lru_cache
def _gate(kept_us: int | None) -> GateSpec:
    """The same for all tasks, but for how long their history is kept."""
    effective = resolve_settings(_settings(0, _KEPT_US if kept_us is None else kept_us))
    return build_gate_spec(effective, Lane(queue=NAMESPACE, functions=(FUNCTION,)).text)


def is_task(job: Job) -> bool:
    """Whether a job of the namespace is one of this face, in whatever state."""
    tasks = job.spec.tasks
    return len(tasks) == 1 and tasks[0].target.kind == PYTHON and tasks[0].target.options.get("name") == FUNCTION


def persisted(job: Job, record: Mapping[str, Any] | None = None) -> DeclaredTaskState:
    """The task that a job is, with what its records say. Raises ``TaskTryDeserializeError``."""
    if not is_task(job):
        raise TaskInvalidStructureError(
            f'The job "{job.name}" of the namespace "{NAMESPACE}" is no task of this scheduler; rename or delete it',
            job.spec.tasks,
        )
    options = {key: value for key, value in job.spec.tasks[0].target.options.items() if key != "name"}
    return deserialize({"name": job.name, **options, **(record or {})})


def deserialize(value: object) -> DeclaredTaskState:
    """The state of a task from plain values, times in microseconds. Raises ``TaskTryDeserializeError``."""
    if not isinstance(value, Mapping):
        raise TaskInvalidStructureError("The persisted state of a task is no object", value)
    expression = _expression(_text(value, "cron_expression"))
    return DeclaredTaskState(
        name=_text(value, "name"),
        cron_expression=expression,
        retry_delay=_number(value, "retry_delay_us") * _US,
        last_attempt_at=_time(value, "last_attempt_us"),
        last_success_at=_time(value, "last_success_us"),
        pending_retry_until=_time(value, "pending_retry_us"),
    )


def _settings(delay_us: int, kept_us: int) -> Settings:
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
        retention=Retention(max_age_us=kept_us),
        queue=NAMESPACE,
    )


def _text(value: Mapping[Any, Any], field: str) -> str:
    found = _found(value, field)
    if not isinstance(found, str):
        raise TaskInvalidTypeError(field, found, "str")
    if not found:
        raise TaskInvalidValueError(field, found, "must be a non-empty string")
    return found


def _expression(text: str) -> str:
    try:
        parse_cron_expression(text)
    except InvalidCronExpressionError as error:
        raise TaskInvalidValueError("cron_expression", text, str(error)).caused_by(error) from error
    return text


def _number(value: Mapping[Any, Any], field: str) -> int:
    found = _found(value, field)
    if not isinstance(found, int) or isinstance(found, bool):
        raise TaskInvalidTypeError(field, found, "int")
    if found < 0:
        raise TaskInvalidValueError(field, found, "must be non-negative")
    return found


def _time(value: Mapping[Any, Any], field: str) -> datetime | None:
    if value.get(field) is None:
        return None
    found = _number(value, field)
    try:
        return from_us(found)
    except (OverflowError, ValueError) as error:
        raise TaskInvalidValueError(field, found, "is no time within the calendar").caused_by(error) from error


def _found(value: Mapping[Any, Any], field: str) -> Any:
    if field not in value:
        raise TaskMissingFieldError(field)
    return value[field]
