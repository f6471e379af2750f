"""Cursors of lists as clients see them: opaque text, checked before the store is asked."""

import base64
import binascii

from chronos.api.errors import Malformed
from chronos.core.ids import ID_BYTES

_SEPARATOR = b"\0"


def write_cursor(cursor: bytes | None) -> str | None:
    """A cursor of the store for the next request."""
    return None if cursor is None else base64.urlsafe_b64encode(cursor).rstrip(b"=").decode()


def read_id_cursor(text: str | None) -> bytes | None:
    """A cursor of a list that is ordered by ids."""
    cursor = _decode(text)
    if cursor is not None and len(cursor) != ID_BYTES:
        raise _invalid_cursor()
    return cursor


def read_name_cursor(text: str | None) -> bytes | None:
    """A cursor of a list that is ordered by namespace and name."""
    cursor = _decode(text)
    if cursor is None:
        return None
    if cursor.count(_SEPARATOR) != 1 or not cursor.isascii():
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
    return Malformed("the cursor is none of this list; take next_cursor of the page before, or leave it out")
