"""The composition root: the only module that chooses the implementation of each part and connects the parts.

Heavy modules are imported on first use, so that a program loads only the parts it needs.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from chronos.clock import Clock
from chronos.errors import Invalid
from chronos.runners.target_kinds import BUILT_IN_KINDS
from chronos.store.contract import Store, list_methods

if TYPE_CHECKING:
    from chronos.core.events import Event
    from chronos.core.node import Node
    from chronos.engine.engine import Engine
    from chronos.engine.node_clock import NodeClock
    from chronos.engine.options import EngineOptions
    from chronos.observe.metrics import Metrics
    from chronos.runners.command.options import CommandRules
    from chronos.runners.contract import Runner
    from chronos.runners.python.function_registry import FunctionRegistry
    from chronos.service.backfill import BackfillService
    from chronos.service.bulk_actions import BulkActions
    from chronos.service.enqueue import EnqueueService
    from chronos.service.executions import ExecutionService
    from chronos.service.job_state import JobStates
    from chronos.service.jobs import JobService
    from chronos.service.one_off_runs import OneOffRuns
    from chronos.service.save_jobs import JobSaver
    from chronos.service.serializers import Check
    from chronos.service.settings.effective import EffectiveSettingsService
    from chronos.service.views import Views
    from chronos.service.why import WhyService

RUNNER_ENTRY_POINT_GROUP = "chronos.runners"  # entry points of other packages that add kinds of targets
STORE_ENTRY_POINT_GROUP = "chronos.stores"  # entry points that add store engines, named like the schemes of their URLs
_MAX_PYTHON_PROCESSES = 4
_POSTGRES_SCHEMES = ("postgresql", "postgres")
_BUILT_IN_SCHEMES = ("sqlite", *_POSTGRES_SCHEMES)
_PASSWORD_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&#]*", re.IGNORECASE)


def make_store(url: str) -> Store:
    """Make the store of a URL, not yet open: ``sqlite:///file``, ``sqlite://`` (in memory), ``postgresql://…``.

    Other schemes are looked up among the entry points of other packages.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        from chronos.store.sql.sqlite.store import SqliteStore  # noqa: PLC0415

        return SqliteStore(_parse_sqlite_path(url))
    if scheme in _POSTGRES_SCHEMES:
        from chronos.store.sql.postgres.store import PostgresStore  # noqa: PLC0415

        return PostgresStore(url)
    points = {point.name: point for point in entry_points(group=STORE_ENTRY_POINT_GROUP)}
    if scheme in points:
        return _make_package_store(points[scheme], url)
    others = "".join(f", {name}://…" for name in sorted(points) if name not in _BUILT_IN_SCHEMES)
    raise Invalid(
        f'unknown store "{hide_url_password(url)}"; '
        f"use sqlite:///path/to/file.db, sqlite:// (in memory){others} or postgresql://user@host/database"
    )


def check_store(store: object) -> Store:
    """Return a store engine of the caller. Raises ``Invalid`` if it lacks a method of the contract."""
    missing = [name for name in list_methods(Store) if not callable(getattr(store, name, None))]
    if isinstance(store, type) or missing:
        lacks = "it is a class" if isinstance(store, type) else f"it lacks {', '.join(missing)}"
        raise Invalid(
            f"{store!r} is not a store: {lacks}; use an object with the methods of chronos.store.contract.Store"
        )
    return cast("Store", store)


def _make_package_store(point: EntryPoint, url: str) -> Store:
    """Make the store of a URL with the class or function that an entry point names."""
    try:
        factory = point.load()
    except Exception as error:
        raise Invalid(
            f'the package of the store "{point.name}" cannot be loaded from {point.value}: '
            f"{type(error).__name__}: {error}; install it again"
        ) from error
    return check_store(factory(url))


def make_visitor(url: str, find_live_nodes: "Callable[[Sequence[Node]], Sequence[Node]]") -> Store:
    """Make the store of a URL for a process that is not a node, not yet open. It is neither created nor upgraded.

    A SQLite store can only be read while ``find_live_nodes`` returns any of its nodes.
    """
    if is_in_memory(url):
        raise Invalid("a store in memory belongs to its process; name a store that others can open: sqlite:///FILE")
    path = parse_sqlite_file(url)
    if path is not None:
        from chronos.store.sql.sqlite.visitor import SqliteVisitor  # noqa: PLC0415

        return SqliteVisitor(path, find_live_nodes)
    if urlsplit(url).scheme not in _POSTGRES_SCHEMES:
        return make_store(url)
    from chronos.store.sql.migrations import SchemaUse  # noqa: PLC0415
    from chronos.store.sql.postgres.store import PostgresStore  # noqa: PLC0415

    return PostgresStore(url, schema_use=SchemaUse.KEEP)


def make_copy_target(url: str) -> Store:
    """Make the store of a URL for a copy, not yet open. It may be an unfinished copy."""
    if is_in_memory(url):
        raise Invalid("a copy in memory would be lost; name the target as sqlite:///FILE or postgresql://…")
    path = parse_sqlite_file(url)
    from chronos.store.sql.migrations import SchemaUse  # noqa: PLC0415

    if path is not None:
        from chronos.store.sql.sqlite.store import SqliteStore  # noqa: PLC0415

        return SqliteStore(path, schema_use=SchemaUse.FINISH_COPY)
    if urlsplit(url).scheme not in _POSTGRES_SCHEMES:
        return make_store(url)
    from chronos.store.sql.postgres.store import PostgresStore  # noqa: PLC0415

    return PostgresStore(url, schema_use=SchemaUse.FINISH_COPY)


async def copy_rows(
    source: Store, target: Store, *, source_name: str, progress: Callable[[str, int], None]
) -> dict[str, int]:
    """Copy everything of an open store to another, and verify it. Returns the number of rows by table.

    ``source_name`` identifies the source when a copy is resumed. See ``chronos.store.sql.copy``.
    """
    from chronos.store.sql.base_store import SqlStore  # noqa: PLC0415
    from chronos.store.sql.copy.store_copy import StoreCopy  # noqa: PLC0415

    if not isinstance(source, SqlStore) or not isinstance(target, SqlStore):
        raise Invalid("only SQLite and PostgreSQL stores can be copied; use sqlite:///FILE and postgresql://…")
    return await StoreCopy(source, target, source_name=source_name).run(progress)


def make_test_store() -> Store:
    """Make a store in memory for one test, not yet open."""
    from chronos.store.sql.sqlite.memory import MemoryStore  # noqa: PLC0415

    return MemoryStore()


def parse_sqlite_file(url: str) -> Path | None:
    """Return the file of a store URL; None if the store is not a file."""
    return _parse_sqlite_path(url) if urlsplit(url).scheme == "sqlite" else None


def restore_store(copy: Path, url: str) -> Path:
    """Copy a backup to the store of a URL, which must not exist yet. Returns the new file."""
    target = parse_sqlite_file(url)
    if target is None:
        raise Invalid(
            f'cannot restore a backup to "{hide_url_password(url)}"; use sqlite:///path/to/file.db, '
            "or pg_restore for PostgreSQL"
        )
    from chronos.store.sql.sqlite.connection import restore  # noqa: PLC0415

    target.parent.mkdir(parents=True, exist_ok=True)
    restore(copy, target)
    return target


def is_in_memory(url: str) -> bool:
    """Return whether the store of a URL is lost when it is closed."""
    return urlsplit(url).scheme == "sqlite" and _parse_sqlite_path(url) is None


def is_shared(url: str) -> bool:
    """Return whether several machines can share the store of a URL."""
    return urlsplit(url).scheme != "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Limits of webhooks: allowed hosts, the default timeout and idle connections."""

    allow_private: bool = False
    allow_hosts: tuple[str, ...] = ()
    advice: str = ""  # how to allow a private address, for messages; empty: the settings of a server
    timeout_s: float = 30.0
    max_idle: int = 1_000
    idle_timeout_s: float = 4.0


DEFAULT_HTTP_OPTIONS = WebhookOptions()


def list_target_kinds() -> tuple[str, ...]:
    """Return every kind of target that can run, including kinds from other packages."""
    return tuple(sorted({*BUILT_IN_KINDS, *(point.name for point in entry_points(group=RUNNER_ENTRY_POINT_GROUP))}))


def make_runners(
    functions: "FunctionRegistry",
    *,
    clock: Clock,
    slots: int = 100,
    http: WebhookOptions = DEFAULT_HTTP_OPTIONS,
    command: "CommandRules | None" = None,
    allowed: tuple[str, ...] | None = None,
) -> "dict[str, Runner]":
    """Make a runner for every kind of target, including kinds from other packages. The caller closes the runners.

    ``allowed`` lists the kinds that may run (None: all). Jobs with another kind are rejected, and existing ones fail.
    """
    from chronos.runners.command.options import NO_RULES  # noqa: PLC0415
    from chronos.runners.command.runner import CommandRunner  # noqa: PLC0415
    from chronos.runners.forbidden import ForbiddenRunner  # noqa: PLC0415
    from chronos.runners.lazy import LazyRunner  # noqa: PLC0415
    from chronos.runners.python.runner import PythonRunner  # noqa: PLC0415
    from chronos.runners.wait import WaitRunner  # noqa: PLC0415

    def make_http() -> "Runner":
        from chronos.runners.http.runner import HttpRunner  # noqa: PLC0415

        return HttpRunner(
            allow_private=http.allow_private,
            allow_hosts=http.allow_hosts,
            advice=http.advice,
            timeout_s=http.timeout_s,
            max_idle=http.max_idle,
            idle_timeout_s=http.idle_timeout_s,
        )

    runners: dict[str, Runner] = {
        **{
            point.name: LazyRunner(_to_runner_factory(point), clock)
            for point in entry_points(group=RUNNER_ENTRY_POINT_GROUP)
        },
        "command": CommandRunner(rules=command or NO_RULES),
        "http": LazyRunner(make_http, clock),
        "python": PythonRunner(functions, threads=slots, processes=min(slots, _MAX_PYTHON_PROCESSES), clock=clock),
        "wait": WaitRunner(),
    }
    if allowed is None:
        return runners
    return {kind: runner if kind in allowed else ForbiddenRunner(kind, allowed) for kind, runner in runners.items()}


def collect_target_checks(runners: "Mapping[str, Runner]") -> "dict[str, Check]":
    """Return, by kind of target, the check of its options that runs when a job is saved."""
    return {kind: runner.check for kind, runner in runners.items()}


def count_abandoned_threads(runners: "Mapping[str, Runner]") -> int:
    """Return how many threads of Python functions ignored a stop and still run."""
    from chronos.runners.python.runner import PythonRunner  # noqa: PLC0415

    return sum(runner.abandoned_threads for runner in runners.values() if isinstance(runner, PythonRunner))


def make_node_clock(clock: Clock) -> "NodeClock":
    """Make a clock of this machine that is corrected by the store's clock. Engine and service share one.

    A running engine measures the offset; a program without an engine calls ``measure``.
    """
    from chronos.engine.node_clock import NodeClock  # noqa: PLC0415

    return NodeClock(clock)


def make_engine(
    store: Store,
    *,
    clock: Clock,
    options: "EngineOptions",
    functions: "FunctionRegistry",
    runners: "Mapping[str, Runner]",
    logger: str = "chronos.engine",
    logged: "tuple[type[Event], ...]" = (),
) -> "Engine":
    """Make a node on an open store, not yet started. Its events are logged to ``logger``.

    ``logged`` limits the log to these kinds of events; empty means all.
    """
    from chronos.engine.engine import Engine  # noqa: PLC0415
    from chronos.observe.event_log import EventLog  # noqa: PLC0415

    engine = Engine(store, clock=clock, options=options, runners=runners, functions=functions)
    event_log = EventLog(engine.job_name, logger)
    engine.on_event(event_log.log_event, *logged, wants_routine=event_log.wants_routine)
    return engine


def make_metrics(
    store: Store,
    engine: "Engine | None",
    runners: "Mapping[str, Runner]",
    *,
    clock: Clock,
    per_job: bool = True,
    has_process_metrics: bool = True,
) -> "Metrics":
    """Make the metrics of a node, which observe its events and the commits of its store.

    ``per_job`` adds a label with the name of the job, ``has_process_metrics`` those of the process and of Python.
    Without an engine, in a process that is not a node, there are only the metrics of the store.
    """
    from chronos.engine.options import EngineOptions  # noqa: PLC0415
    from chronos.observe.metrics import Metrics  # noqa: PLC0415

    options = EngineOptions() if engine is None else engine.options
    metrics = Metrics(
        store,
        clock,
        name_of=(lambda _: None) if engine is None else engine.job_name,
        per_job=per_job,
        heartbeat_timeout_s=options.heartbeat_timeout_s,
        has_process_metrics=has_process_metrics,
    )
    store.on_commit(metrics.observe_commit)
    if engine is not None:
        engine.on_event(metrics.count_event)
        metrics.set_failing_duties_source(lambda: len(engine.node.duties.failing))
    metrics.set_abandoned_threads_source(lambda: count_abandoned_threads(runners))
    return metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The use cases that the REST API, the SDK and the declarative API share."""

    jobs: "JobService"
    job_saver: "JobSaver"
    job_states: "JobStates"
    bulk_actions: "BulkActions"
    runs: "ExecutionService"
    backfills: "BackfillService"
    enqueues: "EnqueueService"
    one_off_runs: "OneOffRuns"
    why: "WhyService"
    effective: "EffectiveSettingsService"
    views: "Views"


def _new_request_id() -> bytes:
    return os.urandom(16)


def make_service(
    store: Store,
    clock: Clock,
    *,
    checks: "Mapping[str, Check]",
    max_pending: int | None = None,
    new_request: Callable[[], bytes] = _new_request_id,
) -> Service:
    """Make the service on an open store.

    ``max_pending``: new runs are rejected while this many executions are ready or queued. ``new_request`` makes the id
    of each request for executions.
    """
    from chronos.service.backfill import BackfillService  # noqa: PLC0415
    from chronos.service.backpressure import MAX_PENDING, Backpressure  # noqa: PLC0415
    from chronos.service.bulk_actions import BulkActions  # noqa: PLC0415
    from chronos.service.enqueue import EnqueueService  # noqa: PLC0415
    from chronos.service.executions import ExecutionService  # noqa: PLC0415
    from chronos.service.job_state import JobStates  # noqa: PLC0415
    from chronos.service.jobs import JobService  # noqa: PLC0415
    from chronos.service.one_off_runs import OneOffRuns  # noqa: PLC0415
    from chronos.service.save_jobs import JobSaver  # noqa: PLC0415
    from chronos.service.settings.effective import EffectiveSettingsService  # noqa: PLC0415
    from chronos.service.views import make_views  # noqa: PLC0415
    from chronos.service.why import WhyService  # noqa: PLC0415

    saver, states = JobSaver(store, clock), JobStates(store, clock)
    jobs = JobService(store, clock, saver, checks=checks)
    backpressure = Backpressure(store, clock, limit=MAX_PENDING if max_pending is None else max_pending)
    runs = ExecutionService(store, clock, jobs, backpressure, new_request=new_request)
    why = WhyService(store, clock, jobs, runs)
    return Service(
        jobs=jobs,
        job_saver=saver,
        job_states=states,
        bulk_actions=BulkActions(store, clock, runs, states),
        runs=runs,
        backfills=BackfillService(store, clock, jobs, backpressure, new_request=new_request),
        enqueues=EnqueueService(store, clock, jobs, backpressure, new_request=new_request),
        one_off_runs=OneOffRuns(clock, jobs, saver, runs),
        effective=EffectiveSettingsService(store),
        why=why,
        views=make_views(store, clock, jobs, runs, why),
    )


def _to_runner_factory(point: EntryPoint) -> "Callable[[], Runner]":
    """Return a function that loads an entry point, a class or function without arguments, and makes its runner."""

    def make() -> "Runner":
        runner: Runner = point.load()()
        return runner

    return make


def _parse_sqlite_path(url: str) -> Path | None:
    """Return the file of a URL: a relative path after three slashes, an absolute one after four. None: in memory."""
    if url in ("sqlite://", "sqlite:///"):
        return None
    if not url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:").removeprefix("//")
        raise Invalid(f'invalid store "{url}"; a file needs three slashes: sqlite:///{path}')
    return Path(url.removeprefix("sqlite:///"))


def hide_url_password(url: str) -> str:
    """Replace the passwords in a URL, before its host and among its parameters."""
    parts = urlsplit(url)
    shown = url if parts.password is None else url.replace(f":{parts.password}@", ":…@")
    return _PASSWORD_PARAMETER.sub(r"\1…", shown)
