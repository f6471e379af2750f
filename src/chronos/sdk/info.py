"""Values that the SDK returns about jobs and runs: snapshots that never change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from chronos.core.calendar import from_us
from chronos.core.execution import Execution, Span, Status
from chronos.core.execution_detail import Detail
from chronos.core.execution_report import TaskReport, to_status_name
from chronos.core.settings.levels import Levels
from chronos.core.task_group import TaskState
from chronos.errors import ChronosError
from chronos.runners.python.context import MissedSpan, missed_span
from chronos.service.serializers import id_text
from chronos.service.serializers.execution import count_attempts, lateness_us, read_detail

NO_NODES: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInfo:
    """One attempt of a task.

    - ``number``: counted from 1.
    - ``status``: ``running``, ``succeeded``, ``failed``, ``timed_out``, ``canceled`` or ``lost``.
    - ``started_at``, ``finished_at``: None where no time is recorded.
    - ``error``: why it failed.
    - ``node``: the name of the node that made it.
    - ``attempt_id``: the id that the function or target receives.
    - ``detail``: what else is recorded, such as the ``exit_code`` of a command or the ``response`` of a webhook.
    """

    number: int
    status: str
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    node: str | None
    attempt_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """One task of a run.

    - ``attempts``: how many were started. ``attempt_history`` has one ``AttemptInfo`` for each; it is empty in lists.
    - ``error``: the message of the last failed attempt.
    - ``result``: what the task returned.
    - ``started_at``, ``finished_at``: None until then.
    - ``task_run_id``: the id that the function or target receives. Retries share it. None in lists.
    - ``wakes_at``, ``waits_for_signal``: what a waiting task waits for.
    - ``stopped_by``: the task whose failure stopped this one, as in REST.
    - ``retired``: True if the job no longer has this task.
    """

    name: str
    status: str
    attempts: int
    error: str | None
    result: Any
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt_history: tuple[AttemptInfo, ...] = ()
    task_run_id: str | None = None
    wakes_at: datetime | None = None
    waits_for_signal: str | None = None
    stopped_by: dict[str, Any] | None = None
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run (an execution) as it was when it was read.

    - ``id``: the id for ``Chronos.get_run``.
    - ``status``: ``ready``, ``queued``, ``running``, ``waiting``, or a final one such as ``succeeded`` or ``failed``.
    - ``trigger``: the cause: ``schedule``, ``recovery``, ``backfill``, ``manual``, ``replay`` or ``dependency``.
    - ``scheduled_at``: the instant that the run is for.
    - ``started_at``, ``finished_at``: None until then.
    - ``attempts``: how many attempts were started.
    - ``reason``, ``message``: the code and the sentence that explain the status.
    - ``result``, ``payload``: JSON values.
    - ``tasks``: one ``TaskInfo`` per task. A server leaves them out of lists.
    - ``job``, ``job_id``, ``job_version``: the job, and the version of it that runs.
    - ``recovered``: True if the instant had been missed.
    - ``replay_of``: the id of the run that this one repeats.
    - ``span``: the missed instants that a compressed recovery stands for.
    - ``admitted_at``: when the run was created.
    - ``node``: the name of the node that runs it or ran it last.
    - ``lateness``, ``duration``: how long after its instant it started, and how long it took.
    - ``wakes_at``: when a waiting run continues.
    - ``held``: True while the run waits because the job is paused.
    - ``asked_because``: the reason that was given with the request.
    - ``upstream``: the ids of the runs that it follows.
    - ``settings``: the numbers of the server's defaults and of the namespace's settings that it was admitted under.
    - ``report``: what hooks receive about a run that is over: the outcome of each task. None in lists.
    """

    id: str
    status: str
    trigger: str
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempts: int
    reason: str | None
    message: str | None
    result: Any
    payload: Any
    tasks: tuple[TaskInfo, ...] = ()
    job_version: int = 1
    recovered: bool = False
    replay_of: str | None = None
    span: MissedSpan | None = None
    job: str | None = None
    job_id: str | None = None
    admitted_at: datetime | None = None
    node: str | None = None
    lateness: timedelta | None = None
    duration: timedelta | None = None
    wakes_at: datetime | None = None
    held: bool = False
    asked_because: str | None = None
    upstream: tuple[str, ...] = ()
    settings: dict[str, int] = field(default_factory=dict)
    report: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the status is final."""
        return self.status in _FINAL_STATUSES

    @property
    def succeeded(self) -> bool:
        """Whether the run ended with the status ``succeeded``."""
        return self.status == to_status_name(Status.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as the store holds it.

    - ``name``, ``namespace``, ``description``, ``owner``, ``tags``, ``payload``: as declared.
    - ``id``: a UUID. It changes when the job is deleted and declared again.
    - ``version``: counts the changes of the definition, from 1.
    - ``state``: ``active``, ``paused``, ``disabled`` or ``done``.
    - ``schedule``, ``timezone``, ``start``, ``end``: None where the job has none.
    - ``next_run``: when the schedule fires next, or None if it does not. ``held`` is True for a paused job:
      ``next_run`` is then what would run if it were resumed now.
    - ``note``: why the job is paused or disabled, or why this process leaves it alone.
    - ``settings``: the settings that the job sets, under their names in REST, such as ``retry`` and ``overlap``.
    - ``tasks``: the tasks with their targets, as in REST. Credentials are masked.
    - ``definition``: the whole definition as REST and files write it, with all of these fields.
    - ``last_run``: the newest run, also a skipped one; None before the first.
    - ``created_at``, ``updated_at``, ``paused_at``: when that happened; ``paused_at`` is None unless it is paused.
    """

    name: str
    namespace: str
    version: int
    state: str
    schedule: str | None
    timezone: str | None
    next_run: datetime | None
    description: str
    owner: str | None
    tags: dict[str, str]
    note: str
    id: str
    start: datetime | None
    end: datetime | None
    payload: Any
    settings: dict[str, Any]
    tasks: tuple[dict[str, Any], ...]
    definition: dict[str, Any]
    last_run: RunInfo | None
    created_at: datetime
    updated_at: datetime
    paused_at: datetime | None
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanInfo:
    """One record for many instants that did not run.

    ``status`` is ``skipped`` or ``missed``. ``first`` and ``last`` are the instants at both ends, ``count`` is how many
    there were. ``reason`` and ``message`` are the code and the sentence that explain why.
    """

    status: str
    first: datetime
    last: datetime
    count: int
    reason: str
    message: str


class RunFailed(ChronosError):
    """A run ended without success.

    ``job`` is the name of the job, ``run`` the ``RunInfo`` with the status and the errors of the tasks.
    """

    def __init__(self, job: str, run: RunInfo) -> None:
        errors = "".join(f"\n  {task.name}: {task.error}" for task in run.tasks if task.error)
        super().__init__(f"{job} {run.status.replace('_', ' ')}: {run.message}{errors}")
        self.job = job
        self.run = run

    def __reduce__(self) -> tuple[Any, ...]:
        return RunFailed, (self.job, self.run)


_FINAL_STATUSES = frozenset(to_status_name(status) for status in Status if status.final)


def to_run_info(execution: Execution, *, job: str | None = None, nodes: Mapping[int, str] = NO_NODES) -> RunInfo:
    """An execution of a list as users see it. ``nodes`` has the names of nodes by number."""
    return RunInfo(**to_run_fields(execution, job=job, nodes=nodes))


def to_run_fields(
    execution: Execution, *, job: str | None = None, nodes: Mapping[int, str] = NO_NODES
) -> dict[str, Any]:
    """The fields of a ``RunInfo``, or of a subclass that adds more."""
    detail = read_detail(execution)
    reason, node, late_us = execution.reason, execution.node, lateness_us(execution)
    return {
        "id": id_text(execution.id),
        "status": to_status_name(execution.status),
        "trigger": execution.cause.name.lower(),
        "scheduled_at": _to_datetime(execution.scheduled_us),
        "started_at": _to_datetime(execution.started_us),
        "finished_at": _to_datetime(execution.finished_us),
        "attempts": count_attempts(execution, detail),
        "reason": None if reason is None else reason.code.value,
        "message": None if reason is None else reason.message,
        "result": detail.result,
        "payload": detail.payload,
        "tasks": _to_task_infos(detail),
        "job_version": execution.job_version,
        "recovered": execution.recovered,
        "replay_of": None if detail.replay_of is None else id_text(bytes.fromhex(detail.replay_of)),
        "span": missed_span(detail.span),
        "job": job,
        "job_id": id_text(execution.job),
        "admitted_at": _to_datetime(execution.admitted_us),
        "node": None if node is None else nodes.get(node, str(node)),
        "lateness": None if late_us is None else timedelta(microseconds=late_us),
        "duration": _to_duration(execution.started_us, execution.finished_us),
        "wakes_at": _to_datetime(execution.wake_us),
        "held": bool(execution.held),
        "asked_because": detail.reason,
        "settings": Levels.unpack(execution.levels)._asdict(),
        "upstream": tuple(id_text(bytes.fromhex(one)) for one in detail.upstream),
    }


def to_span_info(span: Span) -> SpanInfo:
    """A stored span as users see it."""
    return SpanInfo(
        status=to_status_name(span.status),
        first=from_us(span.from_us),
        last=from_us(span.to_us),
        count=span.count,
        reason=span.reason.code.value,
        message=span.reason.message,
    )


def _to_task_infos(detail: Detail) -> tuple[TaskInfo, ...]:
    """The tasks: while the execution is open they are in the group, afterwards in the report."""
    tasks: Iterable[TaskState | TaskReport] = ()
    if detail.group is not None:
        tasks = detail.group.tasks
    elif detail.report is not None:
        tasks = detail.report.tasks
    return tuple(
        TaskInfo(
            name=task.name,
            status=task.status if isinstance(task, TaskReport) else to_status_name(task.status),
            attempts=task.attempts,
            error=task.error,
            result=task.result,
            started_at=_to_datetime(task.started_us),
            finished_at=_to_datetime(task.finished_us),
        )
        for task in tasks
    )


@lru_cache(maxsize=4_096)  # many runs have the same times
def _to_datetime(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)


def _to_duration(started_us: int | None, finished_us: int | None) -> timedelta | None:
    if started_us is None or finished_us is None:
        return None
    return timedelta(microseconds=max(0, finished_us - started_us))
