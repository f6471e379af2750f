"""Reads the status by which a list selects executions: one status, or a word for several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chronos.core.execution import Execution, Span, Status, TaskStatus
from chronos.core.execution_report import to_status_name
from chronos.core.reasons import ReasonCode
from chronos.errors import Invalid
from chronos.service.serializers.execution import read_detail
from chronos.store.contract import ExecutionFilter

TROUBLED = "troubled"  # failed, missed, stale or completed with errors
NOT_RUN = "not_run"  # skipped or missed
PENDING = "pending"  # not started yet: ready, queued, or waiting for a later time
IN_PROGRESS = "in_progress"  # started and not over: running, or waiting for a retry, a time or a signal
TIMED_OUT = "timed_out"  # failed because the execution or one of its tasks exceeded its timeout
_ALIASES = {"success": "succeeded", "cancelled": "canceled", "timeout": TIMED_OUT}
#: Every word that selects executions.
STATUS_WORDS = (*map(to_status_name, Status), TROUBLED, NOT_RUN, PENDING, IN_PROGRESS, TIMED_OUT, "success")
OPEN_STATUSES = tuple(status for status in Status if not status.final)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSelection:
    """The executions of a list: what the store selects, and of these the ones to keep (None: all of them)."""

    where: ExecutionFilter
    keep: Callable[[Execution | Span], bool] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether statuses alone select these executions."""
        return self.keep is None and self.where.started is None

    def selects(self, item: Execution | Span) -> bool:
        """Return whether an execution belongs to the list, whatever its job."""
        if item.status not in (self.where.selected_statuses or tuple(Status)):
            return False
        started = isinstance(item, Execution) and item.started_us is not None
        if self.where.started not in (None, started) or (self.where.started is not None and item.status.final):
            return False
        return self.keep is None or self.keep(item)


def select_executions(status: str | Sequence[str] | None, job: bytes | None = None) -> ExecutionSelection:
    """Select executions by words of ``STATUS_WORDS``, in any case: those that any of the words selects.

    Without words, all are selected. Raises ``Invalid`` for an unknown word.
    """
    given = [] if status is None else [status] if isinstance(status, str) else list(status)
    parts = [_select(_ALIASES.get(word.lower(), word.lower())) for word in given]
    if len(parts) == 1:
        return replace(parts[0], where=replace(parts[0].where, job=job))
    statuses = {status for part in parts for status in part.where.selected_statuses or OPEN_STATUSES}
    keep = None if all(part.is_exact for part in parts) else lambda item: any(part.selects(item) for part in parts)
    return ExecutionSelection(where=ExecutionFilter(job=job, statuses=tuple(sorted(statuses))), keep=keep)


def _select(word: str) -> ExecutionSelection:
    match word:
        case "troubled":
            return ExecutionSelection(where=ExecutionFilter(troubled=True))
        case "not_run":
            return ExecutionSelection(where=ExecutionFilter(statuses=(Status.SKIPPED, Status.MISSED)))
        case "pending":
            return ExecutionSelection(where=ExecutionFilter(started=False))
        case "in_progress":
            return ExecutionSelection(where=ExecutionFilter(started=True))
        case "timed_out":
            return ExecutionSelection(where=ExecutionFilter(status=Status.FAILED), keep=is_timed_out)
        case _ if word.upper() in Status.__members__:
            return ExecutionSelection(where=ExecutionFilter(status=Status[word.upper()]))
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
