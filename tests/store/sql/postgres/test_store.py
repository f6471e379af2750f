"""PostgresStore: opening, errors, migration, hints, search, errors within a batch."""

import asyncio

import pytest

from chronos.core.config import Overlap
from chronos.errors import ChronosError, Invalid, NotFound, QueueFull, StoreBroken, StoreUnavailable
from chronos.store.commands import SaveJobs
from chronos.store.contract import Hint, JobFilter
from chronos.store.sql import migrations
from chronos.store.sql.command_handlers import CommandHandlers
from chronos.store.sql.postgres.database_url import ConnectionAddress
from chronos.store.sql.postgres.dialect import PostgresDialect
from chronos.store.sql.postgres.errors import SessionNotEnded, to_store_error
from chronos.store.sql.postgres.hot_path import PostgresHotPath
from chronos.store.sql.postgres.startup import check_server_facts
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.statements import collect_statements
from chronos.testing.conformance import StoreFixture
from tests.support.databases import Server, as_user, database_url, on_server, opened

SECRET = "canary-password"
SOUND = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "encoding": "UTF8",
    "standby": "false",
}
PLACE = ConnectionAddress("db.example:5432", "jobs", "ana")


def refusal(url: str, **options: bool) -> ChronosError:
    """Return the error of a store that fails to open."""

    async def open_it() -> None:
        async with opened(url, reconnect_limit_s=0.1, **options):
            pass

    with pytest.raises(ChronosError) as caught:
        asyncio.run(open_it())
    assert SECRET not in str(caught.value)
    return caught.value


def test_the_place_is_named_without_the_password() -> None:
    assert str(ConnectionAddress.of(f"postgresql://ana:{SECRET}@db.example:5433/jobs")) == (
        'PostgreSQL at db.example:5433, database "jobs"'
    )
    assert ConnectionAddress.of("postgresql:///jobs?host=/run/pg&user=bo") == ConnectionAddress("/run/pg", "jobs", "bo")
    assert ConnectionAddress.of(f"postgresql://ana:{SECRET}@a:1,b:2/").database == "ana"


def test_an_unreachable_server_is_named() -> None:
    error = refusal(f"postgresql://ana:{SECRET}@127.0.0.1:1/jobs")
    assert isinstance(error, StoreUnavailable)
    assert 'PostgreSQL at 127.0.0.1:1, database "jobs" cannot be reached' in str(error)


def test_an_earlier_session_that_does_not_end_is_not_an_unreachable_server() -> None:
    error = to_store_error(SessionNotEnded(), PLACE)
    assert isinstance(error, StoreUnavailable)
    assert str(error) == (
        f"{PLACE} has not ended an earlier session of this node; try again, or end it with pg_terminate_backend"
    )


@pytest.mark.parametrize(
    "url",
    [f"postgresql://ana:{SECRET}@host:port/jobs", f"ana:{SECRET}@host/jobs", f"postgresql://ana:{SECRET}@[::1/jobs"],
)
def test_a_malformed_url_is_not_repeated(url: str) -> None:
    error = refusal(url)
    assert isinstance(error, Invalid)
    assert "postgresql://user:password@host" in str(error)


def test_a_missing_database_says_how_to_create_it(postgres_server: str) -> None:
    error = refusal(database_url(postgres_server, "nowhere"))
    assert isinstance(error, StoreUnavailable)
    assert 'database "nowhere" does not exist; create it (createdb "nowhere")' in str(error)


def test_a_server_without_free_connections_says_what_to_do(postgres_url: str) -> None:
    name = ConnectionAddress.of(postgres_url).database
    asyncio.run(on_server(postgres_url, f'alter database "{name}" connection limit 0', f"create role {name} login"))
    try:
        error = refusal(as_user(postgres_url, name, SECRET))
    finally:
        asyncio.run(on_server(postgres_url, f"drop role {name}"))
    assert isinstance(error, StoreUnavailable)
    assert "no connections left" in str(error)


def test_a_wrong_password_names_the_user(own_server: Server) -> None:
    asyncio.run(on_server(own_server.url, "create role ana login password 'right'"))
    own_server.ask_for_passwords()
    error = refusal(as_user(own_server.url, "ana", SECRET))
    assert isinstance(error, StoreUnavailable)
    assert 'rejects the user "ana"' in str(error)


def test_a_user_without_permission_to_create_the_schema_is_named(postgres_url: str) -> None:
    name = ConnectionAddress.of(postgres_url).database
    asyncio.run(on_server(postgres_url, f"create role {name} login"))
    try:
        error = refusal(as_user(postgres_url, name, SECRET))
    finally:
        asyncio.run(on_server(postgres_url, f"drop role {name}"))
    assert isinstance(error, StoreBroken)
    assert f'the user "{name}" lacks a permission' in str(error)


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_a_server_that_may_lose_data_is_rejected_unless_allowed(setting: str) -> None:
    check_server_facts(14, SOUND, PLACE, allow_unsafe=False)
    with pytest.raises(StoreBroken, match=f"{setting} = off.*turn it on"):
        check_server_facts(14, SOUND | {setting: "off"}, PLACE, allow_unsafe=False)
    check_server_facts(14, SOUND | {setting: "off"}, PLACE, allow_unsafe=True)


def test_old_servers_standbys_and_other_encodings_are_rejected() -> None:
    with pytest.raises(StoreBroken, match="is version 13, which is too old; upgrade to PostgreSQL 14"):
        check_server_facts(13, SOUND, PLACE, allow_unsafe=True)
    with pytest.raises(StoreUnavailable, match="standby"):
        check_server_facts(18, SOUND | {"standby": "true"}, PLACE, allow_unsafe=True)
    with pytest.raises(StoreBroken, match="LATIN1"):
        check_server_facts(18, SOUND | {"encoding": "LATIN1"}, PLACE, allow_unsafe=True)


def test_durability_settings_of_the_database_count(postgres_url: str) -> None:
    name = ConnectionAddress.of(postgres_url).database
    asyncio.run(on_server(postgres_url, f'alter database "{name}" set synchronous_commit = off'))
    assert isinstance(refusal(postgres_url), StoreBroken)

    async def unsafe() -> None:
        async with opened(postgres_url, allow_unsafe=True):
            pass

    asyncio.run(unsafe())


def test_a_read_only_database_is_rejected(postgres_url: str) -> None:
    name = ConnectionAddress.of(postgres_url).database
    asyncio.run(on_server(postgres_url, f'alter database "{name}" set default_transaction_read_only = on'))
    assert "is read-only" in str(refusal(postgres_url))


def test_a_schema_of_another_program_is_not_touched(postgres_url: str) -> None:
    asyncio.run(on_server(postgres_url, "create schema chronos", "create table chronos.theirs (id int)"))
    error = refusal(postgres_url)
    assert isinstance(error, StoreBroken)
    assert "with other tables" in str(error)


def test_other_tables_of_the_database_do_not_matter(postgres_url: str) -> None:
    asyncio.run(on_server(postgres_url, "create table job (id int)", "insert into job values (1)"))

    async def check() -> None:
        async with opened(postgres_url) as store:
            await StoreFixture(store).save("job")
        assert await on_server(postgres_url, "select id from public.job") == [(1,)]

    asyncio.run(check())


def test_three_servers_migrate_once(postgres_url: str) -> None:
    async def check() -> None:
        stores = [PostgresStore(postgres_url) for _ in range(3)]
        await asyncio.gather(*(store.open() for store in stores))
        try:
            await StoreFixture(stores[0]).save("job")
            assert await stores[2].job_named("default", "job") is not None
            assert await stores[1].verify() == []
        finally:
            await asyncio.gather(*(store.close() for store in stores))
        rows = await on_server(
            postgres_url, "select name, value from chronos.meta where name like 'schema%' order by 1"
        )
        assert [tuple(row) for row in rows] == [
            ("schema", str(migrations.VERSION)),
            ("schema_minimum", str(migrations.MIGRATIONS[-1].minimum)),
        ]

    asyncio.run(check())


def test_a_newer_schema_is_rejected_when_it_is_incompatible(postgres_url: str) -> None:
    async def prepare(minimum: int) -> None:
        async with opened(postgres_url):
            pass
        await on_server(
            postgres_url,
            "update chronos.meta set value = '99' where name = 'schema'",
            f"update chronos.meta set value = '{minimum}' where name = 'schema_minimum'",
        )

    asyncio.run(prepare(99))
    error = refusal(postgres_url)
    assert isinstance(error, StoreBroken)
    assert "upgrade this node" in str(error)
    asyncio.run(on_server(postgres_url, "update chronos.meta set value = '1' where name = 'schema_minimum'"))
    asyncio.run(prepare(1))


def test_a_hint_goes_to_the_other_store(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as one, opened(postgres_url) as other:
            hinted = asyncio.Event()
            hints = []

            def hear(hint: Hint) -> None:
                hints.append(hint)
                hinted.set()

            other.on_hint(hear)
            fixture = StoreFixture(one)
            await fixture.start_node()
            await asyncio.sleep(0.2)
            assert not hinted.is_set(), "a node that registers leaves nothing to do"
            await fixture.save("job")
            await asyncio.wait_for(hinted.wait(), 60)
            assert hints == [Hint.JOBS]
            # The listening connection is cut. Hints arrive again after it reconnects.
            hinted.clear()
            await on_server(
                postgres_url,
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'chronos listener' "
                "and datname = current_database()",
            )
            await asyncio.wait_for(hinted.wait(), 60)
            hinted.clear()
            await fixture.save("job", description="changed")
            await asyncio.wait_for(hinted.wait(), 60)

    asyncio.run(check())


@pytest.mark.parametrize("trigrams", [True, False])
def test_search_works_with_and_without_an_index(postgres_url: str, trigrams: bool) -> None:
    async def check() -> None:
        async with opened(postgres_url, trigrams=trigrams) as store:
            fixture = StoreFixture(store)
            rows = tuple(fixture.build_job_row(f"job-{i:04}-{'odd' if i % 2 else 'Even'}") for i in range(400))
            await store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
            for text, count in (("-017", 10), ("even", 200), ("_", 0), ("%", 0), ("\\", 0), ("9-o", 40)):
                page = await store.list_jobs(JobFilter(contains=text), limit=500)
                assert len(page.items) == count, text
        [(indexed,)] = await on_server(postgres_url, "select to_regclass('chronos.job_name_trigrams') is not null")
        [(to_be_had,)] = await on_server(
            postgres_url, "select exists (select from pg_available_extensions where name = 'pg_trgm')"
        )
        assert indexed == (trigrams and to_be_had)

    asyncio.run(check())


def test_a_failed_command_does_not_affect_its_batch(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url, work_connections=1) as store:
            fixture = StoreFixture(store)
            full = (await fixture.save("full", overlap=Overlap.QUEUE, queue_max=1)).id
            free = (await fixture.save("free", overlap=Overlap.ALLOW)).id
            jobs = [full, bytes(16), free] * 20
            answers = await asyncio.gather(*(fixture.trigger(job) for job in jobs), return_exceptions=True)
            kinds = [type(answer) for answer in answers]
            assert kinds[1::3] == [NotFound] * 20
            assert kinds[0::3].count(QueueFull) == 18
            assert not [answer for answer in answers[2::3] if isinstance(answer, Exception)]
            assert await store.verify() == []

    asyncio.run(check())


def test_a_value_that_the_database_rejects_is_an_error_of_its_command(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            fixture = StoreFixture(store)
            await fixture.start_node()
            rows = [
                fixture.build_job_row("good"),
                fixture.build_job_row("bad", description="x", owner="nul \0 byte"),
                fixture.build_job_row("better"),
            ]
            answers = await asyncio.gather(
                *(store.apply(SaveJobs(rows=(row,), now_us=fixture.now_us)) for row in rows), return_exceptions=True
            )
            assert [type(answer) for answer in answers] == [list, Invalid, list]

    asyncio.run(check())


def test_stores_that_change_the_same_rows_do_not_deadlock(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as one, opened(postgres_url) as other:
            worlds = [StoreFixture(one), StoreFixture(other)]
            worlds[1].now_us += 1
            for i in range(4):
                saved = await asyncio.gather(
                    *(
                        fixture.save(f"job-{k}", overlap=Overlap.ALLOW, lane=f"lane-{i}", description=str(i))
                        for fixture in worlds
                        for k in range(5)
                    )
                )
                assert {s.version for s in saved} == {i + 1}
                assert sum(s.changed for s in saved) == 5
                # Gates are locked in order, whatever their order in the batch.
                jobs = sorted({s.id for s in saved})
                await asyncio.gather(
                    *(worlds[0].trigger(job) for job in jobs * 3), *(worlds[1].trigger(job) for job in jobs[::-1] * 3)
                )
            assert sum(depth.ready for depth in await one.depths()) == 4 * 5 * 6
            assert await one.verify() == []

    asyncio.run(check())


def test_the_server_parses_every_statement(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            assert len(collect_statements(store)) > 0
            assert await store.check_statements() == []
            await on_server(postgres_url, "alter table chronos.history rename column finished_us to ended_us")
            rejected = await store.check_statements()
            assert any("rejects RetentionDeletes._drop: column h.finished_us does not exist" in one for one in rejected)

    asyncio.run(check())
    assert len(collect_statements(CommandHandlers(PostgresDialect(), PostgresHotPath(PostgresDialect())))) > 100
