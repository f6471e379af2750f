"""SqliteVisitor: the store on a SQLite file for a process that is not a node, such as ``chronosctl --store``.

It opens the file as it is: it never creates or migrates it. Reads use reading connections only, so they are safe while
a program uses the file. A write opens the store for this one command, and only while no live node uses it.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from chronos.core.node import Node
from chronos.errors import NotFound, StoreReadOnly
from chronos.store.commands import Command
from chronos.store.hints import hint_of
from chronos.store.sql import migrations
from chronos.store.sql.migrations import SchemaUse
from chronos.store.sql.sqlite.connection import read_schema
from chronos.store.sql.sqlite.store import READERS, SqliteStore

R = TypeVar("R")

#: Returns those of the nodes whose processes are alive.
FindLiveNodes = Callable[[Sequence[Node]], Sequence[Node]]


class SqliteVisitor(SqliteStore):
    """A store that reads a file, and writes to it only while ``find_live_nodes`` returns none of its nodes."""

    def __init__(self, path: Path, find_live_nodes: FindLiveNodes) -> None:
        super().__init__(path, schema_use=SchemaUse.KEEP)
        self._file, self._find_live_nodes = path, find_live_nodes
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """Check that the file is a store of this release. Raises ``NotFound`` if it does not exist."""
        if not self._file.exists():
            raise NotFound(f"{self._file} does not exist; check the path of the store")
        self._read_threads = ThreadPoolExecutor(READERS, thread_name_prefix="chronos-sqlite-reader")
        try:
            await self._run_on_reader(self._check_schema)
        except BaseException:
            await self.close()
            raise

    async def apply(self, command: Command[R]) -> R:
        """Apply a command. Raises ``StoreReadOnly`` if a live node uses the file."""
        async with self._writing:
            if live := self._find_live_nodes(await self.nodes()):
                raise StoreReadOnly(
                    f"{self._file} is in use by {describe_nodes(live)}, so it can only be read here; "
                    "make the change in that program, or stop it first"
                )
            store = SqliteStore(self._file, schema_use=SchemaUse.KEEP)
            await store.open()
            try:
                answer = await store.apply(command)
            finally:
                await store.close()
        if hint := hint_of(command, answer):
            self._hint(hint)
        return answer

    def _check_schema(self, connection: apsw.Connection) -> None:
        migrations.find_pending(*read_schema(connection, self._file), SchemaUse.KEEP)


def describe_nodes(nodes: Sequence[Node]) -> str:
    """Name nodes and their processes, for a message."""
    return " and ".join(
        f'node "{node.name}"' + ("" if node.process is None else f" (process {node.process.pid})") for node in nodes
    )
