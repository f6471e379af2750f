"""Waits, stops, replays and the report of an execution."""

import msgspec
import pytest

from chronos.core.calendar import SECOND_US
from chronos.core.config import Mode, OnFailure
from chronos.core.execution import AttemptStatus, Status
from chronos.core.execution_report import Report, build_report
from chronos.core.job import Task
from chronos.core.outcome import Canceled, Lost, Released, TimedOut, Waits, attempt_status
from chronos.core.reasons import ReasonCode
from chronos.core.settle import begin, stop, wake_tasks
from chronos.errors import Invalid
from tests.support.settle_driver import BAD, OK, ONCE, OWN_CONTINUE, T0, TARGET, Run, job, task

# --- waits


def test_a_wait_needs_no_slot_and_ends_at_its_time() -> None:
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
    with pytest.raises(ValueError, match="needs until_us or a signal"):
        Waits()


def test_a_sleeping_task_resumes_with_the_same_attempt_number() -> None:
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
        (ReasonCode.CANCELED, Status.CANCELED),
        (ReasonCode.REPLACED, Status.CANCELED),
        (ReasonCode.JOB_DELETED, Status.CANCELED),
        (ReasonCode.EXECUTION_TIMEOUT, Status.FAILED),
    ],
)
def test_a_stop_cancels_running_tasks_and_starts_nothing(code: ReasonCode, status: Status) -> None:
    clean_up = Task(name="z", target=TARGET, settings=OWN_CONTINUE)
    run = Run(job("a", "b", clean_up))
    run.take(stop(run.layout, run.step.group, code, run.now_us))
    assert (run.step.cancel, run.step.end) == (("a",), None)
    again = stop(run.layout, run.step.group, ReasonCode.CANCELED, run.now_us)
    assert (again.cancel, again.group.stop) == ((), code)
    run.end("a", Canceled())
    assert (run.statuses(), run.status, run.code) == ("canceled skipped skipped", status, code)


def test_a_stop_of_a_sleeping_execution_ends_it_at_once() -> None:
    run = Run(job("a", "b")).end("a", BAD)
    run.take(stop(run.layout, run.step.group, ReasonCode.CANCELED, run.now_us, "Ann canceled it."))
    assert (run.statuses(), run.status) == ("canceled skipped", Status.CANCELED)
    assert run.step.end is not None
    assert run.step.end.reason.message == "Ann canceled it."


def test_a_task_that_succeeds_after_a_stop_has_succeeded() -> None:
    run = Run(job("a"))
    run.take(stop(run.layout, run.step.group, ReasonCode.CANCELED, run.now_us)).end("a", OK)
    assert run.status is Status.SUCCEEDED


def test_only_some_reasons_stop_an_execution() -> None:
    run = Run(job("a"))
    with pytest.raises(ValueError, match="cannot stop an execution"):
        stop(run.layout, run.step.group, ReasonCode.OVERLAP, run.now_us)


def test_the_execution_timeout_counts_work_but_not_waits() -> None:
    run = Run(job("a", "b", mode=Mode.PARALLEL, execution_timeout_us=10 * SECOND_US))
    assert run.step.deadline_us == T0 + 10 * SECOND_US
    run.end("a", Waits(until_us=T0 + 500 * SECOND_US))
    assert run.step.deadline_us == T0 + 10 * SECOND_US  # time is counted once while two tasks run
    run.end("b", BAD)
    assert (run.step.asleep, run.step.group.worked_us) == (True, 2 * SECOND_US)
    assert Run(run.layout).end("a", Waits(signal="go")).end("b", BAD).step.deadline_us is None
    run.wake()
    assert run.step.deadline_us == run.now_us + 8 * SECOND_US
    assert Run(job("a", execution_timeout_us=0)).step.deadline_us is None


# --- invalid outcomes, replays, reports


def test_an_outcome_of_a_task_that_does_not_run_is_rejected() -> None:
    run = Run(job("a", "b"))
    with pytest.raises(ValueError, match="is not running"):
        run.end("b", OK)
    with pytest.raises(Invalid, match='unknown task "x"'):
        run.end("a", OK).layout.index_of("x")
    with pytest.raises(ValueError, match="tasks of the group differ"):
        wake_tasks(job("a"), run.step.group, T0)


def test_a_replay_keeps_the_results_of_succeeded_tasks() -> None:
    layout = job("a", "b", "c")
    step = begin(layout, T0, carried={"a": 41})
    assert [start.task for start in step.start] == ["b"]
    assert step.group.tasks[0].result == 41


def test_every_outcome_has_an_attempt_status_or_continues() -> None:
    recorded = [attempt_status(o) for o in (OK, BAD, TimedOut(), Canceled(), Lost(), Released(), Waits(signal="x"))]
    assert recorded == [*(status for status in AttemptStatus if status is not AttemptStatus.RUNNING), None, None]


def test_the_report_summarises_every_task() -> None:
    run = Run(job("a", task("b", retry=ONCE), "c", "d", mode=Mode.PARALLEL)).end("a", OK)
    run.end("c", BAD).end("b", BAD).end("d", Canceled())
    report = build_report(run.layout, run.step.group, run.step.end)
    assert (report.strategy, report.status, report.code) == (OnFailure.FAIL_FAST, "failed", ReasonCode.TASK_FAILED)
    assert report.message == 'Task "b" failed: boom'
    assert [(task.name, task.status, task.attempts, task.worked_us // SECOND_US) for task in report.tasks] == [
        ("a", "succeeded", 1, 1),
        ("b", "failed", 1, 3),
        ("c", "canceled", 1, 2),
        ("d", "canceled", 1, 4),
    ]
    assert [(stopped.code, stopped.by, stopped.tasks) for stopped in report.stopped] == [
        (ReasonCode.TASK_FAILED, "b", ("c", "d"))
    ]
    assert (report.began_us, report.finished_us, report.worked_us) == (T0, T0 + 4 * SECOND_US, 4 * SECOND_US)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    assert build_report(run.layout, Run(run.layout).step.group, None).status is None
