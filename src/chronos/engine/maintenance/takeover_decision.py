"""Takeover decision: how an execution continues or ends after its node is gone.

Running attempts are lost; the core decides on retries. The decision is pure: every node reaches the same verdict from
the same record.
"""

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from chronos.core.execution import AttemptStatus, Execution, Status, TaskStatus
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.execution_report import BACKOFF_FIELD
from chronos.core.outcome import Lost
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settle import End, begin, end_running_tasks, wake_tasks
from chronos.core.task_group import TaskGroup
from chronos.engine.execution.recorder import to_ended_detail, to_hook_follow_up
from chronos.engine.job_catalog import CatalogEntry
from chronos.store.commands import EndedAttempt, FollowUp, ReapRow

_LOST_OUTCOME = Lost()
_RETRIED_AT_ONCE = msgspec.json.encode({BACKOFF_FIELD: 0.0}).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverVerdict:
    """The verdict on an execution: another attempt (``end=None``) or a final status."""

    end: End | None
    attempt: int
    lost: tuple[EndedAttempt, ...]
    detail: str | None
    follow: tuple[FollowUp, ...] = ()

    @property
    def status(self) -> Status:
        return Status.READY if self.end is None else self.end.status

    @property
    def code(self) -> ReasonCode:
        return ReasonCode.WORKER_LOST if self.end is None else self.end.reason.code

    def to_row(self, execution: Execution) -> ReapRow:
        """Build the row for the store."""
        return ReapRow(
            execution.id,
            execution.job,
            execution.token,
            self.status,
            self.code,
            self.attempt,
            self.lost,
            self.detail,
            self.follow,
            self.end is not None and self.end.is_dead_letter,
            None if self.end is None else self.end.reason.message,
        )


def decide_takeover(
    entry: CatalogEntry | None,
    execution: Execution,
    now_us: int,
    *,
    end: End | None = None,
    worked_until_us: int | None = None,
) -> TakeoverVerdict:
    """Decide on an execution that no node works on.

    ``end`` overrides the job's policy. ``worked_until_us``: when its node was last seen; time after it is not work.
    """
    detail = _read_execution_detail(execution)
    if entry is None or detail is None:  # its version is deleted or unreadable
        stale = End(status=Status.STALE, reason=Reason.of(ReasonCode.WORKER_LOST))
        final = end or stale
        text = None
        if detail is not None and detail.group is not None:
            text = write_detail(replace(detail, group=detail.group.close(final.reason.code, now_us)))
        return TakeoverVerdict(end=final, attempt=execution.attempt, lost=(), detail=text)
    group = _rebuild_task_group(entry, detail, execution, now_us)
    step = end_running_tasks(entry.layout, group, _LOST_OUTCOME, now_us, worked_until_us=worked_until_us)
    verdict = end or step.end
    attempts = tuple(
        EndedAttempt(
            execution.id,
            task.name,
            task.attempts,
            AttemptStatus.LOST,
            task.attempt_us if task.attempt_us is not None else now_us,
            max(now_us, task.attempt_us or 0),
            execution.node,
            _LOST_OUTCOME.error,
            _RETRIED_AT_ONCE if verdict is None and after.status is TaskStatus.RETRYING else None,
        )
        for task, after in zip(group.tasks, step.group.tasks, strict=True)
        if task.status is TaskStatus.RUNNING
    )
    if verdict is None:
        text = write_detail(replace(detail, group=step.group))
        attempt = max(task.attempts + (task.status is TaskStatus.RETRYING) for task in step.group.tasks)
        return TakeoverVerdict(end=None, attempt=max(1, attempt), lost=attempts, detail=text)
    ended = to_ended_detail(entry, detail, step.group.close(verdict.reason.code, now_us), verdict)
    hook = entry.spec.on_complete
    return TakeoverVerdict(
        end=verdict,
        attempt=execution.attempt,
        lost=attempts,
        detail=write_detail(ended),
        follow=() if hook is None else (to_hook_follow_up(entry, hook, ended, execution),),
    )


def _read_execution_detail(execution: Execution) -> Detail | None:
    try:
        return msgspec.convert(execution.detail or {}, Detail)
    except msgspec.ValidationError:
        return None


def _rebuild_task_group(entry: CatalogEntry, detail: Detail, execution: Execution, now_us: int) -> TaskGroup:
    """Return the state of the tasks: as last recorded, plus the tasks that started with the claim."""
    started_us = execution.started_us if execution.started_us is not None else now_us
    if detail.group is None:
        return begin(entry.layout, started_us, carried=detail.carried, chosen=detail.chosen).group
    if any(task.status is TaskStatus.RUNNING for task in detail.group.tasks):
        return detail.group
    return wake_tasks(entry.layout, detail.group, now_us, detail.signals).group
