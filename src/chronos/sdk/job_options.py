"""The keywords of a job in Python, and the job shape that they become.

The shape is a plain dict, as the REST API takes it, and the service reads it like any other. So a job means the same,
however it was written. This module only converts Python values (datetimes, timedeltas, exception classes) to JSON.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, get_type_hints

from chronos.core.calendar import SECOND_US
from chronos.core.schedule.durations import go_duration
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.plugins import CustomSchedule
from chronos.core.schedule.registration import register_object
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid, InvalidSchedule
from chronos.sdk.equivalent_keywords import EQUIVALENT_KEYWORDS
from chronos.service.serializers.object_reader import read_duration_us

Duration = str | timedelta | int | float  # a number counts seconds
Instant = str | datetime
Retry = Mapping[str, Any]
Shape = dict[str, Any]


class ScheduleOptions(TypedDict, total=False):
    """When a job runs: at most one of the first seven. A job without a schedule runs when it is triggered.

    A list of expressions is their union.
    """

    schedule: str | CustomSchedule | Sequence[str | CustomSchedule] | Mapping[str, Any]
    cron: str | Sequence[str]
    every: Duration
    at: Instant
    in_: Duration
    iso8601: str | Sequence[str]
    words: str | Sequence[str]
    timezone: str
    dst: Literal["robust", "literal"]
    start: Instant
    end: Instant | Duration  # a duration counts from the start, or from when the job is saved
    jitter: Duration
    exclude: Sequence[str | date]


class TaskOptions(TypedDict, total=False):
    """Settings of a task, or of all tasks of a job."""

    retries: int | None  # attempts after the first; None: no limit
    retry: Retry
    timeout: Duration  # per attempt
    on_failure: Literal["fail_fast", "continue", "retry"]
    delivery: Literal["at_least_once", "at_most_once"]


class SettingOptions(TaskOptions, total=False):
    """Settings of the executions of a job."""

    execution_timeout: Duration
    overlap: Literal["skip", "allow", "queue", "replace"]
    queue_max: int
    recovery: str | Mapping[str, Any]
    priority: int
    concurrency: int | Mapping[str, Any]
    update: str | Mapping[str, Any]
    retention: Mapping[str, Any]
    queue: str
    placement: Mapping[str, Any]


class DefaultOptions(SettingOptions, total=False):
    """Settings that ``Chronos(defaults=…)`` may set for all jobs."""

    mode: Literal["sequential", "parallel", "graph"]


class JobOptions(ScheduleOptions, SettingOptions, total=False):
    """The keywords that every kind of job has."""

    after: Any  # a job, its name, {"job", "on"}, or several of these
    on_start: Any  # a function, or a target such as {"http": {"url": …}}
    on_complete: Any
    alerts: Sequence[Mapping[str, Any]]  # not supported yet: refused
    tags: Mapping[str, str] | Sequence[str]
    description: str
    enabled: bool
    payload: Any


class FunctionOptions(TypedDict, total=False):
    """The name of a function, and where it runs."""

    name: str
    isolation: Literal["thread", "process", "inline"]
    limits: Mapping[str, Any]


class FunctionJobOptions(JobOptions, FunctionOptions, total=False):
    """The keywords of ``Chronos.job``."""


class TaskJobOptions(TaskOptions, FunctionOptions, total=False):
    """The keywords of ``Chronos.task``."""

    execution_timeout: Duration
    overlap: Literal["allow", "queue"]
    queue_max: int
    priority: int
    concurrency: int | Mapping[str, Any]
    update: str | Mapping[str, Any]
    retention: Mapping[str, Any]
    queue: str
    placement: Mapping[str, Any]
    on_start: Any
    on_complete: Any
    tags: Mapping[str, str] | Sequence[str]
    description: str


class GroupOptions(JobOptions, total=False):
    """The keywords of ``Chronos.group``."""

    mode: Literal["sequential", "parallel", "graph"]


class GroupTaskOptions(TaskOptions, total=False):
    """The keywords that every task of a group has."""

    needs: Any  # a task or its name, or several of these


class FunctionTaskOptions(GroupTaskOptions, FunctionOptions, total=False):
    """The keywords of ``Group.task``."""

    payload: Any


class HttpOptions(TypedDict, total=False):
    """An HTTP request, except its url. Texts may have templates such as ``{{ execution.scheduled_at }}``."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    json: Any
    body: str
    auth: Mapping[str, Any]
    success_codes: Sequence[int | str]
    retry_codes: Sequence[int | str]
    redirects: bool | int


class CommandOptions(TypedDict, total=False):
    """A command, except its arguments."""

    env: Mapping[str, str]
    cwd: str
    user: str
    stdin: str | bool
    success_codes: Sequence[int]
    limits: Mapping[str, Any]


class WebhookJobOptions(JobOptions, HttpOptions, total=False):
    """The keywords of ``Chronos.webhook``."""


class WebhookTaskOptions(GroupTaskOptions, HttpOptions, total=False):
    """The keywords of ``Group.webhook``."""


class CommandJobOptions(JobOptions, CommandOptions, total=False):
    """The keywords of ``Chronos.command``."""


class CommandTaskOptions(GroupTaskOptions, CommandOptions, total=False):
    """The keywords of ``Group.command``."""


SCHEDULE_KINDS = ("schedule", "cron", "every", "at", "in_", "iso8601", "words")
SCHEDULE_SETTINGS = ("timezone", "dst", "start", "end", "jitter", "exclude")
_DURATIONS = ("execution_timeout",)
_COPIED = (
    "overlap",
    "queue_max",
    "recovery",
    "priority",
    "update",
    "retention",
    "queue",
    "placement",
    "alerts",
    "tags",
    "description",
    "enabled",
    "payload",
    "mode",
)


def build_job_shape(options: Mapping[str, Any], *, timezone: str | None, is_change: bool = False) -> Shape:
    """The job shape of these keywords, without name, tasks, hooks and ``after``.

    ``timezone`` is that of a schedule without one. A change of a job may set the time zone or the end of a schedule
    without the schedule.
    """
    shape = build_task_shape(options)
    shape.update({key: options[key] for key in _COPIED if options.get(key) is not None})
    shape.update({key: to_duration_text(options[key], key) for key in _DURATIONS if options.get(key) is not None})
    concurrency = options.get("concurrency")
    if concurrency is not None:
        shape["concurrency"] = {"limit": concurrency} if isinstance(concurrency, int) else concurrency
    return {**shape, **_build_schedule(options, timezone, is_change=is_change)}


def build_default_shape(defaults: Any) -> Shape:
    """The job shape of ``Chronos(defaults=…)``. Raises ``Invalid``."""
    if not isinstance(defaults, Mapping):
        raise Invalid(f'{defaults!r} is not an object; use settings by their names, like {{"retries": 5}}')
    check_keywords(defaults, DefaultOptions)
    return build_job_shape(defaults, timezone=None)


def build_task_shape(options: Mapping[str, Any]) -> Shape:
    """The shape of a task, without name, target and needs."""
    shape: Shape = {}
    shape.update({key: options[key] for key in ("on_failure", "delivery") if options.get(key) is not None})
    if options.get("timeout") is not None:
        shape["task_timeout"] = to_duration_text(options["timeout"], "timeout")
    retry = _read_retry(options.get("retry"))
    if "retries" in options:
        retries = options["retries"]
        if "max_attempts" in retry or "max_retries" in retry:
            raise Invalid("retries and retry['max_attempts'] set the same thing; use one of them")
        if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
            raise Invalid(f"retries is {retries!r}; use 0 or more, or None for no limit")
        retry["max_attempts"] = None if retries is None else retries + 1
    if retry:
        shape["retry"] = retry
    return shape


def _read_retry(options: Any) -> Shape:
    """The retry policy with JSON values only. Raises ``Invalid``."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise Invalid(f'retry is {options!r}; use an object like {{"max_attempts": 5, "initial_interval": "10s"}}')
    retry = dict(options)
    for key in ("initial_interval", "max_interval"):
        if retry.get(key) is not None:
            retry[key] = to_duration_text(retry[key], f"retry[{key!r}]")
    kinds = retry.get("retry_on")
    if isinstance(kinds, list | tuple | set | frozenset):
        retry["retry_on"] = [_to_failure_kind(kind) for kind in kinds]
    if isinstance(kinds, set | frozenset):
        retry["retry_on"].sort(key=str)  # a set has another order at each start, which would look like a change
    return retry


def _to_failure_kind(kind: Any) -> Any:
    """The name of an exception class; any other value as it is."""
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return kind


def build_http_target(url: str, options: Mapping[str, Any]) -> Shape:
    """The target that sends an HTTP request."""
    return {"http": {"url": url, **_select_options(HttpOptions, options)}}


def build_command_target(argv: Sequence[str], options: Mapping[str, Any]) -> Shape:
    """The target that runs a command. Raises ``Invalid``."""
    if isinstance(argv, str):
        raise Invalid(f"the command is {argv!r}; use a list of arguments, like {argv.split()!r}")
    if not isinstance(argv, Sequence):
        raise Invalid(f'the command is {argv!r}; use a list of arguments, like ["ls", "-l"]')
    return {"command": {"argv": list(argv), **_select_options(CommandOptions, options)}}


def build_other_target(kind: str, options: Mapping[str, Any] | None) -> Shape:
    """A target of another kind. Raises ``Invalid``."""
    if options is not None and not isinstance(options, Mapping):
        raise Invalid(f'the options of {kind} are {options!r}; use an object of options, like {{"url": "…"}}')
    return {kind: dict(options or {})}


def check_keywords(options: Mapping[str, Any], allowed: type) -> None:
    """Raise ``Invalid`` for a keyword that ``allowed`` does not have, and name the one that was meant."""
    known = get_type_hints(allowed)
    for key in options:
        if key not in known:
            raise Invalid(f'unknown keyword "{key}"{_suggest_keyword(key, known)}')


def _suggest_keyword(key: str, known: Mapping[str, Any]) -> str:
    equivalent = EQUIVALENT_KEYWORDS.get(key)
    if equivalent is not None and (equivalent.keyword is None or equivalent.keyword in known):
        return f"; {equivalent.hint}"
    near = get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]}?" if near else "; the Python reference lists the keywords"


def _select_options(kind: type, options: Mapping[str, Any]) -> Shape:
    return {key: options[key] for key in get_type_hints(kind) if options.get(key) is not None}


def to_duration_text(value: Duration, argument: str) -> str:
    """A duration as text. Raises ``Invalid``."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, timedelta | int | float):
        raise Invalid(f'{argument} is {value!r}; use text like "90s", a timedelta or a number of seconds')
    amount_s = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 <= amount_s < math.inf:
        raise Invalid(f"{argument} is {value!r}; use a duration that is finite and not negative")
    if isinstance(value, timedelta):
        return go_duration(value // timedelta(microseconds=1))
    return go_duration(round(value * 1_000_000))


def to_plain_duration(value: Duration, argument: str) -> str:
    """A duration as text in hours and smaller units, which every reader of durations accepts. Raises ``Invalid``."""
    with _as_invalid(argument):
        return go_duration(read_duration_us(to_duration_text(value, argument)))


def to_seconds(value: Duration, argument: str) -> float:
    """A duration in seconds. Raises ``Invalid``."""
    with _as_invalid(argument):
        return read_duration_us(to_duration_text(value, argument)) / SECOND_US


@contextmanager
def _as_invalid(argument: str) -> Iterator[None]:
    """Turn ``InvalidSchedule`` into an ``Invalid`` that begins with the argument."""
    try:
        yield
    except InvalidSchedule as error:
        raise Invalid(f"{argument}: {error}") from None


def to_instant_text(value: Instant, argument: str) -> str:
    """An instant as text. Raises ``Invalid``."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise Invalid(f'{argument} is {value!r}; use a datetime with a time zone, or text like "2027-01-01T09:00:00Z"')
    if value.utcoffset() is None:
        raise Invalid(f"{argument} is {value}, which has no time zone; add one, such as tzinfo=UTC")
    return value.isoformat()


def to_instant_us(value: Instant, argument: str) -> int:
    """An instant in microseconds. Raises ``Invalid``."""
    us = parse_instant(to_instant_text(value, argument), get_zone("UTC"))
    if us is None:
        raise Invalid(f'{argument} is {value!r}, which is not a date and time; write it like "2027-01-01T09:00:00Z"')
    return us


class StartOptions(TypedDict):
    """When a requested run may start, as the service takes it."""

    at_us: int | None
    delay: str | None
    expires: str | None


def build_start_options(
    delay: Duration | None, at: Instant | None, expires: Duration | Instant | None, *, delay_name: str = "delay"
) -> StartOptions:
    """When a requested run may start. Raises ``Invalid``, with the name that the caller gives to ``delay``."""
    if at is not None and delay is not None:
        raise Invalid(f"at and {delay_name} both say when to start; use one of them")
    return {
        "at_us": None if at is None else to_instant_us(at, "at"),
        "delay": None if delay is None else to_duration_text(delay, delay_name),
        "expires": None if expires is None else _to_expires_text(expires),
    }


def _to_expires_text(value: Duration | Instant) -> str:
    if isinstance(value, datetime):
        return to_instant_text(value, "expires")
    return to_duration_text(value, "expires")


def _build_schedule(options: Mapping[str, Any], timezone: str | None, *, is_change: bool) -> Shape:
    """The schedule with its time zone, bounds and exceptions. Raises ``Invalid``."""
    kinds = [kind for kind in SCHEDULE_KINDS if options.get(kind) is not None]
    settings = _read_schedule_settings(options)
    if len(kinds) > 1:
        raise Invalid(f"{' and '.join(kinds)} are given, and a job has one schedule; use one of them")
    if not kinds:
        if is_change:
            return settings
        if settings:
            needs = "needs" if len(settings) == 1 else "need"
            raise Invalid(f"{' and '.join(settings)} {needs} a schedule; add cron, every, at, in_, iso8601 or words")
        return {}
    kind, value = kinds[0], options[kinds[0]]
    match kind:
        case "schedule":
            schedule = dict(value) if isinstance(value, Mapping) else _to_schedule_text(value)
        case "every" | "in_":
            schedule = {kind.removesuffix("_"): to_duration_text(value, kind)}
        case "at":
            schedule = {kind: to_instant_text(value, kind)}
        case _:
            schedule = {kind: _to_list(value)}
    if timezone is not None and "timezone" not in {*settings, *(schedule if isinstance(schedule, dict) else ())}:
        settings["timezone"] = timezone
    return {"schedule": schedule, **settings}


def _read_schedule_settings(options: Mapping[str, Any]) -> Shape:
    """The time zone, bounds and exceptions of a schedule, as JSON. Raises ``Invalid``."""
    settings = {key: options[key] for key in SCHEDULE_SETTINGS if options.get(key) is not None}
    if "start" in settings:
        settings["start"] = to_instant_text(settings["start"], "start")
    if "end" in settings:
        is_duration = isinstance(settings["end"], timedelta | int | float)
        settings["end"] = (to_duration_text if is_duration else to_instant_text)(settings["end"], "end")
    if "jitter" in settings:
        settings["jitter"] = to_duration_text(settings["jitter"], "jitter")
    if "exclude" in settings:
        settings["exclude"] = _read_exclude(settings["exclude"])
    return settings


def _to_schedule_text(value: Any) -> Any:
    """The text of a schedule, or a list of texts. A custom schedule is registered, and its text is its name."""
    if isinstance(value, list | tuple):
        return [_to_schedule_text(item) for item in value]
    if isinstance(value, Schedule):
        raise Invalid("schedule is a parsed schedule; give the text that was parsed")
    return register_object(value) if callable(getattr(value, "next_after", None)) else value


def _to_list(value: Any) -> Any:
    """Several expressions as a list; any other value as it is."""
    return list(value) if isinstance(value, tuple) else value


def _read_exclude(items: Any) -> list[str]:
    """Dates, ranges of dates and cron expressions as text. Raises ``Invalid``."""
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise Invalid(f'exclude is {items!r}; use a list of dates, ranges or cron expressions, like ["2027-12-25"]')
    for item in items:
        if not isinstance(item, str | date):
            raise Invalid(f'exclude has {item!r}; use dates, or text like "2027-12-25" or "2027-12-24/2027-12-26"')
    return [item if isinstance(item, str) else item.isoformat() for item in items]
