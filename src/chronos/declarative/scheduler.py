"""The declarative scheduler: two methods, and the states between them.

::

    uninitialized ──initialize──► initializing ──► running ──stop──► stopping ──► stopped
          ▲                            │ failed                                      │
          └────────────────────────────┘                       initialize again ◄────┘

It is a face on the engine and its stores: tasks are jobs, runs are executions, and this decides none of them.
"""

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from uuid import uuid4

from chronos.assembly import make_node_clock, make_store
from chronos.clock import Clock, SystemClock
from chronos.core.calendar import from_us
from chronos.core.execution import Status
from chronos.core.job import Job
from chronos.core.schedule.timezones import get_zone
from chronos.declarative import orphans
from chronos.declarative.callback_runner import CallbackRunner
from chronos.declarative.errors import DeclarativeError, SchedulerAlreadyActiveError, SchedulerInitializationError
from chronos.declarative.events import (
    EventEmitter,
    OnEvent,
    PollingStarted,
    PollingStopped,
    PollingStopRequested,
    SchedulerInitializationCompleted,
    SchedulerInitializationFailed,
    SchedulerInitializationStarted,
    SchedulerStopped,
    SchedulerStopRequested,
)
from chronos.declarative.instance import mind, start_engine
from chronos.declarative.local_timezone import local_zone
from chronos.declarative.persistence import TaskWriter
from chronos.declarative.reconcile import DesiredTask, Resolution, ResolutionKind, in_question, resolve, wanted
from chronos.declarative.registration import Given, read_registrations
from chronos.declarative.task_jobs import is_task
from chronos.declarative.task_state import (
    awaiting_retry,
    last_attempts,
    last_success_us,
    open_of,
    read_jobs,
    wake_registered,
)
from chronos.engine.engine import Engine
from chronos.errors import Invalid
from chronos.store.contract import Store


class State(Enum):
    """What the scheduler is doing; it is in exactly one of these."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(slots=True, kw_only=True)
class _Running:
    """What a running scheduler holds."""

    store: Store
    engine: Engine | None  # none: there is not a single task
    minder: asyncio.Task[None] | None
    callbacks: CallbackRunner
    resolution: Resolution


class Scheduler:
    """Runs the registered tasks from ``initialize`` until ``stop``.

    ``store`` names where their state is kept: ``sqlite:///file`` or ``postgresql://…``. ``timezone`` is an IANA name,
    by default the host's; an unknown one is ``Invalid``. ``on_event`` is called with every event, and the logger
    ``chronos.declarative`` told; an async one is ``Invalid``.
    """

    def __init__(
        self,
        store: str,
        clock: Clock | None = None,
        timezone: str | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        if not isinstance(store, str):
            raise Invalid(f"the store is {store!r}; give its address, such as sqlite:///tasks.db")
        if clock is not None and not callable(getattr(clock, "now_us", None)):
            raise Invalid(f"clock is {clock!r}; give one that tells the time in now_us(), or leave it out")
        self._url, self._clock = store, clock or SystemClock()
        self._corrected: Clock = self._clock  # by the store's, once that is open
        self._zone = None if timezone is None else _known_zone(timezone)
        if on_event is not None and not callable(on_event):
            raise Invalid(f"on_event is {on_event!r}; give a function that takes an event, or leave it out")
        if inspect.iscoroutinefunction(on_event):
            raise Invalid("on_event is called and not awaited; give a plain function, which may start a task")
        self._teller = EventEmitter(on_event)
        self._state = State.UNINITIALIZED
        self._changed: asyncio.Future[None] | None = None  # while initializing or stopping: the end of it
        self._running: _Running | None = None
        self._identifier = ""

    async def initialize(self, registrations: Sequence[Given]) -> None:
        """Bring the registered tasks together with what is stored, and run them.

        Everything that is wrong with the registrations is raised before anything is written. Raises
        ``SchedulerAlreadyActiveError``, and changes nothing, while the scheduler is initializing or running.
        """
        while self._state is State.STOPPING:
            self._refuse_callbacks("initialize")
            await self._settled()
        if self._state in (State.INITIALIZING, State.RUNNING):
            raise SchedulerAlreadyActiveError(self._state.value)
        self._begin(State.INITIALIZING)
        self._teller.tell(SchedulerInitializationStarted(at=self._now()))
        try:
            self._running = await self._start(registrations)
        except BaseException as error:
            told = error if isinstance(error, DeclarativeError) or not isinstance(error, Exception) else None
            failure = told or SchedulerInitializationError(error)  # type: ignore[arg-type]
            self._end(State.UNINITIALIZED)
            self._teller.tell(SchedulerInitializationFailed(at=self._now(), error=failure))
            if failure is error:
                raise
            raise failure from error
        self._end(State.RUNNING)
        self._teller.tell(_completed(self._running.resolution, self._now()))

    async def stop(self) -> None:
        """Start nothing new, wait for the callbacks that run, however long they take, and let go of everything.

        While the scheduler initializes, that is waited for first. Harmless when it does not run.
        """
        self._refuse_callbacks("stop")
        while self._state is State.INITIALIZING:
            await self._settled()
        if self._state is State.RUNNING:
            self._begin(State.STOPPING)
            self._teller.tell(SchedulerStopRequested(at=self._now()))
            stopping = asyncio.ensure_future(self._stop())
            await asyncio.shield(stopping)
        elif self._state is State.STOPPING:
            await self._settled()

    def _refuse_callbacks(self, method: str) -> None:
        """Whoever stops waits for every callback; one that waits for that would wait for itself."""
        if self._running is not None and self._running.callbacks.inside:
            raise Invalid(
                f"{method}() waits until every callback has ended, so a callback must not wait for it; "
                f"let a task of its own do that: asyncio.create_task(scheduler.{method}(…))"
            )

    # --- states

    def _begin(self, state: State) -> None:
        self._state, self._changed = state, asyncio.get_running_loop().create_future()

    def _end(self, state: State) -> None:
        self._state = state
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    async def _settled(self) -> None:
        if self._changed is not None:
            await asyncio.shield(self._changed)

    # --- starting

    async def _start(self, given: object) -> _Running:
        registrations = read_registrations(given)
        zone = self._zone or local_zone()
        wanted(registrations, zone, self._clock.now_us())  # what is wrong with them is said before a store is opened
        self._identifier = self._identifier or uuid4().hex
        store = make_store(self._url)
        await store.open()
        try:
            clock = self._corrected = make_node_clock(self._clock)
            await clock.measure(store)
            now_us = clock.now_us()
            return await self._start_on(store, wanted(registrations, zone, now_us), now_us)
        except BaseException:
            await store.close()
            raise

    async def _start_on(self, store: Store, wants: list[DesiredTask], now_us: int) -> _Running:
        jobs = await read_jobs(store)
        resolution = await self._resolve(store, wants, jobs, now_us)
        tasks = {name: jobs[name] for name in resolution.kinds if name in jobs}
        waiting = await open_of(store, tasks.values(), Status.WAITING)
        pending, recall = awaiting_retry(waiting, now_us), partial(last_success_us, store)
        callbacks = CallbackRunner(wants, pending, recall, self._corrected, self._teller)
        writing = TaskWriter(store, resolution, jobs, now_us)
        await writing.apply()
        engine: Engine | None = None
        minder: asyncio.Task[None] | None = None
        if wants:
            try:
                await wake_registered(store, waiting.values(), now_us)
                engine = await start_engine(store, self._corrected, callbacks, self._identifier, len(wants))
            except BaseException:
                await writing.take_back()
                raise
            minder = asyncio.ensure_future(mind(engine))
            self._teller.tell(PollingStarted(at=self._now()))
        return _Running(store=store, engine=engine, minder=minder, callbacks=callbacks, resolution=resolution)

    async def _resolve(self, store: Store, wants: list[DesiredTask], jobs: dict[str, Job], now_us: int) -> Resolution:
        orphaned = await orphans.take_over(store, self._corrected)
        asked = [
            job
            for want in wants
            if (job := jobs.get(want.registration.name)) is not None and is_task(job) and in_question(want, job, now_us)
        ]
        return resolve(wants, jobs, orphaned, await last_attempts(store, asked), now_us)

    # --- stopping

    async def _stop(self) -> None:
        running = self._running
        assert running is not None
        try:
            if running.engine is not None:
                self._teller.tell(PollingStopRequested(at=self._now()))
                await running.engine.stop()
            if running.minder is not None:
                await running.minder
        finally:
            try:
                await running.store.close()
            finally:
                self._running = None
                orphans.leave(self._identifier)
                if running.engine is not None:
                    self._teller.tell(PollingStopped(at=self._now()))
                self._end(State.STOPPED)
                self._teller.tell(SchedulerStopped(at=self._now()))

    def _now(self) -> datetime:
        return from_us(self._corrected.now_us())


def _known_zone(name: str) -> str:
    if not isinstance(name, str):
        raise Invalid(f"timezone is {name!r}; give an IANA name such as 'Europe/Paris', or leave it out")
    try:
        return get_zone(name).name
    except LookupError as error:
        raise Invalid(str(error.args[0])) from None


def _completed(resolution: Resolution, at: datetime) -> SchedulerInitializationCompleted:
    def of(kind: ResolutionKind) -> tuple[str, ...]:
        return tuple(name for name, is_kind in resolution.kinds.items() if is_kind is kind)

    return SchedulerInitializationCompleted(
        at=at,
        new=of(ResolutionKind.NEW),
        preserved=of(ResolutionKind.PRESERVED),
        overridden=of(ResolutionKind.OVERRIDDEN),
        orphaned=of(ResolutionKind.ORPHANED),
        unregistered=resolution.unregistered,
    )
