"""``Scheduler``: the two methods of the declarative scheduler, and the states between them.

::

    uninitialized ──initialize──► initializing ──► running ──stop──► stopping ──► stopped
          ▲                            │ failed                                      │
          └────────────────────────────┘                       initialize again ◄────┘

It uses the engine and its stores: tasks are jobs, and runs are executions. The engine makes all decisions about them.
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
from chronos.declarative.local_timezone import find_local_zone
from chronos.declarative.persistence import TaskWriter
from chronos.declarative.reconcile import (
    DesiredTask,
    Resolution,
    ResolutionKind,
    needs_last_attempt,
    resolve,
    to_desired_tasks,
)
from chronos.declarative.registration import RegistrationTuple, read_registrations
from chronos.declarative.scheduler_engine import start_engine, watch_engine
from chronos.declarative.task_jobs import is_task
from chronos.declarative.task_state import (
    find_last_attempts,
    find_last_success_us,
    find_pending_retries,
    list_open,
    read_jobs,
    wake_registered,
)
from chronos.engine.engine import Engine
from chronos.errors import Invalid
from chronos.store.contract import Store


class State(Enum):
    """The state of the scheduler."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(slots=True, kw_only=True)
class _Running:
    """The parts of a running scheduler."""

    store: Store
    engine: Engine | None  # None: no tasks are registered
    engine_watcher: asyncio.Task[None] | None
    callbacks: CallbackRunner
    resolution: Resolution


class Scheduler:
    """Runs the registered tasks from ``initialize`` until ``stop``.

    - ``store``: the address of the store that keeps their state: ``sqlite:///file`` or ``postgresql://…``.
    - ``clock``: the source of time, for tests.
    - ``timezone``: an IANA name. By default the time zone of the host.
    - ``on_event``: a function that is called with every event. The logger ``chronos.declarative`` gets them too.

    Raises ``Invalid`` for a wrong argument.

    Example::

        scheduler = Scheduler("sqlite:///tasks.db")
        await scheduler.initialize([("clean-up", "0 3 * * *", clean_up, timedelta(minutes=5))])
        ...
        await scheduler.stop()
    """

    def __init__(
        self,
        store: str,
        clock: Clock | None = None,
        timezone: str | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        if not isinstance(store, str):
            raise Invalid(f"the store is {store!r}; use its address, such as sqlite:///tasks.db")
        if clock is not None and not callable(getattr(clock, "now_us", None)):
            raise Invalid(f"clock is {clock!r}; use an object with now_us(), or leave it out")
        self._url, self._clock = store, clock or SystemClock()
        self._store_clock: Clock = self._clock  # corrected by the time of the store once that is open
        self._zone = None if timezone is None else _check_zone(timezone)
        if on_event is not None and not callable(on_event):
            raise Invalid(f"on_event is {on_event!r}; use a function that takes an event, or leave it out")
        if inspect.iscoroutinefunction(on_event):
            raise Invalid("on_event is async, and it is not awaited; use a plain function, which may start a task")
        self._emitter = EventEmitter(on_event)
        self._state = State.UNINITIALIZED
        self._transition: asyncio.Future[None] | None = None  # ends with initializing or stopping
        self._running: _Running | None = None
        self._identifier = ""

    async def initialize(self, registrations: Sequence[RegistrationTuple]) -> None:
        """Store the registered tasks and run them. Stored tasks that are not registered are kept, and not run.

        - ``registrations``: tuples of name, POSIX cron expression, async callback without parameters, and retry delay.

        Raises, before anything is written:

        - ``SchedulerAlreadyActiveError`` while the scheduler is initializing or running.
        - another ``DeclarativeError`` for the first invalid registration.

        Raises ``SchedulerInitializationError`` for any other failure. Everything written is undone then.
        """
        while self._state is State.STOPPING:
            self._check_not_in_callback("initialize")
            await self._wait_for_transition()
        if self._state in (State.INITIALIZING, State.RUNNING):
            raise SchedulerAlreadyActiveError(self._state.value)
        self._begin(State.INITIALIZING)
        self._emitter.emit(SchedulerInitializationStarted(at=self._now()))
        try:
            self._running = await self._start(registrations)
        except BaseException as error:
            if isinstance(error, DeclarativeError) or not isinstance(error, Exception):
                failure = error
            else:
                failure = SchedulerInitializationError(error)
            self._end(State.UNINITIALIZED)
            self._emitter.emit(SchedulerInitializationFailed(at=self._now(), error=failure))
            if failure is error:
                raise
            raise failure from error
        self._end(State.RUNNING)
        self._emitter.emit(_to_completed_event(self._running.resolution, self._now()))

    async def stop(self) -> None:
        """Start nothing new, wait for the running callbacks without limit, and close the store.

        Waits for a running ``initialize`` first. No-op when the scheduler does not run. Raises ``Invalid`` when a
        callback calls it, since the callback would wait for itself.
        """
        self._check_not_in_callback("stop")
        while self._state is State.INITIALIZING:
            await self._wait_for_transition()
        if self._state is State.RUNNING:
            self._begin(State.STOPPING)
            self._emitter.emit(SchedulerStopRequested(at=self._now()))
            stopping = asyncio.ensure_future(self._stop())
            await asyncio.shield(stopping)
        elif self._state is State.STOPPING:
            await self._wait_for_transition()

    def _check_not_in_callback(self, method: str) -> None:
        """Raise ``Invalid`` in a callback: ``stop`` waits for every callback, so this one would wait for itself."""
        if self._running is not None and self._running.callbacks.is_in_callback:
            raise Invalid(
                f"{method}() waits until every callback has ended, so a callback must not await it; "
                f"start a task instead: asyncio.create_task(scheduler.{method}(…))"
            )

    # --- states

    def _begin(self, state: State) -> None:
        self._state, self._transition = state, asyncio.get_running_loop().create_future()

    def _end(self, state: State) -> None:
        self._state = state
        if self._transition is not None:
            self._transition.set_result(None)
            self._transition = None

    async def _wait_for_transition(self) -> None:
        if self._transition is not None:
            await asyncio.shield(self._transition)

    # --- starting

    async def _start(self, registered: object) -> _Running:
        registrations = read_registrations(registered)
        zone = self._zone or find_local_zone()
        to_desired_tasks(registrations, zone, self._clock.now_us())  # raises before a store is opened
        self._identifier = self._identifier or uuid4().hex
        store = make_store(self._url)
        await store.open()
        try:
            clock = self._store_clock = make_node_clock(self._clock)
            await clock.measure(store)
            now_us = clock.now_us()
            return await self._start_on(store, to_desired_tasks(registrations, zone, now_us), now_us)
        except BaseException:
            await store.close()
            raise

    async def _start_on(self, store: Store, desired_tasks: list[DesiredTask], now_us: int) -> _Running:
        jobs = await read_jobs(store)
        resolution = await self._resolve(store, desired_tasks, jobs, now_us)
        tasks = {name: jobs[name] for name in resolution.kinds if name in jobs}
        waiting = await list_open(store, tasks.values(), Status.WAITING)
        pending = find_pending_retries(waiting, now_us)
        find_last_success = partial(find_last_success_us, store)
        callbacks = CallbackRunner(desired_tasks, pending, find_last_success, self._store_clock, self._emitter)
        writer = TaskWriter(store, resolution, jobs, now_us)
        await writer.apply()
        engine: Engine | None = None
        engine_watcher: asyncio.Task[None] | None = None
        if desired_tasks:
            try:
                await wake_registered(store, waiting.values(), now_us)
                engine = await start_engine(store, self._store_clock, callbacks, self._identifier, len(desired_tasks))
            except BaseException:
                await writer.undo()
                raise
            engine_watcher = asyncio.ensure_future(watch_engine(engine))
            self._emitter.emit(PollingStarted(at=self._now()))
        return _Running(
            store=store, engine=engine, engine_watcher=engine_watcher, callbacks=callbacks, resolution=resolution
        )

    async def _resolve(
        self, store: Store, desired_tasks: list[DesiredTask], jobs: dict[str, Job], now_us: int
    ) -> Resolution:
        orphaned = await orphans.take_over(store, self._store_clock)
        undecided = [
            job
            for desired in desired_tasks
            if (job := jobs.get(desired.registration.name)) is not None
            and is_task(job)
            and needs_last_attempt(desired, job, now_us)
        ]
        return resolve(desired_tasks, jobs, orphaned, await find_last_attempts(store, undecided), now_us)

    # --- stopping

    async def _stop(self) -> None:
        running = self._running
        assert running is not None
        try:
            if running.engine is not None:
                self._emitter.emit(PollingStopRequested(at=self._now()))
                await running.engine.stop()
            if running.engine_watcher is not None:
                await running.engine_watcher
        finally:
            try:
                await running.store.close()
            finally:
                self._running = None
                orphans.unregister(self._identifier)
                if running.engine is not None:
                    self._emitter.emit(PollingStopped(at=self._now()))
                self._end(State.STOPPED)
                self._emitter.emit(SchedulerStopped(at=self._now()))

    def _now(self) -> datetime:
        return from_us(self._store_clock.now_us())


def _check_zone(name: str) -> str:
    if not isinstance(name, str):
        raise Invalid(f"timezone is {name!r}; use an IANA name such as 'Europe/Paris', or leave it out")
    try:
        return get_zone(name).name
    except LookupError as error:
        raise Invalid(str(error.args[0])) from None


def _to_completed_event(resolution: Resolution, at: datetime) -> SchedulerInitializationCompleted:
    def list_names(kind: ResolutionKind) -> tuple[str, ...]:
        return tuple(name for name, task_kind in resolution.kinds.items() if task_kind is kind)

    return SchedulerInitializationCompleted(
        at=at,
        new=list_names(ResolutionKind.NEW),
        preserved=list_names(ResolutionKind.PRESERVED),
        overridden=list_names(ResolutionKind.OVERRIDDEN),
        orphaned=list_names(ResolutionKind.ORPHANED),
        unregistered=resolution.unregistered,
    )
