"""Chronos: a job scheduler that runs jobs at the right time, once, and can say what it did and why.

How the package is laid out, from the inside out; each layer imports only what stands above it here:

* ``errors``: the one error tree.
* ``core``: pure decisions. No I/O, no clock, no dice: time, ids and randomness are arguments.
* ``store``: the source of truth. Commands in, results out; SQLite and PostgreSQL behind one contract.
* ``assembly``: the only place that composes the parts.
* ``cli``: the ``chronos`` and ``chronosctl`` commands; ``testing``: what Chronos gives to tests.

The names below are the whole public surface; everything else may move. They are imported when first used, so that
``chronosctl --help`` does not load the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronos.core.parse import parse_schedule
    from chronos.core.schedule import Schedule
    from chronos.errors import ChronosError, InvalidSchedule

__all__ = ["ChronosError", "InvalidSchedule", "Schedule", "parse_schedule"]

_HOMES = {
    "ChronosError": "chronos.errors",
    "InvalidSchedule": "chronos.errors",
    "Schedule": "chronos.core.schedule",
    "parse_schedule": "chronos.core.parse",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
