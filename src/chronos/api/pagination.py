"""Cursors of lists: opaque text, validated before the store is called."""

import base64
import binascii

from chronos.api.errors import Malformed
from chronos.core.ids import ID_BYTES

_SEPARATOR = b"\0"


def write_cursor(cursor: bytes | None) -> str | None:
    """Encode a cursor of the store."""
    return None if cursor is None else base64.urlsafe_b64encode(cursor).rstrip(b"=").decode()


def read_id_cursor(text: str | None) -> bytes | None:
    """Decode a cursor of a list that is ordered by id."""
    cursor = _decode(text)
    if cursor is not None and len(cursor) != ID_BYTES:
        raise _invalid_cursor()
    return cursor


def read_name_cursor(text: str | None) -> bytes | None:
    """Decode a cursor of a list that is ordered by namespace and name."""
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
    return Malformed("invalid cursor for this list; use next_cursor of the previous page, or leave it out")
