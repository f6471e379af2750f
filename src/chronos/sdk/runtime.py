"""What stands behind an app: the store that is opened with the first call, and the engine while the app runs.

All of it happens on the app's home loop. The jobs of the program are saved before anything else is asked of the store,
so that a job can be triggered as soon as it is declared; jobs that the program no longer has go when it starts, if they
carry its owner.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from chronos.assembly import (
    Service,
    WebhookOptions,
    collect_target_checks,
    is_in_memory,
    make_engine,
    make_node_clock,
    make_runners,
    make_service,
    make_store,
)
from chronos.clock import Clock
from chronos.core.config import Settings
from chronos.core.events import Event, ExecutionEnded
from chronos.core.job import Job
from chronos.engine.engine import Engine
from chronos.engine.node_clock import NodeClock
from chronos.engine.options import EngineOptions
from chronos.errors import ChronosError, Invalid, NotFound
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.sdk.declarations import DeclaredJobs, naming
from chronos.sdk.home_loop import HomeLoop
from chronos.sdk.job_options import default_shape
from chronos.service.save_jobs import SavedJob
from chronos.service.serializers import Check, read_job
from chronos.service.serializers.identifiers import find_name_fault
from chronos.store.contract import JobFilter, Store

log = logging.getLogger("chronos.sdk")

_PAGE = 500


@dataclass(slots=True)
class RuntimeSession:
    """An open store on one loop, and the engine on it while the app runs."""

    loop: asyncio.AbstractEventLoop
    store: Store
    clock: NodeClock
    service: Service
    engine: Engine | None = None
    runners: Mapping[str, Runner] = field(default_factory=dict)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)
    leaving: asyncio.Task[None] | None = None
    _waiters: dict[bytes, list[asyncio.Event]] = field(default_factory=dict)
    _unwatch: Callable[[], None] | None = None

    @contextmanager
    def ending(self, execution: bytes) -> Iterator[asyncio.Event]:
        """An event that is set when an execution ends on this node; one that runs elsewhere has to be asked for.

        The engine is watched only while somebody waits.
        """
        ended = asyncio.Event()
        self._waiters.setdefault(execution, []).append(ended)
        if self._unwatch is None and self.engine is not None:
            self._unwatch = self.engine.on_event(self._watch, ExecutionEnded)
        try:
            yield ended
        finally:
            self._waiters[execution].remove(ended)
            if not self._waiters[execution]:
                del self._waiters[execution]
            if not self._waiters and self._unwatch is not None:
                self._unwatch()
                self._unwatch = None

    def _watch(self, event: Event) -> None:
        assert isinstance(event, ExecutionEnded)
        for ended in self._waiters.get(event.execution, ()):
            ended.set()

    async def every_job(self, where: JobFilter) -> AsyncIterator[Job]:
        """All jobs that a filter lets through, by name."""
        cursor: bytes | None = None
        while True:
            page = await self.store.list_jobs(where, limit=_PAGE, cursor=cursor)
            for job in page.items:
                yield job
            if page.cursor is None:
                return
            cursor = page.cursor


class Runtime:
    """One app's store and engine, and the jobs that it declares."""

    def __init__(
        self,
        url: str,
        *,
        options: EngineOptions,
        clock: Clock,
        namespace: str,
        owner: str | None,
        defaults: Mapping[str, Any],
        http: WebhookOptions,
    ) -> None:
        if url.startswith(("http://", "https://")):
            raise Invalid(f"{url} is the address of a server; here a store is needed")
        if fault := find_name_fault(namespace):
            raise Invalid(f'the namespace "{namespace}" {fault}')
        self.url = url
        self.clock = clock
        self.namespace = namespace
        self.functions = FunctionRegistry()
        self._options = options
        self._http = http
        checks = collect_target_checks(make_runners(self.functions, clock=clock, http=http))
        self._defaults = _settings(defaults, checks)
        self.declared = DeclaredJobs(
            namespace=namespace, owner=owner, functions=self.functions, checks=checks, on_change=self._changed
        )
        self.home = HomeLoop(self.stop)
        self.saved: Sequence[SavedJob] = ()  # what the program declared, as it was when the app started
        self._opening: asyncio.Task[RuntimeSession] | None = None
        self._memory: Store | None = None  # has to outlive the loops that it is used on
        self._background_tasks: set[asyncio.Task[None]] = set()
        make_store(url)  # an error in the url is told at once

    async def session(self) -> RuntimeSession:
        """The open store, with all on it that the program has declared."""
        session = await self._opened()
        if session.clock.skewed and session.engine is None:  # else the engine compares it
            await session.clock.measure(session.store)
        if self.declared.unsaved:
            await self._save(session)
        return session

    async def start(self) -> None:
        """Save the program's jobs, delete those it no longer has, and run. Harmless when it runs already."""
        if self.declared.promised:
            raise Invalid(f"the group {min(self.declared.promised)} has no tasks; add one with @group.task")
        session = await self._opened()
        async with session.starting:
            if session.engine is None:
                await self._start(session)

    async def _start(self, session: RuntimeSession) -> None:
        self.declared.unsaved.update(self.declared.jobs)
        self.saved = await self._save(session)
        await self._prune(session)
        session.runners = make_runners(self.functions, clock=session.clock, slots=self._options.slots, http=self._http)
        engine = make_engine(
            session.store,
            clock=session.clock,
            options=self._options,
            functions=self.functions,
            runners=session.runners,
            defaults=self._defaults,
        )
        await engine.start()
        session.engine = engine

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop the engine and close the store. Harmless when nothing is open; whoever comes second waits too."""
        opening = self._opening
        if opening is None or opening.get_loop() is not asyncio.get_running_loop():
            return
        try:
            session = await asyncio.shield(opening)
        except ChronosError:  # it could not be opened, so there is nothing to let go of
            self._opening = None
            return
        try:
            if session.leaving is None:
                session.leaving = asyncio.create_task(self._let_go(session, grace_s))
            await asyncio.shield(session.leaving)
        finally:
            if self._opening is opening:
                self._opening = None

    async def busy(self) -> int:
        """How many executions are being worked on."""
        engine = None if self._opening is None else (await self._opening).engine
        return 0 if engine is None else engine.busy

    @property
    def options(self) -> EngineOptions:
        """What the node is told."""
        return self._options

    async def over(self) -> None:
        """Wait until the engine is over; raises what broke it, if something did."""
        if self._opening is not None and (engine := (await self._opening).engine) is not None:
            await engine.failed()

    async def end_grace_period(self) -> None:
        """While it stops: wait no longer for what still runs."""
        if self._opening is not None and (engine := (await self._opening).engine) is not None:
            await engine.stop(0)

    async def _let_go(self, session: RuntimeSession, grace_s: float | None) -> None:
        try:
            if session.engine is not None:
                await session.engine.stop(grace_s)
        finally:
            for runner in session.runners.values():
                await runner.close()
            if session.store is not self._memory:
                await session.store.close()

    async def _opened(self) -> RuntimeSession:
        """The store on this loop; whoever comes first opens it."""
        loop, opening = asyncio.get_running_loop(), self._opening
        failed = opening is not None and opening.done() and (opening.cancelled() or opening.exception() is not None)
        if opening is None or opening.get_loop() is not loop or failed:
            opening = self._opening = loop.create_task(self._open(loop))
        return await asyncio.shield(opening)

    async def _open(self, loop: asyncio.AbstractEventLoop) -> RuntimeSession:
        if self._memory is not None:
            store = self._memory
        else:
            store = make_store(self.url)
            await store.open()
            if is_in_memory(self.url):
                self._memory = store
        clock = make_node_clock(self.clock)
        try:
            await clock.measure(store)
        except BaseException:
            if store is not self._memory:
                await store.close()
            raise
        service = make_service(store, clock, checks=self.declared.checks, defaults=self._defaults)
        return RuntimeSession(loop=loop, store=store, clock=clock, service=service)

    async def _save(self, session: RuntimeSession) -> Sequence[SavedJob]:
        async with session.saving:
            drafts = [self.declared.jobs[name] for name in sorted(self.declared.unsaved)]
            saved = await session.service.job_saver.save(drafts) if drafts else ()
            for draft in drafts:  # unless it was declared anew meanwhile
                if self.declared.jobs[draft.name] is draft:
                    self.declared.unsaved.discard(draft.name)
            return saved

    async def _prune(self, session: RuntimeSession) -> None:
        """Delete what this owner declared once and no longer does."""
        if self.declared.owner is None:
            return
        where = JobFilter(namespace=self.namespace, owner=self.declared.owner)
        gone = [job.name async for job in session.every_job(where) if job.name not in self.declared.jobs]
        for name in gone:
            with suppress(NotFound):
                await session.service.jobs.delete(name, namespace=self.namespace)

    def _changed(self) -> None:
        """A job was declared; while the app runs it is saved at once, else with the next call."""
        opening = self._opening
        if opening is None or not opening.done() or opening.get_loop().is_closed():
            return
        if not opening.cancelled() and opening.exception() is None and (session := opening.result()).engine is not None:
            session.loop.call_soon_threadsafe(self._save_soon, session)

    def _save_soon(self, session: RuntimeSession) -> None:
        task = session.loop.create_task(self._save_beside(session))
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _save_beside(self, session: RuntimeSession) -> None:
        try:
            await self._save(session)
        except ChronosError:  # the next call tries again, and raises it
            log.exception("a job that was declared while the app runs could not be saved")


def _settings(defaults: Mapping[str, Any], checks: Mapping[str, Check]) -> Settings:
    """Settings as a job would say them."""
    with naming("defaults"):
        shape = {"name": "defaults", "schedule": "manual", "wait": {"for": "1s"}, **default_shape(defaults)}
        return read_job(shape, checks=checks).spec.settings
