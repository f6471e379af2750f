"""Parses cron text to a ``Cron``: fields, names, macros and common extensions, with errors that point at the text.

The parser is linear. It accepts ASCII only, with fields separated by blanks and tabs. Dialects:

* ``standard``: minute hour day month weekday (crontab(5)); ``seconds``: the same after a seconds field. Both accept
  names, ``7`` as Sunday, steps, ``5/15``, ``L``, ``L-3``, ``15W``, ``LW``, ``MON#2``, ``5L``, ``?`` and ``H``.
* ``auto``: five fields, six with seconds, or seven with seconds and a year. It also accepts ranges that wrap around
  (``FRI-MON``), full names, ``l`` and ``w`` in lower case, ``L-3W``, and macros in any case.
* ``quartz``: six fields, or seven with a year, as ``auto``; but 1 is Sunday, ``/5`` starts at the first value, and one
  of the day fields must be free.
* ``posix``: five fields of ``*``, numbers, ranges and lists.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import NoReturn

from chronos.core.schedule.cron import ALL_WEEKDAYS, FIRST_YEAR, LAST_NTH, LAST_YEAR, Cron
from chronos.core.schedule.cron_format import list_set_bits
from chronos.core.schedule.plugins import custom_names, find_custom_name
from chronos.errors import InvalidSchedule, UnknownSchedule

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAY_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: a cheap cache key
class _Field:
    name: str
    low: int
    high: int  # the highest value that may be written
    end: int  # the last value of `*` and `5/15`
    names: tuple[str, ...] = ()  # in full; the first three letters are a name too
    lenient: bool = False  # accepts full names, lower-case `l` and `w`, `L-3W`, and ranges that wrap around
    bare_steps: bool = False  # accepts `/5`, from the first value


_SECOND = _Field("second", 0, 59, 59)
_MINUTE = _Field("minute", 0, 59, 59)
_HOUR = _Field("hour", 0, 23, 23)
_DAY = _Field("day", 1, 31, 31)
_MONTH = _Field("month", 1, 12, 12, MONTH_NAMES)
_WEEKDAY = _Field("weekday", 0, 7, 6, WEEKDAY_NAMES)
_YEAR = _Field("year", FIRST_YEAR, LAST_YEAR, LAST_YEAR)
_POSIX_WEEKDAY = _Field("weekday", 0, 6, 6)
_POSIX_MONTH = _Field("month", 1, 12, 12)

_STANDARD = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)
_WITH_SECONDS = (_SECOND, *_STANDARD)
_POSIX = (_MINUTE, _HOUR, _DAY, _POSIX_MONTH, _POSIX_WEEKDAY)
_LENIENT = tuple(replace(field, lenient=True) for field in _WITH_SECONDS)
_QUARTZ_WEEKDAY = _Field("weekday", 1, 7, 7, WEEKDAY_NAMES, lenient=True)
_QUARTZ = tuple(replace(field, bare_steps=True) for field in (*_LENIENT[:-1], _QUARTZ_WEEKDAY))
#: The layouts of each dialect; they differ in length. Errors show the first.
_LAYOUTS = {
    "standard": (_STANDARD,),
    "seconds": (_WITH_SECONDS,),
    "posix": (_POSIX,),
    "auto": (_LENIENT[1:], _LENIENT, (*_LENIENT, _YEAR)),
    "quartz": (_QUARTZ, (*_QUARTZ, replace(_YEAR, bare_steps=True))),
}

_TOKEN = re.compile(r"[^ \t]+")
_HASHED = re.compile(r"H(?:\((\d+)-(\d+)\))?(?:/(\d+))?")
_LAST_DAY = re.compile(r"L(?:-(\d+))?")
_NEAREST = re.compile(r"(\d+|L)W")
_NEAREST_LAST = re.compile(r"L-(\d+)W")
_NTH = re.compile(r"(\w+)#(\d+)")
_LAST_WEEKDAY = re.compile(r"(\w+)L")
_LAST_FIRST = re.compile(r"L(\d|[a-zA-Z]{3,})")


class _FieldError(Exception):
    """An error within a field: the reason, and the part at fault. The caller adds the position of the field."""

    def __init__(self, reason: str, part: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.part, self.hint = reason, part, hint


@dataclass(frozen=True, slots=True)
class _FieldMasks:
    """A parsed field: plain values, and the special days of the two day fields."""

    mask: int = 0
    last: int = 0
    nearest: int = 0
    nearest_last: int = 0
    nth: int = 0


def parse_cron(text: str, *, dialect: str, key: str = "") -> Cron:
    """Parse fields or a macro, without a zone prefix. ``key`` is hashed for ``H``. Raises ``InvalidSchedule``."""
    if not text.isascii():
        _fail_non_ascii(text, dialect)
    if text.startswith("@") and dialect not in ("posix", "quartz"):
        return _parse_macro(text, any_case=dialect == "auto")
    tokens = list(_TOKEN.finditer(text))
    layout = _find_layout(dialect, len(tokens))
    if layout is None:
        _fail_count(text, len(tokens), dialect)
    fields: list[_FieldMasks] = []
    for token, field in zip(tokens, layout, strict=True):
        value = token.group()
        try:
            if dialect == "posix":
                fields.append(_parse_posix_field(value, field))
            elif "H" in value and _HASHED.search(value):
                fields.append(_parse_field(value, field, key))
            else:
                fields.append(_parse_field(value, field, ""))
        except _FieldError as fault:
            _fail(text, fault, field, token.start(), value)
    cron = _build_cron(fields, [token.group() for token in tokens])
    second_at = len(tokens) > len(_STANDARD)
    day, month, weekday = tokens[2 + second_at : 5 + second_at]
    if dialect == "quartz" and not {"*", "?"} & {day.group(), weekday.group()}:
        raise InvalidSchedule(
            text,
            "restricts both the day and the weekday, which Quartz does not support",
            subject="cron expression",
            position=day.start(),
            length=weekday.end() - day.start(),
            hint='write "?" for one of them',
        )
    if dialect != "posix" and cron.never_matches():
        raise InvalidSchedule(
            text,
            "never matches: no such date exists",
            subject="cron expression",
            position=day.start(),
            length=month.end() - day.start(),
        )
    return cron


def find_single_value_steps(text: str, dialect: str) -> list[tuple[str, str, int, int]]:
    """Return the steps of a valid expression that leave one value, such as ``*/90``: field, item, step and value."""
    tokens = text.split()
    layout = _find_layout(dialect, len(tokens)) or ()
    found = []
    for token, field in zip(tokens, layout, strict=False):
        for item in token.split(","):
            base, _, step = item.partition("/")
            if not step.isdigit() or base.startswith("H"):
                continue
            values = list_set_bits(_parse_item(item, field))
            if len(values) == 1:
                found.append((field.name, item, int(step), values[0]))
    return found


def _build_cron(fields: list[_FieldMasks], texts: list[str]) -> Cron:
    years = 0
    if len(fields) == len(_WITH_SECONDS) + 1:
        years = 0 if texts[-1] == "*" else fields[-1].mask >> FIRST_YEAR
        fields, texts = fields[:-1], texts[:-1]
    seconds = fields[0].mask if len(fields) == len(_WITH_SECONDS) else 1
    minute, hour, day, month, weekday = fields[-5:]
    day_free, weekday_free = texts[-3][0] in "*?", texts[-1][0] in "*?"
    return Cron(
        seconds=seconds,
        minutes=minute.mask,
        hours=hour.mask,
        days=day.mask,
        months=month.mask,
        weekdays=weekday.mask,
        last=day.last,
        nearest=day.nearest,
        nearest_last=day.nearest_last,
        nth=weekday.nth,
        either=not (day_free or weekday_free),
        wildcard=texts[-5][0] == "*" or texts[-4][0] == "*",
        years=years,
    )


def _find_layout(dialect: str, count: int) -> tuple[_Field, ...] | None:
    """Return the layout with this number of fields, or None."""
    return next((layout for layout in _LAYOUTS[dialect] if len(layout) == count), None)


def _parse_macro(text: str, *, any_case: bool) -> Cron:
    expansion = MACROS.get(text.lower() if any_case else text)
    if expansion is None:
        known = ", ".join(sorted({*MACROS, *custom_names()}))
        hint = f'macros are written in lower case: "{text.lower()}"' if text.lower() in MACROS else f"known: {known}"
        if text == "@reboot":
            hint = "give a schedule, or start the command from the service manager"
        kind = UnknownSchedule if find_custom_name(text) else InvalidSchedule
        raise kind(text, "is not a known macro", subject=f'"{text}"', position=0, length=len(text), hint=hint)
    return parse_cron(expansion, dialect="standard")


@lru_cache(maxsize=4096)
def _parse_field(text: str, field: _Field, key: str) -> _FieldMasks:
    """Parse a field of the standard dialects."""
    if text == "*":
        return _FieldMasks(_fold_weekdays(_range_mask(field.low, field.end, 1), field))
    if text == "?":
        if field.name not in ("day", "weekday"):
            raise _FieldError('is "?", allowed only for day and weekday', text, 'write "*"')
        return _FieldMasks(_fold_weekdays(_range_mask(field.low, field.end, 1), field))
    mask = last = nearest = nearest_last = nth = 0
    for item in text.split(","):
        if not item:
            raise _FieldError("has an empty list item", text)
        if field.name == "weekday" and field.low and item in ("L", "l"):
            mask |= 1 << field.high  # for Quartz, the last day of the week
        elif item[0] == "H":
            mask |= _parse_hashed(item, field, key)
        elif field.name == "day" and (special := _parse_special_day(item, field)):
            last |= special.last
            nearest |= special.nearest
            nearest_last |= special.nearest_last
        elif field.name == "weekday" and (special := _parse_special_weekday(item, field)):
            nth |= special.nth
        else:
            mask |= _parse_item(item, field)
    return _FieldMasks(_fold_weekdays(mask, field), last, nearest, nearest_last, nth)


def _fold_weekdays(mask: int, field: _Field) -> int:
    """Number the weekdays from 0 for Sunday: 7 is Sunday too, and Quartz counts from 1."""
    if field.name != "weekday":
        return mask
    return mask >> 1 if field.low else (mask | mask >> 7) & ALL_WEEKDAYS


def _parse_item(item: str, field: _Field) -> int:
    """Parse ``*``, ``5`` or ``1-5``, each with an optional ``/step``; ``5/15`` goes to the end of the field."""
    base, slash, step_text = item.partition("/")
    step = 1
    if slash:
        if not step_text.isdigit():
            raise _FieldError(f'has the step "{step_text}", expected a number of at least 1', item)
        step = int(step_text)
        if step == 0:
            raise _FieldError("has a step of 0, expected at least 1", item)
    if base == "*" or (slash and not base and field.bare_steps):
        return _range_mask(field.low, field.end, step)
    low_text, dash, high_text = base.partition("-")
    low = _parse_value(low_text, field, item)
    if dash:
        high = _parse_value(high_text, field, item)
        if high < low and field.lenient:
            size = field.end - field.low + 1
            return sum(1 << (value - field.low) % size + field.low for value in range(low, high + size + 1, step))
        if high < low:
            hint = "Sunday is 0 at the start of a range and 7 at its end" if high_text.lower() == "sun" else None
            raise _FieldError(f"has a range that goes backwards, {base}", base, hint or _split_hint(low, high, field))
    else:
        high = field.end if slash else low
    return _range_mask(low, max(high, low), step)


def _split_hint(low: int, high: int, field: _Field) -> str:
    return f'write "{low}-{field.end},{field.low}-{high}"'


def _parse_value(text: str, field: _Field, item: str) -> int:
    if text.isdigit():
        value = int(text)
        if not field.low <= value <= field.high:
            raise _FieldError(f"is {text}, allowed {field.low}–{field.high}", text)
        return value
    lowered = text.lower()
    for index, name in enumerate(field.names):
        if lowered == name[:3] or (field.lenient and lowered == name):
            return index + field.low
    if not text:
        raise _FieldError(f'is "{item}", a value is missing', item)
    raise _FieldError(f'is "{text}", expected {_format_allowed(field)}', text, _name_hint(lowered, field))


def _format_allowed(field: _Field) -> str:
    numbers = f"a number from {field.low} to {field.high}"
    return f"{numbers} or {field.names[0][:3]} to {field.names[-1][:3]}" if field.names else numbers


def _name_hint(lowered: str, field: _Field) -> str | None:
    for name in field.names:
        if len(lowered) > 3 and lowered.startswith(name[:3]):
            return f'write "{name[:3]}"'
    return None


def _range_mask(low: int, high: int, step: int) -> int:
    if step == 1:
        return (2 << high) - (1 << low)
    mask = 0
    for value in range(low, high + 1, step):
        mask |= 1 << value
    return mask


def _parse_hashed(item: str, field: _Field, key: str) -> int:
    """Parse ``H``, ``H/15``, ``H(0-29)`` or ``H(0-29)/10``: a value that depends only on the key."""
    match = _HASHED.fullmatch(item)
    if match is None:
        raise _FieldError(f'is "{item}", expected H, H/15, H(0-29) or H(0-29)/10', item)
    low_text, high_text, step_text = match.groups()
    low, high = field.low, 28 if field.name == "day" else field.end  # not every month has a 29th
    if low_text is not None:
        low, high = _parse_value(low_text, field, item), _parse_value(high_text, field, item)
        if high < low:
            raise _FieldError(f"has a range that goes backwards, {low}-{high}", item)
    digest = int.from_bytes(blake2b(f"{field.name}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest())
    if step_text is None:
        return 1 << (low + digest % (high - low + 1))
    step = int(step_text)
    if not 1 <= step <= high - low + 1:
        raise _FieldError(f"has a step of {step}, allowed 1–{high - low + 1}", item)
    return _range_mask(low + digest % step, high, step)


def _parse_special_day(item: str, field: _Field) -> _FieldMasks | None:
    if field.lenient:
        item = item.upper()
    if field.lenient and (match := _NEAREST_LAST.fullmatch(item)):
        back = int(match.group(1))
        if back > 30:
            raise _FieldError(f"goes {back} days back from the last, allowed 0–30", item)
        return _FieldMasks(nearest_last=1 << back) if back else _FieldMasks(nearest=1)
    if match := _LAST_DAY.fullmatch(item):
        back = int(match.group(1) or 0)
        if back > 30:
            raise _FieldError(f"goes {back} days back from the last, allowed 0–30", item)
        return _FieldMasks(last=1 << back)
    if match := _NEAREST.fullmatch(item):
        if match.group(1) == "L":
            return _FieldMasks(nearest=1)
        return _FieldMasks(nearest=1 << _parse_value(match.group(1), _DAY, item))
    return None


def _parse_special_weekday(item: str, field: _Field) -> _FieldMasks | None:
    if field.lenient:
        item = item.upper()
    if match := _NTH.fullmatch(item):
        nth = int(match.group(2))
        if not 1 <= nth <= 5:
            raise _FieldError(f"asks for number {nth} of a weekday, allowed 1–5", item)
        return _FieldMasks(nth=1 << (7 * (nth - 1) + _parse_weekday(match.group(1), field, item)))
    if item == "L":
        raise _FieldError('is "L", expected which weekday', item, 'write "6L" for the last Saturday of the month')
    if match := _LAST_WEEKDAY.fullmatch(item):
        return _FieldMasks(nth=1 << (7 * LAST_NTH + _parse_weekday(match.group(1), field, item)))
    if match := _LAST_FIRST.fullmatch(item):
        raise _FieldError(f'is "{item}", expected the weekday before the L', item, f'write "{match.group(1)}L"')
    return None


def _parse_weekday(text: str, field: _Field, item: str) -> int:
    return (_parse_value(text, field, item) - field.low) % 7


def _parse_posix_field(text: str, field: _Field) -> _FieldMasks:
    """Parse ``"*" | element ("," element)*``, where element is a number or a range."""
    if text == "*":
        return _FieldMasks(_range_mask(field.low, field.end, 1))
    mask = 0
    for item in text.split(","):
        for sign, syntax in (("/", "step syntax"), ("?", "Quartz syntax"), ("#", "Quartz syntax")):
            if sign in item:
                raise _FieldError(f"uses {syntax}, which POSIX does not have", item)
        if item == "*":
            raise _FieldError('has "*" in a list', text)
        if not item:
            raise _FieldError("has an empty list item", text)
        mask |= _parse_item(item, field)
    return _FieldMasks(mask)


def _fail_non_ascii(text: str, dialect: str) -> NoReturn:
    at = next(i for i, char in enumerate(text) if not char.isascii())
    reason = f'has the character "{text[at]}" (U+{ord(text[at]):04X}), expected plain ASCII'
    tokens = list(_TOKEN.finditer(text))
    layout = _find_layout(dialect, len(tokens))
    if layout is None:
        raise InvalidSchedule(text, reason, subject="cron expression", position=at)
    field = next(field for token, field in zip(tokens, layout, strict=True) if at < token.end())
    raise InvalidSchedule(text, reason, subject="cron", field=field.name, position=at)


def _fail_count(text: str, count: int, dialect: str) -> NoReturn:
    layouts = _LAYOUTS[dialect]
    expected = " or ".join(str(len(layout)) for layout in layouts)
    names = " ".join(field.name for field in layouts[0])
    fault = "is empty" if count == 0 else f"has {count} field{'s' * (count != 1)}"
    hint = f"the fields are: {names}"
    if dialect == "standard" and count == 6:
        hint += '; with seconds first, use the dialect "seconds"'
    elif dialect == "auto":
        hint += "; before them a second, and after that a year last"
    elif dialect == "quartz":
        hint += "; then a year"
    raise InvalidSchedule(text, f"{fault}, expected {expected}", subject="cron expression", hint=hint)


def _fail(text: str, fault: _FieldError, field: _Field, start: int, value: str) -> NoReturn:
    offset = max(0, value.find(fault.part))
    raise InvalidSchedule(
        text,
        fault.reason,
        subject="cron",
        field=field.name,
        position=start + offset,
        length=len(fault.part) or len(value),
        hint=fault.hint,
    ) from None
