"""``ctx.transaction``: a task's own writes are there exactly when its completion is."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from chronos import Chronos, Context

SOON_S = 60  # on a machine that is busy with others
Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Ask]:
    """An address, and a connection of one's own to the same tables."""
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"

        def ask_sqlite(sql: str) -> list[tuple[Any, ...]]:
            link = apsw.Connection(str(path))
            link.set_busy_timeout(60_000)
            try:
                return list(link.execute(sql))
            finally:
                link.close()

        return f"sqlite:///{path}", ask_sqlite
    url: str = request.getfixturevalue("postgres_url")

    def ask_postgres(sql: str) -> list[tuple[Any, ...]]:
        async def ask() -> list[tuple[Any, ...]]:
            link = await asyncpg.connect(url)
            try:
                return [tuple(row) for row in await link.fetch(sql)]
            finally:
                await link.close()

        return asyncio.run(ask())

    return url, ask_postgres


def test_a_task_commits_its_writes_with_its_success(database: tuple[str, Ask]) -> None:
    url, ask = database
    app = Chronos(url)
    tries: list[int] = []

    @app.job(retry={"max_attempts": 2, "initial_interval": "0s"})
    def book(ctx: Context) -> None:
        tries.append(ctx.attempt)
        ctx.transaction.execute("insert into booked values ($1)", f"try {ctx.attempt}")
        if ctx.attempt == 1:
            raise RuntimeError("what a failed try wrote is forgotten")

    with app:
        ask("create table booked (item text primary key)")
        assert book.trigger().wait(timeout=SOON_S).status == "succeeded"
    assert (tries, ask("select item from booked")) == ([1, 2], [("try 2",)])


def test_every_task_of_a_group_may(database: tuple[str, Ask]) -> None:
    url, ask = database
    app = Chronos(url)
    seen: list[list[tuple[Any, ...]]] = []
    etl = app.group("etl", retries=0)

    @etl.task
    def extract(ctx: Context) -> None:
        ctx.transaction.execute("insert into booked values ($1)", "extract")

    @etl.task
    def load(ctx: Context) -> None:
        seen.append(ask("select item from booked"))
        ctx.transaction.execute("insert into booked values ($1)", "load")
        raise RuntimeError("the last task fails")

    with app:
        ask("create table booked (item text primary key)")
        assert etl.trigger().wait(timeout=SOON_S).status == "failed"
    assert seen == [[("extract",)]], "the first task had committed before the second began"
    assert ask("select item from booked") == [("extract",)]


def test_what_the_database_refuses_fails_the_task(database: tuple[str, Ask]) -> None:
    url, ask = database
    app = Chronos(url)
    etl = app.group("etl", retries=0)

    @etl.task
    def extract(ctx: Context) -> None:
        ctx.transaction.execute("insert into booked values ($1)", "one")
        ctx.transaction.execute("insert into booked values ($1)", "one")

    @etl.task
    def load() -> None: ...

    with app:
        ask("create table booked (item text primary key)")
        run = etl.trigger()
        assert run.wait(timeout=SOON_S).status == "failed"
    assert ask("select item from booked") == []
    [extracted, loaded] = run.info().tasks
    assert (extracted.status, loaded.status) == ("failed", "skipped")
    assert extracted.error is not None
    assert extracted.error.startswith("ctx.transaction: a statement that was to run with the task's end failed")
