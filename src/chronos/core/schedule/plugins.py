"""Custom schedules: ``@name`` or ``@name argument``, registered by the program or as entry points of other packages.

What is registered is an object with ``next_after``, or a factory that creates one from the argument and the time zone.
Entry points have the group ``chronos.schedules``; ``registration`` adds the objects of the program. Looking up a name
is like an import: the only impure step in this package. The schedule itself must be pure, because every node evaluates
it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from chronos.core.calendar import FIRST_US, LAST_US, from_us, to_us
from chronos.core.schedule.timezones import Zone
from chronos.errors import InvalidSchedule

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "chronos.schedules"
_QUOTED_ARGUMENT = re.compile(r'"([^"]*)"')
_CUSTOM_TEXT = re.compile(r"@([a-z][a-z0-9_-]*)(?:[ \t].*)?", re.DOTALL)


class CustomSchedule(Protocol):
    """A schedule that a program or another package implements."""

    def next_after(self, instant: datetime, /) -> datetime | None:
        """Return the first instant strictly after ``instant``, which is in UTC; None if no instant follows."""


@dataclass(frozen=True, slots=True)
class CustomRule:
    """A rule that calls a custom schedule and validates its answers."""

    text: str
    zone: Zone
    custom: CustomSchedule = field(compare=False, repr=False)

    def next_us(self, after_us: int) -> int | None:
        """Return the first instant strictly after ``after_us``. Raises ``InvalidSchedule`` if the object fails."""
        after = from_us(max(after_us, FIRST_US))
        try:
            answer = self.custom.next_after(after)
            is_instant = isinstance(answer, datetime) and answer.utcoffset() is not None
        except Exception as error:
            raise _invalid(self.text, f"failed in next_after: {_format_error(error)}") from error
        if answer is None:
            return None
        if not is_instant:
            raise _invalid(self.text, f"returned {answer!r}, expected a datetime with a time zone")
        answer_us = to_us(answer)
        if answer_us <= after_us:
            raise _invalid(self.text, f"returned {answer.isoformat()}, expected an instant after {after.isoformat()}")
        return answer_us if answer_us <= LAST_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Return None: counting requires a walk."""
        return None


#: The objects and factories that this program registered, by name.
PROGRAM_SCHEDULES: dict[str, Any] = {}


def custom_names() -> list[str]:
    """Return the registered names, as users write them."""
    return [f"@{name}" for name in {**_registered(), **PROGRAM_SCHEDULES}]


def find_custom_name(text: str) -> str | None:
    """Return the name with which a text begins, registered or not; None if it has another shape."""
    match = _CUSTOM_TEXT.fullmatch(text)
    return None if match is None else match[1]


def is_registered(name: str) -> bool:
    """Whether a name is registered in this process."""
    return name in PROGRAM_SCHEDULES or name in _registered()


def is_custom(text: str) -> bool:
    """Whether a text begins with a registered name."""
    name = find_custom_name(text)
    return name is not None and is_registered(name)


def parse_custom(text: str, zone: Zone) -> CustomRule:
    """Return the rule of a text for which ``is_custom`` is true. Raises ``InvalidSchedule``."""
    name, _, rest = text.removeprefix("@").replace("\t", " ").partition(" ")
    argument = rest.strip()
    if quoted := _QUOTED_ARGUMENT.fullmatch(argument):
        argument = quoted[1]
    registered = PROGRAM_SCHEDULES[name] if name in PROGRAM_SCHEDULES else _load(text, _registered()[name])
    return CustomRule(text, zone, _to_schedule(text, registered, argument, zone.name))


@cache
def _registered() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - a slow import, rarely needed

    return {entry_point.name: entry_point for entry_point in entry_points(group=ENTRY_POINT_GROUP)}


def _load(text: str, entry_point: "EntryPoint") -> Any:
    try:
        return entry_point.load()
    except Exception as error:
        raise _invalid(text, f"could not be loaded from {entry_point.value}: {_format_error(error)}") from error


def _to_schedule(text: str, registered: Any, argument: str, timezone: str) -> CustomSchedule:
    if isinstance(registered, type) or not hasattr(registered, "next_after"):
        return _call_factory(text, registered, argument, timezone)
    if argument:
        raise _invalid(text, f'takes no argument, got "{argument}"')
    schedule: CustomSchedule = registered
    return schedule


def _call_factory(text: str, factory: Callable[..., Any], argument: str, timezone: str) -> CustomSchedule:
    try:
        schedule: CustomSchedule = factory(argument, timezone=timezone)
    except ValueError as error:
        raise _invalid(text, _format_error(error, message_only=True)) from error
    except Exception as error:
        raise _invalid(text, f"could not be created: {_format_error(error)}") from error
    if not callable(getattr(schedule, "next_after", None)):
        raise _invalid(text, f"is a {type(schedule).__name__} without next_after")
    return schedule


def _invalid(text: str, reason: str) -> InvalidSchedule:
    name = text.split(maxsplit=1)[0]
    return InvalidSchedule(text, reason, subject=f'"{name}"', position=0, length=len(name))


def _format_error(error: Exception, *, message_only: bool = False) -> str:
    message = " ".join(str(error).split())[:500]
    return message if message_only and message else f"{type(error).__name__}: {message}"
