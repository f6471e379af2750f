"""What is wrong with a job: since when it fails, which run shows it, and which version started it."""

from collections.abc import Sequence
from dataclasses import dataclass

from chronos.core.execution import Execution, Span, Status
from chronos.core.job import JobStatus
from chronos.service.views.job_rows import JobRow
from chronos.ui.run_lines import describe_run

_FAILED = (Status.FAILED, Status.STALE)
_NEUTRAL = (Status.SKIPPED, Status.MISSED, Status.CANCELED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The failures of a job since its last success, newest run first."""

    last: Execution
    sentence: str
    failures: int
    is_more: bool  # True: there may be earlier failures than those that were read
    first_us: int  # the scheduled time of the first failure
    success_us: int | None  # the end of the last success
    version: int | None  # the version that started it, if the first failure is its first run


def find_trouble(items: Sequence[Execution | Span], row: JobRow) -> Trouble | None:
    """Return what is wrong with a failing job, from its newest runs; None if it is not failing."""
    if row.status is not JobStatus.FAILING:
        return None
    failures: list[Execution] = []
    before: Execution | None = None
    for item in items:
        if isinstance(item, Span) or not item.status.final or item.status in _NEUTRAL:
            continue
        if item.status not in _FAILED:
            before = item
            break
        failures.append(item)
    if not failures:
        return None
    first = failures[-1]
    is_new_version = before is not None and before.job_version != first.job_version
    return Trouble(
        last=failures[0],
        sentence=describe_run(failures[0]),
        failures=len(failures),
        is_more=before is None,
        first_us=first.scheduled_us,
        success_us=row.last_success_us,
        version=first.job_version if is_new_version else None,
    )
