"""Settings as JSON: durations as text, a name instead of an object with one field, and aliases."""

from typing import Any, TypeVar

from chronos.core.concurrency_key import check_key
from chronos.core.config import (
    NOTHING_SET,
    OVERLAP_ALIASES,
    RECOVERY_ALIASES,
    UNLIMITED,
    Concurrency,
    Definition,
    Delivery,
    Mode,
    OnFailure,
    Overlap,
    Placement,
    Recovery,
    RecoveryStrategy,
    Retention,
    Retry,
    Settings,
    Update,
    UpdatePolicy,
)
from chronos.core.schedule.durations import go_duration
from chronos.errors import Invalid
from chronos.service.serializers.identifiers import find_name_fault
from chronos.service.serializers.object_reader import ObjectReader

D = TypeVar("D", bound=Definition)

_MAX_COUNT = 1_000_000
#: Settings that few jobs use: all except retries and the task timeout.
_RARE = frozenset(
    ("mode", "on_failure", "execution_timeout", "overlap", "delivery", "recovery", "priority", "update", "concurrency")
) | {"retention", "queue", "queue_max", "placement"}
#: Every setting of a job.
FIELDS = _RARE | {"retry", "retry_policy", "max_retries", "task_timeout", "timeout", "timeout_secs"}
_RARE_OVERRIDES = frozenset(("on_failure", "delivery"))
_RETRY = frozenset(("retry", "retry_policy", "max_retries"))
_RARE_IN_RETRY = frozenset(("max_retries", "multiplier", "max_interval", "jitter", "timeout_multiplier", "retry_on"))
_TIMEOUT = frozenset(("task_timeout", "timeout", "timeout_secs"))


def read_settings(reader: ObjectReader) -> Settings:
    """Read the settings of a job."""
    if reader.lacks(_RARE):
        return _read_common(reader)
    concurrency = reader.present("concurrency")
    _, limits = reader.take("concurrency") if concurrency else ("", None)
    overlap = reader.one_of(Overlap, "overlap", aliases=OVERLAP_ALIASES)
    if isinstance(limits, str):
        if overlap is not None:
            reader.fault("concurrency", 'duplicates "overlap"; give only one of them')
        overlap, limits = reader.choice(Overlap, "concurrency", limits, aliases=OVERLAP_ALIASES), None
    queue = reader.text("queue", max_bytes=200)
    if queue is not None and (fault := find_name_fault(queue)):
        reader.fault("queue", fault)
    settings = Settings(
        mode=reader.one_of(Mode, "mode"),
        on_failure=reader.one_of(OnFailure, "on_failure"),
        retry=_read_retry(reader),
        execution_timeout_us=reader.duration_us("execution_timeout", low_us=0),
        task_timeout_us=_read_task_timeout_us(reader),
        overlap=overlap,
        delivery=reader.one_of(Delivery, "delivery"),
        recovery=_read_recovery(reader),
        priority=reader.integer("priority", low=1, high=10),
        update=_read_update(reader),
        concurrency=None if limits is None else _read_concurrency(reader, limits),
        retention=_read_retention(reader),
        queue=queue,
        queue_max=reader.integer("queue_max", low=0, high=_MAX_COUNT),
        placement=_read_placement(reader),
    )
    return NOTHING_SET if settings == NOTHING_SET else settings


def read_overrides(reader: ObjectReader) -> Settings:
    """Read the settings of one task."""
    if reader.lacks(_RARE_OVERRIDES):
        return _read_common(reader)
    settings = Settings(
        on_failure=reader.one_of(OnFailure, "on_failure"),
        retry=_read_retry(reader),
        task_timeout_us=_read_task_timeout_us(reader),
        delivery=reader.one_of(Delivery, "delivery"),
    )
    return NOTHING_SET if settings == NOTHING_SET else settings


def write_settings(settings: Settings) -> dict[str, Any]:
    """Write the settings that are set."""
    if settings is NOTHING_SET:
        return {}
    limits = settings.concurrency
    fields: dict[str, Any] = {
        "mode": settings.mode,
        "on_failure": settings.on_failure,
        "retry": None if settings.retry is None else _write_retry(settings.retry),
        "execution_timeout": _format_duration(settings.execution_timeout_us),
        "task_timeout": _format_duration(settings.task_timeout_us),
        "overlap": settings.overlap,
        "delivery": settings.delivery,
        "recovery": None if settings.recovery is None else _write_recovery(settings.recovery),
        "priority": settings.priority,
        "update": None if settings.update is None else _write_update(settings.update),
        "concurrency": None if limits is None else _drop_none(limit=limits.limit, key=limits.key),
        "retention": None if settings.retention is None else _write_retention(settings.retention),
        "queue": settings.queue,
        "queue_max": settings.queue_max,
        "placement": None if settings.placement is None else _write_placement(settings.placement),
    }
    return {
        name: str(value) if isinstance(value, str) else value for name, value in fields.items() if value is not None
    }


# --- reading


def _read_common(reader: ObjectReader) -> Settings:
    """Read the common settings, if no rare one is given."""
    retry, task_timeout_us = _read_retry(reader), _read_task_timeout_us(reader)
    if retry is None and task_timeout_us is None:
        return NOTHING_SET
    return Settings(retry=retry, task_timeout_us=task_timeout_us)


def _read_task_timeout_us(reader: ObjectReader) -> int | None:
    if reader.lacks(_TIMEOUT):
        return None
    names = reader.present("task_timeout", "timeout", "timeout_secs")
    for duplicate in names[1:]:
        reader.fault(duplicate, f'duplicates "{names[0]}"; give only one of them')
    if names[:1] == ["timeout_secs"]:
        return reader.seconds_us("timeout_secs")
    return reader.duration_us(*(names[:1] or ["task_timeout"]), low_us=1000)


def _read_retry(reader: ObjectReader) -> Retry | None:
    if reader.lacks(_RETRY):
        return None
    max_retries = reader.integer("max_retries", low=0, high=_MAX_COUNT - 1)
    inner = reader.object("retry", "retry_policy")
    if inner is None:
        return None if max_retries is None else Retry(max_attempts=max_retries + 1)
    unlimited = inner.is_null("max_attempts")
    max_attempts = inner.integer("max_attempts", low=1, high=_MAX_COUNT)
    if inner.lacks(_RARE_IN_RETRY) and max_retries is None:
        max_attempts = UNLIMITED if unlimited else max_attempts
        retry = Retry(max_attempts=max_attempts, initial_us=inner.duration_us("initial_interval", low_us=0))
        inner.finish()
        return _none_if_empty(retry)
    fields = inner.integer("max_retries", low=0, high=_MAX_COUNT - 1)
    if sum(value is not None for value in (max_attempts, fields, max_retries)) + unlimited > 1:
        inner.fault("max_attempts", 'duplicates "max_retries"; give only one of them')
    for retries in (fields, max_retries):
        max_attempts = max_attempts if retries is None else retries + 1
    retry = Retry(
        max_attempts=UNLIMITED if unlimited else max_attempts,
        initial_us=inner.duration_us("initial_interval", low_us=0),
        multiplier=inner.number("multiplier", low=1, high=1000),
        max_us=inner.duration_us("max_interval", low_us=0),
        jitter=inner.number("jitter", low=0, high=1),
        timeout_multiplier=inner.number("timeout_multiplier", low=1, high=1000),
        retry_on=inner.texts("retry_on", max_items=100) if inner.present("retry_on") else None,
    )
    inner.finish()
    return _none_if_empty(retry)


def _read_recovery(reader: ObjectReader) -> Recovery | None:
    name, value = reader.take("recovery")
    if value is None or isinstance(value, str):
        strategy = None if value is None else reader.choice(RecoveryStrategy, name, value, aliases=RECOVERY_ALIASES)
        return None if strategy is None else Recovery(strategy=strategy)
    inner = reader.to_object(name, value)
    if inner is None:
        return None
    recovery = Recovery(
        strategy=inner.one_of(RecoveryStrategy, "strategy", aliases=RECOVERY_ALIASES),
        max_count=inner.integer("max_count", low=0, high=_MAX_COUNT),
        max_age_us=inner.duration_us("max_age"),
        after_us=inner.duration_us("after", low_us=0),
    )
    inner.finish()
    return _none_if_empty(recovery)


def _read_update(reader: ObjectReader) -> Update | None:
    name, value = reader.take("update")
    if value is None or isinstance(value, str):
        policy = None if value is None else reader.choice(UpdatePolicy, name, value)
        return None if policy is None else Update(policy=policy)
    inner = reader.to_object(name, value)
    if inner is None:
        return None
    update = Update(
        policy=inner.one_of(UpdatePolicy, "policy"),
        count=inner.integer("count", low=1, high=10_000),
        duration_us=inner.duration_us("duration"),
    )
    inner.finish()
    return _none_if_empty(update)


def _read_concurrency(reader: ObjectReader, value: Any) -> Concurrency | None:
    inner = reader.to_object("concurrency", value)
    if inner is None:
        return None
    limits = Concurrency(
        limit=inner.integer("limit", low=UNLIMITED, high=_MAX_COUNT), key=inner.text("key", max_bytes=1024)
    )
    inner.finish()
    if limits.key is not None:
        try:
            check_key(limits.key)
        except Invalid as error:
            inner.fault("key", str(error))
    return _none_if_empty(limits)


def _read_retention(reader: ObjectReader) -> Retention | None:
    inner = reader.object("retention")
    if inner is None:
        return None
    kept = Retention(
        max_count=inner.integer("max_count", low=0, high=1_000_000_000), max_age_us=inner.duration_us("max_age")
    )
    inner.finish()
    return _none_if_empty(kept)


def _read_placement(reader: ObjectReader) -> Placement | None:
    inner = reader.object("placement")
    if inner is None:
        return None
    labels = inner.text_map("labels", max_items=64) if inner.present("labels") else None
    placement = Placement(labels=labels, fallback_us=inner.duration_us("fallback"))
    inner.finish()
    return _none_if_empty(placement)


def _none_if_empty(value: D) -> D | None:
    """Return None for an object that sets nothing."""
    return None if value == type(value)() else value


# --- writing


def _write_retry(retry: Retry) -> dict[str, Any]:
    fields = _drop_none(
        initial_interval=_format_duration(retry.initial_us),
        multiplier=retry.multiplier,
        max_interval=_format_duration(retry.max_us),
        jitter=retry.jitter,
        timeout_multiplier=retry.timeout_multiplier,
        retry_on=None if retry.retry_on is None else list(retry.retry_on),
    )
    if retry.max_attempts is not None:
        fields = {"max_attempts": None if retry.max_attempts == UNLIMITED else retry.max_attempts, **fields}
    return fields


def _write_recovery(recovery: Recovery) -> str | dict[str, Any]:
    if recovery.strategy is not None and recovery == Recovery(strategy=recovery.strategy):
        return recovery.strategy.value
    return _drop_none(
        strategy=None if recovery.strategy is None else recovery.strategy.value,
        max_count=recovery.max_count,
        max_age=_format_duration(recovery.max_age_us),
        after=_format_duration(recovery.after_us),
    )


def _write_update(update: Update) -> str | dict[str, Any]:
    if update.policy is not None and update == Update(policy=update.policy):
        return update.policy.value
    return _drop_none(
        policy=None if update.policy is None else update.policy.value,
        count=update.count,
        duration=_format_duration(update.duration_us),
    )


def _write_retention(kept: Retention) -> dict[str, Any]:
    return _drop_none(max_count=kept.max_count, max_age=_format_duration(kept.max_age_us))


def _write_placement(placement: Placement) -> dict[str, Any]:
    return _drop_none(labels=placement.labels, fallback=_format_duration(placement.fallback_us))


def _format_duration(us: int | None) -> str | None:
    return None if us is None else go_duration(us)


def _drop_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
