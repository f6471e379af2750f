"""StoreFixture: a store, a clock that the case moves, and jobs that are easy to make. ``raises`` expects an error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause, Execution, Status
from chronos.core.ids import key_gate_id, requested_execution_id, scheduled_execution_id
from chronos.core.job import Job, JobSpec, JobState, ScheduleSpec, Target, Task
from chronos.core.policy import GateSpec
from chronos.core.reasons import ReasonCode
from chronos.store.commands import (
    Admit,
    AdmitRow,
    Admitted,
    Backfill,
    Backfilled,
    Claim,
    Claimed,
    EndedAttempt,
    JobRow,
    RegisterNode,
    RunRow,
    Saved,
    SaveJobs,
    SetJobState,
    Settle,
    Settled,
    SettleRow,
    Trigger,
    Triggered,
    Wake,
)
from chronos.store.contract import Store

T0 = 1_800_000_000_000_000
SECOND = 1_000_000
Run = Admitted | Claimed


class StoreFixture:
    """The store under test and everything a case needs around it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = T0
        self.node = 0
        self._requests = 0

    def tick(self, us: int = SECOND) -> int:
        """Let time pass."""
        self.now += us
        return self.now

    def request(self) -> bytes:
        """A request id that was never used before."""
        self._requests += 1
        return self._requests.to_bytes(16)

    async def start_node(self, name: str = "node") -> int:
        """Register a node; it becomes the one that admits and claims."""
        self.node = await self.store.apply(
            RegisterNode(name=name, incarnation=self.request(), now_us=self.now, slots=8)
        )
        return self.node

    def row(self, name: str = "job", **options: Any) -> JobRow:
        """A job to save: gate settings by their names, and those of ``JobRow``."""
        names = {f for f in GateSpec.__dataclass_fields__ if f in options}
        gate = {f: options.pop(f) for f in names}
        if gate.get("overlap", Overlap.SKIP) is Overlap.ALLOW:
            gate.setdefault("limit", 0)
        spec = JobSpec(
            schedule=ScheduleSpec(text="@every 1s"),
            tasks=(Task(name="task", target=Target(kind=options.pop("kind", "python"), options={"name": "f"})),),
            description=options.pop("description", ""),
            owner=options.pop("owner", None),
            tags=options.pop("tags", {}),
            after=options.pop("after", ()),
        )
        options.setdefault("namespace", "default")
        options.setdefault("next_us", T0 + SECOND)
        return JobRow(name=name, spec=spec, gate=GateSpec(**gate), **options)

    async def save(self, name: str = "job", **options: Any) -> Saved:
        """Save one job."""
        if self.node == 0:
            await self.start_node()
        [saved] = await self.store.apply(SaveJobs(rows=(self.row(name, **options),), now_us=self.now))
        return saved

    async def job(self, name: str = "job", namespace: str = "default") -> Job:
        """The job of a name, which must exist."""
        found = await self.store.job_named(namespace, name)
        assert found is not None, name
        return found

    async def admit_next(
        self, *names: str, claim: bool = True, last: bool = False, careful: bool = False, request: bytes | None = None
    ) -> list[Admitted]:
        """Admit the next instant of some jobs, a second before their next one."""
        rows = []
        for name in names:
            job = await self.job(name)
            assert job.next_us is not None, f"{name} has no next instant"
            following = None if last else job.next_us + SECOND
            rows.append(admit_row(job, job.next_us, following, claim=claim, careful=careful))
            self.now = max(self.now, job.next_us)
        return await self.store.apply(
            Admit(rows=tuple(rows), node=self.node, now_us=self.now, request=request or self.request())
        )

    async def admit_one(self, name: str = "job", *, claim: bool = True) -> Admitted:
        """Admit the next instant of one job."""
        [admitted] = await self.admit_next(name, claim=claim)
        return admitted

    async def claim(
        self, limit: int = 100, *, lanes: tuple[int, ...] | None = None, late: tuple[tuple[int, int], ...] = ()
    ) -> list[Claimed]:
        """Claim from all lanes, or from some, and what is late in others."""
        chosen = tuple(await self.store.lanes()) if lanes is None else lanes
        now_us = self.tick(1)
        return await self.store.apply(
            Claim(lanes=chosen, limit=limit, node=self.node, now_us=now_us, request=self.request(), late_lanes=late)
        )

    async def settle(self, *runs: Run, status: Status = Status.SUCCEEDED, **options: Any) -> Settled:
        """Settle runs alike."""
        take, lanes = options.pop("take", 0), options.pop("take_lanes", ())
        now_us = self.tick(1)
        code = ReasonCode.SUCCEEDED if status is Status.SUCCEEDED else ReasonCode.TASK_FAILED
        rows = tuple(SettleRow(run.id, run.job, run.token, status, code, None, now_us, **options) for run in runs)
        return await self.store.apply(Settle(rows=rows, node=self.node, now_us=now_us, take=take, take_lanes=lanes))

    async def trigger(
        self, job: bytes, *, idempotency: str | None = None, key: str | None = None, **run: Any
    ) -> Triggered:
        """Ask for one execution by hand."""
        request = idempotency.encode() if idempotency else self.request()
        row = RunRow(
            requested_execution_id(job, Cause.MANUAL, self.now, request),
            run.pop("cause", Cause.MANUAL),
            run.pop("scheduled_us", self.now),
            self.now,
            run.pop("detail", None),
            key_gate_id("default", key) if key else None,
            run.pop("key_limit", 1),
        )
        return await self.store.apply(Trigger(job=job, run=row, now_us=self.now, idempotency=idempotency, **run))

    async def backfill(
        self, job: bytes, *instants_us: int, idempotency: str | None = None, room: int | None = None
    ) -> Backfilled:
        """Ask for the executions of past instants."""
        request = idempotency.encode() if idempotency else self.request()
        runs = tuple(
            RunRow(
                requested_execution_id(job, Cause.BACKFILL, self.now, request, at_us), Cause.BACKFILL, at_us, self.now
            )
            for at_us in instants_us
        )
        return await self.store.apply(Backfill(job=job, runs=runs, now_us=self.now, idempotency=idempotency, room=room))

    async def wake(self, limit: int = 100) -> int:
        """Wake what is due to wake."""
        return await self.store.apply(Wake(now_us=self.now, limit=limit))

    async def set_state(self, job: bytes, state: JobState, **options: Any) -> None:
        """Pause, resume, disable, enable."""
        options.setdefault("keep_cursor", True)
        await self.store.apply(SetJobState(job=job, state=state, now_us=self.tick(1), **options))

    async def execution(self, execution: bytes) -> Execution:
        """One execution, which must exist."""
        view = await self.store.execution(execution)
        assert view is not None
        return view.execution

    async def status(self, execution: bytes) -> Status:
        """The status of an execution, which must exist."""
        return (await self.execution(execution)).status


def admit_row(
    job: Job, scheduled_us: int, next_us: int | None, *, claim: bool = True, careful: bool = False
) -> AdmitRow:
    """The admission of one instant of a job."""
    execution = scheduled_execution_id(job.id, scheduled_us)
    return AdmitRow(job.id, job.version, scheduled_us, next_us, execution, scheduled_us, claim, careful)


def ended_attempt(
    run: Run, number: int, status: AttemptStatus = AttemptStatus.FAILED, task: str = "task"
) -> EndedAttempt:
    """The record of a try that ended."""
    return EndedAttempt(run.id, task, number, status, T0, T0 + 5, 1, "boom")


@contextmanager
def raises(kind: type[Exception], part: str = "") -> Iterator[None]:
    """The block must raise this kind of error, and its message must contain ``part``."""
    try:
        yield
    except kind as error:
        if part not in str(error):
            raise AssertionError(f"{error!r} does not say {part!r}") from error
        return
    raise AssertionError(f"nothing raised {kind.__name__}")
