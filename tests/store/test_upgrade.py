"""A store of the first schema, with jobs that follow others and executions that wait, under this release."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from chronos.core.execution import Status
from chronos.core.job import After, On
from chronos.store.commands import DeleteJob, Signal
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from chronos.store.sql import migrations
from chronos.store.sql.dialect import Postgres, Sqlite
from chronos.store.sql.postgres import PostgresStore
from chronos.store.sql.sqlite import SqliteStore
from chronos.testing.conformance import World

UP, DOWN, RUN, GONE, LOST, *ENDED = (bytes([0] * 15 + [i]) for i in range(1, 9))
FOLLOWS = '{"after":[{"job":"up"},{"job":"up","on":"failure"}]}'
AT = 1_800_000_000_000_000


@pytest.fixture(params=["sqlite", "postgres"])
def make_old_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """A store of any engine whose schema is made in two steps; what is between them is up to the test."""
    if request.param == "sqlite":
        yield partial(SqliteStore, tmp_path / "chronos.db")
    else:
        yield partial(PostgresStore, request.getfixturevalue("postgres_url"))


def old_rows(dialect: Sqlite | Postgres) -> list[str]:
    """Statements that fill the first schema."""
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


async def found(store: Store, text: str) -> list[str]:
    return [job.name for job in (await store.list_jobs(JobFilter(contains=text), limit=9)).items]


def test_the_first_schema_is_upgraded_with_its_data(
    make_old_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Filled(migrations.Migration):
        def statements(self, d: Sqlite | Postgres) -> list[str]:  # type: ignore[override]
            return super().statements(d) + old_rows(d)

    first, *others = migrations.MIGRATIONS
    filled = Filled(version=1, minimum=1, common=first.common, sqlite=first.sqlite, postgres=first.postgres)
    monkeypatch.setattr(migrations, "MIGRATIONS", (filled, *others))

    async def check() -> None:
        store = make_old_store()
        await store.open()
        try:
            w = World(store)
            assert await store.verify() == []
            assert set(await store.followers("default", "up")) == {(DOWN, On.SUCCESS), (DOWN, On.FAILURE)}
            assert await store.names_of([UP, GONE]) == {UP: ("default", "up"), GONE: ("default", "gone")}
            for execution, job in zip(ENDED, (UP, GONE, LOST), strict=True):
                page = await store.list_executions(ExecutionFilter(job=job), limit=9)
                assert [item.id for item in page.items if item.id != RUN] == [execution]
            await w.start_node()
            assert await store.apply(Signal(execution=RUN, name="go", payload="1", now_us=AT))
            [claimed] = await w.claim()
            assert (await w.settle(claimed)).told == 1
            assert await w.status(RUN) is Status.SUCCEEDED
            assert await store.output(RUN) == []
            await w.save("later", after=(After(job="down"),))
            assert len(await store.followers("default", "down")) == 1
            assert await found(store, "own") == ["down"]
            assert set(await store.jobs_by_id([UP, DOWN])) == {UP, DOWN}
            await store.apply(DeleteJob(job=DOWN, now_us=AT))
            await w.save("downtown")
            assert await found(store, "own") == ["downtown"]
            assert set(await store.jobs_by_id([UP, DOWN])) == {UP}
            assert await store.verify() == []
        finally:
            await store.close()

    asyncio.run(check())
