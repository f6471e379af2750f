"""Tables: every strategy against every way a task can end, then retries, waits, losses, stops and the report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import msgspec
import pytest

from chronos.core import ids
from chronos.core.calendar import SECOND_US
from chronos.core.config import UNLIMITED, Delivery, Mode, OnFailure, Retry, Settings
from chronos.core.execution import AttemptStatus, Status, TaskStatus
from chronos.core.group import Group, Layout, lay_out
from chronos.core.job import JobSpec, Target, Task
from chronos.core.outcome import Canceled, Failed, Lost, Outcome, Released, Succeeded, TimedOut, Waits, attempt_status
from chronos.core.policy import retry_delay_us
from chronos.core.reasons import Code
from chronos.core.report import Report, report
from chronos.core.settle import MAX_ERROR, Step, begin, ended, put_down, stop, tick
from chronos.errors import Invalid

T0 = 1_800_000_000_000_000
EXECUTION = bytes(range(16))
TARGET = Target(kind="python")
ONCE = Retry(max_attempts=1)
OWN_CONTINUE = Settings(on_failure=OnFailure.CONTINUE)
OK = Succeeded()
BAD = Failed(error="boom")


def job(*tasks: Task | str, **settings: Any) -> Layout:
    made = tuple(task if isinstance(task, Task) else Task(name=task, target=TARGET) for task in tasks)
    return lay_out(JobSpec(tasks=made), Settings(retry=Retry(jitter=0.0)), Settings(**settings))


def task(name: str, *needs: str, **settings: Any) -> Task:
    return Task(name=name, target=TARGET, needs=needs, settings=Settings(**settings))


def attempt(name: str, number: int) -> bytes:
    return ids.attempt_id(EXECUTION, name, number)


@dataclass
class Run:
    """An execution driven by hand: one second passes with each outcome."""

    layout: Layout
    now_us: int = T0
    started: list[str] = field(default_factory=list)
    step: Step = field(init=False)

    def __post_init__(self) -> None:
        self.take(begin(self.layout, self.now_us))

    def take(self, step: Step) -> "Run":
        assert msgspec.json.decode(msgspec.json.encode(step.group), type=Group) == step.group
        self.step = step
        self.started += [start.task for start in step.start]
        return self

    def end(self, name: str, outcome: Outcome, **rest: Any) -> "Run":
        self.now_us += SECOND_US
        number = self.state(name).attempts
        group = self.step.group
        return self.take(ended(self.layout, group, name, outcome, self.now_us, attempt(name, number), **rest))

    def wake(self, signals: Mapping[str, Any] | None = None) -> "Run":
        if self.step.wake_us is not None and not signals:
            self.now_us = max(self.now_us, self.step.wake_us)
        return self.take(tick(self.layout, self.step.group, self.now_us, signals or {}))

    def state(self, name: str) -> Any:
        return self.step.group.tasks[self.layout.place(name)]

    def statuses(self) -> str:
        return " ".join(task.status.name.lower() for task in self.step.group.tasks)

    def finish(self, outcomes: Mapping[str, Outcome]) -> "Run":
        """End whatever runs with its outcome, in order, retries first; what was asked to stop is canceled."""
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
        raise AssertionError("it does not end")

    @property
    def status(self) -> Status:
        assert self.step.end is not None
        return self.step.end.status

    @property
    def code(self) -> Code:
        assert self.step.end is not None
        return self.step.end.reason.code


# --- modes


def test_an_execution_without_tasks_has_succeeded() -> None:
    assert Run(job()).status is Status.SUCCEEDED


def test_one_task_is_one_start_and_one_end() -> None:
    run = Run(job("a"))
    assert [(start.task, start.number, start.resumed) for start in run.step.start] == [("a", 1, False)]
    assert (run.step.asleep, run.step.end) == (False, None)
    run.end("a", Succeeded(result={"rows": 3}))
    assert (run.status, run.code) == (Status.SUCCEEDED, Code.SUCCEEDED)
    assert run.state("a").as_run().result == {"rows": 3}


def test_sequential_tasks_start_one_after_the_other() -> None:
    run = Run(job("a", "b", "c"))
    assert run.started == ["a"]
    assert run.end("a", OK).started == ["a", "b"]
    assert run.end("b", OK).end("c", OK).status is Status.SUCCEEDED


def test_parallel_tasks_start_together() -> None:
    run = Run(job("a", "b", "c", mode=Mode.PARALLEL))
    assert run.started == ["a", "b", "c"]
    assert run.end("c", OK).end("a", OK).step.end is None
    assert run.end("b", OK).status is Status.SUCCEEDED


def test_a_graph_starts_what_has_all_it_needs() -> None:
    run = Run(job(task("d", "b", "c"), task("b", "a"), task("c", "a"), task("a"), mode=Mode.GRAPH))
    assert run.started == ["a"]
    assert run.end("a", OK).started == ["a", "b", "c"]
    assert run.end("c", OK).started == ["a", "b", "c"]
    assert run.end("b", OK).started == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([task("a"), task("a")], "same name"),
        ([task("a", "b")], 'needs "b"'),
        ([task("a", "b"), task("b", "a")], "circle"),
        ([task("a", "a")], "circle"),
    ],
)
def test_what_cannot_run_is_refused(tasks: list[Task], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        job(*tasks, mode=Mode.GRAPH)


# --- strategies × outcomes

FAILURES: dict[str, tuple[Outcome, str]] = {
    "failed": (BAD, "failed"),
    "timed out": (TimedOut(), "timed_out"),
    "canceled": (Canceled(), "canceled"),
    "lost": (Lost(), "failed"),
}
#: strategy, mode → how a, b, c end when b fails for good.
AFTER_FAILURE = {
    (OnFailure.FAIL_FAST, Mode.SEQUENTIAL): "succeeded {} skipped",
    (OnFailure.FAIL_FAST, Mode.PARALLEL): "succeeded {} canceled",
    (OnFailure.FAIL_FAST, Mode.GRAPH): "succeeded {} skipped",
    (OnFailure.RETRY, Mode.SEQUENTIAL): "succeeded {} skipped",
    (OnFailure.RETRY, Mode.PARALLEL): "succeeded {} canceled",
    (OnFailure.RETRY, Mode.GRAPH): "succeeded {} skipped",
    (OnFailure.CONTINUE, Mode.SEQUENTIAL): "succeeded {} succeeded",
    (OnFailure.CONTINUE, Mode.PARALLEL): "succeeded {} succeeded",
    (OnFailure.CONTINUE, Mode.GRAPH): "succeeded {} skipped",  # it needs b
}


@pytest.mark.parametrize(("how", "attempts"), list(product(FAILURES, [1, 3])))
@pytest.mark.parametrize(("strategy", "mode"), AFTER_FAILURE)
def test_what_a_failure_does_to_the_others(strategy: OnFailure, mode: Mode, how: str, attempts: int) -> None:
    outcome, as_status = FAILURES[how]
    layout = job(
        task("a"), task("b", "a"), task("c", "b"), mode=mode, on_failure=strategy, retry=Retry(max_attempts=attempts)
    )
    run = Run(layout).finish({"b": outcome})
    assert run.statuses() == AFTER_FAILURE[strategy, mode].format(as_status)
    assert run.state("b").attempts == (1 if how == "canceled" else attempts)
    if strategy is OnFailure.CONTINUE:
        assert (run.status, run.code) == (Status.COMPLETED_WITH_ERRORS, Code.SOME_TASKS_FAILED)
    elif how == "lost":
        assert (run.status, run.code) == (Status.STALE, Code.WORKER_LOST)
    else:
        assert (run.status, run.code) == (Status.FAILED, Code.TASK_FAILED)


@pytest.mark.parametrize(("strategy", "mode", "how"), list(product(OnFailure, Mode, FAILURES)))
def test_a_clean_up_task_always_runs(strategy: OnFailure, mode: Mode, how: str) -> None:
    clean_up = Task(name="z", target=TARGET, needs=("b",), settings=OWN_CONTINUE)
    layout = job(task("a"), task("b", "a"), clean_up, mode=mode, on_failure=strategy, retry=ONCE)
    run = Run(layout).finish({"b": FAILURES[how][0]})
    assert run.state("z").status is TaskStatus.SUCCEEDED
    run = Run(layout).finish({"a": FAILURES[how][0]})
    assert run.state("z").status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize("mode", Mode)
def test_a_clean_up_task_that_fails_is_tolerated(mode: Mode) -> None:
    clean_up = Task(name="z", target=TARGET, settings=OWN_CONTINUE)
    run = Run(job("a", clean_up, "b", mode=mode, retry=ONCE)).finish({"z": BAD})
    assert run.statuses() == "succeeded failed succeeded"
    assert run.status is Status.COMPLETED_WITH_ERRORS
    assert '"z"' in run.step.end.reason.message  # type: ignore[union-attr]


def test_a_clean_up_task_still_retries_after_the_group_was_aborted() -> None:
    clean_up = Task(name="z", target=TARGET, settings=OWN_CONTINUE)
    run = Run(job(task("a", retry=ONCE), clean_up, mode=Mode.PARALLEL)).end("a", BAD)
    assert (run.step.cancel, run.step.end) == ((), None)
    assert run.end("z", BAD).step.asleep
    assert run.wake().end("z", OK).statuses() == "failed succeeded"
    assert run.status is Status.FAILED


@pytest.mark.parametrize("mode", Mode)
def test_all_tasks_failed_is_failed_even_when_each_is_tolerated(mode: Mode) -> None:
    run = Run(job("a", "b", mode=mode, on_failure=OnFailure.CONTINUE, retry=ONCE)).finish({"a": BAD, "b": BAD})
    assert (run.status, run.code) == (Status.FAILED, Code.TASK_FAILED)
    run = Run(job("a", "b", mode=mode, on_failure=OnFailure.CONTINUE, retry=ONCE)).finish({"a": BAD, "b": Lost()})
    assert run.status is Status.STALE


def test_a_task_that_overrides_continue_aborts_the_group() -> None:
    strict = task("b", on_failure=OnFailure.FAIL_FAST)
    run = Run(job("a", strict, "c", on_failure=OnFailure.CONTINUE, retry=ONCE)).finish({"a": BAD, "b": BAD})
    assert run.statuses() == "failed failed skipped"
    assert run.status is Status.FAILED


def test_fail_fast_waits_for_what_it_cancels_and_tells_who_canceled_whom() -> None:
    run = Run(job("a", "b", mode=Mode.PARALLEL, retry=ONCE)).end("b", BAD)
    assert (run.step.cancel, run.step.end, run.step.asleep) == (("a",), None, False)
    run.end("a", Failed(error="killed"))
    assert run.statuses() == "canceled failed"
    assert run.state("a").stopped_by.task == "b"
    late = Run(job("a", "b", mode=Mode.PARALLEL, retry=ONCE)).end("b", BAD).end("a", OK)
    assert (late.statuses(), late.status) == ("succeeded failed", Status.FAILED)


def test_while_a_task_retries_no_other_starts_under_retry() -> None:
    tasks = (task("a", retry=Retry(initial_us=5 * SECOND_US)), task("b"), task("c", "b"))
    held = Run(job(*tasks, mode=Mode.GRAPH, on_failure=OnFailure.RETRY)).end("a", BAD).end("b", OK)
    assert held.started == ["a", "b"]
    assert held.step.asleep
    assert held.wake().started == ["a", "b", "a"]  # its second try is still a retry
    assert held.end("a", OK).started == ["a", "b", "a", "c"]
    free = Run(job(*tasks, mode=Mode.GRAPH)).end("a", BAD).end("b", OK)
    assert free.started == ["a", "b", "c"]


# --- retries


def test_a_retry_waits_without_a_slot_and_backs_off() -> None:
    layout = job("a", retry=Retry(max_attempts=3, initial_us=SECOND_US, jitter=0.5))
    run = Run(layout).end("a", BAD)
    delay_us = retry_delay_us(layout.tasks[0].effective, 1, attempt("a", 1))
    assert (run.step.asleep, run.step.wake_us) == (True, run.now_us + delay_us)
    assert run.statuses() == "retrying"
    early = tick(layout, run.step.group, run.now_us + delay_us - 1)
    assert (early.start, early.asleep) == ((), True)
    run.wake()
    assert [(start.task, start.number) for start in run.step.start] == [("a", 2)]
    assert run.end("a", BAD).step.wake_us == run.now_us + retry_delay_us(layout.tasks[0].effective, 2, attempt("a", 2))
    assert run.wake().end("a", BAD).status is Status.FAILED
    assert (run.state("a").attempts, run.state("a").error) == (3, "boom")


@pytest.mark.parametrize(
    ("retry_on", "outcome", "again"),
    [
        ((), BAD, True),
        ((), TimedOut(), True),
        (("ValueError",), Failed(error="", kinds=("ValueError", "Exception")), True),
        (("ValueError",), Failed(error="", kinds=("KeyError",)), False),
        (("ValueError",), TimedOut(), False),
        (("timeout",), TimedOut(), True),
        ((), Failed(error="", worth_retrying=False), False),
        (("http_404",), Failed(error="", kinds=("http_404", "http_4xx"), worth_retrying=False), True),
        (("http_5xx",), Failed(error="", kinds=("http_404", "http_4xx"), worth_retrying=False), False),
        (("KeyError",), Lost(), True),  # what became of the worker is not the work's failure
    ],
)
def test_retry_on_says_which_failures_are_worth_another_try(
    retry_on: tuple[str, ...], outcome: Outcome, again: bool
) -> None:
    run = Run(job("a", retry=Retry(retry_on=retry_on))).end("a", outcome)
    assert (run.step.end is None) == again


@pytest.mark.parametrize("outcome", [BAD, TimedOut(), Lost(), Released()])
def test_at_most_once_is_never_tried_again_after_a_start(outcome: Outcome) -> None:
    run = Run(job("a", delivery=Delivery.AT_MOST_ONCE)).end("a", outcome)
    assert run.status is (Status.STALE if isinstance(outcome, Lost) else Status.FAILED)


def test_tries_without_limit_go_on() -> None:
    run = Run(job("a", retry=Retry(max_attempts=UNLIMITED, max_us=SECOND_US)))
    for _ in range(50):
        run.end("a", BAD).wake()
    assert run.state("a").attempts == 51


def test_a_lost_attempt_counts_and_is_tried_again_at_once() -> None:
    run = Run(job("a")).end("a", Lost())
    assert [(start.task, start.number) for start in run.step.start] == [("a", 2)]
    assert run.end("a", Lost()).end("a", Lost()).status is Status.STALE


def test_errors_are_bounded() -> None:
    run = Run(job("a", retry=ONCE)).end("a", Failed(error="x" * 10 * MAX_ERROR))
    assert len(run.state("a").error) == MAX_ERROR
    assert run.step.end is not None
    assert len(run.step.end.reason.message) < 300


# --- the worker goes


def test_what_ran_on_a_dead_node_is_tried_again_by_whoever_claims_it() -> None:
    layout = job("a", "b", mode=Mode.PARALLEL)
    step = put_down(layout, Run(layout).step.group, Lost(), T0 + 40 * SECOND_US, alive_us=T0 + 10 * SECOND_US)
    assert (step.start, step.asleep, step.wake_us) == ((), True, T0 + 40 * SECOND_US)
    assert step.group.worked_us == 10 * SECOND_US
    taken = tick(layout, step.group, T0 + 41 * SECOND_US)
    assert [(start.task, start.number) for start in taken.start] == [("a", 2), ("b", 2)]


def test_a_clean_up_task_runs_even_when_its_execution_was_lost_for_good() -> None:
    clean_up = Task(name="z", target=TARGET, settings=OWN_CONTINUE)
    run = Run(job("a", clean_up, delivery=Delivery.AT_MOST_ONCE))
    run.take(put_down(run.layout, run.step.group, Lost(), run.now_us))
    assert (run.step.asleep, run.step.wake_us, run.step.end) == (True, run.now_us, None)
    assert run.wake().started == ["a", "z"]
    assert run.end("z", OK).status is Status.STALE


def test_what_a_node_gives_back_on_shutting_down_spends_no_attempt() -> None:
    run = Run(job("a", retry=ONCE)).end("a", Released(), closing=True)
    assert (run.step.start, run.step.asleep, run.step.wake_us) == ((), True, run.now_us)
    run.wake()
    assert [(start.task, start.number) for start in run.step.start] == [("a", 1)]


def test_a_node_that_shuts_down_starts_nothing() -> None:
    run = Run(job("a", "b")).end("a", OK, closing=True)
    assert (run.started, run.step.asleep, run.step.wake_us) == (["a"], True, run.now_us)
    assert run.wake().started == ["a", "b"]


# --- waits


def test_a_wait_holds_no_slot_and_ends_when_its_time_comes() -> None:
    run = Run(job("w", "b")).end("w", Waits(until_us=T0 + 60 * SECOND_US))
    assert (run.statuses(), run.step.asleep, run.step.wake_us) == ("waiting pending", True, T0 + 60 * SECOND_US)
    assert run.wake().started == ["w", "b"]
    assert run.statuses() == "succeeded running"


def test_a_wait_for_a_signal_ends_with_its_payload_or_times_out() -> None:
    waits = Waits(until_us=T0 + 60 * SECOND_US, signal="approved")
    run = Run(job("w")).end("w", waits)
    assert run.step.signals == ("approved",)
    assert run.wake({"other": 1}).step.asleep
    assert run.wake({"approved": {"by": "ann"}}).status is Status.SUCCEEDED
    assert run.state("w").result == {"by": "ann"}
    late = Run(job("w")).end("w", waits).wake()
    assert (late.statuses(), late.status) == ("timed_out", Status.FAILED)
    forever = Run(job("w")).end("w", Waits(signal="approved"))
    assert (forever.step.asleep, forever.step.wake_us) == (True, None)
    with pytest.raises(ValueError, match="never end"):
        Waits()


def test_a_task_that_sleeps_goes_on_under_the_same_number() -> None:
    run = Run(job("s")).end("s", Waits(until_us=T0 + 60 * SECOND_US, resumes=True)).wake()
    assert [(start.number, start.resumed) for start in run.step.start] == [(1, True)]
    assert run.end("s", OK).status is Status.SUCCEEDED


def test_waiting_tasks_of_an_aborted_group_are_canceled() -> None:
    run = Run(job("a", "w", mode=Mode.PARALLEL, retry=ONCE)).end("w", Waits(signal="go")).end("a", BAD)
    assert (run.statuses(), run.status, run.step.signals) == ("failed canceled", Status.FAILED, ())


# --- stops


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.CANCELED, Status.CANCELED),
        (Code.REPLACED, Status.CANCELED),
        (Code.JOB_DELETED, Status.CANCELED),
        (Code.EXECUTION_TIMEOUT, Status.FAILED),
    ],
)
def test_a_stop_ends_everything_that_runs_and_starts_nothing_more(code: Code, status: Status) -> None:
    clean_up = Task(name="z", target=TARGET, settings=OWN_CONTINUE)
    run = Run(job("a", "b", clean_up))
    run.take(stop(run.layout, run.step.group, code, run.now_us))
    assert (run.step.cancel, run.step.end) == (("a",), None)
    again = stop(run.layout, run.step.group, Code.CANCELED, run.now_us)
    assert (again.cancel, again.group.stop) == ((), code)
    run.end("a", Canceled())
    assert (run.statuses(), run.status, run.code) == ("canceled skipped skipped", status, code)


def test_a_stop_of_a_sleeping_execution_ends_it_at_once() -> None:
    run = Run(job("a", "b")).end("a", BAD)
    run.take(stop(run.layout, run.step.group, Code.CANCELED, run.now_us, "Ann canceled it."))
    assert (run.statuses(), run.status) == ("canceled skipped", Status.CANCELED)
    assert run.step.end is not None
    assert run.step.end.reason.message == "Ann canceled it."


def test_what_succeeded_in_spite_of_a_stop_has_succeeded() -> None:
    run = Run(job("a"))
    run.take(stop(run.layout, run.step.group, Code.CANCELED, run.now_us)).end("a", OK)
    assert run.status is Status.SUCCEEDED


def test_only_some_reasons_stop_an_execution() -> None:
    run = Run(job("a"))
    with pytest.raises(ValueError, match="no reason to stop"):
        stop(run.layout, run.step.group, Code.OVERLAP, run.now_us)


def test_the_execution_timeout_counts_work_and_not_waiting() -> None:
    run = Run(job("a", "b", mode=Mode.PARALLEL, execution_timeout_us=10 * SECOND_US))
    assert run.step.deadline_us == T0 + 10 * SECOND_US
    run.end("a", Waits(until_us=T0 + 500 * SECOND_US))
    assert run.step.deadline_us == T0 + 10 * SECOND_US  # two at once are not counted twice
    run.end("b", BAD)
    assert (run.step.asleep, run.step.group.worked_us) == (True, 2 * SECOND_US)
    assert Run(run.layout).end("a", Waits(signal="go")).end("b", BAD).step.deadline_us is None
    run.wake()
    assert run.step.deadline_us == run.now_us + 8 * SECOND_US
    assert Run(job("a", execution_timeout_us=0)).step.deadline_us is None


# --- the rest


def test_an_outcome_of_what_does_not_run_is_refused() -> None:
    run = Run(job("a", "b"))
    with pytest.raises(ValueError, match="does not run"):
        run.end("b", OK)
    with pytest.raises(Invalid, match='no task "x"'):
        run.end("a", OK).layout.place("x")
    with pytest.raises(ValueError, match="other tasks"):
        tick(job("a"), run.step.group, T0)


def test_a_replay_carries_over_what_succeeded() -> None:
    layout = job("a", "b", "c")
    step = begin(layout, T0, done={"a": 41})
    assert [start.task for start in step.start] == ["b"]
    assert step.group.tasks[0].result == 41


def test_every_outcome_is_recorded_as_an_attempt_that_ended_or_goes_on() -> None:
    recorded = [attempt_status(o) for o in (OK, BAD, TimedOut(), Canceled(), Lost(), Released(), Waits(signal="x"))]
    assert recorded == [*(status for status in AttemptStatus if status is not AttemptStatus.RUNNING), None, None]


def test_the_report_tells_all() -> None:
    run = Run(job("a", task("b", retry=ONCE), "c", "d", mode=Mode.PARALLEL)).end("a", OK)
    run.end("c", BAD).end("b", BAD).end("d", Canceled())
    found = report(run.layout, run.step.group, run.step.end)
    assert (found.strategy, found.status, found.code) == (OnFailure.FAIL_FAST, "failed", Code.TASK_FAILED)
    assert found.message == 'The task "b" failed for good: boom'
    assert [(task.name, task.status, task.attempts, task.worked_us // SECOND_US) for task in found.tasks] == [
        ("a", "succeeded", 1, 1),
        ("b", "failed", 1, 3),
        ("c", "canceled", 1, 2),
        ("d", "canceled", 1, 4),
    ]
    assert [(stopped.code, stopped.by, stopped.tasks) for stopped in found.stopped] == [
        (Code.TASK_FAILED, "b", ("c", "d"))
    ]
    assert (found.began_us, found.finished_us, found.worked_us) == (T0, T0 + 4 * SECOND_US, 4 * SECOND_US)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Report) == found
    assert report(run.layout, Run(run.layout).step.group, None).status is None
