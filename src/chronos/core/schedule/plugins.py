"""Schedules that other packages bring: ``@name`` or ``@name and what it is told``, found as entry points.

An entry point of the group ``chronos.schedules`` names an object with ``next_after``, or whatever makes one of the
text behind the name and the time zone. Finding code that is installed is like importing it: the one thing here that
is not pure. What is found has to be, as every node asks it for itself.
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
_CUSTOM_TEXT = re.compile(r"@([a-z][a-z0-9_-]*)(?:[ \t].*)?", re.DOTALL)


class CustomSchedule(Protocol):
    """What a package brings."""

    def next_after(self, instant: datetime, /) -> datetime | None:
        """The first instant strictly after ``instant``, which is in UTC; None when there is none."""


@dataclass(frozen=True, slots=True)
class CustomRule:
    """Asks an object of another package, and does not believe everything it says."""

    text: str
    zone: Zone
    custom: CustomSchedule = field(compare=False, repr=False)

    def next_us(self, after_us: int) -> int | None:
        """The first instant strictly after ``after_us``. Raises ``InvalidSchedule`` if the object cannot say."""
        after = from_us(max(after_us, FIRST_US))
        try:
            answer = self.custom.next_after(after)
            is_instant = isinstance(answer, datetime) and answer.utcoffset() is not None
        except Exception as error:
            raise _invalid(
                self.text, f"failed when it was asked for its next instant: {_format_error(error)}"
            ) from error
        if answer is None:
            return None
        if not is_instant:
            raise _invalid(self.text, f"answered {answer!r}, which is no datetime with a time zone")
        answer_us = to_us(answer)
        if answer_us <= after_us:
            raise _invalid(self.text, f"answered {answer.isoformat()}, which is not after {after.isoformat()}")
        return answer_us if answer_us <= LAST_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """None: only a walk can tell."""
        return None


def custom_names() -> list[str]:
    """The names that packages have registered, as they are written."""
    return [f"@{name}" for name in _registered()]


def is_custom(text: str) -> bool:
    """Whether a package has registered the name that a text begins with."""
    match = _CUSTOM_TEXT.fullmatch(text)
    return match is not None and match[1] in _registered()


def parse_custom(text: str, zone: Zone) -> CustomRule:
    """The rule of a text that is one. Raises ``InvalidSchedule``."""
    name, _, argument = text.removeprefix("@").replace("\t", " ").partition(" ")
    return CustomRule(text, zone, _load(text, _registered()[name], argument.strip(), zone.name))


@cache
def _registered() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - it takes longer than most schedules

    return {entry_point.name: entry_point for entry_point in entry_points(group=ENTRY_POINT_GROUP)}


def _load(text: str, entry_point: "EntryPoint", argument: str, timezone: str) -> CustomSchedule:
    try:
        loaded = entry_point.load()
    except Exception as error:
        raise _invalid(text, f"could not be loaded from {entry_point.value}: {_format_error(error)}") from error
    if isinstance(loaded, type) or not hasattr(loaded, "next_after"):
        return _call_factory(text, loaded, argument, timezone)
    if argument:
        raise _invalid(text, f'takes nothing behind its name, got "{argument}"')
    schedule: CustomSchedule = loaded
    return schedule


def _call_factory(text: str, factory: Callable[..., Any], argument: str, timezone: str) -> CustomSchedule:
    try:
        schedule: CustomSchedule = factory(argument, timezone=timezone)
    except ValueError as error:
        raise _invalid(text, _format_error(error, message_only=True)) from error
    except Exception as error:
        raise _invalid(text, f"could not be made: {_format_error(error)}") from error
    if not callable(getattr(schedule, "next_after", None)):
        raise _invalid(text, f"is a {type(schedule).__name__}, which has no next_after")
    return schedule


def _invalid(text: str, reason: str) -> InvalidSchedule:
    name = text.split(maxsplit=1)[0]
    return InvalidSchedule(text, reason, subject=f'"{name}"', position=0, length=len(name))


def _format_error(error: Exception, *, message_only: bool = False) -> str:
    message = " ".join(str(error).split())[:500]
    return message if message_only and message else f"{type(error).__name__}: {message}"
