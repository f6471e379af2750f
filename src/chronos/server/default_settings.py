"""The server's ``defaults``: the first level of the settings cascade, one server setting per field.

Only what a file, variable or flag sets becomes part of the level; the rest is the built-in default of every job.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from chronos.core.calendar import SECOND_US
from chronos.core.concurrency_key import check_key
from chronos.core.config import (
    OVERLAP_ALIASES,
    RECOVERY_ALIASES,
    Delivery,
    Mode,
    OnFailure,
    Overlap,
    RecoveryStrategy,
    Settings,
    UpdatePolicy,
)
from chronos.errors import Invalid
from chronos.server.setting_readers import (
    Reader,
    Setting,
    duration,
    labels,
    number,
    one_of,
    optional_text,
    optional_whole_number,
    text,
    texts,
    whole_number,
)
from chronos.service.serializers.identifiers import find_name_fault

PREFIX = "defaults."
#: Another name of ``defaults.concurrency.limit``.
PER_JOB_LIMIT = "dispatcher.per_job_limit"


def fraction(value: Any) -> float:
    """A number from 0 to 1."""
    parsed = float(number(0)(value))
    if parsed > 1:
        raise Invalid("expected a number from 0 to 1")
    return parsed


def optional_duration(value: Any) -> float | None:
    """A duration; empty or ``null`` means none."""
    return None if value is None or value in ("", "null") else duration(value)


def optional_count(value: Any) -> int | None:
    """A whole number; empty or ``null`` means none."""
    return None if value is None or value in ("", "null") else int(whole_number(1, 10_000)(value))


def queue_name(value: Any) -> str:
    """The name of a queue."""
    name = text(value)
    if find_name_fault(name) is not None:
        raise Invalid("expected the name of a queue: letters, digits, dots, dashes and underscores")
    return name


def key_template(value: Any) -> str | None:
    """The template of a concurrency key; empty or ``null`` means none."""
    template = optional_text(value)
    if template is not None:
        try:
            check_key(template)
        except Invalid as error:
            raise Invalid(f"expected a template: it {error}") from None
    return template


class _Default(NamedTuple):
    """One setting, the path of its field in ``Settings``, and its parts as a server setting."""

    name: str
    field: str
    read: Reader
    default: Any
    about: str


_DEFAULTS = (
    _Default("mode", "mode", one_of(*Mode), "sequential", "the order of the tasks of a job"),
    _Default("on_failure", "on_failure", one_of(*OnFailure), "fail_fast", "what a failed task does to the others"),
    _Default(
        "retry.max_attempts",
        "retry.max_attempts",
        optional_whole_number(1),
        3,
        "attempts per task; 1: no retries",
    ),
    _Default("retry.initial_interval", "retry.initial_us", duration, 1.0, "the pause before the second attempt"),
    _Default("retry.multiplier", "retry.multiplier", number(1), 2.0, "the growth of each pause"),
    _Default("retry.max_interval", "retry.max_us", duration, 3600.0, "the longest pause"),
    _Default("retry.jitter", "retry.jitter", fraction, 0.1, "the random part of each pause"),
    _Default("retry.retry_on", "retry.retry_on", texts, (), "the failures that are retried; empty: all"),
    _Default(
        "retry.timeout_multiplier",
        "retry.timeout_multiplier",
        number(1),
        1.0,
        "the growth of the task timeout from attempt to attempt",
    ),
    _Default(
        "execution_timeout",
        "execution_timeout_us",
        duration,
        3600.0,
        "the time limit of an execution, without waiting",
    ),
    _Default("task_timeout", "task_timeout_us", duration, 300.0, "the time limit of one attempt"),
    _Default(
        "overlap",
        "overlap",
        one_of(*Overlap, aliases=OVERLAP_ALIASES),
        "skip",
        "what to do while an earlier run is active",
    ),
    _Default("delivery", "delivery", one_of(*Delivery), "at_least_once", "whether lost work is attempted again"),
    _Default(
        "recovery",
        "recovery.strategy",
        one_of(*RecoveryStrategy, aliases=RECOVERY_ALIASES),
        "last",
        "what to do about missed instants",
    ),
    _Default(
        "recovery.max_count", "recovery.max_count", whole_number(0, 1_000_000), 100, "missed instants that run, bounded"
    ),
    _Default("recovery.max_age", "recovery.max_age_us", duration, 86_400.0, "the oldest instant that runs, bounded"),
    _Default("recovery.after", "recovery.after_us", duration, 30.0, "the lateness from which an instant is missed"),
    _Default("priority", "priority", whole_number(1, 10), 5, "which ready execution goes first; 10: the most urgent"),
    _Default("update", "update.policy", one_of(*UpdatePolicy), "immediate", "when a changed schedule takes over"),
    _Default("update.count", "update.count", optional_count, None, "old instants that still run, windowed"),
    _Default("update.duration", "update.duration_us", optional_duration, None, "how long the old schedule stays"),
    _Default(
        "concurrency.limit",
        "concurrency.limit",
        whole_number(0, 1_000_000),
        0,
        "concurrent executions of one job, or of one key; 0: unlimited",
    ),
    _Default("concurrency.key", "concurrency.key", key_template, None, "executions with equal keys share the limit"),
    _Default(
        "retention.max_count", "retention.max_count", whole_number(0, 1_000_000_000), 1000, "executions kept per job"
    ),
    _Default("retention.max_age", "retention.max_age_us", duration, 7_776_000.0, "how long executions are kept"),
    _Default("queue", "queue", queue_name, "default", "the queue of a job"),
    _Default("queue_max", "queue_max", whole_number(0, 1_000_000), 1000, "executions queued behind an earlier one"),
    _Default("placement.labels", "placement.labels", labels, {}, "labels that a node must have"),
    _Default(
        "placement.fallback", "placement.fallback_us", optional_duration, None, "after this wait any node will do"
    ),
)

DEFAULT_SETTINGS = tuple(
    Setting(name=f"{PREFIX}{one.name}", read=one.read, default=one.default, about=one.about) for one in _DEFAULTS
)


def build_default_level(values: Mapping[str, Any]) -> Settings:
    """Return the level that these server settings make, by their dotted names. Unset ones are left out."""
    fields: dict[str, Any] = {}
    if PER_JOB_LIMIT in values:
        fields["concurrency"] = {"limit": values[PER_JOB_LIMIT]}
    for one in _DEFAULTS:
        value = values.get(f"{PREFIX}{one.name}")
        if value is None:
            continue
        outer, _, inner = one.field.partition(".")
        in_us = one.field.endswith("_us")
        target = fields.setdefault(outer, {}) if inner else fields
        target[inner or outer] = round(float(value) * SECOND_US) if in_us else value
    return msgspec.convert(fields, Settings)
