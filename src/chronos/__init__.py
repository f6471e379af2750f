"""Chronos: a job scheduler that runs jobs on time, once, and can tell you what it did and why.

The layers of the package, from the inside out. Each layer imports only the layers above it in this list:

* ``errors``: the error tree.
* ``core``: pure decisions. Time, ids and randomness are arguments.
* ``store``: commands in, results out. SQLite and PostgreSQL behind one contract.
* ``clock``, ``timers``, ``tuning``, ``process_identity``: the time, shared timers, settings and identity of a process.
* ``runners``: one package per kind of target: webhooks, commands, Python functions, waits.
* ``engine``: one node: scheduling, execution, maintenance. ``observe``: metrics and logs made of its events.
* ``service``: the use cases that every interface shares: save, trigger, explain.
* ``assembly``: the only place that composes the parts.
* ``sdk``: ``Chronos`` for Python programs. ``declarative``: a scheduler with two methods. ``api``: REST.
* ``server``: the configuration and the process of a server.
* ``cli``: the programs ``chronos`` and ``chronosctl``. ``testing``: virtual time and suites for tests.

The names below are the public API. Everything else may move without notice. They are imported on first use, so that
``chronosctl --help`` does not load the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronos.core.schedule.parser import parse_schedule
    from chronos.core.schedule.registration import register_schedule
    from chronos.core.schedule.schedule import Schedule
    from chronos.errors import ChronosError, Conflict, Invalid, InvalidSchedule, NotFound, Unavailable
    from chronos.runners.python.context import Context
    from chronos.sdk.app import Chronos
    from chronos.sdk.event_stream import EventStream
    from chronos.sdk.events import AttemptFinished, InstantsMissed, JobEvent, RunEnded, RunStarted, SpanRecorded
    from chronos.sdk.group import Group, Task
    from chronos.sdk.info import AttemptInfo, JobInfo, RunFailed, RunInfo, SpanInfo, TaskInfo
    from chronos.sdk.job import Job, JobHandle
    from chronos.sdk.run_handle import Run, TypedRun
    from chronos.sdk.task_job import TaskJob
    from chronos.sdk.version_info import DiffInfo, EffectiveInfo, EffectiveSetting, PreviewInfo, VersionInfo

_MODULE_BY_NAME = {
    "AttemptFinished": "chronos.sdk.events",
    "AttemptInfo": "chronos.sdk.info",
    "Chronos": "chronos.sdk.app",
    "ChronosError": "chronos.errors",
    "Conflict": "chronos.errors",
    "Context": "chronos.runners.python.context",
    "DiffInfo": "chronos.sdk.version_info",
    "EffectiveInfo": "chronos.sdk.version_info",
    "EffectiveSetting": "chronos.sdk.version_info",
    "EventStream": "chronos.sdk.event_stream",
    "Group": "chronos.sdk.group",
    "InstantsMissed": "chronos.sdk.events",
    "Invalid": "chronos.errors",
    "InvalidSchedule": "chronos.errors",
    "Job": "chronos.sdk.job",
    "JobEvent": "chronos.sdk.events",
    "JobHandle": "chronos.sdk.job",
    "JobInfo": "chronos.sdk.info",
    "NotFound": "chronos.errors",
    "PreviewInfo": "chronos.sdk.version_info",
    "Run": "chronos.sdk.run_handle",
    "RunEnded": "chronos.sdk.events",
    "RunFailed": "chronos.sdk.info",
    "RunInfo": "chronos.sdk.info",
    "RunStarted": "chronos.sdk.events",
    "Schedule": "chronos.core.schedule.schedule",
    "SpanInfo": "chronos.sdk.info",
    "SpanRecorded": "chronos.sdk.events",
    "Task": "chronos.sdk.group",
    "TaskInfo": "chronos.sdk.info",
    "TaskJob": "chronos.sdk.task_job",
    "TypedRun": "chronos.sdk.run_handle",
    "Unavailable": "chronos.errors",
    "VersionInfo": "chronos.sdk.version_info",
    "parse_schedule": "chronos.core.schedule.parser",
    "register_schedule": "chronos.core.schedule.registration",
}

__all__ = [
    "AttemptFinished",
    "AttemptInfo",
    "Chronos",
    "ChronosError",
    "Conflict",
    "Context",
    "DiffInfo",
    "EffectiveInfo",
    "EffectiveSetting",
    "EventStream",
    "Group",
    "InstantsMissed",
    "Invalid",
    "InvalidSchedule",
    "Job",
    "JobEvent",
    "JobHandle",
    "JobInfo",
    "NotFound",
    "PreviewInfo",
    "Run",
    "RunEnded",
    "RunFailed",
    "RunInfo",
    "RunStarted",
    "Schedule",
    "SpanInfo",
    "SpanRecorded",
    "Task",
    "TaskInfo",
    "TaskJob",
    "TypedRun",
    "Unavailable",
    "VersionInfo",
    "parse_schedule",
    "register_schedule",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
