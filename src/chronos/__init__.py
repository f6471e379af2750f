"""Chronos: a job scheduler that runs jobs at the right time, once, and can say what it did and why.

How the package is laid out, from the inside out; each layer imports only what stands above it here:

* ``errors``: the one error tree.
* ``core``: pure decisions. No I/O, no clock, no dice: time, ids and randomness are arguments.
* ``store``: the source of truth. Commands in, results out; SQLite and PostgreSQL behind one contract.
* ``clock``: the one place that reads the time.
* ``engine``: what runs: one node's loops, and the runners that do the work; ``observe``: metrics and logs of it.
* ``service``: what every face shares: job shapes, saving, triggering.
* ``assembly``: the only place that composes the parts.
* ``sdk``: ``Chronos``, for Python programs; ``declarative``: a scheduler of two methods; ``api``: REST.
* ``server``: configuration and life of a server process.
* ``cli``: the ``chronos`` and ``chronosctl`` commands; ``testing``: what Chronos gives to tests.

The names below are the whole public surface; everything else may move. They are imported when first used, so that
``chronosctl --help`` does not load the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronos.core.parse import parse_schedule
    from chronos.core.schedule import Schedule
    from chronos.engine.runners.context import Context
    from chronos.errors import ChronosError, Conflict, Invalid, InvalidSchedule, NotFound, Unavailable
    from chronos.sdk.app import Chronos
    from chronos.sdk.group import Group, Task
    from chronos.sdk.job import Job, JobHandle
    from chronos.sdk.run import Run
    from chronos.sdk.values import JobInfo, RunFailed, RunInfo, SpanInfo, TaskInfo

_HOMES = {
    "Chronos": "chronos.sdk.app",
    "ChronosError": "chronos.errors",
    "Conflict": "chronos.errors",
    "Context": "chronos.engine.runners.context",
    "Group": "chronos.sdk.group",
    "Invalid": "chronos.errors",
    "InvalidSchedule": "chronos.errors",
    "Job": "chronos.sdk.job",
    "JobHandle": "chronos.sdk.job",
    "JobInfo": "chronos.sdk.values",
    "NotFound": "chronos.errors",
    "Run": "chronos.sdk.run",
    "RunFailed": "chronos.sdk.values",
    "RunInfo": "chronos.sdk.values",
    "Schedule": "chronos.core.schedule",
    "SpanInfo": "chronos.sdk.values",
    "Task": "chronos.sdk.group",
    "TaskInfo": "chronos.sdk.values",
    "Unavailable": "chronos.errors",
    "parse_schedule": "chronos.core.parse",
}

__all__ = [
    "Chronos",
    "ChronosError",
    "Conflict",
    "Context",
    "Group",
    "Invalid",
    "InvalidSchedule",
    "Job",
    "JobHandle",
    "JobInfo",
    "NotFound",
    "Run",
    "RunFailed",
    "RunInfo",
    "Schedule",
    "SpanInfo",
    "Task",
    "TaskInfo",
    "Unavailable",
    "parse_schedule",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
