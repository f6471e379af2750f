"""Users' statements that run with a settlement: their tables, their errors, and what they cannot touch."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import pytest

from chronos.core.execution import Status
from chronos.core.reasons import ReasonCode
from chronos.errors import Invalid
from chronos.store.commands import Admitted, SettleRow, SettleWith
from chronos.store.contract import Store
from chronos.store.sql.postgres.database_url import ConnectionAddress
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance import StoreFixture
from tests.support.databases import on_server, opened

TABLE = "create table orders (id integer primary key, note text)"
Statement = tuple[str, tuple[Any, ...]]
Look = Callable[[], Awaitable[list[tuple[Any, ...]]]]


def settle(fixture: StoreFixture, run: Admitted, *statements: Statement) -> SettleWith:
    row = SettleRow(run.id, run.job, run.token, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, fixture.tick())
    return SettleWith(row=row, statements=statements, node=fixture.node, now_us=fixture.now_us)


async def promises(fixture: StoreFixture, look: Look, *bad: Statement) -> None:
    """Check an engine that has a table ``orders``."""
    await fixture.save("job")
    await fixture.save("neighbour")
    run, neighbour = await fixture.admit_one("job"), await fixture.admit_one("neighbour")
    insert = "insert into orders (id, note) values ($1, $2)"
    for statement in bad:
        results = await asyncio.gather(
            fixture.store.apply(settle(fixture, neighbour, ("select 1", ()))),
            fixture.store.apply(settle(fixture, run, (insert, (1, "lost")), statement)),
            return_exceptions=True,
        )
        assert isinstance(results[1], Invalid), (statement, results)
        assert await fixture.status(run.id) is Status.RUNNING
        assert await fixture.status(neighbour.id) is Status.SUCCEEDED
        assert await look() == []
    stale = run._replace(token=run.token - 1)
    assert (await fixture.store.apply(settle(fixture, stale, (insert, (1, "stale"))))).settled == []
    assert await look() == []
    good = settle(
        fixture, run, (insert, (1, "costs $5")), ("update orders set note = note || '; $9' where id = $1", (1,))
    )
    assert (await fixture.store.apply(good)).settled == [run.id]
    assert (await fixture.store.apply(good)).settled == [run.id]
    assert await look() == [(1, "costs $5; $9")]
    assert await fixture.store.verify() == []


def test_user_statements_commit_with_the_settlement_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "chronos.db"

    async def look() -> list[tuple[Any, ...]]:
        return apsw.Connection(str(path)).execute("select id, note from orders").fetchall()

    async def check() -> None:
        store: Store = SqliteStore(path)
        await store.open()
        try:
            apsw.Connection(str(path)).execute(TABLE)
            await promises(
                StoreFixture(store),
                look,
                ("insert into orders values (1, 'twice')", ()),
                ("insert or rollback into orders values (1, 'twice')", ()),
                ("insert into orders values (?, ?)", (2,)),
                ("insert into orders values (?, ?)", (2, object())),
                ("insert into orders values (2, 'x'); commit", ()),
                ("select 1; pragma synchronous = off", ()),
            )
        finally:
            await store.close()

    asyncio.run(check())


def test_user_statements_commit_with_the_settlement_on_postgres(prepared_url: str) -> None:
    async def look() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await on_server(prepared_url, "select id, note from orders")]

    async def check() -> None:
        await on_server(prepared_url, TABLE)
        async with opened(prepared_url) as store:
            await promises(
                StoreFixture(store),
                look,
                ("insert into orders values (1, 'twice')", ()),
                ("insert into orders values ($1, $2)", (2,)),
                ("insert into orders values ($1, $2)", ("no number", "x")),
                ("insert into orders values (2, 'x'); commit", ()),
                ("select 1 / 0", ()),
                ("delete from gate", ()),
            )
            fixture = StoreFixture(store)
            await fixture.save("another")
            await on_server(prepared_url, "create table tickets (id uuid)")
            ticket = uuid4()
            await store.apply(
                settle(fixture, await fixture.admit_one("another"), ("insert into tickets values ($1)", (ticket,)))
            )
            assert [row[0] for row in await on_server(prepared_url, "select id from tickets")] == [ticket]

    asyncio.run(check())


def test_user_statements_use_the_search_path_of_the_database(prepared_url: str) -> None:
    name = ConnectionAddress.of(prepared_url).database

    async def check() -> None:
        await on_server(prepared_url, "create schema sales", f'alter database "{name}" set search_path = sales')
        await on_server(prepared_url, TABLE)
        async with opened(prepared_url) as store:
            fixture = StoreFixture(store)
            await fixture.save("job")
            await store.apply(
                settle(fixture, await fixture.admit_one("job"), ("insert into orders values (1, 'x')", ()))
            )
            assert await store.verify() == []
        assert [tuple(row) for row in await on_server(prepared_url, "select * from sales.orders")] == [(1, "x")]

    asyncio.run(check())


@pytest.mark.parametrize("text", ["COMMIT", "(commit)", "/* x */ set search_path = x", "  -- only this", "vacuum"])
def test_statements_that_do_not_touch_rows_are_rejected(text: str) -> None:
    async def check() -> None:
        store = SqliteStore()
        await store.open()
        fixture = StoreFixture(store)
        await fixture.save()
        with pytest.raises(Invalid, match="start it with insert"):
            await store.apply(settle(fixture, await fixture.admit_one(), (text, ())))
        await store.close()

    asyncio.run(check())
