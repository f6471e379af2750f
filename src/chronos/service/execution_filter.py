"""Reads the status by which a list selects executions: one status, or a word for several."""

from collections.abc import Callable
from dataclasses import dataclass

from chronos.core.execution import Execution, Span, Status, TaskStatus
from chronos.core.execution_report import to_status_name
from chronos.core.reasons import ReasonCode
from chronos.errors import Invalid
from chronos.service.serializers.execution import read_detail
from chronos.store.contract import ExecutionFilter

TROUBLED = "troubled"  # failed, missed, stale or completed with errors
PENDING = "pending"  # not started yet: ready, queued, or waiting for a later time
IN_PROGRESS = "in_progress"  # started and not over: running, or waiting for a retry, a time or a signal
TIMED_OUT = "timed_out"  # failed because the execution or one of its tasks exceeded its timeout
_ALIASES = {"success": "succeeded", "cancelled": "canceled", "timeout": TIMED_OUT}
#: Every word that selects executions.
STATUS_WORDS = (*map(to_status_name, Status), TROUBLED, PENDING, IN_PROGRESS, TIMED_OUT, "success")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSelection:
    """The executions of a list: what the store selects, and of these the ones to keep (None: all of them)."""

    where: ExecutionFilter
    keep: Callable[[Execution | Span], bool] | None = None


def select_executions(status: str | None, job: bytes | None = None) -> ExecutionSelection:
    """Select executions by a word of ``STATUS_WORDS``, in any case. Raises ``Invalid``."""
    word = None if status is None else _ALIASES.get(status.lower(), status.lower())
    match word:
        case None:
            return ExecutionSelection(where=ExecutionFilter(job=job))
        case "troubled":
            return ExecutionSelection(where=ExecutionFilter(job=job, troubled=True))
        case "pending":
            return ExecutionSelection(where=ExecutionFilter(job=job, started=False))
        case "in_progress":
            return ExecutionSelection(where=ExecutionFilter(job=job, started=True))
        case "timed_out":
            return ExecutionSelection(where=ExecutionFilter(job=job, status=Status.FAILED), keep=is_timed_out)
        case _ if word.upper() in Status.__members__:
            return ExecutionSelection(where=ExecutionFilter(job=job, status=Status[word.upper()]))
        case _:
            raise Invalid(f'invalid status "{word[:64]}"; use one of {", ".join(STATUS_WORDS)}')


def is_timed_out(item: Execution | Span) -> bool:
    """Return whether an execution failed because it, or one of its tasks, exceeded its timeout."""
    if not isinstance(item, Execution) or item.status is not Status.FAILED:
        return False
    if item.reason is not None and item.reason.code is ReasonCode.EXECUTION_TIMEOUT:
        return True
    report = read_detail(item).report
    return report is not None and any(task.status == to_status_name(TaskStatus.TIMED_OUT) for task in report.tasks)
