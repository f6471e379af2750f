"""Stores to measure on, SQLite files and databases of PostgreSQL: a store is filled once and copied for each turn."""

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
    """Where stores of one kind are made."""

    @property
    def kind(self) -> str:
        """How rows name it."""

    def empty(self) -> AbstractContextManager[str]:
        """The url of a new store, which is removed afterwards."""

    def copy(self, url: str) -> AbstractContextManager[str]:
        """The url of a copy of a store that is closed; the copy is removed afterwards."""


@dataclass
class SqliteStores:
    """Files, each in a folder of its own beside what SQLite adds to it."""

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
        """A new database with a filled one as its template, analyzed before as autovacuum would after a while."""
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
