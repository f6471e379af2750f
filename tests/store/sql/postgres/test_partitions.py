"""Weekly partitions on PostgreSQL: created ahead, dropped after retention, and never blocking."""

import asyncio
from datetime import UTC, datetime

import asyncpg
import pytest

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Cause
from chronos.core.ids import scheduled_execution_id
from chronos.store.commands import OutputRow, Recover, RunRow, WriteOutput
from chronos.store.contract import ExecutionFilter
from chronos.store.sql.postgres.partitions import WEEK_US, WEEKS_AHEAD, to_week_start_us
from chronos.testing.conformance import StoreFixture
from chronos.testing.conformance.fixture import SECOND_US, ended_attempt
from tests.support.databases import on_server, opened

PARTITIONS = """
    select c.relname from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'chronos.history'::regclass order by 1"""
MONDAY = int(datetime(2027, 3, 1, tzinfo=UTC).timestamp()) * SECOND_US


async def weeks(url: str) -> list[str]:
    """Return the partitions of history, by their dates."""
    return [row[0].removeprefix("history_") for row in await on_server(url, PARTITIONS)]


async def count(url: str, table: str) -> int:
    """Return the number of rows of a table."""
    [(rows,)] = await on_server(url, f"select count(*) from chronos.{table}")
    return int(rows)


async def run_at(fixture: StoreFixture, at_us: int, **options: int) -> bytes:
    """Run one execution of a job at an instant to its end, with a recorded attempt."""
    fixture.now_us = at_us
    await fixture.save("job", overlap=Overlap.ALLOW, next_us=at_us, description=str(at_us), **options)
    run = await fixture.admit_one("job")
    await fixture.store.apply(WriteOutput(rows=(OutputRow(run.id, "task", 1, 0, "said"),)))
    await fixture.settle(run, attempts=(ended_attempt(run, 1, AttemptStatus.SUCCEEDED),))
    return run.id


def test_weeks_begin_on_monday() -> None:
    assert to_week_start_us(MONDAY) == MONDAY
    assert to_week_start_us(MONDAY - 1) == MONDAY - WEEK_US
    assert to_week_start_us(MONDAY + WEEK_US - 1) == MONDAY


def test_a_new_store_has_partitions_from_the_current_week_on(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            now_us = await store.clock_us()
            assert now_us is not None
            dates = [
                datetime.fromtimestamp(to_week_start_us(now_us + i * WEEK_US) / 1e6, UTC)
                for i in range(WEEKS_AHEAD + 1)
            ]
            assert await weeks(postgres_url) == [*(f"{date:%Y%m%d}" for date in dates), "default"]
            await store.maintain(now_us)
            assert len(await weeks(postgres_url)) == WEEKS_AHEAD + 2

    asyncio.run(check())


def test_weeks_are_created_ahead_and_dropped_after_retention(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            fixture = StoreFixture(store)
            keep = {"keep_age_us": 2 * WEEK_US}
            await store.maintain(MONDAY)
            old = await run_at(fixture, MONDAY + SECOND_US, **keep)
            assert await count(postgres_url, "history_20270301") == 1
            assert await count(postgres_url, "attempt_20270301") == 1
            assert await count(postgres_url, "output_20270301") == 1
            later = MONDAY + 3 * WEEK_US
            await store.maintain(later - SECOND_US)
            assert "20270301" in await weeks(postgres_url), "its last instant is not two weeks old"
            assert "20270329" in await weeks(postgres_url)
            young = await run_at(fixture, later + SECOND_US, **keep)
            await store.maintain(later)
            assert "20270301" not in await weeks(postgres_url)
            assert await store.execution(old) is None
            view = await store.execution(young)
            assert view is not None
            assert len(view.attempts) == 1
            assert (await store.output(old), len(await store.output(young))) == ([], 1)
            [(left,)] = await on_server(postgres_url, "select to_regclass('chronos.attempt_20270301')::text")
            assert left is None
            assert await store.verify() == []

    asyncio.run(check())


def test_the_longest_retention_of_any_node_counts(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as one, opened(postgres_url) as other:
            await one.maintain(MONDAY)
            run = await run_at(StoreFixture(one), MONDAY + SECOND_US, keep_age_us=WEEK_US)
            await StoreFixture(other).save("careful", keep_age_us=50 * WEEK_US)
            await StoreFixture(one).save("careless", keep_age_us=WEEK_US)
            await one.maintain(MONDAY + 40 * WEEK_US)
            assert await one.execution(run) is not None
            await one.maintain(MONDAY + 51 * WEEK_US)
            assert await one.execution(run) is None

    asyncio.run(check())


def test_the_week_of_an_open_execution_is_kept(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            fixture = StoreFixture(store)
            await store.maintain(MONDAY)
            await fixture.save("job", next_us=MONDAY + SECOND_US, keep_age_us=WEEK_US)
            run = await fixture.admit_one("job")
            await store.maintain(MONDAY + 10 * WEEK_US)
            assert "20270301" in await weeks(postgres_url)
            await fixture.settle(run)
            await store.maintain(MONDAY + 10 * WEEK_US)
            assert "20270301" not in await weeks(postgres_url)

    asyncio.run(check())


def test_default_rows_move_to_their_week_when_it_is_created(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            run = await run_at(StoreFixture(store), MONDAY + SECOND_US)
            assert await count(postgres_url, "history_default") == 1
            await store.maintain(MONDAY)
            assert await count(postgres_url, "history_default") == 0
            assert await count(postgres_url, "history_20270301") == 1
            view = await store.execution(run)
            assert view is not None
            assert len(view.attempts) == 1
            page = await store.list_executions(ExecutionFilter(), limit=5)
            assert [item.id for item in page.items] == [run]

    asyncio.run(check())


def test_too_many_default_rows_stay_until_they_expire(postgres_url: str) -> None:
    many = f"""
        insert into chronos.history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us,
            finished_us)
        select ('{(MONDAY // 1000).to_bytes(6).hex()}' || lpad(to_hex(i), 20, '0'))::uuid, gen_random_uuid(), 1, 1, 0,
            10, 'succeeded', 1, 1, 0, 0 from generate_series(1, 10500) as i"""

    async def check() -> None:
        async with opened(postgres_url) as store:
            await StoreFixture(store).save("job", keep_age_us=WEEK_US)
            await on_server(postgres_url, many)
            await store.maintain(MONDAY)
            assert "20270301" not in await weeks(postgres_url)
            assert "20270308" in await weeks(postgres_url)
            for _ in range(12):
                await store.maintain(MONDAY + 3 * WEEK_US)
            assert await count(postgres_url, "history_default") == 0

    asyncio.run(check())


def test_a_table_in_use_is_left_for_later(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            fixture = StoreFixture(store)
            await store.maintain(MONDAY)
            await run_at(fixture, MONDAY + SECOND_US, keep_age_us=WEEK_US)
            reader = await asyncpg.connect(postgres_url)
            try:
                async with reader.transaction():
                    await reader.fetch("select count(*) from chronos.history")
                    await asyncio.wait_for(store.maintain(MONDAY + 5 * WEEK_US), 60)
                    assert "20270301" in await weeks(postgres_url)
                    await run_at(fixture, MONDAY + 2 * SECOND_US, keep_age_us=WEEK_US)
            finally:
                await reader.close()
            await store.maintain(MONDAY + 5 * WEEK_US)
            assert "20270301" not in await weeks(postgres_url)

    asyncio.run(check())


def test_half_dropped_partitions_are_dropped_and_detached_ones_are_kept(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            await store.maintain(MONDAY)
            await on_server(
                postgres_url,
                "alter table chronos.history detach partition chronos.history_20270301",
                "alter table chronos.history detach partition chronos.history_20270308",
                "alter table chronos.history_20270308 rename to history_gone_20270308",
            )
            await StoreFixture(store).save("job", keep_age_us=WEEK_US)
            await store.maintain(MONDAY + 3 * WEEK_US)
            [(gone, kept)] = await on_server(
                postgres_url,
                "select to_regclass('chronos.history_gone_20270308'), to_regclass('chronos.history_20270301')",
            )
            assert gone is None
            assert kept is not None

    asyncio.run(check())


async def recovered(fixture: StoreFixture, at_us: int, now_us: int, **options: int) -> bytes:
    """Run an execution long after its instant, with a recorded attempt."""
    fixture.now_us = now_us
    saved = await fixture.save("late", overlap=Overlap.ALLOW, next_us=at_us, description=str(at_us), **options)
    run = RunRow(scheduled_execution_id(saved.id, at_us), Cause.RECOVERY, at_us, at_us)
    gap = Recover(
        job=saved.id,
        version=saved.version,
        expect_us=at_us,
        next_us=now_us + WEEK_US,
        runs=(run,),
        spans=(),
        now_us=now_us,
    )
    await fixture.store.apply(gap)
    [claimed] = await fixture.claim()
    await fixture.store.apply(WriteOutput(rows=(OutputRow(run.id, "task", 1, 0, "said"),)))
    await fixture.settle(claimed, attempts=(ended_attempt(claimed, 1, AttemptStatus.SUCCEEDED),))
    return run.id


@pytest.mark.parametrize("week", [True, False])
def test_executions_that_ended_recently_are_kept_however_old_their_instant(postgres_url: str, week: bool) -> None:
    """In the partition of its week, and in the default partition."""

    async def check() -> None:
        async with opened(postgres_url) as store:
            fixture = StoreFixture(store)
            if week:
                await store.maintain(MONDAY)
            now_us = MONDAY + 20 * WEEK_US
            late = await recovered(fixture, MONDAY + SECOND_US, now_us, keep_age_us=2 * WEEK_US)
            for _ in range(2):
                await store.maintain(now_us + WEEK_US)
                view = await store.execution(late)
                assert view is not None
                assert (len(view.attempts), len(await store.output(late))) == (1, 1)
            for _ in range(2):
                await store.maintain(now_us + 3 * WEEK_US)
            assert await store.execution(late) is None
            assert [await count(postgres_url, table) for table in ("history", "attempt", "output")] == [0, 0, 0]
            assert "20270301" not in await weeks(postgres_url)

    asyncio.run(check())
