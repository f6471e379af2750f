"""An app under test: its jobs on a store in memory and in virtual time, so that a month passes while a test waits.

::

    load(app) ─► the jobs of the app, saved as they would be
    clock.set ─► what time it is when the test begins
    advance   ─► time passes, what is due runs, and the runs are given back

The app's own store is never opened. Functions run for real, plain ones too, on the loop itself, one after the other.
What would leave the process (webhooks, commands) is not done: it succeeds at once, or as ``answer`` says.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from chronos.assembly import Service, make_engine, make_runners, make_service, make_test_store
from chronos.core.config import DAY_US, Retention, Settings, merge
from chronos.core.events import Event, ExecutionEnded, ExecutionStarted
from chronos.core.execution import Execution
from chronos.core.lane import PYTHON
from chronos.core.outcome import Failed, Outcome, Succeeded
from chronos.engine.engine import Engine
from chronos.engine.options import EngineOptions
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall, Runner
from chronos.runners.python.runner import PythonRunner
from chronos.sdk.app import Chronos
from chronos.sdk.info import RunInfo, to_run_fields
from chronos.sdk.job_options import to_seconds
from chronos.store.contract import ExecutionFilter, Hint, Store
from chronos.testing.clock import VirtualClock
from chronos.testing.loop import VirtualLoop
from chronos.tuning import is_on_loop

T = TypeVar("T")
_PAGE = 1_000
_TRIGGER_TIMEOUT_S = 366 * 86_400.0  # that a triggered run is waited for, in virtual time
_KEEP_ALL = Settings(retention=Retention(max_count=100_000_000, max_age_us=36_525 * DAY_US))
#: Nobody else is there, so hardly anything has to be looked after: idling costs nothing.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran(RunInfo):
    """One execution, as it stood when it was asked for."""

    @property
    def error(self) -> str | None:
        """Of the first task that has one."""
        return next((task.error for task in self.tasks if task.error is not None), None)


class Harness:
    """What the fixture ``chronos`` is."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        loop = self._runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = _Clock(loop, self._clock_was_set)
        self._app: Chronos | None = None
        self._store: Store | None = None
        self._service: Service | None = None
        self._engine: Engine | None = None
        self._runners: Mapping[str, Runner] = {}
        self._answers: dict[str, Outcome] = {}
        self._started: dict[bytes, None] = {}
        self._names: dict[bytes, str] = {}
        self._set = False  # the clock, since the engine looked at it

    # --- what a test says

    def load(self, app: Chronos) -> None:
        """Take the jobs of an app. They come into force when time first passes, at what the clock then shows."""
        if self._engine is not None:
            raise Invalid("time has passed already; load the app first")
        for job in self._answers:
            _check_answer(app, job)
        self._app = app

    def answer(self, job: str, *, result: Any = None, error: str | None = None) -> None:
        """What a job's webhooks and commands come to from now on: a result, or an error."""
        if self._app is not None:
            _check_answer(self._app, job)
        self._answers[job] = Succeeded(result=result) if error is None else Failed(error=error)

    def advance(self, by: timedelta | str | None = None, /, **amounts: float) -> dict[str, list[Ran]]:
        """Let time pass (``days=1``, ``hours=2``, ``"1h30m"``, …): the runs that began meanwhile, by job, oldest first.

        Every job has its list, which may be empty. An instant that has come at the very end is among them.
        """
        lasts = _to_timedelta(by) + timedelta(**amounts)
        if lasts < timedelta():
            raise Invalid(
                f"time does not go back, not by {-lasts} (the clock shows {self.clock.now:%Y-%m-%dT%H:%M:%SZ}); "
                "clock.set and clock.jump show what happens when somebody sets the clock back"
            )
        return self._run(self._advance(lasts.total_seconds()))

    def advance_to(self, when: datetime | str, tz: str | None = None) -> dict[str, list[Ran]]:
        """Let time pass until the clock shows this."""
        return self.advance(timedelta(microseconds=self.clock.until_us(when, tz)))

    def trigger(self, job: str, payload: Any = None) -> Ran:
        """Run a job now and let time pass until it is over."""
        return self._run(self._trigger(job, payload))

    def executions(self, job: str) -> list[Ran]:
        """Everything on record of a job, oldest first: also what runs, waits, was skipped."""
        return self._run(self._executions(job))

    def close(self) -> None:
        """Let go of everything."""
        if self._store is not None:
            self._run(self._close())
        self._runner.close()

    # --- how

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if is_on_loop():
            work.close()
            raise Invalid("a harness has an event loop of its own; write the test as a plain function, without async")
        return self._runner.run(work)

    async def _advance(self, lasts_s: float) -> dict[str, list[Ran]]:
        self._started.clear()
        engine = await self._begun()
        passing = asyncio.create_task(self._pass(lasts_s))
        over = asyncio.create_task(engine.failed())
        await asyncio.wait((passing, over), return_when=asyncio.FIRST_COMPLETED)
        if not passing.done():
            passing.cancel()
            over.result()
        over.cancel()
        with suppress(asyncio.CancelledError):
            await over
        return await self._collect_runs(dict(self._started))

    async def _pass(self, lasts_s: float) -> None:
        await asyncio.sleep(lasts_s)
        await self.clock.loop.quiet()  # what is due at this very moment

    async def _trigger(self, job: str, payload: Any) -> Ran:
        engine, service, app = await self._begun(), self._service, self._app
        assert service is not None
        assert app is not None
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asked: list[bytes] = []
        early: set[bytes] = set()

        def watch(event: Event) -> None:
            assert isinstance(event, ExecutionEnded)
            early.add(event.execution)
            if event.execution in asked and not ended.done():
                ended.set_result(None)

        unwatch = engine.on_event(watch, ExecutionEnded)
        try:
            answer = await service.runs.trigger(job, payload, namespace=app._runtime.namespace)
            asked.append(answer.id)
            if answer.id not in early:
                await self._until(ended, job, answer.id)
        finally:
            unwatch()
        await self.clock.loop.quiet()  # until its outcome is on record
        assert self._store is not None
        view = await self._store.execution(answer.id)
        assert view is not None
        return _to_harness_run(view.execution)

    async def _until(self, ended: asyncio.Future[None], job: str, id_: bytes) -> None:
        try:
            async with asyncio.timeout(_TRIGGER_TIMEOUT_S):
                await ended
        except TimeoutError:
            assert self._store is not None
            view = await self._store.execution(id_)
            stands = "gone" if view is None else view.execution.status.name.lower()
            raise Invalid(
                f'"{job}" is still {stands} after a year: it waits for something that does not come; '
                "give it a shorter timeout, or look at it with advance and executions"
            ) from None

    async def _executions(self, job: str) -> list[Ran]:
        await self._begun()
        assert self._store is not None
        id_ = next((id_ for id_, name in self._names.items() if name == job), None)
        if id_ is None:
            raise _to_unknown_job_error(job, self._names.values())
        found: list[Ran] = []
        cursor: bytes | None = None
        while True:
            page = await self._store.list_executions(ExecutionFilter(job=id_), limit=_PAGE, cursor=cursor)
            found += [_to_harness_run(item) for item in page.items if isinstance(item, Execution)]
            cursor = page.cursor
            if cursor is None:
                return found[::-1]

    async def _collect_runs(self, wanted: dict[bytes, None]) -> dict[str, list[Ran]]:
        assert self._store is not None
        runs: dict[str, list[Ran]] = {name: [] for name in self._names.values()}
        cursor: bytes | None = None
        while wanted:
            page = await self._store.list_executions(ExecutionFilter(), limit=_PAGE, cursor=cursor)
            for item in page.items:
                if item.id in wanted and isinstance(item, Execution):
                    del wanted[item.id]
                    runs.setdefault(self._names.get(item.job, ""), []).append(_to_harness_run(item))
            cursor = page.cursor
            if cursor is None:
                break
        return {name: found[::-1] for name, found in runs.items()}

    async def _begun(self) -> Engine:
        """The engine, started when it is first needed."""
        if self._engine is not None:
            if self._set:
                await self._notify_clock_change(self._engine)
            return self._engine
        if self._app is None:
            raise Invalid("no app is loaded; call chronos.load(app) first")
        runtime = self._app._runtime
        self._store = make_test_store()
        await self._store.open()
        defaults = merge(runtime._defaults, _KEEP_ALL)
        self._service = make_service(self._store, self.clock, checks=runtime.declared.checks, defaults=defaults)
        saved = await self._service.job_saver.save(list(runtime.declared.jobs.values()))
        self._names = {job.job_id: job.name for job in saved}
        inline = PythonRunner(runtime.functions, threads=1, processes=1, clock=self.clock, inline=True)
        known = make_runners(runtime.functions, clock=self.clock)
        stand_in = _StandIn(self._answers)
        self._runners = {
            kind: inline if kind == PYTHON else runner if kind in _REAL_TARGET_KINDS else stand_in
            for kind, runner in known.items()
        }
        for kind, runner in known.items():
            if self._runners[kind] is not runner:
                await runner.close()
        self._engine = make_engine(
            self._store,
            clock=self.clock,
            options=_OPTIONS,
            functions=runtime.functions,
            runners=self._runners,
            defaults=defaults,
        )
        self._engine.on_event(self._watch, ExecutionStarted)
        await self._engine.start()
        self._set = False
        return self._engine

    def _watch(self, event: Event) -> None:
        assert isinstance(event, ExecutionStarted)
        self._started[event.execution] = None

    def _clock_was_set(self) -> None:
        self._set = True

    async def _notify_clock_change(self, engine: Engine) -> None:
        """Let the engine notice that the clock was set, which else would take it a tick: first measure, then look."""
        self._set = False
        for hint in (Hint.CANCEL, Hint.JOBS | Hint.READY):
            engine._wake_by_hint(hint)
            await self.clock.loop.quiet()

    async def _close(self) -> None:
        if self._engine is not None:
            await self._engine.stop(0)
        for runner in self._runners.values():
            await runner.close()
        if self._store is not None:
            await self._store.close()


class _Clock(VirtualClock):
    """Tells the engine when it is set, which else would take it for a tick to notice."""

    def __init__(self, loop: VirtualLoop, changed: Callable[[], None]) -> None:
        super().__init__(loop)
        self._changed = changed

    def set(self, when: datetime | str, tz: str | None = None) -> None:
        super().set(when, tz)
        self._changed()

    def jump(self, by: timedelta | float) -> None:
        super().jump(by)
        self._changed()


class _StandIn:
    """For targets that would leave the process."""

    def __init__(self, answers: Mapping[str, Outcome]) -> None:
        self._answers = answers

    def check(self, options: Mapping[str, Any]) -> None:
        """The real one has checked them when the job was declared."""

    async def run(self, call: AttemptCall) -> Outcome:
        return self._answers.get(call.job_name, _DEFAULT_OUTCOME)

    async def close(self) -> None:
        """Nothing is kept."""


def _to_timedelta(by: timedelta | str | None) -> timedelta:
    """A duration, given as a timedelta or as text. Raises ``Invalid``."""
    if isinstance(by, str):
        return timedelta(seconds=to_seconds(by, "advance"))
    if by is not None and not isinstance(by, timedelta):
        raise Invalid(f'advance is {by!r}; use days=1, hours=2, a timedelta or text like "1h30m"')
    return by or timedelta()


def _check_answer(app: Chronos, job: str) -> None:
    """Only what is stood in for can be answered: else a slip of the pen would make a test pass that should not."""
    draft = app._runtime.declared.jobs.get(job)
    if draft is None:
        raise _to_unknown_job_error(job, app._runtime.declared.jobs)
    if all(task.target.kind in _REAL_TARGET_KINDS for task in draft.spec.tasks):
        raise Invalid(f'"{job}" runs for real and needs no answer; answers are for webhooks and commands')


def _to_unknown_job_error(job: str, known: Iterable[str]) -> Invalid:
    return Invalid(f'the app has no job "{job}"; it has {", ".join(sorted(known)) or "none"}')


_REAL_TARGET_KINDS = (PYTHON, "wait")  # targets that a harness really runs
_DEFAULT_OUTCOME = Succeeded()


def _to_harness_run(execution: Execution) -> Ran:
    return Ran(**to_run_fields(execution))
