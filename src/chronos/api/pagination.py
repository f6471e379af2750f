"""Cursors of lists: opaque text, validated before the store is called."""

import base64
import binascii
import re

from chronos.api.errors import Malformed
from chronos.core.ids import ID_BYTES
from chronos.store.overview import JobSort

_JOB_CURSORS = {
    JobSort.NAME: re.compile(rb"<?[A-Za-z0-9][!-~]*\0[!-~]+"),
    JobSort.NEXT_RUN: re.compile(rb"<?@-?[0-9]{1,18}\0[0-9]{1,18}"),
    JobSort.LAST_RUN: re.compile(rb"<?!-?[0-9]{1,18}\0[0-9a-f]{32}"),
}


def write_cursor(cursor: bytes | None) -> str | None:
    """Encode a cursor of the store."""
    return None if cursor is None else base64.urlsafe_b64encode(cursor).rstrip(b"=").decode()


def read_id_cursor(text: str | None) -> bytes | None:
    """Decode a cursor of a list that is ordered by id."""
    cursor = _decode(text)
    if cursor is not None and len(cursor) != ID_BYTES:
        raise _invalid_cursor()
    return cursor


def read_job_cursor(text: str | None, sort: JobSort) -> bytes | None:
    """Decode a cursor of a list of jobs in this order."""
    cursor = _decode(text)
    if cursor is not None and not _JOB_CURSORS[sort].fullmatch(cursor):
        raise _invalid_cursor()
    return cursor


def _decode(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _invalid_cursor() from None


def _invalid_cursor() -> Malformed:
    return Malformed("invalid cursor for this list; use next_cursor of the previous page, or leave it out")
