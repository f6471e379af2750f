"""Enqueueing in the program's own transaction: asyncpg, psycopg and SQLAlchemy connections."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from chronos import Chronos, Invalid, NotFound
from chronos.sdk.task_job import TaskJob

Transaction = Callable[[str], AbstractContextManager[Any]]
AsyncTransaction = Callable[[str], AbstractAsyncContextManager[Any]]


class Rollback(Exception):
    """Ends a transaction without a commit."""


def to_driver(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


@contextmanager
def psycopg_transaction(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@contextmanager
def psycopg_block(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection


@contextmanager
def sqlalchemy_transaction(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(to_driver(url, "psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(to_driver(url, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@asynccontextmanager
async def asyncpg_transaction(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool_transaction(url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def async_psycopg_transaction(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def async_sqlalchemy_transaction(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(to_driver(url, "asyncpg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def async_sqlalchemy_session(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(to_driver(url, "psycopg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@pytest.fixture
def url(make_prepared: Callable[[], str]) -> str:
    return make_prepared()


def declare(app: Chronos) -> TaskJob[[str], str, str]:
    @app.task
    def greet(name: str) -> str:
        return f"hello {name}"

    return greet


@pytest.mark.parametrize(
    "transaction", [psycopg_transaction, psycopg_block, sqlalchemy_transaction, sqlalchemy_session]
)
def test_runs_are_committed_and_rolled_back_with_the_transaction(url: str, transaction: Transaction) -> None:
    app = Chronos(url)
    greet = declare(app)
    with app:
        with transaction(url) as connection:
            first = greet.enqueue("ana", connection=connection)
            more = greet.enqueue_many([{"name": "ben"}, {"name": "eva"}], connection=connection)
            with pytest.raises(NotFound):
                first.info()
        assert [run.result(timeout=30) for run in (first, *more)] == ["hello ana", "hello ben", "hello eva"]
        with suppress(Rollback), transaction(url) as connection:
            lost = greet.enqueue("zoe", connection=connection)
            raise Rollback
        assert greet.enqueue("end").result(timeout=30) == "hello end"
        with pytest.raises(NotFound):
            lost.info()
        with pytest.raises(TimeoutError):
            lost.wait(timeout=0.01)
        assert len(greet.executions()) == 4


@pytest.mark.parametrize(
    "transaction",
    [
        asyncpg_transaction,
        asyncpg_pool_transaction,
        async_psycopg_transaction,
        async_sqlalchemy_transaction,
        async_sqlalchemy_session,
    ],
)
def test_runs_are_committed_and_rolled_back_with_an_async_transaction(url: str, transaction: AsyncTransaction) -> None:
    async def use() -> None:
        app = Chronos(url)
        greet = declare(app)
        async with app:
            async with transaction(url) as connection:
                first = await greet.aenqueue("ana", connection=connection)
                [second] = await greet.aenqueue_many([{"name": "ben"}], connection=connection, delay=0.01)
            assert await first.aresult(timeout=30) == "hello ana"
            assert await second.aresult(timeout=30) == "hello ben"
            with suppress(Rollback):
                async with transaction(url) as connection:
                    lost = await greet.aenqueue("zoe", connection=connection)
                    raise Rollback
            with pytest.raises(NotFound):
                await lost.ainfo()
            assert len(await greet.aexecutions()) == 2

    asyncio.run(use())


def test_a_run_whose_job_is_deleted_meanwhile_is_dropped(url: str) -> None:
    app = Chronos(url)
    greet = declare(app)
    with psycopg.connect(url) as connection:
        lost = greet.enqueue("ana", connection=connection)
        greet.delete()
    other = Chronos(url)
    with other:
        wave = declare(other)
        assert wave.enqueue("ben").result(timeout=30) == "hello ben"
        other.stop()  # delivers the outbox first
    with pytest.raises(NotFound):
        lost.info()
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from chronos.outbox").fetchall() == [(0,)]


def test_connections_that_cannot_commit_the_run_are_refused(url: str) -> None:
    app = Chronos(url)
    greet = declare(app)
    with psycopg.connect(url, autocommit=True) as connection:
        with pytest.raises(Invalid, match="no open transaction"):
            greet.enqueue("ana", connection=connection)
        with pytest.raises(Invalid, match="blocks the event loop"):
            asyncio.run(greet.aenqueue("ana", connection=connection))
        assert connection.execute("select count(*) from chronos.outbox").fetchall() == [(0,)]
    with pytest.raises(Invalid, match="a str, which is not supported"):
        greet.enqueue("ana", connection="postgresql://")
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as other, pytest.raises(Invalid, match="the connection is to sqlite"):
        greet.enqueue("ana", connection=other)
    engine.dispose()

    async def use() -> None:
        connection = await asyncpg.connect(url)
        with pytest.raises(Invalid, match="no open transaction"):
            await greet.aenqueue("ana", connection=connection)
        with pytest.raises(Invalid, match=r"await task\.aenqueue"):
            await asyncio.to_thread(greet.enqueue, "ana", connection=connection)
        await connection.close()

    asyncio.run(use())
    app.stop()


def test_the_database_user_needs_few_rights(url: str) -> None:
    app = Chronos(url)
    greet = declare(app)
    with app, psycopg.connect(url) as connection:
        greet.info()  # the store is open
        connection.execute("create role chronos_test_shop")
        try:
            connection.execute("grant usage on schema chronos to chronos_test_shop")
            connection.execute("grant insert on chronos.outbox to chronos_test_shop")
            connection.execute("set local role chronos_test_shop")
            greet.enqueue("ana", connection=connection)
        finally:
            connection.rollback()
