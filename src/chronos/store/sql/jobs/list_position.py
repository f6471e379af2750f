"""Positions in lists of jobs: what a cursor means, for each order and direction.

A cursor names the key of the last row, so that an old link still works. Within a cursor the parts are separated by NUL,
which is never part of a name::

    namespace NUL name     after this job, by name        @ next_us NUL number      after this gate, by next run
    < namespace NUL name   before this job                ! finished_us NUL id      before this run, newest first

``<`` in front turns the direction.
"""

import re
from typing import NamedTuple

from chronos.errors import Invalid
from chronos.store.overview import JobSort

_SEPARATOR = "\x00"
_PREFIXES = {JobSort.NAME: "", JobSort.NEXT_RUN: "@", JobSort.LAST_RUN: "!"}
_KEYS = {
    JobSort.NAME: re.compile(r"[^\0<@!][^\0]*\0[^\0]+"),
    JobSort.NEXT_RUN: re.compile(r"@-?[0-9]{1,18}\0[0-9]{1,18}", re.ASCII),
    JobSort.LAST_RUN: re.compile(r"!-?[0-9]{1,18}\0[0-9a-f]{32}", re.ASCII),
}


class Position(NamedTuple):
    """A place in a list, between two rows."""

    first: str
    second: str
    backward: bool = False


def read_position(cursor: bytes | None, sort: JobSort) -> Position | None:
    """Read a cursor. Raises ``Invalid`` if it belongs to another order."""
    if cursor is None:
        return None
    text = cursor.decode("utf-8", "replace")
    backward = text.startswith("<")
    key = text.removeprefix("<")
    if not _KEYS[sort].fullmatch(key):
        raise Invalid(f"the cursor does not belong to a list by {sort.value}; leave it out to start again")
    first, second = key.removeprefix(_PREFIXES[sort]).split(_SEPARATOR)
    return Position(first, second, backward)


def write_position(sort: JobSort, first: str | int, second: str | int, *, backward: bool = False) -> bytes:
    """Write the cursor of a position."""
    return f"{'<' if backward else ''}{_PREFIXES[sort]}{first}{_SEPARATOR}{second}".encode()
