"""StoreFixture: the store under test, a clock that cases set, and helpers that create jobs and executions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chronos.core.admission_policy import GateSpec
from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause, Execution, Status
from chronos.core.ids import key_gate_id, requested_execution_id, scheduled_execution_id
from chronos.core.job import Job, JobSpec, JobState, ScheduleSpec, Target, Task
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
    Enqueue,
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

T0_US = 1_800_000_000_000_000
SECOND_US = 1_000_000
Run = Admitted | Claimed


class StoreFixture:
    """The store under test, the current time and the current node."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_us = T0_US
        self.node = 0
        self._requests = 0

    def tick(self, us: int = SECOND_US) -> int:
        """Let time pass. Returns the new time."""
        self.now_us += us
        return self.now_us

    def new_request_id(self) -> bytes:
        """Return a new request id."""
        self._requests += 1
        return self._requests.to_bytes(16)

    async def start_node(self, name: str = "node") -> int:
        """Register a node, which becomes the current one. Returns its number."""
        self.node = await self.store.apply(
            RegisterNode(name=name, incarnation=self.new_request_id(), now_us=self.now_us, slots=8)
        )
        return self.node

    def build_job_row(self, name: str = "job", **options: Any) -> JobRow:
        """Build a job to save from fields of ``GateSpec``, ``JobSpec`` and ``JobRow``."""
        names = {f for f in GateSpec.__struct_fields__ if f in options}
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
        options.setdefault("next_us", T0_US + SECOND_US)
        return JobRow(name=name, spec=spec, gate=GateSpec(**gate), **options)

    async def save(self, name: str = "job", **options: Any) -> Saved:
        """Save one job."""
        if self.node == 0:
            await self.start_node()
        [saved] = await self.store.apply(SaveJobs(rows=(self.build_job_row(name, **options),), now_us=self.now_us))
        return saved

    async def job(self, name: str = "job", namespace: str = "default") -> Job:
        """Return the job of a name, which must exist."""
        job = await self.store.job_named(namespace, name)
        assert job is not None, name
        return job

    async def admit_next(
        self,
        *names: str,
        claim: bool = True,
        last: bool = False,
        needs_gate_lock: bool = False,
        request: bytes | None = None,
    ) -> list[Admitted]:
        """Admit the next instant of each job. The instant after it is one second later."""
        rows = []
        for name in names:
            job = await self.job(name)
            assert job.next_us is not None, f"{name} has no next instant"
            following = None if last else job.next_us + SECOND_US
            rows.append(admit_row(job, job.next_us, following, claim=claim, needs_gate_lock=needs_gate_lock))
            self.now_us = max(self.now_us, job.next_us)
        return await self.store.apply(
            Admit(rows=tuple(rows), node=self.node, now_us=self.now_us, request=request or self.new_request_id())
        )

    async def admit_one(self, name: str = "job", *, claim: bool = True) -> Admitted:
        """Admit the next instant of one job."""
        [admitted] = await self.admit_next(name, claim=claim)
        return admitted

    async def claim(
        self, limit: int = 100, *, lanes: tuple[int, ...] | None = None, late: tuple[tuple[int, int], ...] = ()
    ) -> list[Claimed]:
        """Claim from all lanes or from ``lanes``, and late executions from the lanes in ``late``."""
        own_lanes = tuple(await self.store.lanes()) if lanes is None else lanes
        now_us = self.tick(1)
        return await self.store.apply(
            Claim(
                lanes=own_lanes,
                limit=limit,
                node=self.node,
                now_us=now_us,
                request=self.new_request_id(),
                late_lanes=late,
            )
        )

    async def settle(self, *runs: Run, status: Status = Status.SUCCEEDED, **options: Any) -> Settled:
        """Settle executions with the same outcome."""
        take, lanes = options.pop("take", 0), options.pop("take_lanes", ())
        now_us = self.tick(1)
        code = ReasonCode.SUCCEEDED if status is Status.SUCCEEDED else ReasonCode.TASK_FAILED
        rows = tuple(SettleRow(run.id, run.job, run.token, status, code, None, now_us, **options) for run in runs)
        return await self.store.apply(Settle(rows=rows, node=self.node, now_us=now_us, take=take, take_lanes=lanes))

    async def trigger(
        self, job: bytes, *, idempotency: str | None = None, key: str | None = None, **run: Any
    ) -> Triggered:
        """Trigger a job."""
        request = idempotency.encode() if idempotency else self.new_request_id()
        row = RunRow(
            requested_execution_id(job, Cause.MANUAL, self.now_us, request),
            run.pop("cause", Cause.MANUAL),
            run.pop("scheduled_us", self.now_us),
            self.now_us,
            run.pop("detail", None),
            key_gate_id("default", key) if key else None,
            run.pop("key_limit", 1),
            run.pop("wake_us", None),
        )
        return await self.store.apply(Trigger(job=job, run=row, now_us=self.now_us, idempotency=idempotency, **run))

    async def enqueue(
        self, job: bytes, count: int, *, idempotency: str | None = None, wake_us: int | None = None
    ) -> list[Triggered]:
        """Enqueue runs of a job."""
        runs = tuple(
            RunRow(
                requested_execution_id(job, Cause.MANUAL, self.now_us, self.new_request_id()),
                Cause.MANUAL,
                self.now_us,
                self.now_us,
                wake_us=wake_us,
            )
            for _ in range(count)
        )
        return await self.store.apply(Enqueue(job=job, runs=runs, now_us=self.now_us, idempotency=idempotency))

    async def backfill(
        self, job: bytes, *instants_us: int, idempotency: str | None = None, room: int | None = None
    ) -> Backfilled:
        """Backfill past instants of a job."""
        request = idempotency.encode() if idempotency else self.new_request_id()
        runs = tuple(
            RunRow(
                requested_execution_id(job, Cause.BACKFILL, self.now_us, request, at_us),
                Cause.BACKFILL,
                at_us,
                self.now_us,
            )
            for at_us in instants_us
        )
        return await self.store.apply(
            Backfill(job=job, runs=runs, now_us=self.now_us, idempotency=idempotency, room=room)
        )

    async def wake(self, limit: int = 100) -> int:
        """Wake the executions that are due to wake. Returns their number."""
        return await self.store.apply(Wake(now_us=self.now_us, limit=limit))

    async def set_state(self, job: bytes, state: JobState, **options: Any) -> None:
        """Pause, resume, disable or enable a job."""
        options.setdefault("keep_cursor", True)
        await self.store.apply(SetJobState(job=job, state=state, now_us=self.tick(1), **options))

    async def execution(self, execution: bytes) -> Execution:
        """Return an execution, which must exist."""
        view = await self.store.execution(execution)
        assert view is not None
        return view.execution

    async def status(self, execution: bytes) -> Status:
        """Return the status of an execution, which must exist."""
        return (await self.execution(execution)).status


def admit_row(
    job: Job, scheduled_us: int, next_us: int | None, *, claim: bool = True, needs_gate_lock: bool = False
) -> AdmitRow:
    """Build the admission of one instant of a job."""
    execution = scheduled_execution_id(job.id, scheduled_us)
    return AdmitRow(job.id, job.version, scheduled_us, next_us, execution, scheduled_us, claim, needs_gate_lock)


def ended_attempt(
    run: Run, number: int, status: AttemptStatus = AttemptStatus.FAILED, task: str = "task"
) -> EndedAttempt:
    """Build the record of an ended attempt."""
    return EndedAttempt(run.id, task, number, status, T0_US, T0_US + 5, 1, "boom")


@contextmanager
def raises(kind: type[Exception], part: str = "") -> Iterator[None]:
    """Assert that the block raises this kind of error, with ``part`` in its message."""
    try:
        yield
    except kind as error:
        if part not in str(error):
            raise AssertionError(f"{error!r} does not contain {part!r}") from error
        return
    raise AssertionError(f"expected {kind.__name__}, but nothing was raised")
