"""Stores in schemas of their own: two in one database know nothing of each other."""

import asyncio

import asyncpg
import pytest

from chronos.core.config import Overlap
from chronos.errors import StoreBroken
from chronos.store.contract import Hint
from chronos.store.sql.postgres.advisory_locks import AdvisoryLock
from chronos.store.sql.postgres.partitions import WEEK_US
from chronos.store.sql.postgres.store import PostgresStore
from chronos.testing.conformance import StoreFixture
from tests.support.databases import on_server, opened


def in_schema(url: str, schema: str) -> str:
    """Return the URL of a store in another schema."""
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


def test_two_schemas_are_two_stores(postgres_url: str) -> None:
    async def check() -> None:
        urls = [in_schema(postgres_url, schema) for schema in ("chronos", "user")]  # a reserved word
        stores = [PostgresStore(url) for url in urls]
        await asyncio.gather(*(store.open() for store in stores))
        try:
            one, other = map(StoreFixture, stores)
            assert [await fixture.start_node() for fixture in (one, other)] == [1, 1]
            await one.save("job", overlap=Overlap.QUEUE)
            assert await stores[1].job_named("default", "job") is None
            await other.save("job", description="theirs", overlap=Overlap.QUEUE)
            for fixture in (one, other):
                execution = await fixture.admit_one()
                assert (await fixture.settle(execution)).settled == [execution.id]
                assert await fixture.store.verify() == []
                assert await fixture.store.check_statements() == []
        finally:
            await asyncio.gather(*(store.close() for store in stores))
        tables = await on_server(
            postgres_url,
            "select array_agg(relname order by relname) from pg_class "
            "where relnamespace in ('chronos'::regnamespace, '\"user\"'::regnamespace) group by relnamespace",
        )
        assert len(tables) == 2
        assert tables[0] == tables[1]

    asyncio.run(check())


def test_hints_stay_in_their_schema(postgres_url: str) -> None:
    async def check() -> None:
        async with (
            opened(in_schema(postgres_url, "one")) as one,
            opened(in_schema(postgres_url, "one")) as second,
            opened(in_schema(postgres_url, "two")) as other,
        ):
            hinted = asyncio.Event()
            strange: list[Hint] = []
            second.on_hint(lambda _: hinted.set())
            other.on_hint(strange.append)
            await StoreFixture(one).save("job")
            await asyncio.wait_for(hinted.wait(), 60)
            await other.clock_us()
            assert strange == []

    asyncio.run(check())


def test_locks_of_one_schema_do_not_hold_up_another(postgres_url: str) -> None:
    async def check() -> None:
        url = in_schema(postgres_url, "two")
        async with opened(in_schema(postgres_url, "one")), opened(url) as store:
            holder = await asyncpg.connect(postgres_url)
            for lock in AdvisoryLock:
                await holder.execute(f"select pg_advisory_lock({lock.key('one')})")
            fixture = StoreFixture(store)
            await fixture.start_node()
            await fixture.save("job", lane="lane")
            await store.maintain(fixture.now_us + 3 * WEEK_US)
            async with opened(url) as again:
                assert await again.job_named("default", "job") is not None
            weeks = (
                "select count(*) from pg_class where relname like 'history_2%' and relkind = 'r' group by relnamespace"
            )
            assert len({row[0] for row in await holder.fetch(weeks)}) == 2, "upkeep made partitions in one schema only"
            await holder.close()

    asyncio.run(check())


def test_keys_of_locks_differ_and_stay_the_same() -> None:
    keys = [lock.key(schema) for schema in ("chronos", "one", "two") for lock in AdvisoryLock]
    assert len(set(keys)) == len(keys)
    assert all(0 < key < 2**63 for key in keys)
    assert [lock.key("chronos") for lock in AdvisoryLock] == [0x6368726F01, 0x6368726F02, 0x6368726F03, 0x6368726F04]


def test_another_schema_is_suggested_if_the_name_is_taken(postgres_url: str) -> None:
    asyncio.run(on_server(postgres_url, "create schema jobs", "create table jobs.theirs (id int)"))
    with pytest.raises(StoreBroken, match=r'schema "jobs" with other tables; name another schema .*\?schema=NAME'):
        asyncio.run(PostgresStore(in_schema(postgres_url, "jobs")).open())
