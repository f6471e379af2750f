"""The test harness: runs an app's jobs on a store in memory and in virtual time.

::

    load(app) ─► takes the jobs of the app
    clock.set ─► sets the time at which the test begins
    advance   ─► lets time pass, runs due jobs and returns their runs

The app's own store is never opened. Python functions really run, one after the other; sync functions run on the loop
too. Webhooks and commands are not executed: they succeed at once, or end as ``answer`` says.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from chronos.assembly import Service, make_engine, make_runners, make_service, make_test_store
from chronos.core.config import DAY_US, Retention, Settings
from chronos.core.events import Event, ExecutionEnded, ExecutionStarted
from chronos.core.execution import Execution, Span
from chronos.core.lane import PYTHON
from chronos.core.outcome import Failed, Outcome, Succeeded
from chronos.engine.engine import Engine
from chronos.engine.options import EngineOptions
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall, Runner
from chronos.runners.python.runner import PythonRunner
from chronos.sdk.app import Chronos
from chronos.sdk.event_callbacks import EventDelivery
from chronos.sdk.info import SpanInfo, to_span_info
from chronos.store.commands import SetDefaults
from chronos.store.contract import ExecutionFilter, Hint, Store
from chronos.testing.blocking_sleep import SleepWatchingRunner, replace_sleep
from chronos.testing.clock import VirtualClock, to_duration
from chronos.testing.loop import VirtualLoop
from chronos.testing.runs_by_job import Ran, RunsByJob, to_harness_run
from chronos.tuning import collect_garbage_rarely, is_on_loop

T = TypeVar("T")
_ON_A_LOOP = "a harness has its own event loop; in an async test use await chronos.{async_name}(…)"
_PAGE = 1_000
_TRIGGER_TIMEOUT_S = 366 * 86_400.0  # for a triggered run, in virtual time
_KEEP_ALL = Settings(retention=Retention(max_count=100_000_000, max_age_us=36_525 * DAY_US))
#: There is only one node, so periodic duties run rarely and idle time costs nothing.
_OPTIONS = EngineOptions(
    node_name="test",
    slots=1_000,
    lookahead_s=2 * 86_400,
    tick_s=86_400,
    reaper_s=7 * 86_400,
    heartbeat_s=7 * 86_400,
    heartbeat_timeout_s=28 * 86_400,
    grace_s=30,
)


class Harness:
    """Runs an app's jobs in virtual time. The fixture ``chronos`` is a harness."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        loop = self._runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = _Clock(loop, self._note_clock_change)
        self._app: Chronos | None = None
        self._store: Store | None = None
        self._service: Service | None = None
        self._engine: Engine | None = None
        self._delivery: EventDelivery | None = None
        self._runners: Mapping[str, Runner] = {}
        self._answers: dict[str, Outcome] = {}
        self._started: dict[bytes, None] = {}
        self._names: dict[bytes, str] = {}
        self._clock_changed = False  # since the engine last read it

    # --- for tests

    def load(self, app: Chronos) -> None:
        """Take the jobs of an app. They come into force when time first passes."""
        if self._engine is not None:
            raise Invalid("time has already passed; load the app first")
        for job in self._answers:
            _check_answer(app, job)
        self._app = app

    def answer(self, job: str, *, result: Any = None, error: str | None = None) -> None:
        """Set the result or error of a job's webhooks and commands from now on."""
        if self._app is not None:
            _check_answer(self._app, job)
        self._answers[job] = Succeeded(result=result) if error is None else Failed(error=error)

    def advance(self, by: timedelta | str | None = None, /, **amounts: float) -> RunsByJob:
        """Let time pass (``days=1``, ``"1 day"``, ``"1h30m"``, …). Returns the runs that started, by job, oldest first.

        Every job has a list, which may be empty. A run that is due exactly at the end is included.
        """
        duration = (timedelta() if by is None else to_duration(by)) + timedelta(**amounts)
        if duration < timedelta():
            raise Invalid(
                f"cannot go back by {-duration} (the clock shows {self.clock.now:%Y-%m-%dT%H:%M:%SZ}); "
                "use clock.set or clock.jump to test a clock that is set back"
            )
        return self._run(self._advance(duration.total_seconds()), "aadvance")

    def advance_to(self, when: datetime | str, tz: str | None = None) -> RunsByJob:
        """Let time pass until the clock shows ``when``. Returns the runs that started, as ``advance`` does."""
        return self.advance(timedelta(microseconds=self.clock.until_us(when, tz)))

    def trigger(self, job: str, payload: Any = None) -> Ran:
        """Run a job now and let time pass until the run ends."""
        return self._run(self._trigger(job, payload), "atrigger")

    def executions(self, job: str) -> list[Ran | SpanInfo]:
        """Return everything on record for a job, oldest first.

        Runs that are running, waiting or skipped are included, and a ``SpanInfo`` for each series of missed or skipped
        instants.
        """
        return self._run(self._executions(job), "aexecutions")

    def close(self) -> None:
        """Stop the engine and close the store and the loop."""
        if self._store is not None:
            self._run(self._close(), "aclose")
        self._runner.close()

    # --- for async tests: the jobs run in a thread meanwhile, on the harness's own loop

    async def aadvance(self, by: timedelta | str | None = None, /, **amounts: float) -> RunsByJob:
        """Let time pass, in an async test. See ``advance``."""
        return await asyncio.to_thread(self.advance, by, **amounts)

    async def aadvance_to(self, when: datetime | str, tz: str | None = None) -> RunsByJob:
        """Let time pass until the clock shows ``when``, in an async test."""
        return await asyncio.to_thread(self.advance_to, when, tz)

    async def atrigger(self, job: str, payload: Any = None) -> Ran:
        """Run a job now and let time pass until the run ends, in an async test."""
        return await asyncio.to_thread(self.trigger, job, payload)

    async def aexecutions(self, job: str) -> list[Ran | SpanInfo]:
        """Return everything on record for a job, in an async test. See ``executions``."""
        return await asyncio.to_thread(self.executions, job)

    async def aclose(self) -> None:
        """Close the harness, in an async test without the fixture."""
        await asyncio.to_thread(self.close)

    # --- implementation

    def _run(self, work: Coroutine[Any, Any, T], async_name: str) -> T:
        """Run ``work`` on the harness's loop. ``async_name`` is the method for async tests."""
        if is_on_loop():
            work.close()
            raise Invalid(_ON_A_LOOP.format(async_name=async_name))
        functions = () if self._app is None else self._app._runtime.functions
        with replace_sleep(functions), collect_garbage_rarely():
            return self._runner.run(work)

    async def _advance(self, duration_s: float) -> RunsByJob:
        self._started.clear()
        engine = await self._ensure_started()
        passing = asyncio.create_task(self._let_time_pass(duration_s))
        failing = asyncio.create_task(engine.wait_until_stopped())
        await asyncio.wait((passing, failing), return_when=asyncio.FIRST_COMPLETED)
        if not passing.done():
            passing.cancel()
            failing.result()
        failing.cancel()
        with suppress(asyncio.CancelledError):
            await failing
        return await self._collect_runs(dict(self._started))

    async def _let_time_pass(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s)
        await self.clock.loop.quiet()  # run everything that is due at this moment

    async def _trigger(self, job: str, payload: Any) -> Ran:
        engine, service, app = await self._ensure_started(), self._service, self._app
        assert service is not None
        assert app is not None
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        triggered_ids: list[bytes] = []
        ended_ids: set[bytes] = set()

        def watch(event: Event) -> None:
            assert isinstance(event, ExecutionEnded)
            ended_ids.add(event.execution)
            if event.execution in triggered_ids and not ended.done():
                ended.set_result(None)

        unwatch = engine.on_event(watch, ExecutionEnded)
        try:
            triggered = await service.runs.trigger(job, payload, namespace=app._runtime.namespace)
            triggered_ids.append(triggered.id)
            if triggered.id not in ended_ids:
                await self._wait_for_end(ended, job, triggered.id)
        finally:
            unwatch()
        await self.clock.loop.quiet()  # until its outcome is recorded
        assert self._store is not None
        view = await self._store.execution(triggered.id)
        assert view is not None
        return to_harness_run(view.execution)

    async def _wait_for_end(self, ended: asyncio.Future[None], job: str, id_: bytes) -> None:
        try:
            async with asyncio.timeout(_TRIGGER_TIMEOUT_S):
                await ended
        except TimeoutError:
            assert self._store is not None
            view = await self._store.execution(id_)
            status = "gone" if view is None else view.execution.status.name.lower()
            raise Invalid(
                f'"{job}" is still {status} after a year of virtual time; '
                "set a shorter timeout, or inspect the run with advance and executions"
            ) from None

    async def _executions(self, job: str) -> list[Ran | SpanInfo]:
        await self._ensure_started()
        assert self._store is not None
        id_ = next((id_ for id_, name in self._names.items() if name == job), None)
        if id_ is None:
            raise _to_unknown_job_error(job, self._names.values())
        runs: list[Ran | SpanInfo] = []
        cursor: bytes | None = None
        while True:
            page = await self._store.list_executions(ExecutionFilter(job=id_), limit=_PAGE, cursor=cursor)
            runs += [to_span_info(item) if isinstance(item, Span) else to_harness_run(item) for item in page.items]
            cursor = page.cursor
            if cursor is None:
                return runs[::-1]

    async def _collect_runs(self, missing: dict[bytes, None]) -> RunsByJob:
        assert self._store is not None
        found: dict[str, list[Execution]] = {name: [] for name in self._names.values()}
        cursor: bytes | None = None
        while missing:
            page = await self._store.list_executions(ExecutionFilter(), limit=_PAGE, cursor=cursor)
            for item in page.items:
                if item.id in missing and isinstance(item, Execution):
                    del missing[item.id]
                    found.setdefault(self._names.get(item.job, ""), []).append(item)
            cursor = page.cursor
            if cursor is None:
                break
        return RunsByJob({name: newest_first[::-1] for name, newest_first in found.items()})

    async def _ensure_started(self) -> Engine:
        """Return the engine, and start it on first use."""
        if self._engine is not None:
            if self._clock_changed:
                await self._notify_clock_change(self._engine)
            return self._engine
        if self._app is None:
            raise Invalid("no app is loaded; call chronos.load(app) first")
        runtime = self._app._runtime
        self._store = make_test_store()
        await self._store.open()
        await self._store.apply(SetDefaults(settings=_KEEP_ALL, now_us=self.clock.now_us()))
        self._service = make_service(self._store, self.clock, checks=runtime.declared.checks)
        saved = await self._service.job_saver.save(list(runtime.declared.jobs.values()))
        self._names = {job.job_id: job.name for job in saved}
        inline = SleepWatchingRunner(
            PythonRunner(runtime.functions, threads=1, processes=1, clock=self.clock, inline=True), runtime.functions
        )
        runners = make_runners(runtime.functions, clock=self.clock)
        stand_in = _StandIn(self._answers)
        self._runners = {
            kind: inline if kind == PYTHON else runner if kind in _REAL_TARGET_KINDS else stand_in
            for kind, runner in runners.items()
        }
        for kind, runner in runners.items():
            if self._runners[kind] is not runner:
                await runner.close()
        self._engine = make_engine(
            self._store,
            clock=self.clock,
            options=_OPTIONS,
            functions=runtime.functions,
            runners=self._runners,
        )
        self._engine.on_event(self._watch, ExecutionStarted)
        self._delivery = runtime.callbacks.deliver(self._engine, self._store, runtime.namespace, inline=True)
        await self._engine.start()
        self._clock_changed = False
        return self._engine

    def _watch(self, event: Event) -> None:
        assert isinstance(event, ExecutionStarted)
        self._started[event.execution] = None

    def _note_clock_change(self) -> None:
        self._clock_changed = True

    async def _notify_clock_change(self, engine: Engine) -> None:
        """Wake the engine after a change of the clock, because its ticks are rare: first to measure, then to plan."""
        self._clock_changed = False
        for hint in (Hint.CANCEL, Hint.JOBS | Hint.READY):
            engine._wake_by_hint(hint)
            await self.clock.loop.quiet()

    async def _close(self) -> None:
        if self._engine is not None:
            await self._engine.stop(0)
        if self._delivery is not None:
            await self._delivery.finish()
        for runner in self._runners.values():
            await runner.close()
        if self._store is not None:
            await self._store.close()


class _Clock(VirtualClock):
    """A virtual clock that reports every change to the harness."""

    def __init__(self, loop: VirtualLoop, on_change: Callable[[], None]) -> None:
        super().__init__(loop)
        self._on_change = on_change

    def set(self, when: datetime | str, tz: str | None = None) -> None:
        super().set(when, tz)
        self._on_change()

    def jump(self, by: timedelta | float | str) -> None:
        super().jump(by)
        self._on_change()


class _StandIn:
    """Replaces the runners of webhooks and commands."""

    def __init__(self, answers: Mapping[str, Outcome]) -> None:
        self._answers = answers

    def check(self, options: Mapping[str, Any]) -> None:
        """No-op: the real runner checked the options when the job was declared."""

    async def run(self, call: AttemptCall) -> Outcome:
        return self._answers.get(call.job_name, _DEFAULT_OUTCOME)

    async def close(self) -> None:
        """No-op: there is nothing to close."""


def _check_answer(app: Chronos, job: str) -> None:
    """Reject answers for unknown jobs and for jobs that really run, so that a typo cannot make a test pass."""
    draft = app._runtime.declared.jobs.get(job)
    if draft is None:
        raise _to_unknown_job_error(job, app._runtime.declared.jobs)
    if all(task.target.kind in _REAL_TARGET_KINDS for task in draft.spec.tasks):
        raise Invalid(f'"{job}" really runs and needs no answer; use answer only for webhooks and commands')


def _to_unknown_job_error(job: str, known: Iterable[str]) -> Invalid:
    return Invalid(f'the app has no job "{job}"; its jobs: {", ".join(sorted(known)) or "none"}')


_REAL_TARGET_KINDS = (PYTHON, "wait")  # targets that really run
_DEFAULT_OUTCOME = Succeeded()
