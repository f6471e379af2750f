"""What a user may say about a job in Python, and the job it means: keywords in, the one job shape of Chronos out.

The shape (a plain dict, as REST takes it) is read by the service like any other, so that a job says the same thing
whichever way it was written. Here only Python's own values are turned into text: datetimes, timedeltas, functions.
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
from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid, InvalidSchedule
from chronos.service.serializers.object_reader import read_duration_us

Duration = str | timedelta | int | float  # a number counts seconds
Instant = str | datetime
Retry = Mapping[str, Any]
Shape = dict[str, Any]


class ScheduleOptions(TypedDict, total=False):
    """When it runs: one of the first seven, or none for a job that runs when it is triggered."""

    schedule: str | Mapping[str, Any]
    cron: str
    every: Duration
    at: Instant
    in_: Duration
    iso8601: str
    words: str
    timezone: str
    dst: Literal["robust", "literal"]
    start: Instant
    end: Instant
    jitter: Duration
    exclude: Sequence[str | date]


class TaskOptions(TypedDict, total=False):
    """What holds for a task, or for all tasks of a job."""

    retries: int | None  # n more tries after the first; None: without end
    retry: Retry
    timeout: Duration  # of one attempt
    on_failure: Literal["fail_fast", "continue", "retry"]
    delivery: Literal["at_least_once", "at_most_once"]


class SettingOptions(TaskOptions, total=False):
    """How the executions of a job are run."""

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
    """What may be said for all jobs that say nothing else."""

    mode: Literal["sequential", "parallel", "graph"]


class JobOptions(ScheduleOptions, SettingOptions, total=False):
    """What holds for a job."""

    after: Any  # a job, its name, {"job", "on"}, or several of these
    on_start: Any  # a function, or a target such as {"http": {"url": …}}
    on_complete: Any
    alerts: Sequence[Mapping[str, Any]]  # refused, with a sentence, until alerts exist
    tags: Mapping[str, str] | Sequence[str]
    description: str
    enabled: bool
    payload: Any


class FunctionOptions(TypedDict, total=False):
    """How a function is run, and the name it goes by."""

    name: str
    isolation: Literal["thread", "process", "inline"]
    limits: Mapping[str, Any]


class FunctionJobOptions(JobOptions, FunctionOptions, total=False):
    """What may be said of a function that is a job."""


class GroupOptions(JobOptions, total=False):
    """What may be said of a job of several tasks."""

    mode: Literal["sequential", "parallel", "graph"]


class GroupTaskOptions(TaskOptions, total=False):
    """What may be said of a task of a group."""

    needs: Any  # a task or its name, or several of these


class FunctionTaskOptions(GroupTaskOptions, FunctionOptions, total=False):
    """What may be said of a function that is a task."""

    payload: Any


class HttpOptions(TypedDict, total=False):
    """A request, beside its url. Texts may hold templates such as ``{{ execution.scheduled_at }}``."""

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
    """A command, beside its arguments."""

    env: Mapping[str, str]
    cwd: str
    user: str
    stdin: str | bool
    success_codes: Sequence[int]
    limits: Mapping[str, Any]


class WebhookJobOptions(JobOptions, HttpOptions, total=False):
    """What may be said of a request that is a job."""


class WebhookTaskOptions(GroupTaskOptions, HttpOptions, total=False):
    """What may be said of a request that is a task."""


class CommandJobOptions(JobOptions, CommandOptions, total=False):
    """What may be said of a command that is a job."""


class CommandTaskOptions(GroupTaskOptions, CommandOptions, total=False):
    """What may be said of a command that is a task."""


_KINDS = ("schedule", "cron", "every", "at", "in_", "iso8601", "words")
_AROUND = ("timezone", "dst", "start", "end", "jitter", "exclude")
_DURATIONS = ("execution_timeout",)
_UNTOUCHED = (
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


def job_shape(options: Mapping[str, Any], *, timezone: str | None) -> Shape:
    """The job that keywords describe, without its name, tasks, hooks and what it follows."""
    shape = task_shape(options)
    shape.update({key: options[key] for key in _UNTOUCHED if options.get(key) is not None})
    shape.update({key: duration(options[key], key) for key in _DURATIONS if options.get(key) is not None})
    concurrency = options.get("concurrency")
    if concurrency is not None:
        shape["concurrency"] = {"limit": concurrency} if isinstance(concurrency, int) else concurrency
    return {**shape, **_schedule(options, timezone)}


def default_shape(defaults: Any) -> Shape:
    """The settings of jobs that say nothing else."""
    if not isinstance(defaults, Mapping):
        raise Invalid(f'{defaults!r} says nothing; give settings by their names, like {{"retries": 5}}')
    refuse_unknown(defaults, DefaultOptions)
    return job_shape(defaults, timezone=None)


def task_shape(options: Mapping[str, Any]) -> Shape:
    """What a task's keywords set, beside its name, target and needs."""
    shape: Shape = {}
    shape.update({key: options[key] for key in ("on_failure", "delivery") if options.get(key) is not None})
    if options.get("timeout") is not None:
        shape["task_timeout"] = duration(options["timeout"], "timeout")
    retry = _retry(options.get("retry"))
    if "retries" in options:
        retries = options["retries"]
        if "max_attempts" in retry or "max_retries" in retry:
            raise Invalid("retries and the retry's max_attempts say the same thing; give one of them")
        if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
            raise Invalid(f"retries is {retries!r}; give 0 or more, or None to try without end")
        retry["max_attempts"] = None if retries is None else retries + 1
    if retry:
        shape["retry"] = retry
    return shape


def _retry(given: Any) -> Shape:
    """What is said of retries, in words that JSON has."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Invalid(f'retry is {given!r}; give an object like {{"max_attempts": 5, "initial_interval": "10s"}}')
    retry = dict(given)
    for key in ("initial_interval", "max_interval"):
        if retry.get(key) is not None:
            retry[key] = duration(retry[key], f"retry[{key!r}]")
    kinds = retry.get("retry_on")
    if isinstance(kinds, list | tuple | set | frozenset):
        retry["retry_on"] = [_failure(each) for each in kinds]
    if isinstance(kinds, set | frozenset):
        retry["retry_on"].sort(key=str)  # whose order differs from start to start, each of which would change the job
    return retry


def _failure(said: Any) -> Any:
    """A kind of failure by its name; an exception's class has one."""
    if isinstance(said, type) and issubclass(said, BaseException):
        return said.__name__ if said.__module__ == "builtins" else f"{said.__module__}.{said.__qualname__}"
    return said


def http_target(url: str, options: Mapping[str, Any]) -> Shape:
    """The target that sends a request."""
    return {"http": {"url": url, **_of(HttpOptions, options)}}


def command_target(argv: Sequence[str], options: Mapping[str, Any]) -> Shape:
    """The target that runs a command."""
    if isinstance(argv, str):
        raise Invalid(f"the command is {argv!r}; give a list of arguments, like {argv.split()!r}")
    if not isinstance(argv, Sequence):
        raise Invalid(f'the command is {argv!r}; give a list of arguments, like ["ls", "-l"]')
    return {"command": {"argv": list(argv), **_of(CommandOptions, options)}}


def other_target(kind: str, does: Mapping[str, Any] | None) -> Shape:
    """A target of a kind that has no words of its own here."""
    if does is not None and not isinstance(does, Mapping):
        raise Invalid(f'what {kind} is told is {does!r}; give its options by their names, like {{"url": "…"}}')
    return {kind: dict(does or {})}


def refuse_unknown(options: Mapping[str, Any], allowed: type) -> None:
    """What a type checker would find, as an error that helps those who do not run one."""
    known = get_type_hints(allowed)
    for key in options:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise Invalid(f"there is no {key!r} here; {hint}")


def _of(kind: type, options: Mapping[str, Any]) -> Shape:
    return {key: options[key] for key in get_type_hints(kind) if options.get(key) is not None}


def duration(value: Duration, what: str) -> str:
    """A duration as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, timedelta | int | float):
        raise Invalid(f'{what} is {value!r}; give text like "90s", a timedelta or a number of seconds')
    amount_s = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 <= amount_s < math.inf:
        raise Invalid(f"{what} is {value!r}; a duration is a finite number of seconds, and not negative")
    if isinstance(value, timedelta):
        return go_duration(value // timedelta(microseconds=1))
    return go_duration(round(value * 1_000_000))


def plain_duration(value: Duration, what: str) -> str:
    """A duration in hours and less, which every reader of durations knows."""
    with _about(what):
        return go_duration(read_duration_us(duration(value, what)))


def seconds(value: Duration, what: str) -> float:
    """A duration in seconds."""
    with _about(what):
        return read_duration_us(duration(value, what)) / SECOND_US


@contextmanager
def _about(what: str) -> Iterator[None]:
    try:
        yield
    except InvalidSchedule as error:
        raise Invalid(f"{what}: {error}") from None


def instant(value: Instant, what: str) -> str:
    """An instant as text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise Invalid(f'{what} is {value!r}; give a datetime with a time zone, or text like "2027-01-01T09:00:00Z"')
    if value.utcoffset() is None:
        raise Invalid(f"{what} is {value}, which has no time zone; add one, such as tzinfo=UTC")
    return value.isoformat()


def instant_us(value: Instant, what: str) -> int:
    """An instant in microseconds."""
    found = parse_instant(instant(value, what), get_zone("UTC"))
    if found is None:
        raise Invalid(f'{what} is {value!r}, which is no date and time; write it like "2027-01-01T09:00:00Z"')
    return found


def _schedule(options: Mapping[str, Any], timezone: str | None) -> Shape:
    """The schedule and what is around it: its zone, its bounds, its exceptions."""
    given = [kind for kind in _KINDS if options.get(kind) is not None]
    around = {key: options[key] for key in _AROUND if options.get(key) is not None}
    if len(given) > 1:
        raise Invalid(f"{' and '.join(given)} are both given; a job has one schedule")
    if not given:
        if around:
            needs = "needs" if len(around) == 1 else "need"
            raise Invalid(f"{' and '.join(around)} {needs} a schedule: cron, every, at, in_, iso8601 or words")
        return {}
    kind, value = given[0], options[given[0]]
    match kind:
        case "schedule":
            schedule = dict(value) if isinstance(value, Mapping) else value
        case "every" | "in_":
            schedule = {kind.removesuffix("_"): duration(value, kind)}
        case "at":
            schedule = {kind: instant(value, kind)}
        case _:
            schedule = {kind: value}
    for key in ("start", "end"):
        if key in around:
            around[key] = instant(around[key], key)
    if "jitter" in around:
        around["jitter"] = duration(around["jitter"], "jitter")
    if "exclude" in around:
        around["exclude"] = _excluded(around["exclude"])
    if timezone is not None and "timezone" not in {*around, *(schedule if isinstance(schedule, dict) else ())}:
        around["timezone"] = timezone
    return {"schedule": schedule, **around}


def _excluded(given: Any) -> list[str]:
    """Dates, ranges of dates and cron expressions as text."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise Invalid(f'exclude is {given!r}; give a list of dates, ranges or cron expressions, like ["2027-12-25"]')
    for each in given:
        if not isinstance(each, str | date):
            raise Invalid(f'exclude has {each!r}; give dates, or text like "2027-12-25" or "2027-12-24/2027-12-26"')
    return [each if isinstance(each, str) else each.isoformat() for each in given]
