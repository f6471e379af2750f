"""RunDetailView: one run in full: its tasks with what they need, their attempts, progress and pauses."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from chronos.core.calendar import to_us
from chronos.core.execution import Execution
from chronos.core.job import JobSpec, Unreadable
from chronos.core.lane import build_lane
from chronos.core.task_group import Layout
from chronos.service.executions import ExecutionService
from chronos.service.jobs import JobService
from chronos.service.views.log_windows import latest_progress
from chronos.store.contract import ExecutionView, JobName, Neighbours, Store

_RETRYING = "retrying"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an attempt is, as it reported."""

    done: float
    total: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt of a task."""

    number: int
    status: str
    started_us: int | None
    finished_us: int | None
    error: str | None
    node: str | None
    request: dict[str, Any] | None  # as sent, with masked credentials; None: not recorded
    response: dict[str, Any] | None
    exit_code: int | None
    facts: dict[str, Any]  # everything that its target recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task of a run."""

    name: str
    status: str
    kind: str | None  # of its target; None: the version that ran is gone
    needs: tuple[str, ...]  # tasks that must end before it starts
    max_attempts: int | None  # None: unknown; 0: no limit
    started_us: int | None
    finished_us: int | None
    error: str | None
    attempts: tuple[AttemptRow, ...]
    progress: Progress | None  # of its latest attempt
    backoff_until_us: int | None  # when its next attempt starts
    retired: bool  # the job no longer has this task
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """A run with its tasks."""

    execution: Execution
    job: JobName | None
    queue: str | None
    labels: dict[str, str]  # that a node must have
    tasks: tuple[TaskRow, ...]
    neighbours: Neighbours
    body: dict[str, Any]  # the same as JSON


class RunDetailView:
    """Reads one run for its page."""

    def __init__(self, store: Store, jobs: JobService, runs: ExecutionService) -> None:
        self._store, self._jobs, self._runs = store, jobs, runs

    async def get(self, execution: str | bytes) -> RunDetail:
        """Return a run. Raises ``NotFound``."""
        view = await self._runs.get(execution)
        record = view.execution
        body = await self.body(view)
        names = await self._store.names_of([record.job])
        return RunDetail(
            execution=record,
            job=names.get(record.job),
            queue=body["queue"],
            labels=body["labels"],
            tasks=tuple(_to_task_row(task) for task in body["tasks"]),
            neighbours=await self._store.neighbours(record.job, record.id),
            body=body,
        )

    async def body(self, view: ExecutionView) -> dict[str, Any]:
        """Return a run as JSON, with the details of its tasks."""
        record = view.execution
        body = await self._runs.get_json(record.id)
        spec = await self._spec_of(record)
        layout = None if spec is None else await self._jobs.layout(record, spec)
        lane = None if spec is None else build_lane(spec, await self._jobs.settings_of(record, spec))
        progress = latest_progress(await self._store.output(record.id)) if _may_report_progress(spec) else {}
        for task in body["tasks"]:
            _add_task_detail(task, spec, layout, progress)
        body["queue"] = None if lane is None else lane.queue
        body["labels"] = {} if lane is None else dict(lane.labels)
        return body

    async def _spec_of(self, execution: Execution) -> JobSpec | None:
        key = (execution.job, execution.job_version)
        spec = (await self._store.specs_at([key])).get(key)
        return None if isinstance(spec, Unreadable) else spec


def _may_report_progress(spec: JobSpec | None) -> bool:
    """Return whether any task can report progress: only Python functions can."""
    return spec is None or any(task.target.kind == "python" for task in spec.tasks)


def _add_task_detail(
    task: dict[str, Any], spec: JobSpec | None, layout: Layout | None, progress: dict[tuple[str, int], str]
) -> None:
    name = task["name"]
    plan = None if layout is None else next((plan for plan in layout.tasks if plan.name == name), None)
    task["needs"] = [] if plan is None or layout is None else [layout.tasks[index].name for index in plan.waits_for]
    task["max_attempts"] = None if plan is None else plan.effective.max_attempts
    task["kind"] = None if spec is None else next((one.target.kind for one in spec.tasks if one.name == name), None)
    task["backoff_until"] = task.get("wakes_at") if task["status"] == _RETRYING else None
    numbers = [number for task_name, number in progress if task_name == name]
    task["progress"] = msgspec.json.decode(progress[name, max(numbers)]) if numbers else None


def _to_task_row(task: dict[str, Any]) -> TaskRow:
    progress = task["progress"]
    return TaskRow(
        name=task["name"],
        status=task["status"],
        kind=task["kind"],
        needs=tuple(task["needs"]),
        max_attempts=task["max_attempts"],
        started_us=_read_us(task["started_at"]),
        finished_us=_read_us(task["finished_at"]),
        error=task["error"],
        attempts=tuple(_to_attempt_row(attempt) for attempt in task["attempts"]),
        progress=None if progress is None else Progress(done=progress["done"], total=progress["total"]),
        backoff_until_us=_read_us(task["backoff_until"]),
        retired=task.get("retired", False),
        result=task.get("result"),
    )


def _to_attempt_row(attempt: dict[str, Any]) -> AttemptRow:
    known = ("number", "status", "started_at", "finished_at", "error", "worker")
    return AttemptRow(
        number=attempt["number"],
        status=attempt["status"],
        started_us=_read_us(attempt["started_at"]),
        finished_us=_read_us(attempt["finished_at"]),
        error=attempt["error"],
        node=attempt["worker"],
        request=attempt.get("request"),
        response=attempt.get("response"),
        exit_code=attempt.get("exit_code"),
        facts={name: value for name, value in attempt.items() if name not in known},
    )


def _read_us(text: str | None) -> int | None:
    return None if text is None else to_us(msgspec.convert(text, type=datetime))
