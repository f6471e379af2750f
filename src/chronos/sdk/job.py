"""A job, as something to trigger, pause and look at; and the function that became one."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from chronos.core.calendar import rfc3339
from chronos.core.execution import Span, Status
from chronos.core.job import Job as StoredJob
from chronos.core.job import JobState
from chronos.errors import Invalid
from chronos.sdk.backfill import fill
from chronos.sdk.declarations import DecoratedFunction
from chronos.sdk.home_loop import LoopResult, OnHomeLoop, at_home, blocking
from chronos.sdk.info import JobInfo, RunInfo, SpanInfo, job_info, run_info, span_info
from chronos.sdk.job_options import Instant, instant_us
from chronos.sdk.run import Run
from chronos.service.job_state import StateChange
from chronos.service.jobs import JobService
from chronos.store.contract import ExecutionFilter

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
_RECENT = 20


class JobHandle(OnHomeLoop):
    """A job by its name. Everything about it is asked of the store, never of memory."""

    def __init__(self, runtime: "Runtime", name: str) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self.name = name

    # --- running it

    @at_home
    async def atrigger(self, payload: Any = None, *, at: Instant | None = None, key: str | None = None) -> Run:
        """Run it once, now, whether or not it has a schedule or is paused.

        ``payload`` is JSON; None means the job's own. ``at`` is the past instant that the run stands for. The same
        ``key`` gives the same run, however often it is asked. Raises ``QueueFull`` when too much waits already.
        """
        session = await self._runtime.session()
        triggered = await session.service.runs.trigger(
            self.name,
            payload,
            at_us=None if at is None else instant_us(at, "at"),
            idempotency=key_text(key),
            namespace=self._runtime.namespace,
        )
        return Run(self._runtime, triggered.id, self.name)

    @at_home
    async def abackfill(self, start: Instant, end: Instant, *, reason: str | None = None) -> list[Run]:
        """Run the instants of its schedule in a past range, both ends included, oldest first.

        What its queue has no room for is asked for as it empties. Raises ``QueueFull`` when it does not for a minute.
        """
        session = await self._runtime.session()
        to_us = instant_us(end, "end")

        async def ask(since: str) -> tuple[list[Run], str | None]:
            asked = await session.service.backfills.run(
                self.name, instant_us(since, "start"), to_us, reason=reason, namespace=self._runtime.namespace
            )
            runs = [Run(self._runtime, id_, self.name) for id_ in asked.ids]
            return runs, None if asked.next_us is None else rfc3339(asked.next_us)

        return await fill(ask, rfc3339(instant_us(start, "start")))

    @at_home
    async def aexecutions(self, limit: int = _RECENT) -> list[RunInfo | SpanInfo]:
        """Its latest executions, newest first; many instants that did not run are one item."""
        session = await self._runtime.session()
        where = ExecutionFilter(job=(await self._stored()).id)
        page = await session.store.list_executions(where, limit=at_least_one(limit))
        return [span_info(item) if isinstance(item, Span) else run_info(item) for item in page.items]

    # --- holding it up

    @at_home
    async def apause(self, reason: str = "") -> None:
        """Stop its schedule for a while: what runs finishes, what waits is held, a trigger still works."""
        await self._change(StateChange.PAUSE, reason)

    @at_home
    async def aresume(self) -> None:
        """Go on after a pause. The instants that passed are recorded as skipped."""
        await self._change(StateChange.RESUME)

    @at_home
    async def adisable(self, reason: str = "") -> None:
        """Switch its schedule off: there are no instants at all until it is enabled."""
        await self._change(StateChange.DISABLE, reason)

    @at_home
    async def aenable(self) -> None:
        """Switch its schedule on; it counts from now."""
        await self._change(StateChange.ENABLE)

    async def astart(self) -> None:
        """Start its schedule: the same as enabling it."""
        await self.aenable()

    async def astop(self, reason: str = "") -> None:
        """Stop its schedule until it is started: the same as disabling it."""
        await self.adisable(reason)

    @at_home
    async def adelete(self) -> None:
        """Delete it. Its history stays. A job that the program still declares comes back with its next start."""
        await (await self._jobs()).delete(self.name, namespace=self._runtime.namespace)

    # --- looking at it

    @at_home
    async def ainfo(self) -> JobInfo:
        """The job as the store holds it."""
        return job_info(await self._stored())

    async def anext_run(self) -> datetime | None:
        """When its schedule fires next; None: it has none, is over, paused or disabled."""
        return (await self.ainfo()).next_run

    @at_home
    async def ais_running(self) -> bool:
        """Whether an execution of it runs, on whichever node."""
        session = await self._runtime.session()
        where = ExecutionFilter(job=(await self._stored()).id, status=Status.RUNNING)
        return bool((await session.store.list_executions(where, limit=1)).items)

    async def ais_paused(self) -> bool:
        """Whether it is paused."""
        return (await self._state()) is JobState.PAUSED

    async def ais_enabled(self) -> bool:
        """Whether instants of its schedule run: neither disabled nor paused, and inside the schedule's window."""
        if (await self._state()) is not JobState.ACTIVE:
            return False
        return (await self.ainfo()).schedule is None or await self.ais_active()

    @at_home
    async def ais_active(self) -> bool:
        """Whether now is inside its schedule's window: started, and not over."""
        stored, now_us = await self._stored(), self._runtime.clock.now_us()
        schedule = stored.spec.schedule
        if schedule is None or stored.state is JobState.DONE:
            return False
        return (schedule.start_us or now_us) <= now_us <= (schedule.end_us or now_us)

    trigger = blocking(atrigger)
    backfill = blocking(abackfill)
    executions = blocking(aexecutions)
    pause = blocking(apause)
    resume = blocking(aresume)
    disable = blocking(adisable)
    enable = blocking(aenable)
    start = blocking(astart)
    stop = blocking(astop)
    delete = blocking(adelete)
    info = blocking(ainfo)
    next_run = LoopResult(anext_run)
    is_running = LoopResult(ais_running)
    is_paused = LoopResult(ais_paused)
    is_enabled = LoopResult(ais_enabled)
    is_active = LoopResult(ais_active)

    @at_home
    async def _stored(self) -> StoredJob:
        return await (await self._jobs()).get(self.name, self._runtime.namespace)

    async def _jobs(self) -> JobService:
        return (await self._runtime.session()).service.jobs

    async def _change(self, change: StateChange, reason: str = "") -> None:
        session = await self._runtime.session()
        await session.service.job_states.change(await self._stored(), change, reason=reason)

    async def _state(self) -> JobState:
        return (await self._stored()).state

    def _called(self, method: str) -> str:
        return f"{self.name}.{method}(…)"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Job(DecoratedFunction[P, R_co], JobHandle):
    """A function that is a job. Called, it is the function it was; the rest is about the job."""

    def __init__(self, runtime: "Runtime", name: str, function: Callable[P, R_co]) -> None:
        DecoratedFunction.__init__(self, function)
        JobHandle.__init__(self, runtime, name)


def at_least_one(limit: int) -> int:
    """How many to give back at most."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise Invalid(f"limit is {limit!r}; give a whole number from 1 on")
    return limit


def key_text(key: str | None) -> str | None:
    """What makes asking twice the same."""
    if key is not None and (not isinstance(key, str) or not key):
        raise Invalid(f"key is {key!r}; give a text of your own, the same for the same request")
    return key
