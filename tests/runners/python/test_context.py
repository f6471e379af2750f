"""The context of a function, and durable calls: the n-th call of a function meets the n-th entry of its memory."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chronos.clock import SystemClock
from chronos.core.execution_detail import RecordedTask
from chronos.core.outcome import Waits
from chronos.core.planner import CoveredSpan
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall, StopReason
from chronos.runners.python.context import Context, ReplayDiverged, Suspended
from tests.runners.python.function_calls import NOW, SECOND, a_call, notes


class Fixed(SystemClock):
    """A clock that stands still."""

    def __init__(self, now_us: int = NOW) -> None:
        self.at_us = now_us

    def now_us(self) -> int:
        return self.at_us


def context(call: AttemptCall, *, is_async: bool = False) -> Context:
    return Context(call, Fixed(), is_async=is_async)


def test_the_context_describes_its_run() -> None:
    covered = CoveredSpan(from_us=NOW - 60 * SECOND, to_us=NOW, count=3, exact=False)
    ctx = context(a_call(span=covered, payload={"a": 1}, deadline_us=NOW + 9 * SECOND, last_run_us=NOW - SECOND))
    assert ctx.execution_id == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (ctx.job, ctx.namespace, ctx.task, ctx.attempt, ctx.token) == ("nightly", "default", "task", 1, 7)
    assert ctx.task_run_id == "006dd781-15a4-5f76-978d-9cb9f025c750"
    assert ctx.attempt_id == "8d74e32f-53a9-8c38-881d-5fe688eb80f8"
    assert ctx.payload == {"a": 1}
    assert ctx.scheduled_at == datetime(2027, 1, 15, 8, tzinfo=UTC)
    assert ctx.started_at - ctx.scheduled_at == timedelta(seconds=1)
    assert ctx.deadline == datetime(2027, 1, 15, 8, 0, 9, tzinfo=UTC)
    assert ctx.last_run_at == datetime(2027, 1, 15, 7, 59, 59, tzinfo=UTC)
    assert ctx.span is not None
    assert (ctx.span.from_, ctx.span.to, ctx.span.count, ctx.span.exact) == (
        datetime(2027, 1, 15, 7, 59, tzinfo=UTC),
        datetime(2027, 1, 15, 8, tzinfo=UTC),
        3,
        False,
    )
    bare = context(a_call())
    assert (bare.span, bare.deadline, bare.last_run_at) == (None, None, None)


def test_log_progress_and_flags() -> None:
    call = a_call()
    ctx = context(call)
    ctx.log.info("%d of %s", 3, "many")
    ctx.log.warning("bad %d", "text")
    ctx.log.error("%(a)s", {"a": 1})
    ctx.progress(1, 4)
    ctx.progress(2)
    assert notes(call).text == (
        "2027-01-15T08:00:00Z INFO 3 of many\n"
        "2027-01-15T08:00:00Z WARNING bad %d ('text',)\n"
        "2027-01-15T08:00:00Z ERROR 1\n"
    )
    assert notes(call).steps == [(1, 4), (2, None)]
    assert (ctx.heartbeat(), ctx.canceled, ctx.stopping) == (True, False, False)
    call.stopping.request(StopReason.SHUTDOWN)
    assert (ctx.heartbeat(), ctx.canceled, ctx.stopping) == (True, False, True)
    call.stop.request(StopReason.TIMEOUT)
    assert (ctx.heartbeat(), ctx.canceled) == (False, True)


def test_statements_are_collected_with_values_that_a_store_accepts() -> None:
    call = a_call()
    context(call).transaction.execute("insert into t values (?, ?)", 1, b"x")
    context(call).transaction.execute("insert into t values (?, ?)", (1, b"x"))
    assert call.statements == [("insert into t values (?, ?)", (1, b"x"))] * 2
    with pytest.raises(Invalid, match="value 2 of the statement is a datetime"):
        context(call).transaction.execute("select", 1, datetime.now(UTC))


@pytest.mark.parametrize("duration", [90, 90.0, timedelta(seconds=90), "1m30s"])
def test_sleep_suspends_the_function_until_its_time(duration: Any) -> None:
    call = a_call()
    with pytest.raises(Suspended) as put_down:
        context(call).sleep(duration)
    until_us = NOW + 90 * SECOND
    assert put_down.value.waits == Waits(until_us=until_us, resumes=True)
    assert call.memory == [RecordedTask(kind="sleep", until_us=until_us)]

    early = a_call(memory=list(call.memory), started_us=until_us - 1)
    with pytest.raises(Suspended) as again:
        context(early).sleep(duration)
    assert again.value.waits.until_us == until_us

    late = a_call(memory=list(call.memory), started_us=until_us)
    context(late).sleep(duration)
    assert late.memory == [RecordedTask(kind="sleep", until_us=until_us, done=True)]
    retried = a_call(memory=list(late.memory))
    context(retried).sleep(duration)


def test_a_sleep_of_zero_returns_at_once() -> None:
    call = a_call()
    context(call).sleep(0)
    assert call.memory[0].done


@pytest.mark.parametrize("duration", [float("nan"), True, None, "soon"])
def test_invalid_durations_are_rejected(duration: Any) -> None:
    with pytest.raises(Invalid):
        context(a_call()).sleep(duration)


def test_a_wait_returns_the_payload_of_its_signal() -> None:
    call = a_call()
    with pytest.raises(Suspended) as put_down:
        context(call).wait_for_signal("approved", timeout="1h")
    assert put_down.value.waits == Waits(until_us=NOW + 3600 * SECOND, signal="approved", resumes=True)
    woken = a_call(memory=list(call.memory), signals={"approved": {"by": "ana"}})
    assert context(woken).wait_for_signal("approved", timeout="1h") == {"by": "ana"}
    # The engine may mark the entry instead.
    marked = RecordedTask(kind="signal", name="approved", until_us=NOW + 3600 * SECOND, done=True, value=5)
    assert context(a_call(memory=[marked])).wait_for_signal("approved", timeout="1h") == 5
    retried = a_call(memory=list(woken.memory))
    assert context(retried).wait_for_signal("approved", timeout="1h") == {"by": "ana"}


def test_a_signal_ends_one_wait() -> None:
    call = a_call(signals={"go": 1})
    ctx = context(call)
    assert ctx.wait_for_signal("go") == 1
    with pytest.raises(Suspended) as put_down:
        ctx.wait_for_signal("go")
    assert put_down.value.waits == Waits(signal="go", resumes=True)


def test_a_missing_signal_times_out_permanently() -> None:
    memory = [RecordedTask(kind="signal", name="go", until_us=NOW)]
    call = a_call(memory=memory, started_us=NOW)
    with pytest.raises(TimeoutError, match='the signal "go" did not arrive by 2027-01-15T08:00:00Z'):
        context(call).wait_for_signal("go", timeout=1)
    late = a_call(memory=list(call.memory), signals={"go": 1})
    with pytest.raises(TimeoutError):
        context(late).wait_for_signal("go", timeout=1)


def test_a_step_is_done_once() -> None:
    calls: list[int] = []

    def charge(amount: int) -> dict[str, Any]:
        calls.append(amount)
        return {"paid": (amount,)}

    call = a_call()
    ctx = context(call)
    assert ctx.step("charge", charge, 5) == {"paid": [5]}  # as JSON, the first time too
    with pytest.raises(Suspended):
        ctx.sleep(1)
    again = context(a_call(memory=list(call.memory), started_us=NOW + SECOND))
    assert again.step("charge", charge, 5) == {"paid": [5]}
    again.sleep(1)
    assert calls == [5]


def test_a_failed_step_is_repeated() -> None:
    call = a_call()
    with pytest.raises(ZeroDivisionError):
        context(call).step("divide", lambda: 1 // 0)
    assert context(a_call(memory=list(call.memory))).step("divide", lambda: 2) == 2
    with pytest.raises(Invalid, match='step "odd" returned a object, which cannot be stored as JSON'):
        context(a_call()).step("odd", object)
    with pytest.raises(Invalid, match=r"returned 1,048,578 bytes of JSON, but at most 1,048,576 are allowed"):
        context(a_call()).step("much", lambda: "x" * (1 << 20))


def test_the_number_of_durable_calls_is_bounded() -> None:
    memory = [RecordedTask(kind="sleep", until_us=NOW, done=True)] * 10_000
    ctx = context(a_call(memory=memory))
    for _ in range(10_000):
        ctx.sleep(1)
    with pytest.raises(Invalid, match="use a schedule to repeat work"):
        ctx.sleep(1)


def test_async_functions_await_the_same_calls() -> None:
    async def main() -> None:
        call = a_call(signals={"go": "now"})
        ctx = context(call, is_async=True)

        async def slow(value: int) -> int:
            await asyncio.sleep(0)
            return value

        first, second = await asyncio.gather(ctx.step("a", slow, 1), ctx.step("b", lambda: 2))
        assert (first, second) == (1, 2)
        assert await ctx.wait_for_signal("go") == "now"
        await ctx.sleep(0)
        again = context(a_call(memory=list(call.memory)), is_async=True)
        assert await again.step("a", slow, 9) == 1
        assert await again.step("b", slow, 9) == 2
        assert await again.wait_for_signal("go") == "now"

    asyncio.run(main())


def test_an_async_step_needs_an_async_function() -> None:
    async def step() -> None: ...

    with pytest.raises(Invalid, match=r'step "a" is async'):
        context(a_call()).step("a", step)


def test_a_function_that_was_changed_while_it_slept_diverges() -> None:
    memory = [RecordedTask(kind="step", name="charge", done=True)]
    with pytest.raises(ReplayDiverged, match='durable call 1 is a sleep, but a step of "charge" was recorded'):
        context(a_call(memory=list(memory))).sleep(1)
    with pytest.raises(ReplayDiverged, match='is a step of "refund", but a step of "charge" was recorded'):
        context(a_call(memory=list(memory))).step("refund", int)


def test_an_abandoned_attempt_changes_nothing() -> None:
    call = a_call()
    ctx = context(call)
    ctx.abandon()
    assert ctx.canceled
    ctx.log.info("late")
    ctx.progress(1)
    ctx.transaction.execute("late")
    with pytest.raises(Exception, match="was abandoned"):
        ctx.step("late", int)
    assert not notes(call).texts
    assert not notes(call).steps
    assert not call.statements
    assert not call.memory
