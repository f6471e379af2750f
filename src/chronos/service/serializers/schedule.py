"""When a job runs, as people write it: text of any dialect, an object, or the names that other schedulers use."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from chronos.core.calendar import rfc3339
from chronos.core.job import ScheduleSpec
from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.durations import format_period, go_duration
from chronos.core.schedule.interval import SHORTEST_JOB_INTERVAL_US, EveryRule
from chronos.core.schedule.iso8601 import Period, PeriodRule, is_instant
from chronos.core.schedule.parser import DIALECTS, DST_POLICIES, MAX_EXCLUSIONS, MAX_LENGTH, parse_schedule
from chronos.core.schedule.schedule import Schedule
from chronos.errors import InvalidSchedule
from chronos.service.serializers.json_values import plain
from chronos.service.serializers.object_reader import ObjectReader, read_duration_us
from chronos.service.serializers.problems import InvalidJob, Problem

NOW = "now"
MANUAL = "manual"  # only when it is triggered

_KEYS = ("cron", "every", "iso8601", "at", "in", "words")
#: What may stand around it, and how it is read.
_AROUND: dict[str, Callable[[ObjectReader], Any]] = {
    "timezone": lambda form: form.text("timezone", longest=256),
    "dst": lambda form: form.text("dst", longest=32),
    "start": lambda form: form.text("start", longest=256),
    "end": lambda form: form.text("end", longest=256),
    "jitter": lambda form: form.duration_us("jitter", low_us=0),
    "exclude": lambda form: form.texts("exclude", most=MAX_EXCLUSIONS),
}
_AROUND_FIELDS = frozenset(_AROUND)
_TYPE = frozenset(("schedule_type",))
_ONE_TIME_TYPES, _RECURRING_TYPES, _IMMEDIATE_TYPES = (
    ("one_time", "once", "delayed"),
    ("recurring", "cron", "interval"),
    ("immediate", "now"),
)
_ZONE_PREFIX = re.compile(r"CRON_TZ=\S+[ \t]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInput:
    """When a job runs: by a schedule, or once now, or only when it is triggered."""

    spec: ScheduleSpec | None = None
    now: bool = False  # it was said, rather than nothing
    manual: bool = False
    schedule: Schedule | None = None  # of the spec, where it was made of the same words
    pointer: str = "/schedule"  # where it was written


@dataclass(slots=True, kw_only=True)
class _ScheduleParts:
    """The parts of a schedule while they are put together."""

    text: str
    pointer: str
    dialect: str = "auto"
    dialect_at: str = ""
    kept_dialect: str = "auto"
    expected: str | None = None  # the key of the object it was given under
    kind: str | None = None  # what schedule_type says of it


def read_schedule(form: ObjectReader, key: str) -> ScheduleInput:
    """The schedule of a job; ``key`` is its name."""
    kind = None if form.lacks(_TYPE) else _schedule_type(form)
    name, value = form.take("schedule", "cron_expression", "execute_at")
    outer = form
    inner: ObjectReader | None = None
    said: _ScheduleParts | None = None
    if isinstance(value, dict):
        inner = ObjectReader(value, form.at(name), form.problems)
        said = _from_object(inner)
    elif value is not None and not isinstance(value, str):
        form.fault(name, "has to be text or an object with one of " + ", ".join(_KEYS))
    elif value in (NOW, MANUAL):
        _note_option_faults(form, _around(outer, None))
        return ScheduleInput(now=value == NOW, manual=value == MANUAL)
    elif value is not None:
        expected = {"cron_expression": "cron", "execute_at": "at"}.get(name)
        said = _ScheduleParts(text=value, pointer=form.at(name), expected=expected)
        if expected == "cron":
            said.dialect = _cron_dialect(value)
    around = _around(outer, inner)
    if inner is not None:
        inner.finish()
    if kind is not None:
        _check_kind(form, kind, said)
        if said is not None:
            said.kind = kind
    if said is None:
        _note_option_faults(form, around)
        return ScheduleInput()
    return _when(form, said, around, key)


def read_schedule_only(data: Any, *, key: str = "") -> ScheduleSpec:
    """A schedule by itself, for a preview: text, or an object as a job's ``schedule``. Raises ``InvalidJob``."""
    problems: list[Problem] = []
    form = ObjectReader({"schedule": plain(data, problems)}, "", problems)
    when = read_schedule(form, key)
    if when.spec is None and not problems:
        problems.append(Problem("/schedule", "names no schedule to look at"))
    if problems or when.spec is None:
        raise InvalidJob(problems)
    return when.spec


def write_schedule(spec: ScheduleSpec | None, *, follows: bool) -> dict[str, Any]:
    """The fields of a job that say when it runs."""
    if spec is None:
        return {} if follows else {"schedule": MANUAL}
    said: dict[str, Any] = {"schedule": spec.text}
    if spec.dialect != "auto":
        said["schedule"] = {"iso8601" if spec.dialect == "iso8601" else "cron": spec.text, "dialect": spec.dialect}
        if spec.dialect == "words":
            said["schedule"] = {"words": spec.text, "dialect": spec.dialect}
    if spec.timezone is not None:
        said["timezone"] = spec.timezone
    if spec.dst != "robust":
        said["dst"] = spec.dst
    if spec.start_us is not None:
        said["start"] = rfc3339(spec.start_us)
    if spec.end_us is not None:
        said["end"] = rfc3339(spec.end_us)
    if spec.jitter_us:
        said["jitter"] = go_duration(spec.jitter_us)
    if spec.exclude:
        said["exclude"] = list(spec.exclude)
    return said


# --- the text


def _from_object(form: ObjectReader) -> _ScheduleParts | None:
    """The text that an object means."""
    name, value = form.take(*_KEYS)
    dialect = form.text("dialect", longest=32)
    if value is None:
        form.problems.append(Problem(form.pointer, f"names no schedule; give one of {', '.join(_KEYS)}"))
        return None
    if not isinstance(value, str):
        form.fault(name, "has to be text")
        return None
    said = _ScheduleParts(text=value, pointer=form.at(name), expected=name)
    if name == "cron":
        said.dialect = _cron_dialect(value)
    elif name in ("every", "in"):
        text = _interval(form, name, value)
        if text is None:
            return None
        said.text = text
    elif name in ("iso8601", "words"):
        said.dialect = name
    if dialect is not None:
        said.dialect = said.kept_dialect = dialect
        said.dialect_at = form.at("dialect")
    return said


def _interval(form: ObjectReader, name: str, value: str) -> str | None:
    """A duration as the expression that means it."""
    try:
        us = read_duration_us(value)
    except InvalidSchedule as error:
        form.fault(name, str(error))
        return None
    if us <= 0:
        form.fault(name, f"is {value}, which has to be more than zero")
        return None
    return f"@every {go_duration(us)}" if name == "every" else f"in {format_period(Period(us=us))}"


def _cron_dialect(text: str) -> str:
    fields = _ZONE_PREFIX.sub("", text, count=1).split()
    return "seconds" if len(fields) == 6 and not text.startswith("@") else "standard"


# --- what stands around it


def _around(outer: ObjectReader, inner: ObjectReader | None) -> dict[str, Any]:
    """Zone, window and exclusions, said with the job or with the schedule; and where (``timezone_at`` …)."""
    forms = [outer] if inner is None else [inner, outer]
    found: dict[str, Any] = {}
    for form in forms:
        if form.lacks(_AROUND_FIELDS):
            continue
        said = {name: read(form) for name, read in _AROUND.items() if name in form.data}
        if said.get("dst") not in (None, *DST_POLICIES):
            form.fault("dst", f'is "{said["dst"]}", allowed: {", ".join(DST_POLICIES)}')
            said["dst"] = None
        for name, value in said.items():
            if value not in (None, ()) and name in found:
                form.fault(name, "is said twice, with the job and with its schedule; say it once")
            elif value not in (None, ()):
                found[name] = value
                found[f"{name}_at"] = form.at(name)
                if name == "exclude":
                    found["exclude_given"] = form.data[name]
    return found


def _when(form: ObjectReader, said: _ScheduleParts, around: dict[str, Any], key: str) -> ScheduleInput:
    """The schedule as it is stored, once it has been read."""
    timezone, dst = around.get("timezone"), around.get("dst", "robust")
    jitter_us, exclude = around.get("jitter", 0), around.get("exclude", ())
    windowed = "start" in around or "end" in around
    spec = ScheduleSpec(
        text=said.text, timezone=timezone, dialect=said.dialect, dst=dst, jitter_us=jitter_us, exclude=exclude
    )
    try:
        if windowed:
            schedule = parse_schedule(
                said.text,
                timezone=timezone,
                dialect=said.dialect,
                dst=dst,
                start=around.get("start"),
                end=around.get("end"),
                jitter=timedelta(microseconds=jitter_us),
                exclude=exclude,
                key=key,
            )
        else:
            schedule = spec.parse(key)
    except InvalidSchedule as error:
        _note_schedule_faults(form, said, around, key, error)
        return ScheduleInput()
    fault = _fault(said, schedule)
    if fault is not None:
        form.problems.append(Problem(said.pointer, fault))
        return ScheduleInput()
    if said.kept_dialect == said.dialect and not windowed:
        return ScheduleInput(spec=spec, schedule=schedule, pointer=said.pointer)
    return ScheduleInput(
        pointer=said.pointer,
        spec=replace(
            spec,
            dialect=said.kept_dialect,
            start_us=schedule.start_us if "start" in around else None,
            end_us=schedule.end_us if "end" in around else None,
        ),
    )


def _note_schedule_faults(
    form: ObjectReader, said: _ScheduleParts, around: dict[str, Any], key: str, error: InvalidSchedule
) -> None:
    """Note all that is wrong with a schedule: its text and what stands around it, each by itself, or else together."""
    before = len(form.problems)
    zone = _note_option_faults(form, around)
    dialect = said.dialect
    if dialect not in DIALECTS:
        form.problems.append(Problem(said.dialect_at, f'is "{dialect}", allowed: {", ".join(DIALECTS)}'))
        dialect = "auto"
    try:
        schedule = parse_schedule(said.text, timezone=zone, dialect=dialect, key=key)
    except InvalidSchedule as fault_of_text:
        form.problems.append(Problem(said.pointer, str(fault_of_text)))
    else:
        fault = _fault(said, schedule)
        if fault is not None:
            form.problems.append(Problem(said.pointer, fault))
    if len(form.problems) == before:
        form.problems.append(Problem(said.pointer, str(error)))


def _note_option_faults(form: ObjectReader, around: dict[str, Any]) -> str | None:
    """Note what is wrong around a schedule, whatever that is. Its zone, if there is one by this name."""
    zone = around.get("timezone")
    if zone is not None and not _is_in_order(form, around["timezone_at"], timezone=zone):
        zone = None
    for name in ("start", "end"):
        if name in around:
            _is_in_order(form, around[f"{name}_at"], timezone=zone, **{name: around[name]})
    given = around.get("exclude_given", ())
    for place, text in enumerate([given] if isinstance(given, str) else given):
        at = around["exclude_at"]
        if isinstance(text, str) and len(text) <= MAX_LENGTH:
            _is_in_order(form, at if isinstance(given, str) else f"{at}/{place}", exclude=(text,))
    return zone


def _is_in_order(form: ObjectReader, pointer: str, **part: Any) -> bool:
    """Whether a schedule with nothing but this around it could be read; if not, that is noted."""
    try:
        parse_schedule("@daily", **part)
    except InvalidSchedule as error:
        if error.subject != "schedule":  # nothing is left over of the one that stands for all: of another, perhaps
            form.problems.append(Problem(pointer, str(error)))
            return False
    return True


def _fault(said: _ScheduleParts, schedule: Schedule) -> str | None:
    """What a schedule may be as a value, and not as that of a job."""
    rule = schedule.rule
    period_us = None
    if isinstance(rule, EveryRule):
        period_us = rule.period_us
    elif isinstance(rule, PeriodRule):
        period_us = rule.period.mean_us()
    if period_us is not None and period_us < SHORTEST_JOB_INTERVAL_US:
        return f"runs every {format_period(Period(us=period_us))}; a job may run every 100 milliseconds at most"
    if said.expected == "cron" and not isinstance(rule, CronRule | EveryRule):  # crontabs know "@every" too
        return f'"{said.text}" is no cron expression; write schedule: "{said.text}"'
    if said.expected == "at" and not is_instant(said.text):
        return f'is "{said.text}", which is no date and time; write it like 2027-01-01T09:00:00Z'
    if said.kind in _ONE_TIME_TYPES and isinstance(rule, CronRule | EveryRule):
        return f'is "{said.text}", again and again, and schedule_type says once; say when in execute_at'
    return None


# --- the names of other schedulers


def _schedule_type(form: ObjectReader) -> str | None:
    kind = form.text("schedule_type", longest=64)
    known = (*_ONE_TIME_TYPES, *_RECURRING_TYPES, *_IMMEDIATE_TYPES)
    if kind is not None and kind.lower() not in known:
        form.fault("schedule_type", f'is "{kind}", allowed: {", ".join(known)}')
        return None
    return None if kind is None else kind.lower()


def _check_kind(form: ObjectReader, kind: str | None, said: _ScheduleParts | None) -> None:
    """What ``schedule_type`` promises has to be there."""
    if kind in _IMMEDIATE_TYPES and said is not None:
        form.fault("schedule_type", "says that it runs at once, and there is a schedule; leave out one of them")
    elif kind in _ONE_TIME_TYPES and said is None:
        form.fault("schedule_type", "says that it runs once; say when in execute_at")
    elif kind in _RECURRING_TYPES and (said is None or said.expected == "at"):
        form.fault("schedule_type", "says that it runs again and again; say when in cron_expression or schedule")
