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
_WRITTEN = re.compile(r"@([a-z][a-z0-9_-]*)(?:[ \t].*)?", re.DOTALL)


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
        asked = from_us(max(after_us, FIRST_US))
        try:
            found = self.custom.next_after(asked)
            is_instant = isinstance(found, datetime) and found.utcoffset() is not None
        except Exception as error:
            raise _fault(self.text, f"failed when it was asked for its next instant: {_format_error(error)}") from error
        if found is None:
            return None
        if not is_instant:
            raise _fault(self.text, f"answered {found!r}, which is no datetime with a time zone")
        found_us = to_us(found)
        if found_us <= after_us:
            raise _fault(self.text, f"answered {found.isoformat()}, which is not after {asked.isoformat()}")
        return found_us if found_us <= LAST_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """None: only a walk can tell."""
        return None


def custom_names() -> list[str]:
    """The names that packages have registered, as they are written."""
    return [f"@{name}" for name in _registered()]


def is_custom(text: str) -> bool:
    """Whether a package has registered the name that a text begins with."""
    written = _WRITTEN.fullmatch(text)
    return written is not None and written[1] in _registered()


def parse_custom(text: str, zone: Zone) -> CustomRule:
    """The rule of a text that is one. Raises ``InvalidSchedule``."""
    name, _, told = text.removeprefix("@").replace("\t", " ").partition(" ")
    return CustomRule(text, zone, _make(text, _registered()[name], told.strip(), zone.name))


@cache
def _registered() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - it takes longer than most schedules

    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _make(text: str, point: "EntryPoint", told: str, timezone: str) -> CustomSchedule:
    try:
        loaded = point.load()
    except Exception as error:
        raise _fault(text, f"could not be loaded from {point.value}: {_format_error(error)}") from error
    if isinstance(loaded, type) or not hasattr(loaded, "next_after"):
        return _call_factory(text, loaded, told, timezone)
    if told:
        raise _fault(text, f'takes nothing behind its name, got "{told}"')
    found: CustomSchedule = loaded
    return found


def _call_factory(text: str, make: Callable[..., Any], told: str, timezone: str) -> CustomSchedule:
    try:
        found: CustomSchedule = make(told, timezone=timezone)
    except ValueError as error:
        raise _fault(text, _format_error(error, plainly=True)) from error
    except Exception as error:
        raise _fault(text, f"could not be made: {_format_error(error)}") from error
    if not callable(getattr(found, "next_after", None)):
        raise _fault(text, f"is a {type(found).__name__}, which has no next_after")
    return found


def _fault(text: str, reason: str) -> InvalidSchedule:
    name = text.split(maxsplit=1)[0]
    return InvalidSchedule(text, reason, subject=f'"{name}"', position=0, length=len(name))


def _format_error(error: Exception, *, plainly: bool = False) -> str:
    words = " ".join(str(error).split())[:500]
    return words if plainly and words else f"{type(error).__name__}: {words}"
