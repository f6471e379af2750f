"""``chronos store copy``: everything is copied, between all engines, also after an interruption."""

import asyncio
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw
import asyncpg
import pytest

from chronos.assembly import make_store
from chronos.clock import SystemClock
from chronos.core.ids import id_floor
from chronos.core.node import Node
from chronos.errors import ChronosError, Conflict, Invalid, NotFound, StoreBroken
from chronos.process_identity import identify_this_process
from chronos.server.store_copy import copy_store
from chronos.service.live_nodes import find_live_nodes
from chronos.store.commands import RegisterNode, StopNode
from chronos.store.contract import Store
from chronos.store.sql.copy.tables import COPIED_TABLES
from tests.store.freeze import DATA, read_records

#: Tables that a copy leaves out: ``meta`` is about the store itself, and the others are parts of an index.
NOT_COPIED = {"meta", "job_fts", "job_fts_config", "job_fts_data", "job_fts_docsize", "job_fts_idx"}
PATIENCE_S = 60


@pytest.fixture
def rich(tmp_path: Path) -> str:
    """The URL of a store with records of every kind, in the schema of this release."""
    path = tmp_path / "rich.db"
    path.write_bytes(lzma.decompress((DATA / "schema-8.sqlite.xz").read_bytes()))
    asyncio.run(use(f"sqlite:///{path}", lambda store: store.counts()))
    return f"sqlite:///{path}"


async def use(url: str, call: Callable[[Store], Any]) -> Any:
    """Open a store, call with it, and close it."""
    store = make_store(url)
    await store.open()
    try:
        return await call(store)
    finally:
        await store.close()


def copy(source: str, target: str, progress: Callable[[str, int], None] = lambda _, __: None) -> dict[str, int]:
    return asyncio.run(copy_store(source, target, SystemClock(), progress=progress))


def records(url: str) -> Any:
    return asyncio.run(use(url, read_records))


def problems(url: str) -> Any:
    return asyncio.run(use(url, lambda store: store.verify()))


def test_every_table_and_column_is_copied(rich: str) -> None:
    connection = apsw.Connection(rich.removeprefix("sqlite:///"))
    names = [row[0] for row in connection.execute("select name from sqlite_schema where type = 'table'")]
    schema = {
        name: {row[1] for row in connection.execute(f"pragma table_info({name})")}
        for name in names
        if name not in NOT_COPIED
    }
    connection.close()
    assert {table.name: set(table.column_names) for table in COPIED_TABLES} == schema


def test_a_store_is_copied_to_postgresql_and_back(rich: str, postgres_url: str, tmp_path: Path) -> None:
    expected = records(rich)
    rows = copy(rich, postgres_url)
    assert rows["job"] == len(expected["jobs"])
    assert rows["token"] == len(expected["tokens"]) > 0
    assert records(postgres_url) == expected
    assert problems(postgres_url) == []
    back = f"sqlite:///{tmp_path / 'back.db'}"
    assert copy(postgres_url, back) == rows
    assert records(back) == expected
    assert problems(back) == []


def test_a_copy_goes_on_with_new_numbers(rich: str, postgres_url: str) -> None:
    """Jobs that are created in the copy do not get the numbers of copied or deleted jobs."""
    copy(rich, postgres_url)

    async def check() -> None:
        connection = await asyncpg.connect(postgres_url)
        used = await connection.fetchval(
            "select max(number) from (table chronos.gone union select job, number from chronos.gate) as n"
        )
        following = await connection.fetchval("select nextval(pg_get_serial_sequence('chronos.gate', 'number'))")
        kept_us = await connection.fetchval("select value from chronos.meta where name = 'keep_age_us'")
        longest_us = await connection.fetchval("select max(keep_age_us) from chronos.gate")
        strays = await connection.fetchval("select count(*) from chronos.history_default")
        await connection.close()
        assert following == used + 1
        assert int(kept_us) == longest_us
        assert strays == 0  # every week has its partition

    asyncio.run(check())


class Interrupted(Exception):
    """Ends a copy."""


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
def test_an_interrupted_copy_is_resumed(rich: str, target: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if target == "postgres" else f"sqlite:///{tmp_path / 'copy.db'}"
    for stop_at in ("job", "gate", "gone", "history", "audit"):

        def stop(table: str, _: int, stop_at: str = stop_at) -> None:
            if table == stop_at:
                raise Interrupted

        with pytest.raises(Interrupted):
            copy(rich, url, stop)
        with pytest.raises(StoreBroken, match="unfinished copy; finish it with the same chronos store copy"):
            records(url)
    copy(rich, url)
    assert records(url) == records(rich)
    assert problems(url) == []


def test_changes_between_two_attempts_are_copied_too(rich: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'copy.db'}"

    def stop(table: str, _: int) -> None:
        if table == "audit":
            raise Interrupted

    with pytest.raises(Interrupted):
        copy(rich, url, stop)
    connection = apsw.Connection(rich.removeprefix("sqlite:///"))
    connection.execute("update job set note = 'changed'")
    connection.execute("update gate set state = 2 where number = (select min(number) from gate where state = 0)")
    connection.execute("update tally set jobs = (select count(*) from gate where gate.state = tally.state)")
    connection.execute("delete from dead_letter")
    connection.close()
    copy(rich, url)
    assert records(url) == records(rich)
    assert problems(url) == []


def test_a_source_that_changes_during_the_copy_is_noticed(rich: str, tmp_path: Path) -> None:
    def change(table: str, _: int) -> None:
        if table == "audit":
            connection = apsw.Connection(rich.removeprefix("sqlite:///"))
            connection.execute("update job set note = 'changed'")
            connection.close()

    url = f"sqlite:///{tmp_path / 'copy.db'}"
    with pytest.raises(Conflict, match='"job" differs, because a store changed during the copy; stop the programs'):
        copy(rich, url, change)
    copy(rich, url)
    assert records(url) == records(rich)


def test_a_target_with_other_data_is_refused(rich: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    copy(rich, other)
    before = records(other)
    with pytest.raises(Conflict, match=r"the target has data already \(jobs: \d+, .*name an empty store"):
        copy(rich, other)
    assert records(other) == before
    unfinished = f"sqlite:///{tmp_path / 'unfinished.db'}"

    def stop(_: str, __: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        copy(rich, unfinished, stop)
    with pytest.raises(Conflict, match="an unfinished copy of another store"):
        copy(other, unfinished)


@pytest.mark.parametrize("used", ["source", "target"])
def test_a_store_that_a_live_node_uses_is_refused(rich: str, tmp_path: Path, used: str) -> None:
    target = f"sqlite:///{tmp_path / 'copy.db'}"

    async def check() -> None:
        store = make_store(rich if used == "source" else target)
        await store.open()
        now_us = SystemClock().now_us()
        number = await store.apply(
            RegisterNode(
                name="busy", incarnation=b"i" * 16, now_us=now_us, slots=1, labels={}, process=identify_this_process()
            )
        )
        with pytest.raises(Conflict, match='is in use by node "busy"; stop every server and program that uses it'):
            await copy_store(rich, target, SystemClock(), progress=lambda _, __: None)
        await store.apply(StopNode(node=number, now_us=now_us))
        await store.close()
        await copy_store(rich, target, SystemClock(), progress=lambda _, __: None)

    asyncio.run(check())


def test_a_node_elsewhere_is_live_until_its_heartbeats_are_old() -> None:
    node = Node(number=1, name="far", incarnation=b"i" * 16, beat=1, started_us=0, beat_us=100_000_000)
    assert find_live_nodes([node], 129_000_000) == [node]
    assert find_live_nodes([node], 131_000_000) == []


@pytest.mark.parametrize(
    ("source", "target", "kind", "message"),
    [
        ("sqlite:///missing.db", "sqlite:///copy.db", NotFound, "missing.db does not exist; check the path"),
        ("sqlite://", "sqlite:///copy.db", Invalid, "a store in memory cannot be copied"),
        ("{rich}", "sqlite://", Invalid, "a copy in memory would be lost"),
        ("{rich}", "{rich}", Invalid, "are the same store; name another target"),
        ("{rich}", "sqlite:///nowhere/copy.db", Invalid, "nowhere is not a folder"),
        ("{rich}", "mysql://x", Invalid, 'unknown store "mysql://x"'),
        ("sqlite:///notes.db", "sqlite:///copy.db", StoreBroken, "notes.db is not a Chronos store"),
        ("sqlite:///text.db", "sqlite:///copy.db", StoreBroken, "is not a SQLite database, or it is damaged"),
        ("sqlite:///old.db", "sqlite:///copy.db", StoreBroken, "has schema version 8, and this release uses"),
    ],
)
def test_wrong_stores_are_refused(
    rich: str,
    source: str,
    target: str,
    kind: type[ChronosError],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = apsw.Connection("notes.db")
    notes.execute("create table notes (text)")
    notes.close()
    Path("text.db").write_text("no database " * 100)
    Path("old.db").write_bytes(lzma.decompress((DATA / "schema-8.sqlite.xz").read_bytes()))
    with pytest.raises(kind, match=message):
        copy(source.format(rich=rich), target.format(rich=rich))
    assert not Path("copy.db").exists()


def add_history(url: str, rows: int) -> None:
    """Add ended executions of the first job, one per second."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    [(job, number)] = connection.execute("select job, number from gate order by number limit 1").fetchall()
    now_us = SystemClock().now_us()
    values = [
        (id_floor(at_us)[:8] + i.to_bytes(8), job, at_us, at_us, at_us, number)
        for i in range(rows)
        for at_us in (now_us - (rows - i) * 1_000_000,)
    ]
    connection.execute("begin")
    connection.executemany(
        "insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us, "
        "finished_us, number) values (?, ?, 1, 1, ?, 10, 'succeeded', 1, 1, ?, ?, ?)",
        values,
    )
    connection.execute("commit")
    connection.close()


def count_history(path: Path) -> int:
    """Return the number of copied executions so far; 0 while there is no table."""
    if not path.exists():
        return 0
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)
    try:
        [(count,)] = connection.execute("select count(*) from history").fetchall()
        return cast(int, count)
    except apsw.SQLError:
        return 0
    finally:
        connection.close()


def test_a_copy_that_was_killed_is_finished_by_the_same_command(rich: str, tmp_path: Path) -> None:
    add_history(rich, 20_000)
    path = tmp_path / "copy.db"
    program = "import sys; from chronos.cli.main import chronos; sys.exit(chronos())"
    command = [sys.executable, "-c", program, "store", "copy", rich, f"sqlite:///{path}"]
    with subprocess.Popen(command) as process:
        deadline_s = time.monotonic() + PATIENCE_S
        while count_history(path) < 1_000:
            assert process.poll() is None
            assert time.monotonic() < deadline_s
        os.kill(process.pid, signal.SIGKILL)
    assert 1_000 <= count_history(path) < 20_000
    with pytest.raises(StoreBroken, match="unfinished copy"):
        records(f"sqlite:///{path}")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "API tokens: 1)" in done.stdout
    assert done.stderr == "all rows of both stores have the same hashes\n"
    assert count_history(path) == count_history(Path(rich.removeprefix("sqlite:///")))
    assert problems(f"sqlite:///{path}") == []
