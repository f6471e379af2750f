"""The state machine of tasks: modes, failure strategies, retries and lost nodes."""

from itertools import product

import pytest

from chronos.core.calendar import SECOND_US
from chronos.core.config import UNLIMITED, Delivery, Mode, OnFailure, Retry
from chronos.core.execution import Status, TaskStatus
from chronos.core.job import Task
from chronos.core.outcome import Canceled, Failed, Lost, Outcome, Released, Succeeded, TimedOut
from chronos.core.reasons import ReasonCode
from chronos.core.retry_policy import retry_delay_us
from chronos.core.settle import MAX_ERROR_CHARS, end_running_tasks, wake_tasks
from chronos.errors import Invalid
from tests.support.settle_driver import BAD, OK, ONCE, OWN_CONTINUE, T0, TARGET, Run, attempt, job, task

# --- modes


def test_an_execution_without_tasks_has_succeeded() -> None:
    assert Run(job()).status is Status.SUCCEEDED


def test_one_task_starts_and_ends_the_execution() -> None:
    run = Run(job("a"))
    assert [(start.task, start.number, start.resumed) for start in run.step.start] == [("a", 1, False)]
    assert (run.step.asleep, run.step.end) == (False, None)
    run.end("a", Succeeded(result={"rows": 3}))
    assert (run.status, run.code) == (Status.SUCCEEDED, ReasonCode.SUCCEEDED)
    assert run.state("a").result == {"rows": 3}


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


def test_a_graph_starts_tasks_whose_needs_have_ended() -> None:
    run = Run(job(task("d", "b", "c"), task("b", "a"), task("c", "a"), task("a"), mode=Mode.GRAPH))
    assert run.started == ["a"]
    assert run.end("a", OK).started == ["a", "b", "c"]
    assert run.end("c", OK).started == ["a", "b", "c"]
    assert run.end("b", OK).started == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([task("a"), task("a")], "same name"),
        ([task("a", "b")], 'needs unknown task "b"'),
        ([task("a", "b"), task("b", "a")], "circle"),
        ([task("a", "a")], "circle"),
    ],
)
def test_an_invalid_graph_is_rejected(tasks: list[Task], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        job(*tasks, mode=Mode.GRAPH)


# --- strategies × outcomes

FAILURES: dict[str, tuple[Outcome, str]] = {
    "failed": (BAD, "failed"),
    "timed out": (TimedOut(), "timed_out"),
    "canceled": (Canceled(), "canceled"),
    "lost": (Lost(), "failed"),
}
#: strategy, mode → the statuses of a, b, c when b fails without attempts left.
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
def test_a_failure_affects_other_tasks_by_strategy_and_mode(
    strategy: OnFailure, mode: Mode, how: str, attempts: int
) -> None:
    outcome, as_status = FAILURES[how]
    layout = job(
        task("a"), task("b", "a"), task("c", "b"), mode=mode, on_failure=strategy, retry=Retry(max_attempts=attempts)
    )
    run = Run(layout).finish({"b": outcome})
    assert run.statuses() == AFTER_FAILURE[strategy, mode].format(as_status)
    assert run.state("b").attempts == (1 if how == "canceled" else attempts)
    if strategy is OnFailure.CONTINUE:
        assert (run.status, run.code) == (Status.COMPLETED_WITH_ERRORS, ReasonCode.SOME_TASKS_FAILED)
    elif how == "lost":
        assert (run.status, run.code) == (Status.STALE, ReasonCode.WORKER_LOST)
    else:
        assert (run.status, run.code) == (Status.FAILED, ReasonCode.TASK_FAILED)


@pytest.mark.parametrize(("strategy", "mode", "how"), list(product(OnFailure, Mode, FAILURES)))
def test_a_clean_up_task_always_runs(strategy: OnFailure, mode: Mode, how: str) -> None:
    clean_up = Task(name="z", target=TARGET, needs=("b",), settings=OWN_CONTINUE)
    layout = job(task("a"), task("b", "a"), clean_up, mode=mode, on_failure=strategy, retry=ONCE)
    run = Run(layout).finish({"b": FAILURES[how][0]})
    assert run.state("z").status is TaskStatus.SUCCEEDED
    run = Run(layout).finish({"a": FAILURES[how][0]})
    assert run.state("z").status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize("mode", Mode)
def test_a_failed_clean_up_task_does_not_abort_the_group(mode: Mode) -> None:
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
def test_an_execution_fails_if_every_task_failed_even_under_continue(mode: Mode) -> None:
    run = Run(job("a", "b", mode=mode, on_failure=OnFailure.CONTINUE, retry=ONCE)).finish({"a": BAD, "b": BAD})
    assert (run.status, run.code) == (Status.FAILED, ReasonCode.TASK_FAILED)
    run = Run(job("a", "b", mode=mode, on_failure=OnFailure.CONTINUE, retry=ONCE)).finish({"a": BAD, "b": Lost()})
    assert run.status is Status.STALE


def test_a_task_that_overrides_continue_aborts_the_group() -> None:
    strict = task("b", on_failure=OnFailure.FAIL_FAST)
    run = Run(job("a", strict, "c", on_failure=OnFailure.CONTINUE, retry=ONCE)).finish({"a": BAD, "b": BAD})
    assert run.statuses() == "failed failed skipped"
    assert run.status is Status.FAILED


def test_fail_fast_waits_for_canceled_tasks_and_records_the_failed_one() -> None:
    run = Run(job("a", "b", mode=Mode.PARALLEL, retry=ONCE)).end("b", BAD)
    assert (run.step.cancel, run.step.end, run.step.asleep) == (("a",), None, False)
    run.end("a", Failed(error="killed"))
    assert run.statuses() == "canceled failed"
    assert run.state("a").stopped_by.task == "b"
    late = Run(job("a", "b", mode=Mode.PARALLEL, retry=ONCE)).end("b", BAD).end("a", OK)
    assert (late.statuses(), late.status) == ("succeeded failed", Status.FAILED)


def test_under_retry_no_other_task_starts_while_one_is_retried() -> None:
    tasks = (task("a", retry=Retry(initial_us=5 * SECOND_US)), task("b"), task("c", "b"))
    blocked = Run(job(*tasks, mode=Mode.GRAPH, on_failure=OnFailure.RETRY)).end("a", BAD).end("b", OK)
    assert blocked.started == ["a", "b"]
    assert blocked.step.asleep
    assert blocked.wake().started == ["a", "b", "a"]  # its second attempt is still a retry
    assert blocked.end("a", OK).started == ["a", "b", "a", "c"]
    free = Run(job(*tasks, mode=Mode.GRAPH)).end("a", BAD).end("b", OK)
    assert free.started == ["a", "b", "c"]


# --- retries


def test_a_retry_waits_without_a_slot_and_backs_off() -> None:
    layout = job("a", retry=Retry(max_attempts=3, initial_us=SECOND_US, jitter=0.5))
    run = Run(layout).end("a", BAD)
    delay_us = retry_delay_us(layout.tasks[0].effective, 1, attempt("a", 1))
    assert (run.step.asleep, run.step.wake_us) == (True, run.now_us + delay_us)
    assert run.statuses() == "retrying"
    early = wake_tasks(layout, run.step.group, run.now_us + delay_us - 1)
    assert (early.start, early.asleep) == ((), True)
    run.wake()
    assert [(start.task, start.number) for start in run.step.start] == [("a", 2)]
    assert run.end("a", BAD).step.wake_us == run.now_us + retry_delay_us(layout.tasks[0].effective, 2, attempt("a", 2))
    assert run.wake().end("a", BAD).status is Status.FAILED
    assert (run.state("a").attempts, run.state("a").error) == (3, "boom")


@pytest.mark.parametrize(
    ("retry_on", "outcome", "retried"),
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
        (("KeyError",), Lost(), True),  # a lost node is not a failure of the task
    ],
)
def test_retry_on_decides_which_failures_are_retried(
    retry_on: tuple[str, ...], outcome: Outcome, retried: bool
) -> None:
    run = Run(job("a", retry=Retry(retry_on=retry_on))).end("a", outcome)
    assert (run.step.end is None) == retried


@pytest.mark.parametrize("outcome", [BAD, TimedOut(), Lost(), Released()])
def test_at_most_once_is_never_retried_after_a_start(outcome: Outcome) -> None:
    run = Run(job("a", delivery=Delivery.AT_MOST_ONCE)).end("a", outcome)
    assert run.status is (Status.STALE if isinstance(outcome, Lost) else Status.FAILED)


def test_a_target_may_set_the_delay_of_a_retry() -> None:
    run = Run(job("a", retry=Retry(initial_us=7 * SECOND_US)))
    run.end("a", Failed(error="boom", retry_after_us=90 * SECOND_US))
    assert (run.statuses(), run.step.wake_us) == ("retrying", run.now_us + 90 * SECOND_US)
    run.wake().end("a", Failed(error="boom", retry_after_us=0))
    assert (run.statuses(), run.state("a").attempts) == ("running", 3)


def test_unlimited_attempts_continue() -> None:
    run = Run(job("a", retry=Retry(max_attempts=UNLIMITED, max_us=SECOND_US)))
    for _ in range(50):
        run.end("a", BAD).wake()
    assert run.state("a").attempts == 51


def test_a_lost_attempt_counts_and_is_retried_at_once() -> None:
    run = Run(job("a")).end("a", Lost())
    assert [(start.task, start.number) for start in run.step.start] == [("a", 2)]
    assert run.end("a", Lost()).end("a", Lost()).status is Status.STALE


def test_errors_are_bounded() -> None:
    run = Run(job("a", retry=ONCE)).end("a", Failed(error="x" * 10 * MAX_ERROR_CHARS))
    assert len(run.state("a").error) == MAX_ERROR_CHARS
    assert run.step.end is not None
    assert len(run.step.end.reason.message) < 300


# --- lost and released


def test_tasks_of_a_dead_node_are_retried_by_the_next_claim() -> None:
    layout = job("a", "b", mode=Mode.PARALLEL)
    step = end_running_tasks(
        layout, Run(layout).step.group, Lost(), T0 + 40 * SECOND_US, worked_until_us=T0 + 10 * SECOND_US
    )
    assert (step.start, step.asleep, step.wake_us) == ((), True, T0 + 40 * SECOND_US)
    assert step.group.worked_us == 10 * SECOND_US
    taken = wake_tasks(layout, step.group, T0 + 41 * SECOND_US)
    assert [(start.task, start.number) for start in taken.start] == [("a", 2), ("b", 2)]


def test_a_clean_up_task_runs_even_if_its_execution_is_lost() -> None:
    clean_up = Task(name="z", target=TARGET, settings=OWN_CONTINUE)
    run = Run(job("a", clean_up, delivery=Delivery.AT_MOST_ONCE))
    run.take(end_running_tasks(run.layout, run.step.group, Lost(), run.now_us))
    assert (run.step.asleep, run.step.wake_us, run.step.end) == (True, run.now_us, None)
    assert run.wake().started == ["a", "z"]
    assert run.end("z", OK).status is Status.STALE


def test_a_released_task_spends_no_attempt() -> None:
    run = Run(job("a", retry=ONCE)).end("a", Released(), closing=True)
    assert (run.step.start, run.step.asleep, run.step.wake_us) == ((), True, run.now_us)
    run.wake()
    assert [(start.task, start.number) for start in run.step.start] == [("a", 1)]


def test_a_closing_node_starts_no_task() -> None:
    run = Run(job("a", "b")).end("a", OK, closing=True)
    assert (run.started, run.step.asleep, run.step.wake_us) == (["a"], True, run.now_us)
    assert run.wake().started == ["a", "b"]
