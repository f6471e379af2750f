"""ExecutionService: triggers, replays, cancels, signals and reads executions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from chronos.clock import Clock
from chronos.core.execution import Cause, DeadLetter, Execution, Span, Status
from chronos.core.execution_detail import Detail
from chronos.core.execution_report import Report, build_first_success_report
from chronos.core.job import DEFAULT_NAMESPACE, Job, JobSpec, Unreadable, ensure_readable
from chronos.core.node import Actor
from chronos.errors import Conflict, NotFound, QueueFull
from chronos.service.backpressure import Backpressure
from chronos.service.jobs import JobService
from chronos.service.replayed_tasks import PlannedReplay, choose_replayed_tasks
from chronos.service.run_requests import log_admitted, to_run_row, to_stored_payload, to_stored_reason
from chronos.service.serializers import id_text, read_id, write_execution
from chronos.service.serializers.execution import read_detail
from chronos.service.start_times import choose_start_times
from chronos.store.commands import SYSTEM, CancelExecution, DropDeadLetters, OutputRow, Signal, Trigger, Triggered
from chronos.store.contract import ExecutionFilter, ExecutionView, JobName, Page, Store

ALL_EXECUTIONS = ExecutionFilter()


class ExecutionService:
    """The executions of a store. ``new_request`` returns unique ids."""

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

    # --- requests

    async def trigger(
        self,
        ref: str | Job,
        payload: Any = None,
        *,
        at_us: int | None = None,
        delay: str | None = None,
        expires: str | None = None,
        idempotency: str | None = None,
        reason: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        actor: Actor = SYSTEM,
    ) -> Triggered:
        """Run a job once, even if it is paused. The same ``idempotency`` key returns the same execution.

        - ``ref``: a name, an id or a job.
        - ``at_us``: the instant that the run stands for (``scheduled_at``). If it is in the future, the run waits.
        - ``delay``: how long the run waits, such as ``10m``.
        - ``expires``: an instant, or a duration from now on. A run that has not started by then is skipped.

        Raises ``NotFound``, ``Invalid``, ``QueueFull``.
        """
        job = ref if isinstance(ref, Job) else await self._jobs.get(ref, namespace)
        times = choose_start_times(self._clock.now_us(), at_us=at_us, delay=delay, expires=expires)
        detail = Detail(
            payload=to_stored_payload(payload), reason=to_stored_reason(reason), expires_us=times.expires_us
        )
        return await self._submit(
            job, Cause.MANUAL, detail, idempotency, times.scheduled_us, actor, wake_us=times.wake_us
        )

    async def replay(
        self,
        execution: str | bytes,
        *,
        reason: str | None = None,
        from_failed: bool = False,
        tasks: Sequence[str] | None = None,
        payload: Any = None,
        idempotency: str | None = None,
        actor: Actor = SYSTEM,
    ) -> Triggered:
        """Run an execution again, as a new one that is linked to it.

        - ``from_failed``: leave out the tasks that succeeded.
        - ``tasks``: run only these tasks. The others keep their results, or are skipped if they have none.
        - ``payload``: replaces the payload of the original.

        Raises ``Conflict`` while the execution is in progress, and ``Invalid``.
        """
        planned = await self.plan_replay(
            execution, reason=reason, from_failed=from_failed, tasks=tasks, payload=payload
        )
        return await self._submit_replay(planned, idempotency, actor)

    async def plan_replay(
        self,
        execution: str | bytes,
        *,
        reason: str | None = None,
        from_failed: bool = False,
        tasks: Sequence[str] | None = None,
        payload: Any = None,
    ) -> PlannedReplay:
        """Check the arguments of ``replay``, and return what it would create. Raises what ``replay`` raises."""
        original = (await self.get(execution)).execution
        if not original.status.final:
            raise Conflict(
                f"the execution is still {original.status.name.lower()}; wait until it finishes, or cancel it"
            )
        before, job = read_detail(original), await self._job_of(original)
        replayed = choose_replayed_tasks(
            original, before, ensure_readable(job.spec), from_failed=from_failed, tasks=tasks
        )
        detail = Detail(
            payload=before.payload if payload is None else to_stored_payload(payload),
            span=before.span,
            replay_of=original.id.hex(),
            reason=to_stored_reason(reason),
            upstream=before.upstream,
            carried=replayed.carried,
            chosen=replayed.chosen,
        )
        return PlannedReplay(original=original, job=job, detail=detail)

    async def _submit_replay(
        self, planned: PlannedReplay, idempotency: str | None, actor: Actor, *, is_new: bool = True
    ) -> Triggered:
        original = planned.original
        return await self._submit(
            planned.job,
            Cause.REPLAY,
            planned.detail,
            idempotency,
            original.scheduled_us,
            actor,
            replay_of=original.id,
            is_new=is_new,
        )

    # --- control

    async def cancel(self, execution: str | bytes, *, message: str | None = None, actor: Actor = SYSTEM) -> Status:
        """Cancel an execution. Returns CANCELED, or RUNNING if it was asked to stop.

        Raises ``NotFound``, and ``Conflict`` if it has finished.
        """
        now_us = self._clock.now_us()
        command = CancelExecution(execution=_read_execution_id(execution), now_us=now_us, message=message, actor=actor)
        return await self._store.apply(command)

    async def signal(self, execution: str | bytes, name: str, payload: Any = None, *, actor: Actor = SYSTEM) -> bool:
        """Send a signal to an execution. Returns False if it does not wait for this signal.

        Raises ``NotFound`` if the execution is not in progress.
        """
        text = msgspec.json.encode(to_stored_payload(payload)).decode()
        now_us = self._clock.now_us()
        return await self._store.apply(
            Signal(execution=_read_execution_id(execution), name=name, payload=text, now_us=now_us, actor=actor)
        )

    # --- reading

    async def get(self, execution: str | bytes) -> ExecutionView:
        """Return an execution with its recorded attempts. Raises ``NotFound``."""
        view = await self._store.execution(_read_execution_id(execution))
        if view is None:
            raise _not_found(execution)
        return view

    async def get_json(self, execution: str | bytes, *, masked: bool = True) -> dict[str, Any]:
        """Return an execution as JSON, with tasks, attempts and report. See ``write_execution`` for ``masked``."""
        view = await self.get(execution)
        record = view.execution
        job, spec = await self._load_job_and_spec(record)
        name = await self._deleted_job_name(record.job) if job is None else JobName(job.namespace, job.name)
        answer = write_execution(
            view,
            job_name=None if name is None else name.name,
            namespace=None if name is None else name.namespace,
            tasks=() if spec is None else [task.name for task in spec.tasks],
            nodes=await self.node_names([record.node, *(attempt.node for attempt in view.attempts)]),
            report=None if spec is None else await self._plain_report(record, spec),
            masked=masked,
        )
        if job is not None and job.version != record.job_version and not isinstance(job.spec, Unreadable):
            current_tasks = {task.name for task in job.spec.tasks}
            for task in answer["tasks"]:
                if task["name"] not in current_tasks:
                    task["retired"] = True  # the job no longer has this task
        return answer

    async def _load_job_and_spec(self, execution: Execution) -> tuple[Job | None, JobSpec | None]:
        """Return the job of an execution, and the spec that it ran; None for what is deleted."""
        job = (await self._store.jobs_by_id([execution.job])).get(execution.job)
        if job is not None and job.version == execution.job_version:
            return job, job.spec
        key = (execution.job, execution.job_version)
        return job, (await self._store.specs_at([key])).get(key)

    async def _plain_report(self, execution: Execution, spec: JobSpec) -> Report | None:
        """Build the report of a plain success, for which none is stored."""
        if execution.status is not Status.SUCCEEDED or len(spec.tasks) != 1 or execution.started_us is None:
            return None
        result = read_detail(execution).result
        layout = await self._jobs.layout(execution, spec)
        return build_first_success_report(
            layout, execution.started_us, execution.finished_us or execution.started_us, result
        )

    async def list(
        self, where: ExecutionFilter = ALL_EXECUTIONS, *, limit: int = 100, cursor: bytes | None = None
    ) -> Page[Execution | Span]:
        """List executions, newest first."""
        return await self._store.list_executions(where, limit=limit, cursor=cursor)

    async def list_json(
        self, where: ExecutionFilter = ALL_EXECUTIONS, *, limit: int = 100, cursor: bytes | None = None
    ) -> Page[dict[str, Any]]:
        """List executions as JSON, newest first."""
        page = await self.list(where, limit=limit, cursor=cursor)
        names = await self._store.names_of(sorted({item.job for item in page.items}))
        items = list(await self.write_items(page.items, names))
        return Page(items=items, cursor=page.cursor, complete=page.complete)

    async def write_items(
        self, items: Sequence[Execution | Span], names: Mapping[bytes, JobName]
    ) -> Sequence[dict[str, Any]]:
        """Write executions as JSON, with job names where known."""
        nodes = await self.node_names([item.node for item in items if isinstance(item, Execution)])
        return [
            write_execution(item, job_name=names[item.job].name if item.job in names else None, nodes=nodes)
            for item in items
        ]

    async def latest_json(self, jobs: Sequence[Job]) -> dict[bytes, dict[str, Any]]:
        """Return the newest execution of each job as JSON, including skipped ones. Jobs without any are left out."""
        executions = await self._store.latest([job.id for job in jobs])
        nodes = await self.node_names([execution.node for execution in executions.values()])
        return {
            job.id: write_execution(executions[job.id], job_name=job.name, nodes=nodes)
            for job in jobs
            if job.id in executions
        }

    async def output(self, execution: str | bytes) -> Sequence[OutputRow]:
        """Return the output of an execution, by task, attempt and part. Raises ``NotFound``."""
        return await self._store.output((await self.get(execution)).execution.id)

    # --- dead letters

    async def dead_letters(
        self, *, namespace: str | None = None, limit: int = 100, cursor: bytes | None = None
    ) -> Page[DeadLetter]:
        """List dead letters, newest first."""
        return await self._store.list_dead_letters(namespace=namespace, limit=limit, cursor=cursor)

    async def is_dead_letter(self, execution: str | bytes) -> bool:
        """Return whether an execution is a dead letter."""
        wanted_id = _read_execution_id(execution)
        cursor_after = (int.from_bytes(wanted_id) + 1).to_bytes(len(wanted_id))  # the list is in descending order
        page = await self._store.list_dead_letters(namespace=None, limit=1, cursor=cursor_after)
        return any(letter.execution == wanted_id for letter in page.items)

    async def replay_dead_letter(
        self,
        execution: str | bytes,
        *,
        reason: str | None = None,
        from_failed: bool = False,
        tasks: Sequence[str] | None = None,
        payload: Any = None,
        actor: Actor = SYSTEM,
    ) -> Triggered:
        """Replay a dead letter and remove it from the list. Repeated requests run it once.

        Raises ``NotFound`` if it was discarded or never failed, and what ``replay`` raises.
        """
        planned = await self.plan_replay(
            execution, reason=reason, from_failed=from_failed, tasks=tasks, payload=payload
        )
        id_ = planned.original.id
        is_new = await self.is_dead_letter(id_)
        try:
            triggered = await self._submit_replay(planned, f"chronos:dead-letter:{id_.hex()}", actor, is_new=is_new)
        except QueueFull:
            if is_new:
                raise
            raise not_a_dead_letter(id_) from None
        await self.drop_dead_letters([id_], actor=actor)
        return triggered

    async def drop_dead_letters(self, executions: Sequence[str | bytes], *, actor: Actor = SYSTEM) -> int:
        """Discard dead letters; returns how many existed."""
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
        wake_us: int | None = None,
        is_new: bool = True,
    ) -> Triggered:
        """Create an execution, or return the earlier one of an idempotency key.

        Without ``is_new`` it only returns an earlier one, and raises ``QueueFull`` if that does not exist.
        """
        now_us = self._clock.now_us()
        run = to_run_row(
            job=job.id,
            namespace=job.namespace,
            name=job.name,
            spec=ensure_readable(job.spec),
            effective=await self._jobs.effective_settings(job),
            cause=cause,
            request=idempotency.encode() if idempotency is not None else self._new_request(),
            now_us=now_us,
            scheduled_us=scheduled_us,
            wake_us=wake_us,
            detail=detail,
        )
        command = Trigger(job=job.id, run=run, now_us=now_us, idempotency=idempotency, actor=actor, replay_of=replay_of)
        if not is_new:
            return await self._store.apply(replace(command, room=False))
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
        """Return the execution that the idempotency key created earlier, which needs no capacity."""
        if command.idempotency is None:
            raise full
        try:
            return await self._store.apply(replace(command, room=False))
        except QueueFull:
            raise full from None

    async def _job_of(self, execution: Execution) -> Job:
        job = (await self._store.jobs_by_id([execution.job])).get(execution.job)
        if job is None:
            raise NotFound("the job of this execution was deleted; create the job again and trigger it")
        return job

    async def _deleted_job_name(self, job: bytes) -> JobName | None:
        """Return the name of a deleted job, while a record of it exists."""
        return (await self._store.names_of([job])).get(job)

    async def node_names(self, numbers: Sequence[int | None]) -> dict[int, str]:
        """Return node names by number. They never change, so they are cached."""
        if any(number is not None and number not in self._nodes for number in numbers):
            self._nodes = {node.number: node.name for node in await self._store.nodes()}
        return self._nodes


def _read_execution_id(execution: str | bytes) -> bytes:
    id_ = execution if isinstance(execution, bytes) else read_id(execution)
    if id_ is None:
        raise _not_found(execution)
    return id_


def _not_found(execution: str | bytes) -> NotFound:
    text = execution[:200] if isinstance(execution, str) else id_text(execution)
    return NotFound(f'execution "{text}" not found')


def not_a_dead_letter(execution: bytes) -> NotFound:
    """Return the error for an execution that is not in the list of dead letters."""
    return NotFound(f'"{id_text(execution)}" is not a dead letter; it was replayed or discarded, or did not fail')
