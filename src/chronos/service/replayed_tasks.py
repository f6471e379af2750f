"""Decides which tasks a replay runs: all of them, those that did not succeed, or chosen ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chronos.core.execution import Execution, Status, TaskStatus
from chronos.core.execution_detail import Detail
from chronos.core.execution_report import to_status_name
from chronos.core.job import Job, JobSpec
from chronos.errors import Invalid
from chronos.service.serializers.object_reader import suggest

_SUCCEEDED = to_status_name(TaskStatus.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTasks:
    """The tasks of a replay, as ``Detail`` stores them. Both are None if the replay runs every task."""

    carried: dict[str, Any] | None = None  # results of tasks that succeeded before and do not run again
    chosen: tuple[str, ...] | None = None  # the only tasks that run


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReplay:
    """What a replay creates: an execution of the job with this detail."""

    original: Execution
    job: Job
    detail: Detail


def choose_replayed_tasks(
    original: Execution, detail: Detail, spec: JobSpec, *, from_failed: bool, tasks: Sequence[str] | None
) -> ReplayedTasks:
    """Choose the tasks of a replay. ``spec`` is the version of the job that runs. Raises ``Invalid``."""
    if tasks is None:
        return ReplayedTasks(carried=_read_results_to_keep(original, detail) if from_failed else None)
    if from_failed:
        raise Invalid("from_failed and tasks exclude each other; give only one of them")
    chosen = (tasks,) if isinstance(tasks, str) else tuple(dict.fromkeys(tasks))
    if not chosen:
        raise Invalid("tasks is empty; name the tasks to run, or leave it out to run all of them")
    names = [task.name for task in spec.tasks]
    for name in chosen:
        if name not in names:
            hint = suggest(name, names) or f"; use some of {', '.join(names[:10])}"
            raise Invalid(f'tasks: the job has no task "{name[:64]}"{hint}')
    results = _read_results(original, detail, names)
    carried = {name: result for name, result in results.items() if name not in chosen}
    for task in spec.tasks:
        missing = [need for need in task.needs if need not in chosen and need not in carried]
        if task.name in chosen and missing:
            raise Invalid(f'tasks: "{task.name}" needs "{missing[0]}", which did not succeed; choose it too')
    return ReplayedTasks(carried=carried, chosen=chosen)


def _read_results_to_keep(original: Execution, detail: Detail) -> dict[str, Any]:
    if original.status is Status.SUCCEEDED:
        raise Invalid("no task of this execution failed; replay it without from_failed")
    return _read_results(original, detail, ())


def _read_results(original: Execution, detail: Detail, names: Sequence[str]) -> dict[str, Any]:
    """Return the results of the tasks that succeeded. A plain success has no task states; ``names`` are its tasks."""
    if detail.group is not None:
        return {task.name: task.result for task in detail.group.tasks if task.status is TaskStatus.SUCCEEDED}
    if detail.report is not None:
        return {task.name: task.result for task in detail.report.tasks if task.status == _SUCCEEDED}
    return dict.fromkeys(names, detail.result) if original.status is Status.SUCCEEDED else {}
