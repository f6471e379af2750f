"""Stores of earlier schemas under this release: their data is kept, also while a node of that release runs."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from chronos.core.execution import Status
from chronos.core.ids import job_id
from chronos.core.job import JobState, UpstreamCondition, UpstreamJob
from chronos.errors import StoreBroken
from chronos.store.commands import DeleteJob, Signal
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from chronos.store.sql import migrations
from chronos.store.sql.postgres.dialect import PostgresDialect
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.dialect import SqliteDialect
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance import StoreFixture
from tests.support.databases import on_server

UP, DOWN, RUN, GONE, LOST, *ENDED = (bytes([0] * 15 + [i]) for i in range(1, 9))
FOLLOWS = '{"after":[{"job":"up"},{"job":"up","on":"failure"}]}'
AT = 1_800_000_000_000_000


@pytest.fixture(params=["sqlite", "postgres"])
def make_old_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Return a function that opens a store of each engine. The test chooses the schema of the first open."""
    if request.param == "sqlite":
        yield partial(SqliteStore, tmp_path / "chronos.db")
    else:
        yield partial(PostgresStore, request.getfixturevalue("postgres_url"))


def old_rows(dialect: SqliteDialect | PostgresDialect) -> list[str]:
    """Return statements that fill the first schema."""
    up, down, run, gone, lost, *ended = (
        f"x'{i.hex()}'" if dialect.name == "sqlite" else f"'{i.hex()}'" for i in (UP, DOWN, RUN, GONE, LOST, *ENDED)
    )
    history = """insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us,
        finished_us)"""
    job = "insert into job (id, namespace, name, incarnation, version, spec, author, created_us, saved_us, updated_us)"
    gate = """insert into gate (job, version, state, overlap, lim, queue_max, priority, lane, keyed, active,
        keep_count, keep_age_us)"""
    return [
        f"{job} values ({up}, 'default', 'up', 1, 1, '{{}}', '', 0, 0, 0)",
        f"{job} values ({down}, 'default', 'down', 1, 1, '{FOLLOWS}', '', 0, 0, 0)",
        f"{gate} values ({up}, 1, 0, 0, 1, 9, 5, 1, 0, 1, 9, 9)",
        f"{gate} values ({down}, 1, 0, 0, 1, 9, 5, 1, 0, 0, 9, 9)",
        "insert into lane (number, key) values (1, 'default')",
        "update tally set jobs = 2 where state = 0",
        "insert into tombstone (namespace, name, incarnation, job, deleted_us) "
        f"values ('default', 'gone', 1, {gone}, 0)",
        f"""insert into active (id, job, version, cause, scheduled_us, lane, rank, status, exclusive, token,
        admitted_us, started_us, attempt_us, signal)
        values ({run}, {up}, 1, 1, {AT}, 1, 1, 4, 1, 65537, {AT}, {AT}, {AT}, 'go')""",
        *(
            f"{history} values ({execution}, {job}, 1, 1, 0, 10, 'succeeded', 1, 1, 0, 0)"
            for execution, job in zip(ended, (up, gone, lost), strict=True)
        ),
    ]


async def search(store: Store, text: str) -> list[str]:
    return [job.name for job in (await store.list_jobs(JobFilter(contains=text), limit=9)).items]


def test_the_first_schema_is_upgraded_with_its_data(
    make_old_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Filled(migrations.Migration):
        def statements(self, d: SqliteDialect | PostgresDialect) -> list[str]:  # type: ignore[override]
            return super().statements(d) + old_rows(d)

    first, *others = migrations.MIGRATIONS
    filled = Filled(version=1, minimum=1, common=first.common, sqlite=first.sqlite, postgres=first.postgres)
    monkeypatch.setattr(migrations, "MIGRATIONS", (filled, *others))

    async def check() -> None:
        store = make_old_store()
        await store.open()
        try:
            fixture = StoreFixture(store)
            assert await store.verify() == []
            assert set(await store.followers("default", "up")) == {
                (DOWN, UpstreamCondition.SUCCESS),
                (DOWN, UpstreamCondition.FAILURE),
            }
            assert await store.names_of([UP, GONE]) == {UP: ("default", "up"), GONE: ("default", "gone")}
            for execution, job in zip(ENDED, (UP, GONE, LOST), strict=True):
                page = await store.list_executions(ExecutionFilter(job=job), limit=9)
                assert [item.id for item in page.items if item.id != RUN] == [execution]
            await fixture.start_node()
            assert await store.apply(Signal(execution=RUN, name="go", payload="1", now_us=AT))
            [claimed] = await fixture.claim()
            assert (await fixture.settle(claimed)).outbox_items == 1
            assert await fixture.status(RUN) is Status.SUCCEEDED
            assert await store.output(RUN) == []
            await fixture.save("later", after=(UpstreamJob(job="down"),))
            assert len(await store.followers("default", "down")) == 1
            assert await search(store, "own") == ["down"]
            assert set(await store.jobs_by_id([UP, DOWN])) == {UP, DOWN}
            await store.apply(DeleteJob(job=DOWN, now_us=AT))
            await fixture.save("downtown")
            assert await search(store, "own") == ["downtown"]
            assert set(await store.jobs_by_id([UP, DOWN])) == {UP}
            assert await store.verify() == []
        finally:
            await store.close()

    asyncio.run(check())


SEVENTH = 7
OFF = {state: [f"{state.name.lower()}-{i}" for i in range(3)] for state in JobState if state is not JobState.ACTIVE}


async def listed(store: Store, **where: Any) -> list[str]:
    return [job.name for job in (await store.list_jobs(JobFilter(**where), limit=99)).items]


def rows_of_schema_7(dialect: SqliteDialect | PostgresDialect) -> list[str]:
    """Return statements that fill schema 7 with jobs of every state."""
    jobs = [(JobState.ACTIVE, "active", "a"), *((state, name, state.name) for state in OFF for name in OFF[state])]
    statements = ["insert into lane (number, key) values (1, 'default')"]
    for number, (state, name, team) in enumerate(jobs, 1):
        id_ = job_id("default", name, 1)
        text = f"x'{id_.hex()}'" if dialect.name == "sqlite" else f"'{id_.hex()}'"
        spec = f'{{"owner":"me","tags":{{"team":"{team}"}}}}'
        numbers, value = ("number, ", f"{number}, ") if dialect.name == "sqlite" else ("", "")
        statements += [
            f"""insert into job ({numbers}id, namespace, name, incarnation, version, spec, owner, author, created_us,
            saved_us, updated_us) values ({value}{text}, 'default', '{name}', 1, 1, '{spec}', 'me', '', 0, 0, 0)""",
            f"""insert into gate ({numbers}job, version, state, overlap, lim, queue_max, priority, lane, keyed,
            keep_count, keep_age_us) values ({value}{text}, 1, {int(state)}, 0, 1, 9, 5, 1, 0, 9, 9)""",
            f"""insert into job_tag (key, value, namespace, name, job)
            values ('team', '{team}', 'default', '{name}', {text})""",
            f"update tally set jobs = jobs + 1 where state = {int(state)}",
        ]
    return statements


class FilledSeventh(migrations.Migration):
    """Schema 7 with jobs."""

    def statements(self, d: SqliteDialect | PostgresDialect) -> list[str]:  # type: ignore[override]
        return super().statements(d) + rows_of_schema_7(d)


def filled_seventh() -> migrations.Migration:
    seventh = migrations.MIGRATIONS[SEVENTH - 1]
    return FilledSeventh(
        version=SEVENTH,
        minimum=seventh.minimum,
        common=seventh.common,
        sqlite=seventh.sqlite,
        postgres=seventh.postgres,
        sqlite_minimum=seventh.sqlite_minimum,
    )


def test_lists_by_state_owner_and_tag_include_jobs_of_earlier_schemas(
    make_old_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schema 7 had no tables for these lists, so its jobs are added by the migration."""
    before, after = migrations.MIGRATIONS[: SEVENTH - 1], migrations.MIGRATIONS[SEVENTH:]
    monkeypatch.setattr(migrations, "MIGRATIONS", (*before, filled_seventh(), *after))

    async def check() -> None:
        store = make_old_store()
        await store.open()
        try:
            fixture = StoreFixture(store)
            assert await store.verify() == []
            for state, names in OFF.items():
                assert await listed(store, state=state) == names
                assert await listed(store, state=state, tag=("team", state.name), owner="me") == names
            assert await listed(store, tag=("team", None)) == sorted(["active", *chain.from_iterable(OFF.values())])
            assert await listed(store, owner="me", state=JobState.ACTIVE) == ["active"]
            await fixture.set_state((await fixture.job("paused-1")).id, JobState.DISABLED)
            await store.apply(DeleteJob(job=(await fixture.job("disabled-2")).id, now_us=AT))
            assert await listed(store, state=JobState.PAUSED) == ["paused-0", "paused-2"]
            assert await listed(store, state=JobState.DISABLED) == ["disabled-0", "disabled-1", "paused-1"]
            assert await store.verify() == []
        finally:
            await store.close()

    asyncio.run(check())


WAITING = """
    select 1 from pg_locks
    where not granted and database = (select oid from pg_database where datname = current_database())"""


def test_a_migration_that_deadlocks_with_a_node_is_retried(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node has written a gate and waits for its job; the migration has locked jobs and waits for the gates."""

    async def check() -> None:
        with monkeypatch.context() as before:
            before.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS[: SEVENTH - 1], filled_seventh()))
            with suppress(StoreBroken):  # this release does not work with schema 7
                await PostgresStore(postgres_url).open()
        database = urlsplit(postgres_url).path[1:]
        await on_server(postgres_url, f"alter database {database} set deadlock_timeout = '300ms'")
        node, watcher = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
        store = PostgresStore(postgres_url)
        try:
            await node.execute(
                "set search_path = chronos; set deadlock_timeout = '60s'"
            )  # the migration gives up first
            await node.execute("begin; update gate set seq = seq")
            opening = asyncio.create_task(store.open())
            while not opening.done() and not await watcher.fetchval(WAITING):  # noqa: ASYNC110 - the database has no event for it
                await asyncio.sleep(0.01)
            await node.execute("update job set note = 'written'; commit")
            await opening
            assert (await StoreFixture(store).job("active")).note == "written"
            assert await store.verify() == []
        finally:
            await store.close()
            await node.close()
            await watcher.close()

    asyncio.run(check())
