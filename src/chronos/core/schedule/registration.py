"""Registers the custom schedules of a program, so that ``@name`` means them in this process."""

import re
from collections.abc import Callable
from typing import Any

from chronos.core.schedule.cron_parser import MACROS
from chronos.core.schedule.plugins import PROGRAM_SCHEDULES, CustomSchedule, is_registered
from chronos.errors import Conflict, Invalid

_BUILT_IN = frozenset({*(macro.removeprefix("@") for macro in MACROS), "every", "reboot"})
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def register_schedule(name: str, schedule: "CustomSchedule | Callable[..., CustomSchedule]") -> None:
    """Register a custom schedule of this program, so that ``@name`` means it wherever a schedule is accepted.

    - ``schedule``: an object with ``next_after(instant)``, or a class or function that creates one. It is called with
      the text behind the name and with the time zone: ``@tide Dover`` calls ``Tide("Dover", timezone="UTC")``.

    Registering an equal object again changes nothing. Raises ``Invalid`` for a wrong name or object, and ``Conflict``
    if another schedule has the name.

    Example::

        register_schedule("full-moon", Moon())
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(f"the name of a schedule is {name!r}; use lower-case letters, digits, - and _, like full-moon")
    if name in _BUILT_IN:
        raise Invalid(f"@{name} is built in; choose another name for the schedule")
    if not callable(schedule) and not callable(getattr(schedule, "next_after", None)):
        raise Invalid(f"the schedule @{name} is {schedule!r}, which has no next_after(instant); add this method")
    if name in PROGRAM_SCHEDULES and not _is_same(PROGRAM_SCHEDULES[name], schedule):
        raise Conflict(f"another schedule is registered as @{name}; give each schedule its own name")
    if name not in PROGRAM_SCHEDULES and is_registered(name):
        raise Conflict(f"an installed package registers @{name}; choose another name for the schedule")
    PROGRAM_SCHEDULES[name] = schedule


def register_object(schedule: CustomSchedule) -> str:
    """Register an object under its own name, and return the text that means it.

    The name is that of the registration, or the attribute ``name`` of the object, or else that of its class:
    ``FullMoon()`` is ``@full-moon``. Raises as ``register_schedule`` does.
    """
    for name, registered in PROGRAM_SCHEDULES.items():
        if registered is schedule:
            return f"@{name}"
    own_name = getattr(schedule, "name", None)
    if own_name is None:
        own_name = _WORD_STARTS.sub("-", type(schedule).__name__.strip("_")).lower()
    try:
        register_schedule(own_name, schedule)
    except (Invalid, Conflict) as error:
        hint = "it comes from the attribute name of the object, or from its class"
        raise type(error)(f"{error} ({hint})") from None
    return f"@{own_name}"


def _is_same(first: Any, second: Any) -> bool:
    """Whether two objects are one schedule: equal, or of the same class and with the same state.

    A class that was defined again, as by a reload, is the same class.
    """
    if first is second or _is_equal(first, second):
        return True
    kinds = [
        value if isinstance(value, type) or not hasattr(value, "next_after") else type(value)
        for value in (first, second)
    ]
    names = [f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '<lambda>')}" for kind in kinds]
    if names[0] != names[1] or "<lambda>" in names[0]:
        return False
    return kinds[0] is first or _is_equal(first.__getstate__(), second.__getstate__())


def _is_equal(first: Any, second: Any) -> bool:
    return bool(first == second)
