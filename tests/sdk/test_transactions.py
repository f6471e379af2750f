"""``ctx.transaction``: the writes of a task commit together with its completion."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from chronos import Chronos, Context

SOON_S = 60  # on a machine that is busy with others
Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Query]:
    """The address of a store, and a function that queries its tables."""
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"

        def query_sqlite(sql: str) -> list[tuple[Any, ...]]:
            connection = apsw.Connection(str(path))
            connection.set_busy_timeout(60_000)
            try:
                return list(connection.execute(sql))
            finally:
                connection.close()

        return f"sqlite:///{path}", query_sqlite
    url: str = request.getfixturevalue("postgres_url")

    def query_postgres(sql: str) -> list[tuple[Any, ...]]:
        async def fetch() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(url)
            try:
                return [tuple(row) for row in await connection.fetch(sql)]
            finally:
                await connection.close()

        return asyncio.run(fetch())

    return url, query_postgres


def test_a_task_commits_its_writes_with_its_success(database: tuple[str, Query]) -> None:
    url, query = database
    app = Chronos(url)
    attempts: list[int] = []

    @app.job(retry={"max_attempts": 2, "initial_interval": "0s"})
    def book(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        ctx.transaction.execute("insert into booked values ($1)", f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise RuntimeError("the writes of a failed attempt are dropped")

    with app:
        query("create table booked (item text primary key)")
        assert book.trigger().wait(timeout=SOON_S).status == "succeeded"
    assert (attempts, query("select item from booked")) == ([1, 2], [("attempt 2",)])


def test_every_task_of_a_group_may_write(database: tuple[str, Query]) -> None:
    url, query = database
    app = Chronos(url)
    seen: list[list[tuple[Any, ...]]] = []
    etl = app.group("etl", retries=0)

    @etl.task
    def extract(ctx: Context) -> None:
        ctx.transaction.execute("insert into booked values ($1)", "extract")

    @etl.task
    def load(ctx: Context) -> None:
        seen.append(query("select item from booked"))
        ctx.transaction.execute("insert into booked values ($1)", "load")
        raise RuntimeError("the last task fails")

    with app:
        query("create table booked (item text primary key)")
        assert etl.trigger().wait(timeout=SOON_S).status == "failed"
    assert seen == [[("extract",)]], "the first task committed before the second started"
    assert query("select item from booked") == [("extract",)]


def test_a_statement_that_the_database_refuses_fails_the_task(database: tuple[str, Query]) -> None:
    url, query = database
    app = Chronos(url)
    etl = app.group("etl", retries=0)

    @etl.task
    def extract(ctx: Context) -> None:
        ctx.transaction.execute("insert into booked values ($1)", "one")
        ctx.transaction.execute("insert into booked values ($1)", "one")

    @etl.task
    def load() -> None: ...

    with app:
        query("create table booked (item text primary key)")
        run = etl.trigger()
        assert run.wait(timeout=SOON_S).status == "failed"
    assert query("select item from booked") == []
    [extracted, loaded] = run.info().tasks
    assert (extracted.status, loaded.status) == ("failed", "skipped")
    assert extracted.error is not None
    assert extracted.error.startswith("ctx.transaction: a statement committed with the task failed")
