"""SqliteStore: errors, shared files, killed processes, upgrades, backups, checkpoints."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw
import pytest

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.reasons import ReasonCode
from chronos.errors import ChronosError, Invalid, NotFound, StoreBroken, StoreUnavailable
from chronos.store.commands import NEW, Admit, Beat, Claim, Command, RegisterNode, Settle, SettleRow, Trim
from chronos.store.contract import JobFilter
from chronos.store.sql import migrations
from chronos.store.sql.sqlite.checkpoint import Checkpointer
from chronos.store.sql.sqlite.connection import copy_to, restore
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing import StoreProbe
from chronos.testing.conformance import StoreFixture
from chronos.testing.conformance.fixture import SECOND_US, T0_US, admit_row
from tests.support.command_recorder import digest

R = TypeVar("R")


def run(path: Path, use: Callable[[SqliteStore], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        store = SqliteStore(path)
        await store.open()
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(opened())


async def save_one(store: SqliteStore) -> None:
    await StoreFixture(store).save("job")


async def nothing(_: SqliteStore) -> None:
    return None


def refusal(path: Path, use: Callable[[SqliteStore], Awaitable[Any]] = nothing) -> ChronosError:
    with pytest.raises(ChronosError) as caught:
        run(path, use)
    assert str(path.name) in str(caught.value) or "schema" in str(caught.value)
    return caught.value


# --- errors


def test_a_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 1000)
    error = refusal(path)
    assert isinstance(error, StoreBroken)
    assert "not a SQLite database" in str(error)
    assert path.read_text().startswith("buy milk")


@pytest.mark.parametrize("table", ["job (name text)", "meta (x)", "meta (name, value)"])
def test_a_database_with_a_conflicting_table_is_rejected_unchanged(tmp_path: Path, table: str) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute(f"create table {table}")
    if table == "meta (name, value)":
        connection.execute("insert into meta values ('title', 'My music')")
    before = connection.execute("select sql from sqlite_schema").fetchall()
    error = refusal(path)
    assert isinstance(error, StoreBroken)
    assert "tables of another program" in str(error)
    assert table.split(maxsplit=1)[0] in str(error)
    assert connection.execute("select sql from sqlite_schema").fetchall() == before
    connection.close()


def test_a_database_with_other_tables_can_become_a_store(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    connection = apsw.Connection(str(path))
    connection.execute("create table customers (name text); insert into customers values ('ana')")
    run(path, save_one)
    run(path, save_one)
    assert connection.execute("select name from customers").fetchall() == [("ana",)]
    connection.close()


def test_a_damaged_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "chronos.db"
    run(path, save_one)
    data = bytearray(path.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = os.urandom(64)
    path.write_bytes(data)
    error = refusal(path)
    assert isinstance(error, StoreBroken)
    assert "restore a backup" in str(error)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    error = refusal(tmp_path / "missing" / "chronos.db")
    assert isinstance(error, StoreUnavailable)
    assert "folder exists" in str(error)


def test_a_full_disk_loses_nothing_and_can_be_retried(tmp_path: Path) -> None:
    path = tmp_path / "chronos.db"

    async def fill(store: SqliteStore) -> int:
        world = StoreFixture(store)
        await world.start_node()
        probe = StoreProbe(store)
        [(pages,)] = probe.execute("pragma page_count")
        probe.execute(f"pragma max_page_count = {pages + 40}")
        saved = 0
        try:
            while saved < 10_000:
                await world.save(f"job-{saved}")
                saved += 1
        except StoreUnavailable as error:
            assert "full; free some space" in str(error)
        assert 0 < saved < 10_000
        probe.execute("pragma max_page_count = 1000000")
        await world.save(f"job-{saved}")
        return saved + 1

    saved = run(path, fill)
    names = run(path, lambda store: store.list_jobs(JobFilter(), limit=10_000))
    assert len(names.items) == saved


def test_a_failing_listener_does_not_affect_the_answer(tmp_path: Path) -> None:
    """The commit must not be applied again, and its caller must not get the listener's error."""

    def fails(*_: object) -> None:
        raise ValueError("not my day")

    async def together(store: SqliteStore) -> list[Any]:
        store.on_hint(fails)
        store.on_commit(fails)
        world = StoreFixture(store)
        return list(await asyncio.gather(*(world.save(f"job-{n}", expect=NEW) for n in range(5))))

    assert all(saved.created for saved in run(tmp_path / "a.db", together))


def test_a_command_that_raises_does_not_affect_others(tmp_path: Path) -> None:
    async def together(store: SqliteStore) -> list[Any]:
        register = RegisterNode(name="n", incarnation=bytes(16), now_us=1)
        number = await store.apply(register)
        other = apsw.Connection(str(tmp_path / "a.db"))
        other.execute("drop table idempotency")
        other.close()
        beats = [Beat(node=number, beat=n, now_us=n) for n in (1, 2)]
        first = asyncio.create_task(store.apply(beats[0]))  # the others queue meanwhile
        await asyncio.sleep(0)
        trim = store.apply(Trim(now_us=3, limit=10))
        return list(await asyncio.gather(first, trim, store.apply(beats[1]), return_exceptions=True))

    first, trimmed, second = run(tmp_path / "a.db", together)
    assert first.alive
    assert second.alive
    assert isinstance(trimmed, StoreBroken)


@pytest.mark.parametrize("applied", [True, False])
def test_a_resent_request_returns_what_the_first_one_did(tmp_path: Path, applied: bool) -> None:
    """Steps after a commit can fail too, so a caller that gets an error cannot know what was written."""

    async def twice(store: SqliteStore, command: Command[R]) -> R:
        writer = StoreProbe(store).connection
        if applied:
            writer.set_wal_hook(failing)
        else:
            writer.set_commit_hook(lambda: True)
        with pytest.raises(ChronosError):
            await store.apply(command)
        writer.set_wal_hook(None)
        writer.set_commit_hook(None)
        return await store.apply(command)

    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        rows = []
        for name, overlap in (("plain", Overlap.SKIP), ("replacing", Overlap.REPLACE)):
            await world.save(name, overlap=overlap)
            needs_gate_lock = overlap is Overlap.REPLACE
            rows.append(
                admit_row(await world.job(name), T0_US + SECOND_US, None, claim=False, needs_gate_lock=needs_gate_lock)
            )
        admit = Admit(rows=tuple(rows), node=world.node, now_us=T0_US + SECOND_US, request=b"a" * 16)
        admitted = await twice(store, admit)
        assert {one.id for one in admitted} == {row.id for row in rows}
        lanes = tuple(await store.lanes())
        claim = Claim(lanes=lanes, limit=1, node=world.node, now_us=T0_US + SECOND_US, request=b"c" * 16)
        [claimed] = await twice(store, claim)
        [other] = await world.claim()
        assert {claimed.id, other.id} == {row.id for row in rows}
        settle = SettleRow(
            *(claimed.id, claimed.job, claimed.token, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, T0_US + SECOND_US)
        )
        settled = await twice(store, Settle(rows=(settle,), node=world.node, now_us=T0_US + SECOND_US))
        assert settled.settled == [claimed.id]
        assert await store.verify() == []

    run(tmp_path / "chronos.db", check)


def failing(*_: object) -> int:
    raise apsw.IOError("the disk is gone")


def test_an_incompatible_schema_is_rejected_and_the_next_one_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "chronos.db"
    run(path, save_one)

    def pretend(version: int, minimum: int) -> None:
        connection = apsw.Connection(str(path))
        for name, value in (("schema", version), ("schema_minimum", minimum)):
            connection.execute("insert or replace into meta values (?, ?)", (name, str(value)))
        connection.close()

    pretend(migrations.VERSION + 1, migrations.VERSION)
    run(path, save_one)
    pretend(migrations.VERSION + 9, migrations.VERSION + 2)
    error = refusal(path)
    assert f"schema version {migrations.VERSION + 9}" in str(error)
    assert "upgrade this node" in str(error)


def test_an_old_store_is_upgraded_with_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chronos.db"
    run(path, save_one)
    following = migrations.Migration(
        version=migrations.VERSION + 1,
        minimum=migrations.VERSION,
        common="alter table job add column colour {text};\nupdate job set colour = 'blue';\n",
    )
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, following))
    monkeypatch.setattr(migrations, "VERSION", following.version)
    job = run(path, lambda store: store.job_named("default", "job"))
    assert job is not None
    connection = apsw.Connection(str(path))
    assert connection.execute("select colour from job").fetchall() == [("blue",)]
    connection.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chronos.db"
    run(path, save_one)
    before = digest(path)
    broken = migrations.Migration(
        version=migrations.VERSION + 1, minimum=1, common="alter table job add column colour {text};\nnonsense;\n"
    )
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, broken))
    with pytest.raises(ChronosError):
        run(path, nothing)
    monkeypatch.undo()
    assert digest(path) == before


def test_several_stores_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    async def together() -> list[int]:
        stores = [SqliteStore(tmp_path / "chronos.db") for _ in range(3)]
        await asyncio.gather(*(store.open() for store in stores))
        numbers = await asyncio.gather(
            *(
                store.apply(RegisterNode(name="n", incarnation=bytes([i]) * 16, now_us=1))
                for i, store in enumerate(stores)
            )
        )
        for store in stores:
            await store.close()
        return sorted(numbers)

    assert asyncio.run(together()) == [1, 2, 3]


def test_verify_reports_a_gate_of_another_job(tmp_path: Path) -> None:
    async def mix_up(store: SqliteStore) -> list[str]:
        world = StoreFixture(store)
        await world.save("one")
        await world.save("two")
        assert await store.verify() == []
        swap = "update gate set number = -number; update gate set number = 3 + number"
        StoreProbe(store).execute(swap)
        return list(await store.verify())

    problems = run(tmp_path / "chronos.db", mix_up)
    assert len([one for one in problems if "has no job" in one]) == 2


# --- backup


def test_a_backup_is_a_complete_store(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"

    async def back_up(store: SqliteStore) -> None:
        world = StoreFixture(store)
        for i in range(20):
            await world.save(f"job-{i}")
        saving = asyncio.gather(*(world.save(f"later-{i}") for i in range(20)))
        await store.backup(str(copy))
        await saving
        with pytest.raises(Invalid, match="exists already"):
            await store.backup(str(copy))

    run(tmp_path / "chronos.db", back_up)
    jobs = run(copy, lambda store: store.list_jobs(JobFilter(prefix="job-"), limit=100))
    assert len(jobs.items) == 20
    assert run(copy, lambda store: store.verify()) == []


def test_a_backup_finishes_while_the_store_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    writer = apsw.Connection(str(path))
    writer.execute("pragma journal_mode = wal").fetchall()
    writer.execute("create table t (x)")
    writer.execute(
        "insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)"
        " select zeroblob(3000) from n"
    )

    reader = apsw.Connection(str(path))
    steps = 0

    class Disturbed(apsw.Connection):
        def backup(self, *args: Any) -> Any:
            backup = super().backup(*args)

            class Steps:
                done = property(lambda _: backup.done)
                __enter__ = lambda self: self  # noqa: E731
                __exit__ = lambda self, *_: backup.finish()  # noqa: E731

                def step(self, pages: int) -> None:
                    nonlocal steps
                    steps += 1
                    assert steps < 20
                    backup.step(pages)
                    writer.execute("insert into t values (1)")

            return Steps()

    monkeypatch.setattr(apsw, "Connection", Disturbed)
    copy_to(reader, copy)
    assert steps > 1
    reader.close()
    writer.close()
    assert copy.stat().st_size > 3000 * 3000


def test_a_backup_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    async def back_up(store: SqliteStore) -> None:
        with pytest.raises(StoreUnavailable, match="check that its folder exists"):
            await store.backup(str(tmp_path / "missing" / "copy.db"))
        await store.backup(str(tmp_path / "copy.db"))

    run(tmp_path / "chronos.db", back_up)


def test_a_backup_is_restored_to_an_unused_name(tmp_path: Path) -> None:
    path, copy, again = tmp_path / "chronos.db", tmp_path / "copy.db", tmp_path / "again.db"

    async def back_up(store: SqliteStore) -> None:
        await save_one(store)
        await store.backup(str(copy))

    run(path, back_up)
    with pytest.raises(Invalid, match="exists already"):
        restore(copy, path)
    restore(copy, again)
    assert run(again, lambda store: store.job_named("default", "job")) is not None
    with pytest.raises(NotFound):
        restore(tmp_path / "missing.db", tmp_path / "new.db")
    (tmp_path / "notes.txt").write_text("buy milk\n" * 1000)
    with pytest.raises(StoreBroken, match="not a SQLite database"):
        restore(tmp_path / "notes.txt", tmp_path / "new.db")
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("create table customers (name text)")
    connection.close()
    with pytest.raises(StoreBroken, match="not a backup of a Chronos store"):
        restore(tmp_path / "other.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


_COPIER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as log_index:
    fcntl.lockf(log_index, fcntl.LOCK_EX, 1, 121)  # the lock of a checkpoint
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_checkpoint_by_another_process_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is durable, and its caller gets the answer."""
    for name in ("_MIN_COPY_PAGES", "_MAX_COPY_PAGES", "_RESTART_COPIES"):
        monkeypatch.setattr(f"chronos.store.sql.sqlite.checkpoint.{name}", 1)

    async def case() -> None:
        store = SqliteStore(tmp_path / "chronos.db")
        await store.open()
        command = [sys.executable, "-c", _COPIER, f"{tmp_path / 'chronos.db'}-shm"]
        pipe = asyncio.subprocess.PIPE
        other = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        try:
            assert other.stdout is not None
            assert await other.stdout.readline() == b"locked\n"
            number = await store.apply(RegisterNode(name="node-a", incarnation=bytes(16), now_us=1))
            assert [node.number for node in await store.nodes()] == [number]
        finally:
            await other.communicate(b"")  # releases the lock
            await store.close()

    asyncio.run(case())


def test_a_failed_checkpoint_does_not_affect_the_answer_of_its_commit(tmp_path: Path) -> None:
    class Full:
        def wal_checkpoint(self, **_: object) -> None:
            raise apsw.FullError("no space left")

    log = Checkpointer(tmp_path / "chronos.db")
    assert log.copy_log_after_commit(cast(Any, Full()), "main", 1 << 30) == apsw.SQLITE_OK
    log.close()


def test_the_log_restarts_under_continuous_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copying thread alone would never finish, because pages are always added."""
    for name, pages in (("_MIN_COPY_PAGES", 20), ("_MAX_COPY_PAGES", 20), ("_MAX_WRITER_PAGES", 10_000)):
        monkeypatch.setattr(f"chronos.store.sql.sqlite.checkpoint.{name}", pages)
    path = tmp_path / "chronos.db"

    async def pour(store: SqliteStore) -> int:
        world = StoreFixture(store)
        for i in range(200):
            await world.save(f"job-{i}")
        return (tmp_path / "chronos.db-wal").stat().st_size // 4096

    assert run(path, pour) < 20 * 3 * 2 + 100  # of more than a thousand written pages
    assert len(run(path, lambda store: store.list_jobs(JobFilter(), limit=1_000)).items) == 200
