"""The store and the engine behind an app. The first call opens the store; the engine runs while the app runs.

Everything here happens on the app's home loop. Declared jobs are saved before every other request, so that a job can be
triggered as soon as it is declared. When an app with an owner starts, jobs that it no longer declares are deleted.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from chronos.assembly import (
    Service,
    WebhookOptions,
    collect_target_checks,
    hide_url_password,
    is_in_memory,
    make_engine,
    make_metrics,
    make_node_clock,
    make_runners,
    make_service,
    make_store,
)
from chronos.clock import Clock
from chronos.core.config import Settings
from chronos.core.events import Event, ExecutionEnded
from chronos.core.execution import Status
from chronos.core.job import Job, JobState, Unreadable
from chronos.engine.engine import Engine
from chronos.engine.node_clock import NodeClock
from chronos.engine.options import EngineOptions
from chronos.errors import ChronosError, Invalid, NotFound
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.sdk.declarations import DeclaredJobs, prefix_errors
from chronos.sdk.event_callbacks import EventCallbacks, EventDelivery
from chronos.sdk.home_loop import HomeLoop
from chronos.sdk.info import JobInfo, to_run_info
from chronos.sdk.info_reader import read_job_info
from chronos.sdk.job_options import build_default_shape
from chronos.service.save_jobs import SavedJob
from chronos.service.serializers import Check, Draft, read_job, write_job
from chronos.service.serializers.identifiers import find_name_fault
from chronos.store.commands import Triggered
from chronos.store.contract import JobFilter, Store

if TYPE_CHECKING:
    from chronos.engine.job_survey import StartReport
    from chronos.observe.metrics import Metrics
    from chronos.sdk.exported_metrics import ExportedMetrics

log = logging.getLogger("chronos.sdk")

_PAGE_SIZE = 500


@dataclass(slots=True)
class RuntimeSession:
    """An open store on one event loop, and its engine while the app runs."""

    loop: asyncio.AbstractEventLoop
    store: Store
    clock: NodeClock
    service: Service
    engine: Engine | None = None
    delivery: EventDelivery | None = None  # of the engine's events to callbacks
    runners: Mapping[str, Runner] = field(default_factory=dict)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)
    closing: asyncio.Task[None] | None = None
    _waiters: dict[bytes, list[asyncio.Event]] = field(default_factory=dict)
    _unwatch: Callable[[], None] | None = None

    @contextmanager
    def watch_end(self, execution: bytes) -> Iterator[asyncio.Event]:
        """Yield an event that is set when an execution ends on this node. For other nodes, poll the store.

        The session listens to the engine only while there is a waiter.
        """
        ended = asyncio.Event()
        self._waiters.setdefault(execution, []).append(ended)
        if self._unwatch is None and self.engine is not None:
            self._unwatch = self.engine.on_event(self._wake_waiters, ExecutionEnded)
        try:
            yield ended
        finally:
            self._waiters[execution].remove(ended)
            if not self._waiters[execution]:
                del self._waiters[execution]
            if not self._waiters and self._unwatch is not None:
                self._unwatch()
                self._unwatch = None

    def _wake_waiters(self, event: Event) -> None:
        assert isinstance(event, ExecutionEnded)
        for ended in self._waiters.get(event.execution, ()):
            ended.set()

    async def wake_delayed(self, runs: Sequence[Triggered]) -> None:
        """Have the engine start delayed runs in time. It looks for those of other programs once per second only."""
        if self.engine is not None and any(run.status is Status.WAITING for run in runs):
            wake_us = await self.store.next_wake_us()
            if wake_us is not None:
                self.engine.schedule_wake(wake_us)

    async def read_job_infos(self, jobs: Sequence[Job]) -> list[JobInfo]:
        """Read the last runs of jobs, and return the jobs as users see them."""
        latest = await self.store.latest([job.id for job in jobs])
        nodes = await self.service.runs.node_names([run.node for run in latest.values()])
        return [
            read_job_info(
                write_job(job, now_us=self.clock.now_us()),
                to_run_info(latest[job.id], job=job.name, nodes=nodes) if job.id in latest else None,
            )
            for job in jobs
        ]

    async def iterate_jobs(self, where: JobFilter) -> AsyncIterator[Job]:
        """Yield every job that a filter selects, by name."""
        cursor: bytes | None = None
        while True:
            page = await self.store.list_jobs(where, limit=_PAGE_SIZE, cursor=cursor)
            for job in page.items:
                yield job
            if page.cursor is None:
                return
            cursor = page.cursor


class Runtime:
    """The store, the engine and the declared jobs of one app."""

    def __init__(
        self,
        url: str,
        *,
        store: Store | None = None,
        options: EngineOptions,
        clock: Clock,
        namespace: str,
        owner: str | None,
        defaults: Mapping[str, Any],
        http: WebhookOptions,
        timezone: str | None = None,
        metrics: Any = None,
    ) -> None:
        if url.startswith(("http://", "https://")):
            raise Invalid(f"{url} is the address of a server; use a store, such as sqlite:///app.db")
        if fault := find_name_fault(namespace):
            raise Invalid(f'the namespace "{namespace}" {fault}')
        self.url = url
        self.clock = clock
        self.namespace = namespace
        self.timezone = timezone
        self.functions = FunctionRegistry()
        self._options = options
        self._http = http
        checks = collect_target_checks(make_runners(self.functions, clock=clock, http=http))
        self.declared = DeclaredJobs(
            namespace=namespace,
            owner=owner,
            functions=self.functions,
            checks=checks,
            defaults=_read_default_settings(defaults, checks),
            on_change=self._on_declared,
        )
        self.home = HomeLoop(self.stop)
        self.saved_jobs: Sequence[SavedJob] = ()  # the declared jobs, as saved when the app started
        self._opening: asyncio.Task[RuntimeSession] | None = None
        self._given_store = store  # an engine of the caller
        self._memory_store: Store | None = None  # must outlive the loops that use it
        self._background_tasks: set[asyncio.Task[None]] = set()
        if store is None:
            make_store(url)  # raises for a wrong url
        self.callbacks = EventCallbacks()
        self._exported_metrics = None if metrics is None else _export_metrics(metrics)

    async def session(self) -> RuntimeSession:
        """The open store. All declared jobs are saved."""
        session = await self._get_session()
        if session.clock.is_wrong_now and session.engine is None:  # a running engine measures it
            await session.clock.measure(session.store)
        if self.declared.unsaved:
            await self._save(session)
        return session

    async def start(self) -> None:
        """Save the declared jobs, delete those no longer declared, and start the engine. No-op while it runs."""
        self.declared.check_has_no_empty_group()
        began_s = perf_counter()
        session = await self._get_session()
        async with session.starting:
            if session.engine is None:
                await self._start(session, began_s)

    async def _start(self, session: RuntimeSession, began_s: float) -> None:
        self.declared.unsaved.update(self.declared.jobs)
        self.saved_jobs = await self._save(session)
        await self._delete_undeclared(session)
        session.runners = make_runners(self.functions, clock=session.clock, slots=self._options.slots, http=self._http)
        engine = make_engine(
            session.store,
            clock=session.clock,
            options=self._options,
            functions=self.functions,
            runners=session.runners,
        )
        metrics = None
        if self._exported_metrics is not None:
            metrics = await self._observe(session, engine, self._exported_metrics)
        session.delivery = self.callbacks.deliver(engine, session.store, self.namespace)
        await engine.start()
        session.engine = engine
        new = sum(job.created and job.state is JobState.ACTIVE for job in self.saved_jobs)
        await engine.survey_jobs(partial(_note_found_jobs, metrics), new=new)
        log.info("started in %d ms", round((perf_counter() - began_s) * 1000))

    async def _observe(self, session: RuntimeSession, engine: Engine, exported: "ExportedMetrics") -> "Metrics":
        """Show the metrics of an engine in the registry of the program."""
        metrics = make_metrics(session.store, engine, session.runners, clock=session.clock, has_process_metrics=False)
        metrics.set_leader(True)
        await metrics.refresh()
        exported.show(metrics)
        return metrics

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop the engine and close the store. No-op when nothing is open. Concurrent calls wait for the same stop."""
        opening = self._opening
        if opening is None or opening.get_loop() is not asyncio.get_running_loop():
            return
        try:
            session = await asyncio.shield(opening)
        except ChronosError:  # the store could not be opened, so there is nothing to close
            self._opening = None
            return
        try:
            if session.closing is None:
                session.closing = asyncio.create_task(self._close(session, grace_s))
            await asyncio.shield(session.closing)
        finally:
            if self._opening is opening:
                self._opening = None

    async def count_running(self) -> int:
        """How many executions run on this node."""
        engine = None if self._opening is None else (await self._opening).engine
        return 0 if engine is None else engine.running_count

    @property
    def options(self) -> EngineOptions:
        """The options of the engine."""
        return self._options

    async def wait_for_engine_end(self) -> None:
        """Wait until the engine ends. Raises the error that ended it, if there was one."""
        if self._opening is not None and (engine := (await self._opening).engine) is not None:
            await engine.wait_until_stopped()

    async def end_grace_period(self) -> None:
        """During a stop: force running executions to end now."""
        if self._opening is not None and (engine := (await self._opening).engine) is not None:
            await engine.stop(0)

    async def _close(self, session: RuntimeSession, grace_s: float | None) -> None:
        try:
            if session.engine is not None:
                await session.engine.stop(grace_s)
        finally:
            if session.delivery is not None:
                await session.delivery.finish()
            if self._exported_metrics is not None:
                self._exported_metrics.stop()
            for runner in session.runners.values():
                await runner.close()
            if session.store is not self._memory_store:
                await session.store.close()

    async def _get_session(self) -> RuntimeSession:
        """The session of the running loop. The first caller opens it; a failed opening is repeated."""
        loop, opening = asyncio.get_running_loop(), self._opening
        failed = opening is not None and opening.done() and (opening.cancelled() or opening.exception() is not None)
        if opening is None or opening.get_loop() is not loop or failed:
            opening = self._opening = loop.create_task(self._open(loop))
        return await asyncio.shield(opening)

    async def _open(self, loop: asyncio.AbstractEventLoop) -> RuntimeSession:
        if self._memory_store is not None:
            store = self._memory_store
        else:
            store = make_store(self.url) if self._given_store is None else self._given_store
            began_s = perf_counter()
            await store.open()
            log.info(
                "store opened: %s, in %d ms", hide_url_password(self.url), round((perf_counter() - began_s) * 1000)
            )
            if self._given_store is None and is_in_memory(self.url):
                self._memory_store = store
        clock = make_node_clock(self.clock)
        try:
            await clock.measure(store)
        except BaseException:
            if store is not self._memory_store:
                await store.close()
            raise
        service = make_service(store, clock, checks=self.declared.checks)
        return RuntimeSession(loop=loop, store=store, clock=clock, service=service)

    async def _save(self, session: RuntimeSession) -> Sequence[SavedJob]:
        async with session.saving:
            drafts = [self.declared.jobs[name] for name in sorted(self.declared.unsaved)]
            to_save = [await self._choose_draft(session, draft) for draft in drafts]
            saved = await session.service.job_saver.save(to_save) if to_save else ()
            for draft in drafts:  # a job declared again meanwhile stays unsaved
                if self.declared.jobs[draft.name] is draft:
                    self.declared.unsaved.discard(draft.name)
            for one in saved:
                for warning in one.warnings if one.changed else ():
                    log.warning('job "%s": %s', one.name, warning.message)
            return saved

    async def _choose_draft(self, session: RuntimeSession, draft: Draft) -> Draft:
        """The job as declared, or as it is stored if this program changed it there."""
        if draft.name not in self.declared.kept:
            return draft
        stored = await session.store.job_named(draft.namespace, draft.name)
        if stored is None or isinstance(stored.spec, Unreadable):
            return draft
        return Draft(namespace=draft.namespace, name=draft.name, spec=stored.spec)

    async def _delete_undeclared(self, session: RuntimeSession) -> None:
        """Delete the jobs of this owner that the program no longer declares."""
        if self.declared.owner is None:
            return
        where = JobFilter(namespace=self.namespace, owner=self.declared.owner)
        names = [job.name async for job in session.iterate_jobs(where) if job.name not in self.declared.jobs]
        for name in names:
            with suppress(NotFound):
                await session.service.jobs.delete(name, namespace=self.namespace)

    def _on_declared(self) -> None:
        """Save a newly declared job at once if the app runs. Otherwise the next call saves it."""
        opening = self._opening
        if opening is None or not opening.done() or opening.get_loop().is_closed():
            return
        if not opening.cancelled() and opening.exception() is None and (session := opening.result()).engine is not None:
            session.loop.call_soon_threadsafe(self._start_saving, session)

    def _start_saving(self, session: RuntimeSession) -> None:
        task = session.loop.create_task(self._save_in_background(session))
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _save_in_background(self, session: RuntimeSession) -> None:
        try:
            await self._save(session)
        except ChronosError:  # the next call saves again, and raises
            log.exception("cannot save a job declared while the app runs; the next call retries")


def _note_found_jobs(metrics: "Metrics | None", report: "StartReport") -> None:
    log.info("%s", report.describe())
    if metrics is not None:
        metrics.count_recovered_jobs(report.recovered)


def _export_metrics(registry: Any) -> "ExportedMetrics":
    from chronos.sdk.exported_metrics import ExportedMetrics  # noqa: PLC0415 - its library takes long to import

    return ExportedMetrics(registry)


def _read_default_settings(defaults: Mapping[str, Any], checks: Mapping[str, Check]) -> Settings:
    """Read default settings as the settings of a job are read."""
    with prefix_errors("defaults"):
        shape = {"name": "defaults", "schedule": "manual", "wait": {"for": "1s"}, **build_default_shape(defaults)}
        return read_job(shape, checks=checks).spec.settings
