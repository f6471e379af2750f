"""Random events on random groups: the rules of the state machine hold in every order."""

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chronos.core import ids
from chronos.core.calendar import SECOND_US
from chronos.core.config import Delivery, Mode, OnFailure, Retry, Settings
from chronos.core.execution import TASK_TRANSITIONS, Status, TaskStatus, is_allowed_transition
from chronos.core.execution_report import build_report
from chronos.core.job import JobSpec, Target, Task
from chronos.core.outcome import Canceled, Failed, Lost, Outcome, Released, Succeeded, TimedOut, Waits
from chronos.core.reasons import ReasonCode
from chronos.core.settle import Step, apply_outcome, begin, end_running_tasks, stop, wake_tasks
from chronos.core.task_group import Layout, TaskGroup, build_layout

T0 = 1_800_000_000_000_000
SIGNALS = ("go", "stay")
TIMEOUT_US = 3_600 * SECOND_US


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    count = draw(st.integers(1, 5))
    tasks = []
    for index in range(count):
        needs = draw(st.lists(st.integers(0, index - 1), unique=True, max_size=2)) if index else []
        overrides = Settings(
            on_failure=draw(st.none() | st.sampled_from(OnFailure)),
            retry=Retry(max_attempts=draw(st.integers(1, 3))),
            delivery=draw(st.none() | st.sampled_from(Delivery)),
        )
        names = tuple(f"t{need}" for need in needs)
        tasks.append(Task(name=f"t{index}", target=Target(kind="python"), needs=names, settings=overrides))
    job = Settings(
        mode=draw(st.sampled_from(Mode)),
        on_failure=draw(st.sampled_from(OnFailure)),
        execution_timeout_us=TIMEOUT_US,
    )
    return build_layout(JobSpec(tasks=tuple(tasks), settings=job))


OUTCOMES = st.one_of(
    st.just(Succeeded()),
    st.just(Succeeded(result={"n": [1, None]})),
    st.builds(Failed, error=st.just("boom"), worth_retrying=st.booleans()),
    st.just(TimedOut()),
    st.just(Canceled()),
    st.just(Lost()),
    st.just(Released()),
    st.builds(
        Waits,
        until_us=st.integers(T0, T0 + 100 * SECOND_US),
        signal=st.none() | st.sampled_from(SIGNALS),
        resumes=st.booleans(),
    ),
    st.builds(Waits, signal=st.sampled_from(SIGNALS), resumes=st.booleans()),
)


class TaskGroupMachine(RuleBasedStateMachine):
    """A minimal engine that keeps its own record of running tasks."""

    layout: Layout
    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.now_us = T0
        self.running: set[str] = set()
        self.canceling: set[str] = set()
        self.started: set[str] = set()
        self.attempts: dict[str, int] = {}
        self.stopped = False
        self.has_begun = False

    @initialize(layout=layouts())
    def begin(self, layout: Layout) -> None:
        self.layout = layout
        self.take(begin(layout, self.now_us), None)
        self.has_begun = True

    def take(self, step: Step, before: TaskGroup | None) -> None:
        stored = msgspec.json.decode(msgspec.json.encode(step.group), type=TaskGroup)
        assert stored == step.group
        for index, task in enumerate(stored.tasks):
            old = before.tasks[index].status if before else TaskStatus.PENDING
            # A task may pass two statuses within a step: lost or woken, then started again.
            direct = TASK_TRANSITIONS[old]
            indirect = {new for between in direct for new in TASK_TRANSITIONS[between]}
            assert task.status is old or task.status in direct | indirect
            assert not old.final or task == (before.tasks[index] if before else None)
        for start in step.start:
            plan = self.layout.tasks[self.layout.index_of(start.task)]
            assert start.task not in self.running
            assert all(stored.tasks[need].status.final for need in plan.waits_for)
            if self.layout.mode is Mode.GRAPH and not plan.cleanup:
                assert all(stored.tasks[need].status is TaskStatus.SUCCEEDED for need in plan.waits_for)
            assert not self.stopped
            assert start.number <= max(1, plan.effective.max_attempts)
            number = self.attempts.get(start.task, 0)
            assert start.number == (number if start.resumed else number + 1)
            if start.number > 1 and not start.resumed:
                assert plan.effective.delivery is Delivery.AT_LEAST_ONCE
            self.attempts[start.task] = start.number
            self.running.add(start.task)
            self.started.add(start.task)
        assert set(step.cancel) <= self.running
        assert not set(step.cancel) & self.canceling
        self.canceling |= set(step.cancel)
        self.step = replace(step, group=stored)

    @property
    def group(self) -> TaskGroup:
        return self.step.group

    def alive(self) -> bool:
        return self.has_begun and self.step.end is None

    def forget(self, name: str) -> None:
        self.running.discard(name)
        self.canceling.discard(name)

    @precondition(lambda self: self.alive() and self.running)
    @rule(data=st.data(), outcome=OUTCOMES, later=st.integers(0, 5), closing=st.booleans())
    def an_attempt_ends(self, data: st.DataObject, outcome: Outcome, later: int, closing: bool) -> None:
        self.now_us += later * SECOND_US
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.finish(name, outcome, closing=closing)

    def finish(self, name: str, outcome: Outcome, **rest: Any) -> None:
        before = self.group
        self.forget(name)
        if isinstance(outcome, Released):
            self.attempts[name] -= 1
        attempt = ids.attempt_id(bytes(16), name, 1)
        self.take(apply_outcome(self.layout, before, name, outcome, self.now_us, attempt, **rest), before)

    @precondition(lambda self: self.has_begun)  # harmless after the end
    @rule(later=st.integers(0, 50), signals=st.sets(st.sampled_from(SIGNALS)))
    def time_passes(self, later: int, signals: set[str]) -> None:
        self.now_us += later * SECOND_US
        before = self.group
        self.take(wake_tasks(self.layout, before, self.now_us, dict.fromkeys(signals, 1)), before)

    @precondition(lambda self: self.alive())
    @rule(outcome=st.sampled_from([Lost(), Released()]))
    def the_node_dies_or_shuts_down(self, outcome: Lost | Released) -> None:
        before = self.group
        for name in sorted(self.running):
            if isinstance(outcome, Released):
                self.attempts[name] -= 1
            self.forget(name)
        self.take(end_running_tasks(self.layout, before, outcome, self.now_us), before)
        assert not self.step.start
        assert self.step.end is not None or self.step.asleep

    @precondition(lambda self: self.alive())
    @rule(code=st.sampled_from([ReasonCode.CANCELED, ReasonCode.EXECUTION_TIMEOUT]), chance=st.integers(0, 9))
    def the_execution_is_stopped(self, code: ReasonCode, chance: int) -> None:
        if chance:  # otherwise most examples would be short
            return
        self.stopped = True
        before = self.group
        self.take(stop(self.layout, before, code, self.now_us), before)

    @invariant()
    def running_tasks_were_started(self) -> None:
        if not self.has_begun:
            return
        running = {task.name for task in self.group.tasks if task.status is TaskStatus.RUNNING}
        assert running == self.running
        assert (self.group.busy_us is not None) == bool(self.running)

    @invariant()
    def the_execution_runs_sleeps_or_has_ended(self) -> None:
        if not self.has_begun:
            return
        step = self.step
        final = all(task.status.final for task in self.group.tasks)
        assert (step.end is not None) == final
        if step.end is None:
            assert step.asleep == (not self.running)
            assert not step.asleep or step.wake_us is not None or step.signals
        else:
            assert is_allowed_transition(Status.RUNNING, step.end.status)
            assert build_report(self.layout, self.group, step.end).status == step.end.status.name.lower()

    @invariant()
    def worked_time_is_at_most_the_elapsed_time(self) -> None:
        if self.has_begun:
            assert 0 <= self.group.worked_us <= self.now_us - T0
            assert all(0 <= task.worked_us <= self.group.worked_us for task in self.group.tasks)

    def teardown(self) -> None:
        """Every group ends without further events; unless it was stopped, its clean-up tasks have run."""
        if not self.has_begun:
            return
        for _ in range(200):
            if self.step.end is not None:
                break
            if self.running:
                self.finish(min(self.running), Canceled() if min(self.running) in self.canceling else Succeeded())
            else:
                self.now_us = max(self.now_us, self.step.wake_us or 0)
                before = self.group
                self.take(wake_tasks(self.layout, before, self.now_us, dict.fromkeys(SIGNALS, 1)), before)
        assert self.step.end is not None
        statuses = {task.status for task in self.group.tasks}
        if not self.stopped:
            assert {plan.name for plan in self.layout.tasks if plan.cleanup} <= self.started
            assert not [
                task
                for task, plan in zip(self.group.tasks, self.layout.tasks, strict=True)
                if plan.cleanup and task.stopped_by
            ]
            assert self.step.end.status is not Status.CANCELED
        if statuses == {TaskStatus.SUCCEEDED}:
            assert self.step.end.status is Status.SUCCEEDED
        if TaskStatus.SUCCEEDED not in statuses:
            assert self.step.end.status in (Status.FAILED, Status.STALE, Status.CANCELED)


TestTaskGroup = TaskGroupMachine.TestCase
TestTaskGroup.settings = settings(stateful_step_count=30)
