"""Reads and writes a job's schedule: text of any dialect, an object, or the field names of other schedulers."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from chronos.core.calendar import rfc3339
from chronos.core.job import ScheduleSpec
from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.durations import format_duration, format_period, go_duration
from chronos.core.schedule.interval import SHORTEST_JOB_INTERVAL_US, EveryRule
from chronos.core.schedule.iso8601 import Period, PeriodRule, is_instant
from chronos.core.schedule.parser import (
    DIALECTS,
    DST_POLICIES,
    MAX_EXCLUSIONS,
    MAX_LENGTH,
    is_cron,
    parse_bound,
    parse_schedule,
)
from chronos.core.schedule.random_interval import RandomRule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule.union import MAX_EXPRESSIONS, join_expressions, split_expressions
from chronos.errors import InvalidSchedule
from chronos.service.serializers.json_values import to_plain_json
from chronos.service.serializers.object_reader import MAX_DURATION_US, ObjectReader, read_duration_us
from chronos.service.serializers.problems import InvalidJob, Problem

NOW = "now"
MANUAL = "manual"  # runs only when triggered

_KEYS = ("cron", "every", "iso8601", "at", "in", "words")
#: Options of a schedule, and how each is read.
_OPTIONS: dict[str, Callable[[ObjectReader], Any]] = {
    "timezone": lambda reader: reader.text("timezone", max_bytes=256),
    "dst": lambda reader: reader.text("dst", max_bytes=32),
    "start": lambda reader: reader.text("start", max_bytes=256),
    "end": lambda reader: reader.text("end", max_bytes=256),
    "jitter": lambda reader: reader.duration_us("jitter", low_us=0),
    "exclude": lambda reader: reader.texts("exclude", max_items=MAX_EXCLUSIONS),
}
_OPTION_FIELDS = frozenset(_OPTIONS)
_KEY_FIELDS = frozenset(_KEYS)
_TYPE = frozenset(("schedule_type",))
_ONE_TIME_TYPES, _RECURRING_TYPES, _IMMEDIATE_TYPES = (
    ("one_time", "once", "delayed"),
    ("recurring", "cron", "interval"),
    ("immediate", "now"),
)
_LISTED_KEYS = ("cron", "iso8601", "at", "words")  # these may have a list of texts
_MAX_SHOWN = 64  # characters of a value in a message
_TO = re.compile(r"\s+to\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInput:
    """When a job runs: by a schedule, once now, or only when triggered."""

    spec: ScheduleSpec | None = None
    now: bool = False  # given explicitly
    manual: bool = False
    schedule: Schedule | None = None  # parsed from exactly this spec
    pointer: str = "/schedule"  # of the schedule's text
    end_after_us: int | None = None  # an end that is given as a duration: from the start, or from when it is saved

    def spec_at(self, now_us: int) -> ScheduleSpec | None:
        """Return the schedule as a new job would have it."""
        if self.spec is None or self.end_after_us is None:
            return self.spec
        start_us = now_us if self.spec.start_us is None else self.spec.start_us
        return replace(self.spec, end_us=start_us + self.end_after_us)


@dataclass(slots=True, kw_only=True)
class _ScheduleParts:
    """The parts of a schedule while it is read."""

    texts: list[str]
    pointer: str
    is_list: bool = False
    dialect: str = "auto"
    dialect_at: str = ""
    kept_dialect: str = "auto"
    expected: str | None = None  # the key that it was given under
    kind: str | None = None  # the value of schedule_type

    @property
    def text(self) -> str:
        """The text as it is stored; a union is one text."""
        return join_expressions(self.texts)

    @property
    def expression(self) -> str | list[str]:
        """The text, or the texts of a union."""
        return self.texts[0] if len(self.texts) == 1 else self.texts

    def at(self, index: int) -> str:
        """Return the pointer of a text."""
        return f"{self.pointer}/{index}" if self.is_list else self.pointer


def read_schedule(reader: ObjectReader, key: str) -> ScheduleInput:
    """Read the schedule of a job. ``key`` is the job's name."""
    kind = None if reader.lacks(_TYPE) else _read_schedule_type(reader)
    if not _KEY_FIELDS.isdisjoint(reader.data):  # they are not known fields
        _refuse_keys_outside(reader)
    name, value = reader.take("schedule", "cron_expression", "execute_at")
    outer = reader
    inner: ObjectReader | None = None
    parts: _ScheduleParts | None = None
    if isinstance(value, dict):
        inner = ObjectReader(value, reader.at(name), reader.problems)
        parts = _read_object(inner)
    elif value is not None and not isinstance(value, str | list):
        reader.fault(name, "must be text, a list of texts, or an object with one of " + ", ".join(_KEYS))
    elif isinstance(value, str) and value.strip() in (NOW, MANUAL):
        _note_option_faults(reader, _read_options(outer, None))
        return ScheduleInput(now=value.strip() == NOW, manual=value.strip() == MANUAL)
    elif value is not None:
        expected = {"cron_expression": "cron", "execute_at": "at"}.get(name)
        parts = _read_texts(reader, name, value, expected)
    options = _read_options(outer, inner)
    if inner is not None:
        inner.finish()
    if kind is not None:
        _check_kind(reader, kind, parts)
        if parts is not None:
            parts.kind = kind
    if parts is None:
        _note_option_faults(reader, options)
        return ScheduleInput()
    return _to_schedule_input(reader, parts, options, key)


def _refuse_keys_outside(reader: ObjectReader) -> None:
    """Record a problem for every key of a schedule that stands in the job itself."""
    for key in reader.present(*_KEYS):
        value = reader.data[key]
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) and len(value) <= _MAX_SHOWN else "…"
        reader.fault(key, f'belongs to the schedule; write "schedule": {{"{key}": {shown}}}')


def read_schedule_only(data: Any, *, now_us: int, key: str = "") -> ScheduleSpec:
    """Read a schedule without a job, for a preview at ``now_us``: text or an object. Raises ``InvalidJob``."""
    problems: list[Problem] = []
    reader = ObjectReader({"schedule": to_plain_json(data, problems)}, "", problems)
    input_ = read_schedule(reader, key)
    spec = input_.spec_at(now_us)
    if spec is None and not problems:
        problems.append(
            Problem("/schedule", "has no schedule to preview; give a cron expression, an interval or a time")
        )
    if problems or spec is None:
        raise InvalidJob(problems)
    return spec


def write_schedule(spec: ScheduleSpec | None, *, follows: bool) -> dict[str, Any]:
    """Write the fields of a job that define when it runs."""
    if spec is None:
        return {} if follows else {"schedule": MANUAL}
    texts = [text for text, _ in split_expressions(spec.text)]
    text = texts if len(texts) > 1 else spec.text
    parts: dict[str, Any] = {"schedule": text}
    if spec.dialect != "auto":
        key = spec.dialect if spec.dialect in ("iso8601", "words") else "cron"
        parts["schedule"] = {key: text, "dialect": spec.dialect}
    if spec.timezone is not None:
        parts["timezone"] = spec.timezone
    if spec.dst != "robust":
        parts["dst"] = spec.dst
    if spec.start_us is not None:
        parts["start"] = rfc3339(spec.start_us)
    if spec.end_us is not None:
        parts["end"] = rfc3339(spec.end_us)
    if spec.jitter_us:
        parts["jitter"] = go_duration(spec.jitter_us)
    if spec.exclude:
        parts["exclude"] = list(spec.exclude)
    return parts


# --- the text


def _read_object(reader: ObjectReader) -> _ScheduleParts | None:
    """Read a schedule given as an object."""
    name, value = reader.take(*_KEYS)
    dialect = reader.text("dialect", max_bytes=32)
    if value is None:
        reader.problems.append(Problem(reader.pointer, f"has no schedule; give one of {', '.join(_KEYS)}"))
        return None
    if not isinstance(value, str | list) or (isinstance(value, list) and name not in _LISTED_KEYS):
        reader.fault(name, "must be text, or a list of texts" if name in _LISTED_KEYS else "must be text")
        return None
    parts = _read_texts(reader, name, value, name)
    if parts is None:
        return None
    if name in ("every", "in"):
        text = _read_interval(reader, name, parts.text)
        if text is None:
            return None
        parts.texts = [text]
    elif name in ("iso8601", "words"):
        parts.dialect = name
    if dialect is not None:
        parts.dialect = parts.kept_dialect = dialect
        parts.dialect_at = reader.at("dialect")
    return parts


def _read_texts(reader: ObjectReader, name: str, value: str | list[Any], expected: str | None) -> _ScheduleParts | None:
    """Read a text or a list of texts, without the blanks and line ends around each."""
    texts: list[str] = []
    for index, text in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(text, str):
            reader.fault((name, index), "must be text")
        elif isinstance(value, list) and text.strip() in (NOW, MANUAL):
            reader.fault((name, index), f'is "{text.strip()}", which cannot be in a list; give it alone')
        elif isinstance(value, list) and len(split_expressions(text)) > 1:
            reader.fault((name, index), 'contains "; also"; make each expression an item of the list')
        else:
            texts += [text.strip() for text, _ in split_expressions(text)]
    if isinstance(value, list) and not 1 <= len(value) <= MAX_EXPRESSIONS:
        reader.fault(name, f"has {len(value)} expressions, allowed 1 to {MAX_EXPRESSIONS}")
        return None
    if isinstance(value, list) and len(texts) < len(value):
        return None
    parts = _ScheduleParts(texts=texts, pointer=reader.at(name), is_list=isinstance(value, list), expected=expected)
    if expected == "cron" and not all(is_cron(text) for text in texts):
        parts.dialect = "standard"  # whose errors are about cron
    return parts


def _read_interval(reader: ObjectReader, name: str, value: str) -> str | None:
    """Convert a duration, or the two of a random interval, to the schedule expression that means it."""
    durations_us = []
    for text in _TO.split(value) if name == "every" else [value]:
        try:
            us = read_duration_us(text)
        except InvalidSchedule as error:
            reader.fault(name, str(error))
            return None
        if us <= 0:
            reader.fault(name, f"is {text}; use a duration above zero")
            return None
        durations_us.append(us)
    if name == "in":
        return f"in {format_period(Period(us=durations_us[0]))}"
    return f"@every {' to '.join(go_duration(us) for us in durations_us)}"


# --- options


def _read_options(outer: ObjectReader, inner: ObjectReader | None) -> dict[str, Any]:
    """Read the options, given with the job or with its schedule. ``timezone_at`` and so on hold their pointers."""
    forms = [outer] if inner is None else [inner, outer]
    options: dict[str, Any] = {}
    for reader in forms:
        if reader.lacks(_OPTION_FIELDS):
            continue
        parts = {name: read(reader) for name, read in _OPTIONS.items() if name in reader.data}
        if parts.get("dst") not in (None, *DST_POLICIES):
            reader.fault("dst", f'is "{parts["dst"]}", allowed: {", ".join(DST_POLICIES)}')
            parts["dst"] = None
        for name, value in parts.items():
            if value not in (None, ()) and name in options:
                reader.fault(name, "is given both with the job and with its schedule; give it once")
            elif value not in (None, ()):
                options[name] = value
                options[f"{name}_at"] = reader.at(name)
                if name == "exclude":
                    options["exclude_given"] = reader.data[name]
                if name == "end" and (end_after_us := _read_end_duration(reader, value)) is not None:
                    options["end_after"] = end_after_us
                    del options["end"]
    return options


def _read_end_duration(reader: ObjectReader, text: str) -> int | None:
    """Return the microseconds of an end that is given as a duration; None if it is an instant."""
    try:
        duration_us = read_duration_us(text.strip())
    except InvalidSchedule:
        return None
    if not 0 < duration_us <= MAX_DURATION_US:
        reader.fault("end", f"is {text}; use a duration above zero and up to 100 years, or an instant")
    return duration_us


def _to_schedule_input(reader: ObjectReader, parts: _ScheduleParts, options: dict[str, Any], key: str) -> ScheduleInput:
    """Parse the schedule and return it in its stored form."""
    timezone, dst = options.get("timezone"), options.get("dst", "robust")
    jitter_us, exclude = options.get("jitter", 0), options.get("exclude", ())
    windowed = "start" in options or "end" in options
    spec = ScheduleSpec(
        text=parts.text, timezone=timezone, dialect=parts.dialect, dst=dst, jitter_us=jitter_us, exclude=exclude
    )
    try:
        if windowed:
            schedule = parse_schedule(
                parts.expression,
                timezone=timezone,
                dialect=parts.dialect,
                dst=dst,
                start=options.get("start"),
                end=options.get("end"),
                jitter=timedelta(microseconds=jitter_us),
                exclude=exclude,
                key=key,
            )
        else:
            schedule = spec.parse(key)
    except InvalidSchedule as error:
        _note_schedule_faults(reader, parts, options, key, error)
        return ScheduleInput()
    faults = [_find_fault(parts, member) for member in schedule.members]
    if any(faults):
        reader.problems += [Problem(parts.at(index), fault) for index, fault in enumerate(faults) if fault]
        return ScheduleInput()
    end_after_us = options.get("end_after")
    if parts.kept_dialect == parts.dialect and not windowed:
        return ScheduleInput(spec=spec, schedule=schedule, pointer=parts.pointer, end_after_us=end_after_us)
    return ScheduleInput(
        pointer=parts.pointer,
        end_after_us=end_after_us,
        spec=replace(
            spec,
            dialect=parts.kept_dialect,
            start_us=parse_bound("start", options.get("start"), schedule.zone),
            end_us=parse_bound("end", options.get("end"), schedule.zone),
        ),
    )


def _note_schedule_faults(
    reader: ObjectReader, parts: _ScheduleParts, options: dict[str, Any], key: str, error: InvalidSchedule
) -> None:
    """Record every fault of a schedule: of its text, of each option, or of their combination."""
    count_before = len(reader.problems)
    zone = _note_option_faults(reader, options)
    dialect = parts.dialect
    if dialect not in DIALECTS:
        reader.problems.append(Problem(parts.dialect_at, f'is "{dialect}", allowed: {", ".join(DIALECTS)}'))
        dialect = "auto"
    for index, text in enumerate(parts.texts):
        fault: str | None
        try:
            fault = _find_fault(parts, parse_schedule(text, timezone=zone, dialect=dialect, key=key))
        except InvalidSchedule as fault_of_text:
            fault = str(fault_of_text)
        if fault is not None:
            reader.problems.append(Problem(parts.at(index), fault))
    if len(reader.problems) == count_before:
        reader.problems.append(Problem(parts.pointer, str(error)))


def _note_option_faults(reader: ObjectReader, options: dict[str, Any]) -> str | None:
    """Record the faults of the options. Returns the time zone, if it exists."""
    zone = options.get("timezone")
    if zone is not None and not _is_valid_option(reader, options["timezone_at"], timezone=zone):
        zone = None
    for name in ("start", "end"):
        if name in options:
            _is_valid_option(reader, options[f"{name}_at"], timezone=zone, **{name: options[name]})
    excluded = options.get("exclude_given", ())
    for index, text in enumerate([excluded] if isinstance(excluded, str) else excluded):
        at = options["exclude_at"]
        if isinstance(text, str) and len(text) <= MAX_LENGTH:
            _is_valid_option(reader, at if isinstance(excluded, str) else f"{at}/{index}", exclude=(text,))
    return zone


def _is_valid_option(reader: ObjectReader, pointer: str, **part: Any) -> bool:
    """Return whether a schedule with only this option parses; records the fault if not."""
    try:
        parse_schedule("@daily", **part)
    except InvalidSchedule as error:
        if error.subject != "schedule":  # the options may exclude every "@daily" instant, yet fit another schedule
            reader.problems.append(Problem(pointer, str(error)))
            return False
    return True


def _find_fault(parts: _ScheduleParts, schedule: Schedule) -> str | None:
    """Return why a valid schedule cannot be used by a job, or None."""
    rule = schedule.rule
    period_us = None
    if isinstance(rule, EveryRule):
        period_us = rule.period_us
    elif isinstance(rule, RandomRule):
        period_us = rule.shortest_us
    elif isinstance(rule, PeriodRule):
        period_us = rule.period.mean_us()
    if period_us is not None and period_us < SHORTEST_JOB_INTERVAL_US:
        return f"runs every {format_duration(period_us, exact=True)}; the shortest interval of a job is 100ms"
    text = schedule.text
    if parts.expected == "cron" and not isinstance(rule, CronRule | EveryRule | RandomRule):  # "@every" is cron too
        return f'"{text}" is not a cron expression; write schedule: "{text}"'
    if parts.expected == "at" and not is_instant(text):
        return f'is "{text}", which is not a date and time; write it like 2027-01-01T09:00:00Z'
    if parts.kind in _ONE_TIME_TYPES and isinstance(rule, CronRule | EveryRule | RandomRule):
        return f'is "{text}", which repeats, but schedule_type is {parts.kind}; give the time in execute_at'
    return None


# --- field names of other schedulers


def _read_schedule_type(reader: ObjectReader) -> str | None:
    kind = reader.text("schedule_type", max_bytes=64)
    known = (*_ONE_TIME_TYPES, *_RECURRING_TYPES, *_IMMEDIATE_TYPES)
    if kind is not None and kind.lower() not in known:
        reader.fault("schedule_type", f'is "{kind}", allowed: {", ".join(known)}')
        return None
    return None if kind is None else kind.lower()


def _check_kind(reader: ObjectReader, kind: str | None, parts: _ScheduleParts | None) -> None:
    """Check that the schedule fits ``schedule_type``."""
    if kind in _IMMEDIATE_TYPES and parts is not None:
        reader.fault("schedule_type", f"is {kind}, but a schedule is given; leave one of them out")
    elif kind in _ONE_TIME_TYPES and parts is None:
        reader.fault("schedule_type", f"is {kind}, but no time is given; give it in execute_at")
    elif kind in _RECURRING_TYPES and (parts is None or parts.expected == "at"):
        reader.fault(
            "schedule_type", f"is {kind}, but no recurring schedule is given; give it in cron_expression or schedule"
        )
