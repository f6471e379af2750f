"""The levels above jobs, on every engine: defaults change what is admitted, and neither jobs nor gates."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from msgspec import structs

from chronos.core.admission_policy import build_gate_spec
from chronos.core.config import NOTHING_SET, Overlap, Settings, resolve_settings
from chronos.core.execution import Execution, Status
from chronos.core.lane import build_lane
from chronos.core.settings.gate_profile import build_gate_settings
from chronos.core.settings.levels import Levels
from chronos.store.commands import Admit, SaveJobs, SetDefaults
from chronos.store.contract import ExecutionFilter, Store
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.query import Query
from chronos.store.sql.sqlite.memory import MemoryStore
from chronos.testing.conformance import StoreFixture
from chronos.testing.conformance.fixture import admit_row
from tests.support.setting_strategies import settings

Make = Callable[[], Store]
ALLOW, QUEUE = Settings(overlap=Overlap.ALLOW), Settings(overlap=Overlap.QUEUE)


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "sqlite":
        return MemoryStore
    url = request.getfixturevalue("postgres_url")
    return lambda: PostgresStore(url)


def run(make: Make, check: Callable[[Store, StoreFixture], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with opened(make) as store:
            await check(store, StoreFixture(store))
            assert await store.verify() == []

    asyncio.run(main())


@asynccontextmanager
async def opened(make: Make) -> AsyncIterator[Store]:
    store = make()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def save(fixture: StoreFixture, name: str = "job", own: Settings = NOTHING_SET, **options: Any) -> None:
    """Save a job that inherits what it does not set."""
    if not fixture.node:
        await fixture.start_node()
    row = fixture.build_job_row(name, **options)
    spec = structs.replace(row.spec, settings=own)
    row = structs.replace(row, spec=spec, gate=build_gate_settings(spec))
    await fixture.store.apply(SaveJobs(rows=(row,), now_us=fixture.now_us))


async def set_defaults(fixture: StoreFixture, level: Settings) -> int:
    return await fixture.store.apply(SetDefaults(settings=level, now_us=fixture.tick(1)))


async def admit(fixture: StoreFixture, name: str = "job", levels: int | None = None) -> list[Status]:
    job = await fixture.job(name)
    assert job.next_us is not None
    row = admit_row(job, job.next_us, job.next_us + 1_000_000, claim=True)
    fixture.now_us = max(fixture.now_us, job.next_us)
    row = row._replace(levels=job.levels if levels is None else levels)
    command = Admit(rows=(row,), node=fixture.node, now_us=fixture.now_us, request=fixture.new_request_id())
    return [answer.status for answer in await fixture.store.apply(command)]


def test_a_default_takes_effect_at_the_next_admission_of_every_job(make: Make) -> None:
    async def check(store: Store, fixture: StoreFixture) -> None:
        await save(fixture, "plain")
        await save(fixture, "own", QUEUE)
        for name in ("plain", "own"):
            assert await admit(fixture, name) == [Status.RUNNING]
        assert await admit(fixture, "plain") == [Status.SKIPPED]
        before = [await fixture.job(name) for name in ("plain", "own")]
        assert await set_defaults(fixture, ALLOW) == 1
        for old in before:
            job = await fixture.job(old.name)
            assert (job.version, job.spec, job.updated_us) == (old.version, old.spec, old.updated_us)
            assert Levels.unpack(job.levels) == (1, 0)
        assert await admit(fixture, "plain") == [Status.RUNNING]
        assert await admit(fixture, "own") == [Status.QUEUED]

    run(make, check)


def test_the_same_defaults_are_not_a_new_version(make: Make) -> None:
    async def check(store: Store, fixture: StoreFixture) -> None:
        assert await set_defaults(fixture, NOTHING_SET) == 0
        assert [await set_defaults(fixture, level) for level in (ALLOW, ALLOW, QUEUE, ALLOW)] == [1, 1, 2, 3]
        found = await store.settings_at([("", number) for number in range(5)])
        assert found == {("", 1): ALLOW, ("", 2): QUEUE, ("", 3): ALLOW}
        [current] = (await store.current_levels(["unknown"])).values()
        assert current == (Levels(3, 0), ALLOW, NOTHING_SET)

    run(make, check)


def test_a_node_that_prepared_under_older_defaults_loses_the_instant(make: Make) -> None:
    async def check(store: Store, fixture: StoreFixture) -> None:
        await save(fixture)
        await set_defaults(fixture, ALLOW)
        assert await admit(fixture, levels=0) == []
        assert [due.levels for due in await store.due(1 << 60, 9)] == [Levels(1, 0).pack()]
        assert await admit(fixture) == [Status.RUNNING]

    run(make, check)


def test_an_execution_keeps_the_numbers_it_was_admitted_under(make: Make) -> None:
    async def check(store: Store, fixture: StoreFixture) -> None:
        await set_defaults(fixture, ALLOW)
        await save(fixture)
        await admit(fixture)
        await set_defaults(fixture, QUEUE)
        await admit(fixture)
        page = await store.list_executions(ExecutionFilter(), limit=9)
        [first, second] = sorted(
            (item for item in page.items if isinstance(item, Execution)), key=lambda item: item.scheduled_us
        )
        assert [Levels.unpack(item.levels) for item in (first, second)] == [(1, 0), (2, 0)]
        assert (first.status, second.status) == (Status.RUNNING, Status.QUEUED)
        [claimed] = await store.running_on(fixture.node)
        assert claimed.levels == first.levels

    run(make, check)


@given(server=settings(), own=settings(), then=settings())
@hypothesis_settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_gate_has_the_value_of_the_innermost_level(
    make: Make, server: Settings, own: Settings, then: Settings
) -> None:
    """Whatever the levels, before and after a change of the defaults."""

    async def check() -> None:
        async with opened(make) as store:
            fixture = StoreFixture(store)
            name = f"job-{blake2b(repr((server, own, then)).encode(), digest_size=8).hexdigest()}"
            for level in (server, then):
                await set_defaults(fixture, level)
                if await store.job_named("default", name) is None:
                    await save(fixture, name, own)
                job = await fixture.job(name)
                effective = resolve_settings(level, own)
                wanted = build_gate_spec(effective, build_lane(job.spec, effective).text)
                [due] = [one for one in await store.due(1 << 60, 1_000) if one.job == job.id]
                assert (await store.lanes())[due.lane] == wanted.lane
                assert due.needs_gate_lock == (wanted.keyed or wanted.overlap is Overlap.REPLACE)
                [row] = await store._read(profile_of(job.id))  # type: ignore[attr-defined]
                assert row == (
                    *(list(Overlap).index(wanted.overlap), wanted.limit, wanted.queue_max, wanted.priority),
                    *(int(wanted.keyed), wanted.key, wanted.key_limit, wanted.keep_count, wanted.keep_age_us),
                )

    asyncio.run(check())


def profile_of(job: bytes) -> Any:
    sql = """
        select p.overlap, p.lim, p.queue_max, p.priority, p.keyed, p.key, p.key_limit, p.keep_count, p.keep_age_us
        from gate as g join profile as p on p.number = g.profile where g.job = $1"""
    return (yield Query(sql, (job,)))
