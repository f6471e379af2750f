"""Settings as people write them: durations as text, a name where an object would say no more, and the aliases."""

from typing import Any, TypeVar

from chronos.core.concurrency_key import check_key
from chronos.core.config import (
    NOTHING_SET,
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
from chronos.service.serializers.identifiers import fault_of_name
from chronos.service.serializers.object_reader import ObjectReader

D = TypeVar("D", bound=Definition)

_MAX_COUNT = 1_000_000
_FORBID = {"forbid": Overlap.SKIP}
#: What most jobs leave as it is, all but the retries and the time-out of a task.
_RARE = frozenset(
    ("mode", "on_failure", "execution_timeout", "overlap", "delivery", "recovery", "priority", "update", "concurrency")
) | {"retention", "queue", "queue_max", "placement"}
#: All that a job can set.
FIELDS = _RARE | {"retry", "retry_policy", "max_retries", "task_timeout", "timeout", "timeout_secs"}
_RARE_OVERRIDES = frozenset(("on_failure", "delivery"))
_RETRY = frozenset(("retry", "retry_policy", "max_retries"))
_RARE_IN_RETRY = frozenset(("max_retries", "multiplier", "max_interval", "jitter", "retry_on"))
_TIMEOUT = frozenset(("task_timeout", "timeout", "timeout_secs"))


def read_settings(form: ObjectReader) -> Settings:
    """All that a job can set."""
    if form.lacks(_RARE):
        return _usual(form)
    concurrency = form.given("concurrency")
    _, limits = form.take("concurrency") if concurrency else ("", None)
    overlap = form.one_of(Overlap, "overlap", also=_FORBID)
    if isinstance(limits, str):
        if overlap is not None:
            form.fault("concurrency", 'says the same as "overlap"; give one of them')
        overlap, limits = form.choice(Overlap, "concurrency", limits, also=_FORBID), None
    queue = form.text("queue", longest=200)
    if queue is not None and (fault := fault_of_name(queue)):
        form.fault("queue", fault)
    settings = Settings(
        mode=form.one_of(Mode, "mode"),
        on_failure=form.one_of(OnFailure, "on_failure"),
        retry=_retry(form),
        execution_timeout_us=form.duration_us("execution_timeout", low_us=0),
        task_timeout_us=_task_timeout_us(form),
        overlap=overlap,
        delivery=form.one_of(Delivery, "delivery"),
        recovery=_recovery(form),
        priority=form.whole("priority", low=1, high=10),
        update=_update(form),
        concurrency=None if limits is None else _concurrency(form, limits),
        retention=_retention(form),
        queue=queue,
        queue_max=form.whole("queue_max", low=0, high=_MAX_COUNT),
        placement=_placement(form),
    )
    return NOTHING_SET if settings == NOTHING_SET else settings


def read_overrides(form: ObjectReader) -> Settings:
    """What one task can set."""
    if form.lacks(_RARE_OVERRIDES):
        return _usual(form)
    settings = Settings(
        on_failure=form.one_of(OnFailure, "on_failure"),
        retry=_retry(form),
        task_timeout_us=_task_timeout_us(form),
        delivery=form.one_of(Delivery, "delivery"),
    )
    return NOTHING_SET if settings == NOTHING_SET else settings


def write_settings(settings: Settings) -> dict[str, Any]:
    """What a level sets, and nothing else."""
    if settings is NOTHING_SET:
        return {}
    limits = settings.concurrency
    said: dict[str, Any] = {
        "mode": settings.mode,
        "on_failure": settings.on_failure,
        "retry": None if settings.retry is None else _written_retry(settings.retry),
        "execution_timeout": _duration(settings.execution_timeout_us),
        "task_timeout": _duration(settings.task_timeout_us),
        "overlap": settings.overlap,
        "delivery": settings.delivery,
        "recovery": None if settings.recovery is None else _written_recovery(settings.recovery),
        "priority": settings.priority,
        "update": None if settings.update is None else _written_update(settings.update),
        "concurrency": None if limits is None else _drop_none(limit=limits.limit, key=limits.key),
        "retention": None if settings.retention is None else _written_retention(settings.retention),
        "queue": settings.queue,
        "queue_max": settings.queue_max,
        "placement": None if settings.placement is None else _written_placement(settings.placement),
    }
    return {name: str(value) if isinstance(value, str) else value for name, value in said.items() if value is not None}


# --- reading


def _usual(form: ObjectReader) -> Settings:
    """What is set when nothing rare is."""
    retry, task_timeout_us = _retry(form), _task_timeout_us(form)
    if retry is None and task_timeout_us is None:
        return NOTHING_SET
    return Settings(retry=retry, task_timeout_us=task_timeout_us)


def _task_timeout_us(form: ObjectReader) -> int | None:
    if form.lacks(_TIMEOUT):
        return None
    found = form.given("task_timeout", "timeout", "timeout_secs")
    for more in found[1:]:
        form.fault(more, f'says the same as "{found[0]}"; give one of them')
    if found[:1] == ["timeout_secs"]:
        return form.seconds_us("timeout_secs")
    return form.duration_us(*(found[:1] or ["task_timeout"]), low_us=1000)


def _retry(form: ObjectReader) -> Retry | None:
    if form.lacks(_RETRY):
        return None
    max_retries = form.whole("max_retries", low=0, high=_MAX_COUNT - 1)
    inner = form.form("retry", "retry_policy")
    if inner is None:
        return None if max_retries is None else Retry(max_attempts=max_retries + 1)
    unlimited = inner.null("max_attempts")
    max_attempts = inner.whole("max_attempts", low=1, high=_MAX_COUNT)
    if inner.lacks(_RARE_IN_RETRY) and max_retries is None:
        max_attempts = UNLIMITED if unlimited else max_attempts
        retry = Retry(max_attempts=max_attempts, initial_us=inner.duration_us("initial_interval", low_us=0))
        inner.finish()
        return _or_none(retry)
    said = inner.whole("max_retries", low=0, high=_MAX_COUNT - 1)
    if sum(value is not None for value in (max_attempts, said, max_retries)) + unlimited > 1:
        inner.fault("max_attempts", 'says the same as "max_retries"; give one of them')
    for retries in (said, max_retries):
        max_attempts = max_attempts if retries is None else retries + 1
    retry = Retry(
        max_attempts=UNLIMITED if unlimited else max_attempts,
        initial_us=inner.duration_us("initial_interval", low_us=0),
        multiplier=inner.number("multiplier", low=1, high=1000),
        max_us=inner.duration_us("max_interval", low_us=0),
        jitter=inner.number("jitter", low=0, high=1),
        retry_on=inner.texts("retry_on", most=100) if inner.given("retry_on") else None,
    )
    inner.finish()
    return _or_none(retry)


def _recovery(form: ObjectReader) -> Recovery | None:
    name, value = form.take("recovery")
    if value is None or isinstance(value, str):
        strategy = None if value is None else form.choice(RecoveryStrategy, name, value)
        return None if strategy is None else Recovery(strategy=strategy)
    inner = form.sub(name, value)
    if inner is None:
        return None
    recovery = Recovery(
        strategy=inner.one_of(RecoveryStrategy, "strategy"),
        max_count=inner.whole("max_count", low=0, high=_MAX_COUNT),
        max_age_us=inner.duration_us("max_age"),
        after_us=inner.duration_us("after", low_us=0),
    )
    inner.finish()
    return _or_none(recovery)


def _update(form: ObjectReader) -> Update | None:
    name, value = form.take("update")
    if value is None or isinstance(value, str):
        policy = None if value is None else form.choice(UpdatePolicy, name, value)
        return None if policy is None else Update(policy=policy)
    inner = form.sub(name, value)
    if inner is None:
        return None
    update = Update(
        policy=inner.one_of(UpdatePolicy, "policy"),
        count=inner.whole("count", low=1, high=10_000),
        duration_us=inner.duration_us("duration"),
    )
    inner.finish()
    return _or_none(update)


def _concurrency(form: ObjectReader, value: Any) -> Concurrency | None:
    inner = form.sub("concurrency", value)
    if inner is None:
        return None
    limits = Concurrency(
        limit=inner.whole("limit", low=UNLIMITED, high=_MAX_COUNT), key=inner.text("key", longest=1024)
    )
    inner.finish()
    if limits.key is not None:
        try:
            check_key(limits.key)
        except Invalid as error:
            inner.fault("key", str(error))
    return _or_none(limits)


def _retention(form: ObjectReader) -> Retention | None:
    inner = form.form("retention")
    if inner is None:
        return None
    kept = Retention(
        max_count=inner.whole("max_count", low=0, high=1_000_000_000), max_age_us=inner.duration_us("max_age")
    )
    inner.finish()
    return _or_none(kept)


def _placement(form: ObjectReader) -> Placement | None:
    inner = form.form("placement")
    if inner is None:
        return None
    labels = inner.text_map("labels", most=64) if inner.given("labels") else None
    placement = Placement(labels=labels, fallback_us=inner.duration_us("fallback"))
    inner.finish()
    return _or_none(placement)


def _or_none(value: D) -> D | None:
    """A level that sets nothing says nothing."""
    return None if value == type(value)() else value


# --- writing


def _written_retry(retry: Retry) -> dict[str, Any]:
    said = _drop_none(
        initial_interval=_duration(retry.initial_us),
        multiplier=retry.multiplier,
        max_interval=_duration(retry.max_us),
        jitter=retry.jitter,
        retry_on=None if retry.retry_on is None else list(retry.retry_on),
    )
    if retry.max_attempts is not None:
        said = {"max_attempts": None if retry.max_attempts == UNLIMITED else retry.max_attempts, **said}
    return said


def _written_recovery(recovery: Recovery) -> str | dict[str, Any]:
    if recovery.strategy is not None and recovery == Recovery(strategy=recovery.strategy):
        return recovery.strategy.value
    return _drop_none(
        strategy=None if recovery.strategy is None else recovery.strategy.value,
        max_count=recovery.max_count,
        max_age=_duration(recovery.max_age_us),
        after=_duration(recovery.after_us),
    )


def _written_update(update: Update) -> str | dict[str, Any]:
    if update.policy is not None and update == Update(policy=update.policy):
        return update.policy.value
    return _drop_none(
        policy=None if update.policy is None else update.policy.value,
        count=update.count,
        duration=_duration(update.duration_us),
    )


def _written_retention(kept: Retention) -> dict[str, Any]:
    return _drop_none(max_count=kept.max_count, max_age=_duration(kept.max_age_us))


def _written_placement(placement: Placement) -> dict[str, Any]:
    return _drop_none(labels=placement.labels, fallback=_duration(placement.fallback_us))


def _duration(us: int | None) -> str | None:
    return None if us is None else go_duration(us)


def _drop_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
