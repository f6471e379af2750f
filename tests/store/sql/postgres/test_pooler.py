"""A store behind PgBouncer: session mode works, and transaction mode is refused."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from chronos.core.config import Overlap
from chronos.errors import StoreBroken, StoreUnavailable
from chronos.store.commands import NEW
from chronos.store.contract import Hint
from chronos.store.sql.postgres.database_url import ConnectionAddress
from chronos.store.sql.postgres.errors import to_store_error
from chronos.store.sql.postgres.store import PostgresStore
from chronos.testing.conformance import CASES, Case, StoreFixture, run
from tests.support.databases import database_url, on_server, opened
from tests.support.pgbouncer import pooled
from tests.support.tcp_proxy import proxied

pytestmark = pytest.mark.needs("pgbouncer")


@pytest.fixture(scope="module")
def session_pooler(postgres_server: str) -> Iterator[str]:
    """The URL of a pooler in session mode, with the settings of its package."""
    with pooled(postgres_server, "session") as url:
        yield url


@pytest.fixture
def session_url(session_pooler: str, prepared_url: str) -> str:
    """The URL of a prepared store behind a pooler in session mode."""
    return database_url(session_pooler, ConnectionAddress.of(prepared_url).database)


@pytest.mark.parametrize("case", CASES[::8], ids=lambda case: case.__name__.removeprefix("case_"))
def test_session_mode_keeps_the_contract(session_url: str, case: Case) -> None:
    async def check() -> None:
        async with opened(session_url) as store:
            await run(case, store)

    asyncio.run(check())


def test_an_empty_database_is_prepared_through_a_pooler(session_pooler: str, postgres_url: str) -> None:
    async def check() -> None:
        async with opened(database_url(session_pooler, ConnectionAddress.of(postgres_url).database)) as store:
            await StoreFixture(store).save("job")
            assert await store.verify() == []
            assert await store.check_statements() == []

    asyncio.run(check())


def test_one_database_may_be_in_session_mode(prepared_url: str) -> None:
    async def check(url: str) -> None:
        async with opened(url) as store:
            await StoreFixture(store).save("job")

    with pooled(prepared_url, "transaction", database="pool_mode=session pool_size=7") as url:
        asyncio.run(check(url))


def test_hints_pass_through_a_pooler_but_not_back(session_url: str) -> None:
    async def check() -> None:
        async with opened(session_url) as one, opened(session_url) as other:
            hinted = asyncio.Event()
            own_hints: list[Hint] = []
            other.on_hint(lambda _: hinted.set())
            fixture = StoreFixture(one)
            await fixture.start_node()
            one.on_hint(own_hints.append)
            for description in ("one", "two"):
                hinted.clear()
                await fixture.save("job", description=description)
                await asyncio.wait_for(hinted.wait(), 60)
            assert len(own_hints) == 2, "the hints of this node must not come back to it"

    asyncio.run(check())


def test_the_pooler_forgets_the_settings_of_a_closed_store(prepared_url: str) -> None:
    with pooled(prepared_url, "session", default_pool_size=8) as url:

        async def check() -> None:
            async with opened(url) as store:
                await StoreFixture(store).save("job")
                [(before,)] = await on_server(url, "show search_path")
            others = [await asyncpg.connect(url) for _ in range(8)]
            for other in others:
                assert await other.fetchval("show search_path") == before
                assert await other.fetchval("show enable_seqscan") == "on"
                await other.close()

        asyncio.run(check())


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_change_whose_commit_is_cut_off_is_applied_once(session_url: str, cut: str) -> None:
    async def check() -> None:
        async with proxied(session_url) as proxy, opened(proxy.url, work_connections=1) as store:
            fixture = StoreFixture(store)
            await fixture.start_node()
            (proxy.cut_after if cut == "after" else proxy.cut_before)(lambda data: b"; commit\0" in data)
            assert (await fixture.save("new", expect=NEW)).created
            assert proxy.cuts == 1
            assert await store.verify() == []

    asyncio.run(check())


def test_a_session_that_another_client_has_taken_over_is_not_ended(prepared_url: str) -> None:
    async def list_writers() -> set[int]:
        writers = "select pid from pg_stat_activity where datname = current_database() and application_name like $1"
        connection = await asyncpg.connect(prepared_url)
        try:
            return {row["pid"] for row in await connection.fetch(writers, "chronos writer%")}
        finally:
            await connection.close()

    async def check(url: str) -> None:
        async with proxied(url) as proxy, opened(proxy.url, work_connections=1) as store:
            fixture = StoreFixture(store)
            await fixture.start_node()
            await fixture.save("job", overlap=Overlap.QUEUE)
            writers = await list_writers()
            await proxy.stop()
            while await list_writers():
                pass  # until the pooler has reset the sessions of the store
            others = [await asyncpg.connect(url) for _ in range(5)]
            taken_over = {await other.fetchval("select pg_backend_pid()") for other in others}
            assert taken_over & writers
            await proxy.start()
            run = await fixture.admit_one()
            assert (await fixture.settle(run)).settled == [run.id]
            assert {await other.fetchval("select pg_backend_pid()") for other in others} == taken_over
            for other in others:
                await other.close()

    with pooled(prepared_url, "session") as url:
        asyncio.run(check(url))


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_other_modes_are_refused_before_anything_is_changed(postgres_url: str, mode: str) -> None:
    with pooled(postgres_url, mode) as url:

        async def check() -> None:
            with pytest.raises(StoreBroken, match="set pool_mode = session for this database in the pooler, or use a"):
                await PostgresStore(url).open()
            other = await asyncpg.connect(url, statement_cache_size=0)
            assert await other.fetchval("show enable_seqscan") == "on"
            assert await other.fetchval("select count(*) from pg_prepared_statements") == 0
            assert await other.fetchval("select to_regnamespace('chronos')") is None
            await other.close()

        asyncio.run(check())


def test_transaction_mode_is_noticed_beside_busy_clients(postgres_url: str) -> None:
    with pooled(postgres_url, "transaction") as url:

        async def keep_busy(client: asyncpg.Connection) -> None:
            while True:
                await client.execute("select pg_sleep(0.001)")

        async def check() -> None:
            clients = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(4)]
            tasks = [asyncio.create_task(keep_busy(client)) for client in clients]
            with pytest.raises(StoreBroken, match="pool_mode = session"):
                await PostgresStore(url).open()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for client in clients:
                client.terminate()

        asyncio.run(check())


def test_a_pool_that_is_too_small_is_named(prepared_url: str) -> None:
    with pooled(prepared_url, "session", default_pool_size=1) as url:

        async def check() -> None:
            with pytest.raises(StoreUnavailable, match=r"a pooler in front of it has enough connections \(pool_size\)"):
                await PostgresStore(f"{url}?connect_timeout=1").open()

        asyncio.run(check())


def test_what_the_pooler_refuses_is_explained(prepared_url: str) -> None:
    with pooled(prepared_url, "session") as url:
        for given, reason in (
            (f"{url}?options=-cwork_mem%3D8MB", "refuses the connection .*startup parameter.*; correct the store URL"),
            (url.replace("postgres@", "ana@"), "refuses the connection .*; correct the store URL"),
        ):
            with pytest.raises(StoreUnavailable, match=reason):
                asyncio.run(PostgresStore(given).open())


def test_statements_that_a_pooler_lost_are_explained() -> None:
    place = ConnectionAddress("db.example", "jobs", "ana")
    for error in (
        asyncpg.InvalidSQLStatementNameError("no such statement"),
        asyncpg.DuplicatePreparedStatementError("exists"),
    ):
        assert "set pool_mode = session" in str(to_store_error(error, place))
