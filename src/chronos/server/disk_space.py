"""Warns while the disk of the store is nearly full: a store that cannot write stops every job."""

import shutil
from pathlib import Path

from chronos.assembly import parse_sqlite_file

_MIN_FREE_BYTES = 1 << 30
_MIN_FREE_SHARE = 0.05


def describe_shortage(store: str) -> str | None:
    """Return a sentence if less than 1 GiB and less than 5% of the disk of a store are free; else None."""
    path = parse_sqlite_file(store)
    if path is None:
        return None
    try:
        usage = shutil.disk_usage(path.parent if path.parent.exists() else Path())
    except OSError:
        return None
    if usage.free >= _MIN_FREE_BYTES or usage.free >= usage.total * _MIN_FREE_SHARE:
        return None
    return (
        f"The disk of the store is nearly full: {usage.free >> 20:,} MiB are free. Free some space, or move the store."
    )
