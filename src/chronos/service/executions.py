"""Executions, for every face: ask for them, stop them, look at them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from chronos.clock import Clock
from chronos.core.calendar import rfc3339
from chronos.core.execution import Cause, DeadLetter, Execution, Span, Status, TaskStatus
from chronos.core.execution_detail import Detail
from chronos.core.execution_report import Report, build_first_success_report
from chronos.core.job import DEFAULT_NAMESPACE, Job, JobSpec, Unreadable, ensure_readable
from chronos.core.node import Actor
from chronos.errors import Conflict, Invalid, NotFound, QueueFull
from chronos.service.backpressure import Backpressure
from chronos.service.jobs import JobService
from chronos.service.run_requests import log_admitted, to_run_row, to_stored_payload, to_stored_reason
from chronos.service.serializers import id_text, read_id, write_execution
from chronos.service.serializers.execution import read_detail
from chronos.store.commands import SYSTEM, CancelExecution, DropDeadLetters, OutputRow, Signal, Trigger, Triggered
from chronos.store.contract import ExecutionFilter, ExecutionView, JobName, Page, Store

ALL_EXECUTIONS = ExecutionFilter()


class ExecutionService:
    """The executions of a store. ``new_request`` gives ids that were never given before."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        jobs: JobService,
        backpressure: Backpressure,
        *,
        new_request: Callable[[], bytes],
    ) -> None:
        self._store, self._clock, self._jobs = store, clock, jobs
        self._new_request = new_request
        self.backpressure = backpressure
        self._nodes: dict[int, str] = {}

    # --- asking

    async def trigger(
        self,
        ref: str | Job,
        payload: Any = None,
        *,
        at_us: int | None = None,
        idempotency: str | None = None,
        reason: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        actor: Actor = SYSTEM,
    ) -> Triggered:
        """Run a job now, paused or not, by its name, its id, or as it was read. The same ``idempotency`` key answers
        the same execution.

        ``at_us`` is the instant that the run stands for (``scheduled_at``), not after now. Raises ``NotFound``,
        ``Invalid``, ``QueueFull``.
        """
        job = ref if isinstance(ref, Job) else await self._jobs.get(ref, namespace)
        now_us = self._clock.now_us()
        if at_us is not None and at_us > now_us:
            raise Invalid(
                f"{rfc3339(at_us)} is still to come, and a trigger runs now; "
                f'save a job with the schedule "{rfc3339(at_us)}" instead'
            )
        detail = Detail(payload=to_stored_payload(payload), reason=to_stored_reason(reason))
        return await self._submit(job, Cause.MANUAL, detail, idempotency, at_us, actor)

    async def replay(
        self,
        execution: str | bytes,
        *,
        reason: str | None = None,
        from_failed: bool = False,
        payload: Any = None,
        idempotency: str | None = None,
        actor: Actor = SYSTEM,
    ) -> Triggered:
        """Run an execution again, as a new one that is linked to it; ``from_failed``: without what succeeded before.

        With its own payload unless another is given. Raises ``Conflict`` while it is not over.
        """
        original = (await self.get(execution)).execution
        if not original.status.final:
            raise Conflict(f"it is {original.status.name.lower()}; wait for its end, or cancel it")
        detail_before = read_detail(original)
        job = await self._job_of(original)
        detail = Detail(
            payload=detail_before.payload if payload is None else to_stored_payload(payload),
            span=detail_before.span,
            replay_of=original.id.hex(),
            reason=to_stored_reason(reason),
            upstream=detail_before.upstream,
            carried=_collect_succeeded_results(original, detail_before) if from_failed else None,
        )
        return await self._submit(
            job, Cause.REPLAY, detail, idempotency, original.scheduled_us, actor, replay_of=original.id
        )

    # --- acting on one

    async def cancel(self, execution: str | bytes, *, message: str | None = None, actor: Actor = SYSTEM) -> Status:
        """Canceled, or running when it was asked to stop. Raises ``NotFound``, ``Conflict`` when it has ended."""
        now_us = self._clock.now_us()
        command = CancelExecution(execution=_read_execution_id(execution), now_us=now_us, message=message, actor=actor)
        return await self._store.apply(command)

    async def signal(self, execution: str | bytes, name: str, payload: Any = None, *, actor: Actor = SYSTEM) -> bool:
        """End its wait for a signal; False: it does not wait for this one. Raises ``NotFound`` when it is not open."""
        text = msgspec.json.encode(to_stored_payload(payload)).decode()
        now_us = self._clock.now_us()
        return await self._store.apply(
            Signal(execution=_read_execution_id(execution), name=name, payload=text, now_us=now_us, actor=actor)
        )

    # --- looking

    async def get(self, execution: str | bytes) -> ExecutionView:
        """One execution with its recorded attempts. Raises ``NotFound``."""
        view = await self._store.execution(_read_execution_id(execution))
        if view is None:
            raise _not_found(execution)
        return view

    async def get_json(self, execution: str | bytes) -> dict[str, Any]:
        """One execution as it is answered: tasks, attempts, report."""
        view = await self.get(execution)
        one = view.execution
        job, spec = await self._load_job_and_spec(one)
        get_json = write_execution(
            view,
            job_name=await self._deleted_job_name(one.job) if job is None else job.name,
            tasks=() if spec is None else [task.name for task in spec.tasks],
            nodes=await self._node_names([one.node, *(attempt.node for attempt in view.attempts)]),
            report=None if spec is None else self._plain_report(one, spec),
        )
        if job is not None and job.version != one.job_version and not isinstance(job.spec, Unreadable):
            current_tasks = {task.name for task in job.spec.tasks}
            for task in get_json["tasks"]:
                if task["name"] not in current_tasks:
                    task["retired"] = True  # the job has it no more
        return get_json

    async def report(self, one: Execution) -> Report | None:
        """The report of an execution; None: it is not over, or its job is forgotten."""
        stored = read_detail(one).report
        if stored is not None or one.status is not Status.SUCCEEDED:
            return stored
        _, spec = await self._load_job_and_spec(one)
        return None if spec is None else self._plain_report(one, spec)

    async def _load_job_and_spec(self, one: Execution) -> tuple[Job | None, JobSpec | None]:
        """The job of an execution, and what it said when this one ran; None: it is gone."""
        job = (await self._store.jobs_by_id([one.job])).get(one.job)
        if job is not None and job.version == one.job_version:
            return job, job.spec
        key = (one.job, one.job_version)
        return job, (await self._store.specs_at([key])).get(key)

    def _plain_report(self, one: Execution, spec: JobSpec) -> Report | None:
        """Plain success leaves no report; it is made when somebody looks."""
        if one.status is not Status.SUCCEEDED or len(spec.tasks) != 1 or one.started_us is None:
            return None
        result = read_detail(one).result
        return build_first_success_report(
            self._jobs.layout(spec), one.started_us, one.finished_us or one.started_us, result
        )

    async def list(
        self, where: ExecutionFilter = ALL_EXECUTIONS, *, limit: int = 100, cursor: bytes | None = None
    ) -> Page[Execution | Span]:
        """Newest first."""
        return await self._store.list_executions(where, limit=limit, cursor=cursor)

    async def list_json(
        self, where: ExecutionFilter = ALL_EXECUTIONS, *, limit: int = 100, cursor: bytes | None = None
    ) -> Page[dict[str, Any]]:
        """The same as it is answered."""
        page = await self.list(where, limit=limit, cursor=cursor)
        names = await self._store.names_of(sorted({item.job for item in page.items}))
        return Page(items=list(await self.write_items(page.items, names)), cursor=page.cursor)

    async def write_items(
        self, items: Sequence[Execution | Span], names: Mapping[bytes, JobName]
    ) -> Sequence[dict[str, Any]]:
        """Executions as they are answered, under the names of their jobs as far as these are known."""
        nodes = await self._node_names([item.node for item in items if isinstance(item, Execution)])
        return [
            write_execution(item, job_name=names[item.job].name if item.job in names else None, nodes=nodes)
            for item in items
        ]

    async def latest_json(self, jobs: Sequence[Job]) -> dict[bytes, dict[str, Any]]:
        """The newest execution of each job as it is answered, skipped ones included; some never came to one."""
        found = await self._store.latest([job.id for job in jobs])
        nodes = await self._node_names([execution.node for execution in found.values()])
        return {
            job.id: write_execution(found[job.id], job_name=job.name, nodes=nodes) for job in jobs if job.id in found
        }

    async def output(self, execution: str | bytes) -> Sequence[OutputRow]:
        """What its tries wrote, by task, try and part. Raises ``NotFound``."""
        return await self._store.output((await self.get(execution)).execution.id)

    # --- dead letters

    async def dead_letters(
        self, *, namespace: str | None = None, limit: int = 100, cursor: bytes | None = None
    ) -> Page[DeadLetter]:
        """What failed for good, newest first."""
        return await self._store.list_dead_letters(namespace=namespace, limit=limit, cursor=cursor)

    async def is_dead_letter(self, execution: str | bytes) -> bool:
        """Whether it is on the list."""
        wanted_id = _read_execution_id(execution)
        cursor_after = (int.from_bytes(wanted_id) + 1).to_bytes(len(wanted_id))  # the list goes down from here
        page = await self._store.list_dead_letters(namespace=None, limit=1, cursor=cursor_after)
        return any(letter.execution == wanted_id for letter in page.items)

    async def replay_dead_letter(
        self,
        execution: str | bytes,
        *,
        reason: str | None = None,
        from_failed: bool = False,
        payload: Any = None,
        actor: Actor = SYSTEM,
    ) -> Triggered:
        """Run it again, and take it off the list. Asked for twice, it runs once."""
        triggered = await self.replay(
            execution,
            reason=reason,
            from_failed=from_failed,
            payload=payload,
            idempotency=f"chronos:dead-letter:{_read_execution_id(execution).hex()}",
            actor=actor,
        )
        await self.drop_dead_letters([execution], actor=actor)
        return triggered

    async def drop_dead_letters(self, executions: Sequence[str | bytes], *, actor: Actor = SYSTEM) -> int:
        """Forget dead letters; answers how many there were."""
        ids = tuple(_read_execution_id(execution) for execution in executions)
        return await self._store.apply(DropDeadLetters(executions=ids, now_us=self._clock.now_us(), actor=actor))

    # --- helpers

    async def _submit(
        self,
        job: Job,
        cause: Cause,
        detail: Detail,
        idempotency: str | None,
        scheduled_us: int | None,
        actor: Actor,
        *,
        replay_of: bytes | None = None,
    ) -> Triggered:
        now_us = self._clock.now_us()
        run = to_run_row(
            job=job.id,
            namespace=job.namespace,
            name=job.name,
            spec=ensure_readable(job.spec),
            effective=self._jobs.effective(job.spec),
            cause=cause,
            request=idempotency.encode() if idempotency is not None else self._new_request(),
            now_us=now_us,
            scheduled_us=scheduled_us,
            detail=detail,
        )
        command = Trigger(job=job.id, run=run, now_us=now_us, idempotency=idempotency, actor=actor, replay_of=replay_of)
        try:
            await self.backpressure.reserve()
        except QueueFull as full:
            return await self._find_earlier_request(command, full)
        created = False
        try:
            triggered = await self._store.apply(command)
            created = triggered.created
        finally:
            self.backpressure.release(1, created)
        if created:
            log_admitted(job, triggered.id, cause, triggered.status)
        return triggered

    async def _find_earlier_request(self, command: Trigger, full: QueueFull) -> Triggered:
        """What a key has created already takes no room."""
        if command.idempotency is None:
            raise full
        try:
            return await self._store.apply(replace(command, room=False))
        except QueueFull:
            raise full from None

    async def _job_of(self, execution: Execution) -> Job:
        job = (await self._store.jobs_by_id([execution.job])).get(execution.job)
        if job is None:
            raise NotFound("its job was deleted; create it anew, and trigger that")
        return job

    async def _deleted_job_name(self, job: bytes) -> str | None:
        """What a job that was deleted was called."""
        found = (await self._store.names_of([job])).get(job)
        return None if found is None else found.name

    async def _node_names(self, numbers: Sequence[int | None]) -> dict[int, str]:
        """Names of nodes, which never change."""
        if any(number is not None and number not in self._nodes for number in numbers):
            self._nodes = {node.number: node.name for node in await self._store.nodes()}
        return self._nodes


def _read_execution_id(execution: str | bytes) -> bytes:
    found = execution if isinstance(execution, bytes) else read_id(execution)
    if found is None:
        raise _not_found(execution)
    return found


def _not_found(execution: str | bytes) -> NotFound:
    get_json = execution[:200] if isinstance(execution, str) else id_text(execution)
    return NotFound(f'there is no execution "{get_json}"')


def _collect_succeeded_results(execution: Execution, detail: Detail) -> dict[str, Any]:
    """The results of the tasks that need not run again."""
    if execution.status is Status.SUCCEEDED:
        raise Invalid("none of its tasks failed; replay all of it")
    if detail.group is not None:
        return {task.name: task.result for task in detail.group.tasks if task.status is TaskStatus.SUCCEEDED}
    tasks = () if detail.report is None else detail.report.tasks
    return {task.name: task.result for task in tasks if task.status == TaskStatus.SUCCEEDED.name.lower()}
