"""A copy of a store in one file, made while servers go on working."""

from pathlib import Path

from chronos.assembly import is_in_memory, make_store, parse_sqlite_file
from chronos.errors import Invalid, NotFound


async def back_up(url: str, target: Path) -> None:
    """Copy a store to a file that does not exist yet."""
    _check_paths(url, target)
    store = make_store(url)
    await store.open()
    try:
        await store.backup(str(target))
    finally:
        await store.close()


def _check_paths(url: str, target: Path) -> None:
    """Refuse what cannot be copied, before a store is made only to be copied."""
    if is_in_memory(url):
        raise Invalid("a store in memory belongs to the process that uses it; there is nothing to copy")
    source = parse_sqlite_file(url)
    if source is not None and not source.exists():
        raise NotFound(f"{source} does not exist; name the store with --store sqlite:///path/to/file.db")
    if not target.parent.is_dir():
        raise Invalid(f"{target.parent} is no folder; create it, or name another")
