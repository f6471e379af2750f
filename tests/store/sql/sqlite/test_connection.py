"""The files of a SQLite store: moved, removed, restored next to old logs, protected from other users."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chronos.errors import Invalid, StoreBroken, StoreUnavailable
from chronos.store.sql.sqlite.connection import restore
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance import StoreFixture
from tests.store.sql.sqlite.test_store import nothing, refusal, run, save_one

SIDES = ("-wal", "-shm", "-journal")
_UNPRIVILEGED_UID = 65534
_KILLED = """
import asyncio, os, signal, sys
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance import StoreFixture

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    for number in range(20):
        await StoreFixture(store).save(f"late-{number}", description="x" * 500)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="chronos-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """Run without root privileges, if the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_UNPRIVILEGED_UID)
    try:
        yield
    finally:
        os.seteuid(0)


def modes(folder: Path) -> set[str]:
    """Return the permissions of the files of a folder."""
    return {oct(file.stat().st_mode & 0o777) for file in folder.iterdir()}


def create_with_backup(path: Path, copy: Path) -> None:
    """Create a store with one job, and its backup."""

    async def back_up(store: SqliteStore) -> None:
        await save_one(store)
        await store.backup(str(copy))

    run(path, back_up)


# --- old logs


@pytest.mark.parametrize("side", SIDES)
def test_no_store_is_written_next_to_files_of_an_earlier_one(tmp_path: Path, side: str) -> None:
    copy, target = tmp_path / "copy.db", tmp_path / "target.db"
    create_with_backup(tmp_path / "chronos.db", copy)
    left = tmp_path / f"target.db{side}"
    left.write_bytes(b"old")
    with pytest.raises(Invalid, match=f"found target.db{side} of an earlier target.db.*move all of its files together"):
        restore(copy, target)

    async def back_up(store: SqliteStore) -> None:
        with pytest.raises(Invalid, match="of an earlier"):
            await store.backup(str(target))

    run(tmp_path / "chronos.db", back_up)
    assert (left.read_bytes(), target.exists()) == (b"old", False)
    left.unlink()
    restore(copy, target)
    assert run(target, lambda store: store.job_named("default", "job")) is not None


def test_a_killed_store_is_restored_after_all_its_files_were_moved(tmp_path: Path) -> None:
    path, copy = tmp_path / "chronos.db", tmp_path / "copy.db"
    create_with_backup(path, copy)
    subprocess.run([sys.executable, "-c", _KILLED, path], check=False, timeout=60)
    assert (tmp_path / "chronos.db-wal").stat().st_size
    path.rename(tmp_path / "broken.db")
    with pytest.raises(Invalid, match=r"chronos\.db-wal and chronos\.db-shm"):
        restore(copy, path)
    error = refusal(path)  # a new store is not created there either: the log would be lost
    assert isinstance(error, StoreBroken)
    assert "not the database file it belongs to" in str(error)
    for side in ("-wal", "-shm"):
        (tmp_path / f"chronos.db{side}").rename(tmp_path / f"broken.db{side}")
    restore(copy, path)
    assert run(path, lambda store: store.job_named("default", "late-1")) is None
    assert run(path, lambda store: store.verify()) == []
    assert run(tmp_path / "broken.db", lambda store: store.job_named("default", "late-19")) is not None


def test_leftovers_of_an_earlier_backup_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "copy.db.partial").write_bytes(b"rubbish" * 1_000)
    create_with_backup(tmp_path / "chronos.db", tmp_path / "copy.db")
    assert run(tmp_path / "copy.db", lambda store: store.verify()) == []
    assert [file.name for file in tmp_path.glob("*.partial")] == ["copy.db.partial"]


def test_of_two_concurrent_backups_to_one_name_the_file_is_complete(tmp_path: Path) -> None:
    async def twice(store: SqliteStore) -> None:
        for n in range(50):
            await StoreFixture(store).save(f"job-{n}")
        await asyncio.gather(*(store.backup(str(tmp_path / "copy.db")) for _ in range(2)), return_exceptions=True)

    run(tmp_path / "chronos.db", twice)
    assert run(tmp_path / "copy.db", lambda store: store.verify()) == []
    assert list(tmp_path.glob("*.partial")) == []


# --- moved files


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_store_whose_file_was_moved_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("chronos.store.sql.sqlite.connection._CHECK_INTERVAL_S", 0)
    path, away = tmp_path / "chronos.db", tmp_path / "away.db"

    async def case(store: SqliteStore) -> None:
        world = StoreFixture(store)
        await world.save("before")
        path.rename(away)
        if how == "replaced":
            path.write_bytes(b"")
        for _ in range(2):
            with pytest.raises(StoreBroken, match="was moved, removed or replaced while the store was open"):
                await world.save("after")
        path.unlink(missing_ok=True)
        away.rename(path)
        await world.save("again")

    run(path, case)
    assert run(path, lambda store: store.job_named("default", "after")) is None
    assert run(path, lambda store: store.job_named("default", "again")) is not None


def test_the_file_is_checked_once_per_second_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    real = Path.stat

    def stat(self: Path, **options: bool) -> os.stat_result:
        looks.append(self.name)
        return real(self, **options)

    async def case(store: SqliteStore) -> None:
        world = StoreFixture(store)
        await world.start_node()
        monkeypatch.setattr(Path, "stat", stat)
        for n in range(50):
            await world.save(f"job-{n}")
        monkeypatch.undo()

    run(tmp_path / "chronos.db", case)
    assert len(looks) <= 10


# --- permissions


def test_a_new_store_and_its_backup_are_private_to_their_user(tmp_path: Path) -> None:
    path, copy, again = tmp_path / "chronos.db", tmp_path / "copy.db", tmp_path / "again.db"

    async def case(store: SqliteStore) -> set[str]:
        await save_one(store)
        await store.backup(str(copy))
        return modes(tmp_path)

    assert run(path, case) == {"0o600"}
    restore(copy, again)
    assert again.stat().st_mode & 0o777 == 0o600


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "chronos.db"
    run(path, save_one)
    path.chmod(0o640)

    async def case(store: SqliteStore) -> set[str]:
        await save_one(store)
        return modes(tmp_path)

    assert run(path, case) == {"0o640"}


def test_a_read_only_file_is_rejected_when_it_is_opened(open_folder: Path) -> None:
    path = open_folder / "chronos.db"
    run(path, save_one)
    path.chmod(0o444)
    open_folder.chmod(0o777)
    with as_unprivileged_user():
        error = refusal(path, nothing)
    assert isinstance(error, StoreUnavailable)
    assert "is read-only; check the permissions" in str(error)


def test_a_read_only_backup_is_restored(open_folder: Path) -> None:
    copy, target = open_folder / "copy.db", open_folder / "new" / "chronos.db"
    create_with_backup(open_folder / "chronos.db", copy)
    target.parent.mkdir()
    target.parent.chmod(0o777)
    copy.chmod(0o444)
    open_folder.chmod(0o555)
    with as_unprivileged_user():
        restore(copy, target)
    open_folder.chmod(0o755)
    assert run(target, lambda store: store.job_named("default", "job")) is not None


def test_a_header_of_another_format_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "chronos.db"
    run(path, save_one)
    data = bytearray(path.read_bytes())
    data[44:48] = (99).to_bytes(4)  # the schema format number
    path.write_bytes(data)
    error = refusal(path)
    assert isinstance(error, StoreBroken)
    assert "restore a backup or use another file" in str(error)
