"""Stores for benchmarks, SQLite files and PostgreSQL databases. A store is filled once and copied for each turn."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import asyncpg


class Stores(Protocol):
    """Creates stores of one kind."""

    @property
    def kind(self) -> str:
        """Its name in rows."""

    def empty(self) -> AbstractContextManager[str]:
        """The URL of a new store, which is removed afterwards."""

    def copy(self, url: str) -> AbstractContextManager[str]:
        """The URL of a copy of a closed store, which is removed afterwards."""


@dataclass
class SqliteStores:
    """SQLite files, each in its own folder."""

    folder: Path
    kind: str = "SQLite"
    _numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """A file that does not exist yet."""
        folder = self.folder / f"store-{next(self._numbers)}"
        folder.mkdir()
        try:
            yield f"sqlite:///{folder / 'chronos.db'}"
        finally:
            shutil.rmtree(folder)

    @contextmanager
    def copy(self, url: str) -> Iterator[str]:
        """A copy of the folder."""
        with self.empty() as new:
            shutil.copytree(_folder(url), _folder(new), dirs_exist_ok=True)
            yield new


@dataclass
class PostgresStores:
    """Databases of one server."""

    url: str
    kind: str = "PostgreSQL"
    _numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """A new database."""
        with self._made() as url:
            yield url

    @contextmanager
    def copy(self, url: str) -> Iterator[str]:
        """A new database from a filled template, analyzed as autovacuum would."""
        _execute(url, "analyze")
        with self._made(template=urlsplit(url).path[1:]) as new:
            yield new

    @contextmanager
    def _made(self, template: str = "template1") -> Iterator[str]:
        name = f"bench_{next(self._numbers)}"
        _execute(self.url, f'create database "{name}" template "{template}"')
        try:
            yield urlsplit(self.url)._replace(path=f"/{name}").geturl()
        finally:
            _execute(self.url, f'drop database "{name}" with (force)')


def _folder(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///")).parent


def _execute(url: str, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute())
