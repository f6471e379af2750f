"""A second SQLite library in the same process may read a store's file, and nothing is lost."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from chronos.core.node import Node
from chronos.errors import StoreUnavailable
from chronos.store.commands import RegisterNode
from chronos.store.sql.sqlite.lock_guard import LockGuard
from chronos.store.sql.sqlite.store import SqliteStore

LOOK = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('select count(*) from node').fetchall())"
WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript('create table mine (x)')"
NODES = 50


async def register(store: SqliteStore, name: str) -> None:
    await store.apply(RegisterNode(name=name, incarnation=os.urandom(16), now_us=1))


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as other:
        return int(other.execute("select count(*) from node").fetchone()[0])


async def look_then_write(path: Path) -> None:
    """Read a store with sqlite3 in several ways, between acknowledged commands."""
    before = sqlite3.connect(path)  # opened before the store
    store = SqliteStore(path)
    await store.open()
    for n in range(NODES):
        await register(store, f"node-{n}")
        assert count(path) == n + 1
    before.close()
    for n in range(NODES):
        await register(store, f"later-{n}")
    os.kill(os.getpid(), signal.SIGKILL)


def test_reading_with_sqlite3_loses_no_acknowledged_commit(tmp_path: Path) -> None:
    """In a process that is killed: commits that are only in the log must survive."""
    path = tmp_path / "jobs.db"
    ended = subprocess.run([sys.executable, __file__, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert count(path) == 2 * NODES


def test_sqlite3_cannot_write_and_other_processes_can(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> list[Node]:
        store = SqliteStore(path)
        await store.open()
        with (
            closing(sqlite3.connect(path, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("create table mine (x)")
        assert await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", LOOK, str(path)]) == b"[(0,)]\n"
        await asyncio.to_thread(subprocess.check_call, [sys.executable, "-c", WRITE, str(path)])
        await register(store, "after")
        nodes = list(await store.nodes())
        await store.close()
        return nodes

    assert [node.name for node in asyncio.run(main())] == ["after"]
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("insert into mine values (1)")  # the lock is free again
        assert other.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_a_sqlite3_connection_that_outlives_a_store_does_not_damage_the_next(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> None:
        first, second = SqliteStore(path), SqliteStore(path)
        await first.open()
        other = sqlite3.connect(path)
        assert other.execute("select count(*) from node").fetchone() == (0,)
        await first.close()
        await second.open()
        await register(second, "one")
        other.close()
        await register(second, "two")
        assert await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", LOOK, str(path)]) == b"[(2,)]\n"
        await second.close()

    asyncio.run(main())
    assert count(path) == 2


def test_an_open_sqlite3_writer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    monkeypatch.setattr("chronos.store.sql.sqlite.lock_guard._BUSY_S", 0.05)

    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()
        with closing(sqlite3.connect(path)) as other:
            other.execute("pragma journal_mode = wal")
            other.execute("begin immediate")
            with pytest.raises(StoreUnavailable, match="being written by another connection"):
                await store.open()
        await store.open()
        await register(store, "one")
        await store.close()

    asyncio.run(main())
    assert count(path) == 1


def test_the_guard_works_with_a_library_that_cannot_read_the_schema(tmp_path: Path) -> None:
    """An older library cannot read the schema, and still must not be the last one to close the file."""
    path = tmp_path / "jobs.db"

    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()
        with closing(sqlite3.connect(path)) as other:
            other.execute("pragma writable_schema = on")
            other.execute(
                "insert into sqlite_schema values ('view', 'later', 'later', 0, 'create view later as future syntax')"
            )
            other.commit()
        with closing(LockGuard(path)), closing(sqlite3.connect(path, timeout=0)) as other:
            with pytest.raises(sqlite3.DatabaseError, match="malformed"):
                other.execute("select 1 from node")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("begin immediate")

    asyncio.run(main())


def test_a_file_that_cannot_be_guarded_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    monkeypatch.setattr("chronos.store.sql.sqlite.lock_guard._BUSY_S", 0.05)
    with closing(apsw.Connection(str(path))) as own:
        own.execute("pragma journal_mode = wal; create table mine (x); begin immediate").fetchall()
        with pytest.raises(StoreUnavailable, match="being written by another connection"):
            LockGuard(path)
    with closing(sqlite3.connect(path, timeout=0)) as other:
        other.execute("begin immediate")  # the guard is closed completely


if __name__ == "__main__":
    asyncio.run(look_then_write(Path(sys.argv[1])))


def test_stores_of_one_process_open_and_close_concurrently(tmp_path: Path) -> None:
    """While one store is opened, and guarded, others are in use or closing."""
    path = tmp_path / "chronos.db"

    async def come_and_go() -> None:
        for n in range(10):
            store = SqliteStore(path)
            await store.open()
            for _ in range(n % 3 + 1):
                await register(store, "node")
                await store.nodes()
            await store.close()

    async def main() -> int:
        await asyncio.gather(come_and_go(), come_and_go(), come_and_go())
        store = SqliteStore(path)
        await store.open()
        nodes = await store.nodes()
        assert await store.verify() == []
        await store.close()
        return len(nodes)

    assert asyncio.run(main()) == 3 * sum(n % 3 + 1 for n in range(10))
