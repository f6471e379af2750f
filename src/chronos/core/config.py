"""Settings and their inheritance: server defaults, namespace, job, task. A lower level overrides an upper one.

Each level stores only the settings it sets (``Settings``). ``resolve_settings`` returns the result
(``EffectiveSettings``).
"""

from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from chronos.core.calendar import SECOND_US

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
UNLIMITED = 0  # attempts, or concurrency


class Overlap(StrEnum):
    """Policy for an instant that comes while an earlier execution of its job is in progress."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    REPLACE = "replace"


class Definition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An immutable value that is stored as JSON without its default fields."""


class Mode(StrEnum):
    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    GRAPH = "graph"


class OnFailure(StrEnum):
    FAIL_FAST = "fail_fast"
    CONTINUE = "continue"
    RETRY = "retry"


class Delivery(StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class RecoveryStrategy(StrEnum):
    LAST = "last"
    ALL = "all"
    SKIP = "skip"
    BOUNDED = "bounded"
    COMPRESSED = "compressed"


#: Words of other schedulers that are accepted for a policy.
OVERLAP_ALIASES = {"forbid": Overlap.SKIP}
RECOVERY_ALIASES = {
    "SKIP_MISSED": RecoveryStrategy.SKIP,
    "RUN_ONCE": RecoveryStrategy.COMPRESSED,
    "RUN_ALL": RecoveryStrategy.ALL,
}


class UpdatePolicy(StrEnum):
    IMMEDIATE = "immediate"
    GRACEFUL = "graceful"
    WINDOWED = "windowed"


class Retry(Definition, frozen=True, kw_only=True):
    """Which failures are retried, how often and when. ``max_attempts``: 1 means no retries, UNLIMITED no limit."""

    max_attempts: int | None = None
    initial_us: int | None = None
    multiplier: float | None = None
    max_us: int | None = None
    jitter: float | None = None
    timeout_multiplier: float | None = None  # the growth of the task timeout from attempt to attempt
    retry_on: tuple[str, ...] | None = None  # empty: any failure


class Recovery(Definition, frozen=True, kw_only=True):
    """Policy for missed instants. An instant younger than ``after_us`` is only late, not missed."""

    strategy: RecoveryStrategy | None = None
    max_count: int | None = None
    max_age_us: int | None = None
    after_us: int | None = None


class Concurrency(Definition, frozen=True, kw_only=True):
    """How many executions run at once. ``key`` is a template; executions with equal keys share the limit."""

    limit: int | None = None
    key: str | None = None


class Update(Definition, frozen=True, kw_only=True):
    """When a new schedule replaces the old one."""

    policy: UpdatePolicy | None = None
    count: int | None = None
    duration_us: int | None = None


class Retention(Definition, frozen=True, kw_only=True):
    """How much history is kept."""

    max_count: int | None = None
    max_age_us: int | None = None


class Placement(Definition, frozen=True, kw_only=True):
    """Labels that a node must have, and the wait after which any node will do."""

    labels: dict[str, str] | None = None
    fallback_us: int | None = None


class Settings(Definition, frozen=True, kw_only=True):
    """The settings of one level. None means: inherit."""

    mode: Mode | None = None
    on_failure: OnFailure | None = None
    retry: Retry | None = None
    execution_timeout_us: int | None = None
    task_timeout_us: int | None = None
    overlap: Overlap | None = None
    delivery: Delivery | None = None
    recovery: Recovery | None = None
    priority: int | None = None
    update: Update | None = None
    concurrency: Concurrency | None = None
    retention: Retention | None = None
    queue: str | None = None
    queue_max: int | None = None
    placement: Placement | None = None


class EffectiveSettings(Struct, frozen=True, kw_only=True):
    """The settings in force: every setting has a value."""

    mode: Mode
    on_failure: OnFailure
    max_attempts: int
    retry_initial_us: int
    retry_multiplier: float
    retry_max_us: int
    retry_jitter: float
    retry_timeout_multiplier: float
    retry_on: tuple[str, ...]
    execution_timeout_us: int
    task_timeout_us: int
    overlap: Overlap
    delivery: Delivery
    recovery: RecoveryStrategy
    recovery_max_count: int
    recovery_max_age_us: int
    recovery_after_us: int
    priority: int
    update: UpdatePolicy
    update_count: int | None
    update_duration_us: int | None
    limit: int
    key: str | None
    keep_count: int
    keep_age_us: int
    queue: str
    queue_max: int
    labels: dict[str, str]
    fallback_us: int | None


NOTHING_SET = Settings()
DEFAULTS = Settings(
    mode=Mode.SEQUENTIAL,
    on_failure=OnFailure.FAIL_FAST,
    retry=Retry(
        max_attempts=3,
        initial_us=SECOND_US,
        multiplier=2.0,
        max_us=HOUR_US,
        jitter=0.1,
        timeout_multiplier=1.0,
        retry_on=(),
    ),
    execution_timeout_us=HOUR_US,
    task_timeout_us=5 * MINUTE_US,
    overlap=Overlap.SKIP,
    delivery=Delivery.AT_LEAST_ONCE,
    recovery=Recovery(strategy=RecoveryStrategy.LAST, max_count=100, max_age_us=DAY_US, after_us=30 * SECOND_US),
    priority=5,
    update=Update(policy=UpdatePolicy.IMMEDIATE),
    concurrency=Concurrency(limit=UNLIMITED),
    retention=Retention(max_count=1000, max_age_us=90 * DAY_US),
    queue="default",
    queue_max=1000,
    placement=Placement(labels={}),
)


#: Nested settings that have another name than ``outer_inner`` in ``EffectiveSettings``.
_EFFECTIVE_FIELD_NAMES = {
    "retry.max_attempts": "max_attempts",
    "retry.retry_on": "retry_on",
    "recovery.strategy": "recovery",
    "update.policy": "update",
    "concurrency.limit": "limit",
    "concurrency.key": "key",
    "retention.max_count": "keep_count",
    "retention.max_age_us": "keep_age_us",
    "placement.labels": "labels",
    "placement.fallback_us": "fallback_us",
}


def merge(upper: Settings, lower: Settings) -> Settings:
    """Fill the unset fields of the lower level from the upper one; nested settings field by field."""
    return Settings(
        **{name: _merge_value(getattr(upper, name), getattr(lower, name)) for name in Settings.__struct_fields__}
    )


def resolve_settings(*levels: Settings) -> EffectiveSettings:
    """Resolve the settings of several levels, outermost first: server, namespace, job, task."""
    try:
        return _resolve_settings_cached(levels)
    except TypeError:  # labels cannot be hashed; such settings are rare and not cached
        return _resolve_settings_uncached(levels)


def _resolve_settings_uncached(levels: tuple[Settings, ...]) -> EffectiveSettings:
    merged = DEFAULTS
    for level in levels:
        merged = merge(merged, level)
    values: dict[str, Any] = {}
    for outer in Settings.__struct_fields__:
        value = getattr(merged, outer)
        if not isinstance(value, Definition):
            values[outer] = value
            continue
        for inner in value.__struct_fields__:
            values[_EFFECTIVE_FIELD_NAMES.get(f"{outer}.{inner}", f"{outer}_{inner}")] = getattr(value, inner)
    return EffectiveSettings(**values)


_resolve_settings_cached = lru_cache(maxsize=4096)(_resolve_settings_uncached)  # many jobs share few settings


def _merge_value(upper: Any, lower: Any) -> Any:
    if lower is None:
        return upper
    if upper is None or not isinstance(lower, Definition):
        return lower
    return type(lower)(
        **{name: _merge_value(getattr(upper, name), getattr(lower, name)) for name in lower.__struct_fields__}
    )
