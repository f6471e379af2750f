"""The fixture ``chronos``: an app's jobs in virtual time."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from chronos import testing
from chronos.errors import Invalid, NotFound
from chronos.sdk.app import Chronos
from chronos.sdk.info import SpanInfo
from chronos.testing.harness import Harness
from chronos.testing.plugin import chronos as fixture


@pytest.fixture
def chronos(request: pytest.FixtureRequest) -> Iterator[Harness]:
    yield from fixture.__wrapped__(request)  # type: ignore[attr-defined]


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def test_a_day_with_a_daylight_saving_change(chronos: Harness) -> None:
    app = Chronos("sqlite:///never-made.db")
    seen = []

    @app.job(cron="30 2 * * *", timezone="Europe/Paris")
    def backup() -> str:
        seen.append(chronos.clock.now)
        return "saved"

    chronos.load(app)
    chronos.clock.set("2027-03-27T12:00", tz="Europe/Paris")
    runs = chronos.advance(days=1)
    assert [run.scheduled_at for run in runs["backup"]] == [
        at(2027, 3, 28, 1)
    ]  # 02:30 does not exist: it runs right after
    [run] = runs["backup"]
    assert (run.status, run.result, run.attempts, run.error) == ("succeeded", "saved", 1, None)
    assert run.started_at == run.finished_at == at(2027, 3, 28, 1) == seen[0]
    assert [run.scheduled_at for run in chronos.advance(days=1)["backup"]] == [at(2027, 3, 29, 0, 30)]


def test_an_instant_at_the_end_is_included_once(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(cron="0 * * * *")
    def hourly() -> None: ...

    chronos.load(app)
    assert len(chronos.advance(hours=2)["hourly"]) == 2
    assert chronos.clock.now == at(2027, 1, 1, 2)
    assert [run.scheduled_at.hour for run in chronos.advance_to("2027-01-01T04:59")["hourly"]] == [3, 4]


def test_retries_and_virtual_sleep(chronos: Harness) -> None:
    app = Chronos("sqlite://")
    attempts = []

    @app.job(every="1h", retries=2, timeout="30m")
    async def flaky() -> None:
        attempts.append(chronos.clock.now)
        await asyncio.sleep(600)
        raise ValueError("no luck")

    chronos.load(app)
    [run] = chronos.advance(hours=1.9)["flaky"]
    assert run.status == "failed"
    assert run.error is not None
    assert "no luck" in run.error
    assert len(attempts) == 3
    assert attempts[1] - attempts[0] > timedelta(minutes=10)


def test_a_trigger_runs_to_its_end(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job
    async def greet(name: str) -> str:
        await asyncio.sleep(90)
        return f"hello {name}"

    chronos.load(app)
    start = chronos.clock.now
    run = chronos.trigger("greet", {"name": "Ada"})
    assert (run.status, run.result, run.trigger) == ("succeeded", "hello Ada", "manual")
    assert chronos.clock.now - start == timedelta(seconds=90)
    assert chronos.executions("greet") == [run]


def test_webhooks_and_commands_are_not_executed(chronos: Harness) -> None:
    app = Chronos("sqlite://")
    app.webhook("sync", "https://api.example/sync", cron="0 * * * *", retries=0)
    app.command("dump", ["pg_dump"], cron="0 * * * *", retries=0)
    chronos.load(app)
    assert [run.status for run in chronos.advance(hours=1)["sync"]] == ["succeeded"]
    chronos.answer("sync", error="503")
    runs = chronos.advance(hours=1)
    assert [(run.status, run.error) for run in runs["sync"]] == [("failed", "503")]
    assert [run.status for run in runs["dump"]] == ["succeeded"]


def test_overlapping_runs_are_recorded_as_skipped(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(cron="*/20 * * * *", overlap="skip", timeout="1h")
    async def slow() -> None:
        await asyncio.sleep(1_800)

    chronos.load(app)
    assert len(chronos.advance(minutes=80)["slow"]) == 2
    assert [run.status for run in chronos.executions("slow")] == ["succeeded", "skipped", "running", "skipped"]


def test_a_jump_of_the_clock_follows_the_recovery_strategy(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(cron="0 * * * *", recovery="all")
    def hourly() -> None: ...

    chronos.load(app)
    chronos.advance(minutes=30)
    chronos.clock.jump(timedelta(hours=3))
    runs = chronos.advance(minutes=1)["hourly"]
    assert [(run.scheduled_at.hour, run.trigger) for run in runs] == [(n, "recovery") for n in (1, 2, 3)]
    chronos.clock.jump(timedelta(hours=-2))
    assert chronos.advance(hours=2)["hourly"] == []


def test_missed_and_skipped_spans_are_on_record(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(cron="0 * * * *", recovery="skip")
    def hourly() -> None: ...

    chronos.load(app)
    chronos.advance("1 hour")
    chronos.clock.jump("5 hours")
    chronos.advance("1 hour")
    first, missed, last = chronos.executions("hourly")
    assert isinstance(missed, SpanInfo)
    assert (missed.status, missed.first.hour, missed.last.hour, missed.count) == ("missed", 2, 6, 5)
    assert (first.status, last.status) == ("succeeded", "succeeded")


def test_a_month_of_half_hourly_runs_passes(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(cron="*/30 * * * *")
    async def poll() -> None: ...

    chronos.load(app)
    runs = chronos.advance(days=30)["poll"]
    assert len(runs) == 30 * 48
    assert {run.status for run in runs} == {"succeeded"}
    assert all(run.started_at == run.scheduled_at for run in runs)


def test_misuse_is_rejected(chronos: Harness) -> None:
    with pytest.raises(Invalid, match="load"):
        chronos.advance(days=1)
    app = Chronos("sqlite://")
    chronos.load(app)
    with pytest.raises(Invalid, match="back"):
        chronos.advance(days=-1)
    assert chronos.advance(days=1) == {}
    with pytest.raises(Invalid, match="no job"):
        chronos.executions("nothing")
    with pytest.raises(NotFound):
        chronos.trigger("nothing")
    with pytest.raises(Invalid, match="passed"):
        chronos.load(app)


def test_time_does_not_go_back(chronos: Harness) -> None:
    chronos.load(Chronos("sqlite://"))
    with pytest.raises(Invalid, match=r"back by 1:00:00 \(the clock shows 2027-01-01T00:00:00Z\)"):
        chronos.advance_to("2026-12-31T23:00")


def test_an_answer_needs_an_existing_webhook_or_command(chronos: Harness) -> None:
    app = Chronos("sqlite://")
    app.webhook("sync", "https://api.example/sync", cron="0 * * * *")

    @app.job(cron="0 * * * *")
    def real() -> None: ...

    chronos.answer("snyc", error="503")
    with pytest.raises(Invalid, match='no job "snyc"; its jobs: real, sync'):
        chronos.load(app)
    fresh = Harness()
    fresh.load(app)
    for name, match in (("snyc", "no job"), ("real", "needs no answer")):
        with pytest.raises(Invalid, match=match):
            fresh.answer(name, error="503")
    fresh.close()


def test_a_trigger_that_never_ends_is_an_error(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(timeout="500d", execution_timeout="500d")
    async def hangs() -> None:
        await asyncio.Event().wait()

    chronos.load(app)
    with pytest.raises(Invalid, match='"hangs" is still running after a year'):
        chronos.trigger("hangs")


def test_time_advances_by_a_duration_as_text(chronos: Harness) -> None:
    chronos.load(Chronos("sqlite://"))
    for text, passed in (("1h30m", "1:30:00"), ("1 day", "1 day, 0:00:00"), ("1 hour 30 minutes", "1:30:00")):
        start = chronos.clock.now
        chronos.advance(text)
        assert str(chronos.clock.now - start) == passed
    chronos.clock.jump("2 weeks")
    assert chronos.clock.now - start == timedelta(days=14, hours=1, minutes=30)
    for text in ("soon", "1 month", "1 day at 9am", "", "-1h"):
        with pytest.raises(Invalid, match=f'invalid duration "{text}"; use days=1'):
            chronos.advance(text)
    with pytest.raises(Invalid, match='invalid duration "90"; use days=1'):
        chronos.advance(90)  # type: ignore[arg-type]


def test_a_harness_is_not_used_on_an_event_loop(chronos: Harness) -> None:
    async def test() -> None:
        chronos.advance(days=1)

    chronos.load(Chronos("sqlite://"))
    with pytest.raises(Invalid, match=r"in an async test use await chronos\.aadvance\(…\)"):
        asyncio.run(test())


def test_an_async_test_awaits_the_harness() -> None:
    app = Chronos("sqlite://")

    @app.job(cron="0 * * * *")
    async def hourly() -> int:
        await asyncio.sleep(60)
        return 1

    async def test() -> None:
        harness = Harness()
        harness.load(app)
        assert len((await harness.aadvance("2 hours"))["hourly"]) == 2
        assert [run.scheduled_at.hour for run in (await harness.aadvance_to("2027-01-01T03:30"))["hourly"]] == [3]
        assert (await harness.atrigger("hourly")).result == 1
        assert len(await harness.aexecutions("hourly")) == 4
        await harness.aclose()

    asyncio.run(test())


def test_many_short_steps_equal_one_long_step(chronos: Harness) -> None:
    app = Chronos("sqlite://")

    @app.job(cron="*/10 * * * *")
    async def poll() -> None:
        await asyncio.sleep(0.5)

    chronos.load(app)
    steps = [len(chronos.advance(minutes=1)["poll"]) for _ in range(60)]
    assert steps == ([0] * 9 + [1]) * 6


def test_public_names_are_imported_on_first_use() -> None:
    assert [getattr(testing, name).__name__ for name in testing.__all__] == testing.__all__
    with pytest.raises(AttributeError, match="nothing"):
        testing.nothing  # noqa: B018
