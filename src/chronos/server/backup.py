"""Backup: a copy of a store in one file, made while servers keep running."""

from pathlib import Path

from chronos.assembly import is_in_memory, make_store, parse_sqlite_file
from chronos.errors import Invalid, NotFound


async def back_up(url: str, target: Path) -> None:
    """Copy a store to a new file. Raises ``Invalid`` or ``NotFound`` if that is impossible."""
    _check_paths(url, target)
    store = make_store(url)
    await store.open()
    try:
        await store.backup(str(target))
    finally:
        await store.close()


def _check_paths(url: str, target: Path) -> None:
    """Check both ends first: opening a missing SQLite store would create it."""
    if is_in_memory(url):
        raise Invalid("a store in memory cannot be copied; name another with --store sqlite:///path/to/file.db")
    source = parse_sqlite_file(url)
    if source is not None and not source.exists():
        raise NotFound(f"{source} does not exist; name the store with --store sqlite:///path/to/file.db")
    if not target.parent.is_dir():
        raise Invalid(f"{target.parent} is not a folder; create it, or name another")
