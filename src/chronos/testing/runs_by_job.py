"""Runs by job, as ``Harness.advance`` returns them.

The executions are read at the end of the advance. They become runs when the test looks at their job, because a year of
many jobs has more runs than a test looks at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chronos.core.execution import Execution
from chronos.sdk.info import RunInfo, to_run_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran(RunInfo):
    """One run of a job, as it was when the test read it."""

    @property
    def error(self) -> str | None:
        """The error of the first task that has one."""
        return next((task.error for task in self.tasks if task.error is not None), None)


class RunsByJob(Mapping[str, list[Ran]]):
    """The runs of each job, oldest first. Equal to a dict with the same runs."""

    def __init__(self, executions: Mapping[str, list[Execution]]) -> None:
        self._executions = executions
        self._runs: dict[str, list[Ran]] = {}

    def __getitem__(self, job: str) -> list[Ran]:
        runs = self._runs.get(job)
        if runs is None:
            runs = self._runs[job] = [to_harness_run(execution) for execution in self._executions[job]]
        return runs

    def __iter__(self) -> Iterator[str]:
        return iter(self._executions)

    def __len__(self) -> int:
        return len(self._executions)

    def __repr__(self) -> str:
        return repr(dict(self))


def to_harness_run(execution: Execution) -> Ran:
    """Return an execution as tests see it."""
    return Ran(**to_run_fields(execution))
