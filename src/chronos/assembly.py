"""The composition root: the only place that knows which parts stand behind which name, and puts them together.

What is heavy to import is imported when it is asked for, so that a program pays only for its own.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from chronos.clock import Clock
from chronos.core.config import NOTHING_SET, Settings
from chronos.errors import Invalid
from chronos.store.contract import Store

if TYPE_CHECKING:
    from chronos.core.events import Event
    from chronos.engine.engine import Engine
    from chronos.engine.node import NodeClock
    from chronos.engine.options import Options
    from chronos.engine.runners.command_options import CommandRules
    from chronos.engine.runners.contract import Runner
    from chronos.engine.runners.functions import Functions
    from chronos.service.acting import BulkActions
    from chronos.service.backfilling import Backfills
    from chronos.service.jobs import Jobs
    from chronos.service.runs import Runs
    from chronos.service.shapes import Check
    from chronos.service.switching import JobStates
    from chronos.service.why import Why
    from chronos.service.writing import JobSaver

PLUGINS = "chronos.runners"  # the entry points that bring further kinds of targets
_PROCESSES = 4
_PASSWORD = re.compile(r"([?&](?:ssl)?password=)[^&#]*", re.IGNORECASE)
_KINDS = ("command", "http", "python", "wait")


def make_store(url: str) -> Store:
    """The store a url names, not yet open: ``sqlite:///file``, ``sqlite://`` (in memory), ``postgresql://…``."""
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        from chronos.store.sql.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(_sqlite_path(url))
    if scheme in ("postgresql", "postgres"):
        from chronos.store.sql.postgres import PostgresStore  # noqa: PLC0415

        return PostgresStore(url)
    raise Invalid(
        f"{without_password(url)} names no store Chronos knows; "
        "write sqlite:///path/to/file.db, sqlite:// (in memory) or postgresql://user@host/database"
    )


def make_test_store() -> Store:
    """A store in memory that lives as long as a test, not yet open."""
    from chronos.store.sql.sqlite_memory import MemoryStore  # noqa: PLC0415

    return MemoryStore()


def sqlite_file(url: str) -> Path | None:
    """The file that a url names; None where it names no file."""
    return _sqlite_path(url) if urlsplit(url).scheme == "sqlite" else None


def restore_store(copy: Path, url: str) -> Path:
    """Make a backup the store that a url names, which must not exist yet; gives where it is now."""
    target = sqlite_file(url)
    if target is None:
        raise Invalid(
            f"{without_password(url)} is not a file; a backup is restored to sqlite:///path/to/file.db, "
            "and PostgreSQL brings its own tools (pg_restore)"
        )
    from chronos.store.sql.sqlite_file import restore  # noqa: PLC0415

    target.parent.mkdir(parents=True, exist_ok=True)
    restore(copy, target)
    return target


def is_in_memory(url: str) -> bool:
    """Whether what a url names is gone when its store is closed."""
    return urlsplit(url).scheme == "sqlite" and _sqlite_path(url) is None


def is_shared(url: str) -> bool:
    """Whether servers on several machines can work on the store that a url names."""
    return urlsplit(url).scheme != "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where requests may go, how long one may take where no level says, and which connections are kept."""

    allow_private: bool = False
    allow_hosts: tuple[str, ...] = ()
    timeout_s: float = 30.0
    max_idle: int = 1_000
    idle_timeout_s: float = 4.0


PUBLIC = Reach()


def target_kinds() -> tuple[str, ...]:
    """Every kind of target that can be run, those that other packages bring included."""
    return tuple(sorted({*_KINDS, *(point.name for point in entry_points(group=PLUGINS))}))


def make_runners(
    functions: "Functions",
    *,
    clock: Clock,
    slots: int = 100,
    http: Reach = PUBLIC,
    command: "CommandRules | None" = None,
    allowed: tuple[str, ...] | None = None,
) -> "dict[str, Runner]":
    """A runner for every kind of target, those that other packages bring included. The caller closes them.

    ``allowed``: the kinds that may be run; jobs with others are refused, and fail. None: all.
    """
    from chronos.engine.runners.command import CommandRunner  # noqa: PLC0415
    from chronos.engine.runners.command_options import NO_RULES  # noqa: PLC0415
    from chronos.engine.runners.forbidden import ForbiddenRunner  # noqa: PLC0415
    from chronos.engine.runners.later import LaterRunner  # noqa: PLC0415
    from chronos.engine.runners.python import PythonRunner  # noqa: PLC0415
    from chronos.engine.runners.wait import WaitRunner  # noqa: PLC0415

    def make_http() -> "Runner":
        from chronos.engine.runners.http import HttpRunner  # noqa: PLC0415

        return HttpRunner(
            allow_private=http.allow_private,
            allow_hosts=http.allow_hosts,
            timeout_s=http.timeout_s,
            max_idle=http.max_idle,
            idle_timeout_s=http.idle_timeout_s,
        )

    runners: dict[str, Runner] = {
        **{point.name: LaterRunner(_brought(point), clock) for point in entry_points(group=PLUGINS)},
        "command": CommandRunner(rules=command or NO_RULES),
        "http": LaterRunner(make_http, clock),
        "python": PythonRunner(functions, threads=slots, processes=min(slots, _PROCESSES), clock=clock),
        "wait": WaitRunner(),
    }
    if allowed is None:
        return runners
    return {kind: one if kind in allowed else ForbiddenRunner(kind, allowed) for kind, one in runners.items()}


def checks_of(runners: "Mapping[str, Runner]") -> "dict[str, Check]":
    """What each kind of target says of its options when a job is saved."""
    return {kind: runner.check for kind, runner in runners.items()}


def make_clock(clock: Clock) -> "NodeClock":
    """This machine's clock, corrected by the store's: what is written together shares one, engine and service alike.

    An engine measures the offset while it runs; ``measure`` does so where there is none.
    """
    from chronos.engine.node import NodeClock  # noqa: PLC0415

    return NodeClock(clock)


def make_engine(
    store: Store,
    *,
    clock: Clock,
    options: "Options",
    functions: "Functions",
    runners: "Mapping[str, Runner]",
    defaults: Settings = NOTHING_SET,
    logger: str = "chronos.engine",
    logged: "tuple[type[Event], ...]" = (),
) -> "Engine":
    """A node on an open store, not yet started. What happens on it goes to a ``logger``.

    ``logged`` are the kinds of events that do; all, unless they are given.
    """
    from chronos.engine.engine import Engine  # noqa: PLC0415
    from chronos.observe.lines import EventLines  # noqa: PLC0415

    engine = Engine(store, clock=clock, options=options, runners=runners, functions=functions, defaults=defaults)
    lines = EventLines(engine.job_name, logger)
    engine.on_event(lines.watch, *logged, hears_routine=lines.hears_routine)
    return engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the faces share."""

    jobs: "Jobs"
    job_saver: "JobSaver"
    job_states: "JobStates"
    bulk_actions: "BulkActions"
    runs: "Runs"
    backfills: "Backfills"
    why: "Why"


def _new_request() -> bytes:
    return os.urandom(16)


def make_service(
    store: Store,
    clock: Clock,
    *,
    checks: "Mapping[str, Check]",
    defaults: Settings = NOTHING_SET,
    max_pending: int | None = None,
    new_request: Callable[[], bytes] = _new_request,
) -> Service:
    """The service on an open store. ``max_pending`` is how much may be ready or queued before asking for more fails.

    ``new_request`` gives the id of each request for executions.
    """
    from chronos.service.acting import BulkActions  # noqa: PLC0415
    from chronos.service.backfilling import Backfills  # noqa: PLC0415
    from chronos.service.jobs import Jobs  # noqa: PLC0415
    from chronos.service.room import MAX_PENDING, Room  # noqa: PLC0415
    from chronos.service.runs import Runs  # noqa: PLC0415
    from chronos.service.switching import JobStates  # noqa: PLC0415
    from chronos.service.why import Why  # noqa: PLC0415
    from chronos.service.writing import JobSaver  # noqa: PLC0415

    saver, states = JobSaver(store, clock, defaults=defaults), JobStates(store, clock)
    jobs = Jobs(store, clock, saver, defaults=defaults, checks=checks)
    room = Room(store, clock, most=MAX_PENDING if max_pending is None else max_pending)
    runs = Runs(store, clock, jobs, room, new_request=new_request)
    return Service(
        jobs=jobs,
        job_saver=saver,
        job_states=states,
        bulk_actions=BulkActions(store, clock, runs, states),
        runs=runs,
        backfills=Backfills(store, clock, jobs, room, new_request=new_request),
        why=Why(store, clock, jobs, runs),
    )


def _brought(point: EntryPoint) -> "Callable[[], Runner]":
    """An entry point names a class, or a function, that makes a runner of nothing."""

    def make() -> "Runner":
        made: Runner = point.load()()
        return made

    return make


def _sqlite_path(url: str) -> Path | None:
    """Three slashes and a relative path, four and an absolute one; two and nothing: in memory."""
    rest = url.removeprefix("sqlite://")
    if rest in ("", "/"):
        return None
    if not rest.startswith("/"):
        raise Invalid(f"{url} has two slashes where a file needs three: sqlite:///{rest}")
    return Path(rest[1:])


def without_password(url: str) -> str:
    """A url as it may be shown: neither before its host nor among its parameters does it have a password."""
    parts = urlsplit(url)
    shown = url if parts.password is None else url.replace(f":{parts.password}@", ":…@")
    return _PASSWORD.sub(r"\1…", shown)
