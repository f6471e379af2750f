"""Drives an execution by hand through the pure decisions of ``core.settle``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from chronos.core import ids
from chronos.core.calendar import SECOND_US
from chronos.core.config import OnFailure, Retry, Settings
from chronos.core.execution import Status, TaskStatus
from chronos.core.job import JobSpec, Target, Task
from chronos.core.outcome import Canceled, Failed, Outcome, Succeeded
from chronos.core.reasons import ReasonCode
from chronos.core.settle import Step, apply_outcome, begin, wake_tasks
from chronos.core.task_group import Layout, TaskGroup, build_layout

T0 = 1_800_000_000_000_000
EXECUTION = bytes(range(16))
TARGET = Target(kind="python")
ONCE = Retry(max_attempts=1)
OWN_CONTINUE = Settings(on_failure=OnFailure.CONTINUE)
OK = Succeeded()
BAD = Failed(error="boom")


def job(*tasks: Task | str, **settings: Any) -> Layout:
    made = tuple(task if isinstance(task, Task) else Task(name=task, target=TARGET) for task in tasks)
    return build_layout(JobSpec(tasks=made), Settings(retry=Retry(jitter=0.0)), Settings(**settings))


def task(name: str, *needs: str, **settings: Any) -> Task:
    return Task(name=name, target=TARGET, needs=needs, settings=Settings(**settings))


def attempt(name: str, number: int) -> bytes:
    return ids.attempt_id(EXECUTION, name, number)


@dataclass
class Run:
    """An execution driven by hand. One second passes with each outcome."""

    layout: Layout
    now_us: int = T0
    started: list[str] = field(default_factory=list)
    step: Step = field(init=False)

    def __post_init__(self) -> None:
        self.take(begin(self.layout, self.now_us))

    def take(self, step: Step) -> "Run":
        assert msgspec.json.decode(msgspec.json.encode(step.group), type=TaskGroup) == step.group
        self.step = step
        self.started += [start.task for start in step.start]
        return self

    def end(self, name: str, outcome: Outcome, **rest: Any) -> "Run":
        self.now_us += SECOND_US
        number = self.state(name).attempts
        group = self.step.group
        return self.take(apply_outcome(self.layout, group, name, outcome, self.now_us, attempt(name, number), **rest))

    def wake(self, signals: Mapping[str, Any] | None = None) -> "Run":
        if self.step.wake_us is not None and not signals:
            self.now_us = max(self.now_us, self.step.wake_us)
        return self.take(wake_tasks(self.layout, self.step.group, self.now_us, signals or {}))

    def state(self, name: str) -> Any:
        return self.step.group.tasks[self.layout.index_of(name)]

    def statuses(self) -> str:
        return " ".join(task.status.name.lower() for task in self.step.group.tasks)

    def finish(self, outcomes: Mapping[str, Outcome]) -> "Run":
        """End running tasks with their outcomes, in order, retries first. Stopped tasks are canceled."""
        for _ in range(100):
            if self.step.end is not None:
                return self
            running = [task for task in self.step.group.tasks if task.status is TaskStatus.RUNNING]
            retrying = [task for task in self.step.group.tasks if task.status is TaskStatus.RETRYING]
            if retrying or not running:
                assert retrying or self.step.asleep
                self.wake()
                continue
            chosen = running[0]
            self.end(chosen.name, Canceled() if chosen.stopped_by else outcomes.get(chosen.name, OK))
        raise AssertionError("the execution does not end")

    @property
    def status(self) -> Status:
        assert self.step.end is not None
        return self.step.end.status

    @property
    def code(self) -> ReasonCode:
        assert self.step.end is not None
        return self.step.end.reason.code
