"""Runs are triggered, awaited and read from scripts, threads, coroutines and jobs."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chronos import Chronos, Conflict, Context, Invalid, JobInfo, NotFound, RunFailed, RunInfo
from chronos.errors import QueueFull
from chronos.sdk.home_loop import WrongLoop

SOON_S = 60  # on a machine that is busy with others


def test_a_script_triggers_and_waits(app: Chronos) -> None:
    @app.job
    def add(a: int, b: int = 2) -> int:
        return a + b

    before = add.trigger({"a": 1})  # the app does not run yet
    assert before.status == "ready"
    with app:
        assert before.wait(timeout=SOON_S).status == "succeeded"
        run = app.trigger("add", {"a": 4, "b": 5})
        assert run.result(timeout=SOON_S) == 9
    info = before.info()  # also after the app stopped
    assert (info.result, info.trigger, info.payload) == (3, "manual", {"a": 1})
    assert info.is_over
    assert [(task.name, task.status, task.attempts, task.result) for task in info.tasks] == [
        ("main", "succeeded", 1, 3)
    ]
    assert app.get_run(run.id).result() == 9


def test_a_coroutine_triggers_and_waits_on_its_own_loop(app: Chronos) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @app.job
    async def where(ctx: Context) -> str:
        loops.append(asyncio.get_running_loop())
        return ctx.job

    async def main() -> None:
        async with app:
            run = await where.atrigger()
            assert await run.aresult(timeout=SOON_S) == "where"
            assert loops == [asyncio.get_running_loop()]
            assert await where.anext_run() is None
            assert (await run.await_()).status == await run.astatus() == "succeeded"

    asyncio.run(main())


def test_coroutines_work_while_the_app_does_not_run(app: Chronos) -> None:
    """Their calls then go to the thread of the home loop, as those of scripts do."""

    @app.job
    def job() -> None: ...

    async def main() -> str:
        return await (await job.atrigger()).astatus()

    assert asyncio.run(main()) == "ready"
    assert asyncio.run(main()) == "queued"  # behind the first: runs of a job do not overlap by default
    assert len(job.executions()) == 2


def test_an_app_can_move_from_loop_to_loop(app: Chronos) -> None:
    """Earlier runs are kept, also by a store in memory."""

    @app.job
    def job() -> str:
        return "done"

    async def main(before: Any) -> str:
        async with app:
            await before.await_(SOON_S)
            run = await job.atrigger()
            await run.await_(SOON_S)
            return run.id

    first = job.trigger()
    second = asyncio.run(main(first))
    with app:
        assert app.get_run(second).result(timeout=SOON_S) == "done"
    assert first.status == "succeeded"
    asyncio.run(main(first))


def test_a_blocking_call_on_the_home_loop_names_the_async_one(app: Chronos) -> None:
    suggested: list[str] = []

    @app.job
    async def job() -> None:
        for call in (job.trigger, lambda: job.next_run, app.all_jobs, app.stop):
            with pytest.raises(WrongLoop) as caught:
                call()
            suggested.append(str(caught.value).rpartition("await ")[2])

    with app:
        job.trigger().result(timeout=SOON_S)
    assert suggested == ["job.atrigger(…)", "job.anext_run(…)", "app.aall_jobs(…)", "app.astop()"]


def test_threads_and_jobs_can_trigger_runs(app: Chronos) -> None:
    @app.job
    def outer() -> str:
        return inner.trigger({"n": 20}).id

    @app.job
    def inner(n: int) -> int:
        return n + 1

    results: list[Any] = []

    def trigger_inner() -> None:
        results.append(inner.trigger({"n": len(results)}).result(timeout=SOON_S))

    with app:
        threads = [threading.Thread(target=trigger_inner) for _ in range(3)]
        for thread in threads:
            thread.start()
        inner_run = outer.trigger().result(timeout=SOON_S)
        assert app.get_run(inner_run).result(timeout=SOON_S) == 21
        for thread in threads:
            thread.join()
    assert len(results) == 3


def test_a_blocking_call_from_a_thread_reaches_async_with(app: Chronos) -> None:
    @app.job
    def job() -> int:
        return 7

    async def main() -> Any:
        async with app:
            return await asyncio.to_thread(lambda: job.trigger().result(timeout=SOON_S))

    assert asyncio.run(main()) == 7


def test_an_app_runs_on_one_loop_at_a_time(app: Chronos) -> None:
    async def main() -> None:
        async with app:

            def elsewhere() -> None:
                with pytest.raises(WrongLoop, match="another event loop"):
                    asyncio.run(app.astart())

            await asyncio.to_thread(elsewhere)
            with pytest.raises(WrongLoop, match="async with app"):
                app.run()

    asyncio.run(main())


def test_schedules_run(app: Chronos) -> None:
    seen: list[datetime] = []
    twice = threading.Event()

    @app.job(every="100ms")
    def tick(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)
        if len(seen) == 2:
            twice.set()

    with app:
        assert twice.wait(SOON_S)
    assert seen[1] > seen[0]


def test_a_job_declared_while_the_app_runs_runs(app: Chronos) -> None:
    ran = threading.Event()
    with app:

        @app.job(every="100ms")
        def late() -> None:
            ran.set()

        assert ran.wait(SOON_S)


def test_a_waiting_retry_is_not_counted_as_an_attempt(app: Chronos) -> None:
    @app.job(retry={"initial_interval": "1h"})
    def fails() -> None:
        raise ValueError("always")

    with app:
        run = fails.trigger()
        while (info := run.info()).status != "waiting":
            assert not info.is_over
            time.sleep(0.01)
        assert (info.attempts, info.tasks[0].attempts) == (1, 1)


def test_a_failed_run_raises_and_has_its_errors_in_the_log(app: Chronos) -> None:
    @app.job(retries=1, retry={"initial_interval": "1ms"})
    def fails(ctx: Context) -> None:
        ctx.log.info("attempt %d", ctx.attempt)
        raise ValueError("no such account")

    with app:
        run = fails.trigger()
        with pytest.raises(RunFailed, match="no such account") as caught:
            run.result(timeout=SOON_S)
        info = caught.value.run
        assert (info.status, info.tasks[0].attempts) == ("failed", 2)
        assert "attempt 1" in run.log
        assert "attempt 2" in run.log
        assert "ValueError: no such account" in run.log
        again = run.replay(reason="try it once more").wait(timeout=SOON_S)
        assert (again.status, again.trigger) == ("failed", "replay")


def test_waiting_times_out(app: Chronos) -> None:
    @app.job
    def job() -> None: ...

    run = job.trigger()
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.05)
    with pytest.raises(TimeoutError):
        asyncio.run(run.await_(timedelta(milliseconds=50)))
    assert run.status == "ready"


def test_canceling(app: Chronos) -> None:
    started = threading.Event()

    @app.job
    def slow(ctx: Context) -> None:
        started.set()
        while not ctx.canceled:
            time.sleep(0.005)
        raise InterruptedError("asked to stop")

    @app.job
    def quick() -> None: ...

    waiting = slow.trigger()
    waiting.cancel("not needed")
    assert waiting.wait().status == "canceled"
    with app:
        done = quick.trigger()
        done.wait(timeout=SOON_S)
        run = slow.trigger()
        assert started.wait(SOON_S)
        assert slow.is_running
        run.cancel()
        assert run.wait(timeout=SOON_S).status == "canceled"
        run.cancel()  # no-op: it is canceled already
        with pytest.raises(Conflict):
            done.cancel()


def test_signals_end_waits(app: Chronos) -> None:
    release = app.group("release")

    @release.task
    def build() -> str:
        return "1.2.0"

    release.wait("approval", signal="ok", timeout="1d")

    @app.job
    async def order(ctx: Context) -> str:
        await ctx.sleep(0.01)
        return f"paid by {await ctx.wait_for_signal('paid')}"

    with app:
        runs = [release.trigger(), order.trigger()]
        for run, signal in zip(runs, ("ok", "paid"), strict=True):
            deadline = time.monotonic() + SOON_S
            while not run.signal(signal, "ana"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert runs[0].wait(timeout=SOON_S).tasks[1].result == "ana"
        assert runs[1].result(timeout=SOON_S) == "paid by ana"


def test_a_job_is_running_while_its_run_waits(app: Chronos) -> None:
    @app.job
    async def order(ctx: Context) -> None:
        await ctx.wait_for_signal("paid")

    @app.job(retry={"initial_interval": "1h"})
    def fails() -> None:
        raise ValueError("no")

    with app:
        assert not order.is_running
        order.trigger(in_="1h")
        for job in (order, fails):
            run, deadline = job.trigger(), time.monotonic() + SOON_S
            assert not run.info().is_over
            while run.status != "waiting":
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert job.is_running
            run.cancel()
            assert not job.is_running, "a delayed run has not started"


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("x", 'the payload of "ship" is a string'),
        ({"ordr": 3}, 'the payload of "ship" '),
        ({"order": 3, "speed": 1}, 'the payload of "ship" has "speed"'),
        ({"order": {3}}, "payload/order is a set, which is not JSON; use a list"),
    ],
)
def test_a_payload_that_does_not_fit_the_function_is_refused(app: Chronos, payload: Any, message: str) -> None:
    @app.job
    def ship(order: int, carrier: str = "post") -> None: ...

    with pytest.raises(Invalid, match=message):
        ship.trigger(payload)
    with pytest.raises(Invalid, match=message):
        app.trigger("ship", payload)
    assert ship.executions() == []
    assert ship.trigger({"order": 3}).status == "ready"


def test_a_payload_for_a_function_without_parameters_is_accepted(app: Chronos) -> None:
    @app.job
    def plain() -> None: ...

    @app.job
    def with_context(ctx: Context, **others: Any) -> None: ...

    assert plain.trigger("x").status == "ready"
    assert with_context.trigger({"any": "name"}).status == "ready"


def test_the_same_key_is_the_same_run(app: Chronos) -> None:
    @app.job
    def job() -> None: ...

    assert job.trigger(key="order-1").id == job.trigger(key="order-1").id != job.trigger(key="order-2").id


def test_a_job_is_read_paused_and_disabled(app: Chronos) -> None:
    @app.job(cron="0 9 * * *", timezone="Europe/Paris", tags={"team": "money"}, description="Daily")
    def digest() -> None: ...

    @app.job
    def manual() -> None: ...

    due = digest.next_run
    assert due is not None
    assert due > datetime.now(UTC)
    assert (digest.is_active, digest.is_enabled, digest.is_paused, digest.is_running) == (True, True, False, False)
    digest.pause("audit")
    assert (digest.is_paused, digest.next_run, digest.info().note) == (True, None, "audit")
    assert (digest.is_active, digest.is_enabled) == (True, False)
    digest.resume()
    assert (digest.is_paused, digest.next_run) == (False, due)
    digest.disable()
    assert (digest.is_enabled, digest.next_run) == (False, None)
    digest.enable()
    assert (digest.is_enabled, digest.next_run) == (True, due)
    digest.stop("holidays")
    assert (digest.is_enabled, digest.info().note) == (False, "holidays")
    digest.start()
    assert (digest.is_enabled, digest.next_run) == (True, due)
    assert manual.next_run is None
    assert not manual.is_active
    assert manual.is_enabled
    assert [job.name for job in app.all_jobs()] == ["digest", "manual"]
    info = app.get("digest").info()
    assert isinstance(info, JobInfo)
    assert (info.schedule, info.timezone, info.tags, info.state) == (
        "0 9 * * *",
        "Europe/Paris",
        {"team": "money"},
        "active",
    )


def test_a_backfill_continues_as_the_queue_empties(app: Chronos) -> None:
    @app.job(cron="0 * * * *", start="2026-01-01T00:00:00Z", queue_max=1)
    def hourly() -> None: ...

    with app:
        runs = hourly.backfill("2026-01-02T00:00:00Z", "2026-01-02T05:00:00Z")
        assert [run.wait(timeout=SOON_S).scheduled_at.hour for run in runs] == [0, 1, 2, 3, 4, 5]


def test_a_backfill_gives_up_when_the_queue_does_not_move(app: Chronos, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronos.sdk.backfill._MAX_WAIT_S", 0.0)

    @app.job(cron="0 * * * *", start="2026-01-01T00:00:00Z", queue_max=1)
    def hourly() -> None: ...

    with pytest.raises(
        QueueFull, match="2 runs are requested, all before 2026-01-02T02:00:00Z; continue from there later: "
    ):
        hourly.backfill("2026-01-02T00:00:00Z", "2026-01-02T05:00:00Z")


@pytest.mark.parametrize("at_once", [10_000, 2, 1])
def test_history_and_backfill(app: Chronos, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr("chronos.service.backfill.MAX_BACKFILL", at_once)

    @app.job(cron="0 * 2 1 *", overlap="queue", start="2026-01-01T00:00:00Z")
    def hourly() -> None: ...

    with app:
        runs = hourly.backfill("2026-01-02T00:00:00Z", datetime(2026, 1, 2, 2, tzinfo=UTC))
        assert [run.wait(timeout=SOON_S).status for run in runs] == ["succeeded"] * 3
        past = [item for item in hourly.executions(limit=10) if isinstance(item, RunInfo)]
    assert [item.scheduled_at.hour for item in past] == [2, 1, 0]
    assert {item.trigger for item in past} == {"backfill"}


def test_unknown_jobs_and_runs_raise_not_found(app: Chronos) -> None:
    @app.job
    def digest() -> None: ...

    with pytest.raises(NotFound, match="did you mean 'digest'"):
        app.trigger("digset")
    with pytest.raises(NotFound):
        app.get("ghost").info()
    with pytest.raises(NotFound):
        app.get_run("ghost")
    with pytest.raises(NotFound):
        app.get_run("00000000-0000-8000-8000-000000000000").info()


def test_starting_and_stopping_twice_is_a_no_op(app: Chronos) -> None:
    @app.job
    def job() -> int:
        return 1

    app.stop()
    app.start()
    app.start()
    assert job.trigger().result(timeout=SOON_S) == 1
    app.stop()
    app.stop()
    app.start()
    assert job.trigger().result(timeout=SOON_S) == 1
