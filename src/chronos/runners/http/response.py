"""The record of a response: a bounded part of it as text, whatever the server sends."""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from chronos.core.credentials import MASK, is_credential_name
from chronos.runners.secret_mask import SecretMask

MAX_BODY_BYTES = 1 << 20
MAX_RESULT_CHARS = 1 << 16
_COMPRESSION_OVERHEAD_BYTES = 1 << 16  # compression may make a body this much longer
_MAX_HEADERS = 64
_MAX_HEADER_VALUE = 1_024
_UNRECORDED_HEADERS = ("set-cookie", "set-cookie2")  # credentials of a session that is not continued
_ZLIB_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 47}
#: Charsets that decode in linear time. Everything else is decoded as UTF-8.
_SAFE_CHARSETS = re.compile(
    r"(us-)?ascii|utf-?8|utf-?16(le|be)?|latin-?1|iso-8859-(\d|1[0-6])|windows-125\d|koi8-[ru]|"
    r"shift_jis|euc-(jp|kr)|gbk|gb18030|big5",
    re.ASCII,
)


class Response(NamedTuple):
    """A response as received. ``is_cut``: the body was longer than the limit."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    is_cut: bool

    def header(self, name: bytes) -> str | None:
        """Return the first header of this name, which must be lower case."""
        for header, value in self.headers:
            if header.lower() == name:
                return _header_text(value)
        return None


def _header_text(value: bytes) -> str:
    """Decode a header's value. Bytes that are not UTF-8 become lone surrogates."""
    return value.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedResponse:
    """A response as it is recorded."""

    status: int
    headers: dict[str, str]
    body: str
    truncated: bool

    def record(self) -> dict[str, Any]:
        return {"status": self.status, "headers": self.headers, "body": self.body, "truncated": self.truncated}

    def result(self) -> Any:
        """Return the value of a small JSON body, else None."""
        if not self.body or self.truncated or len(self.body) > MAX_RESULT_CHARS:
            return None
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if not (kind == "application/json" or kind.endswith("+json")) or "\\u0000" in self.body:
            return None
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None


def body_limit_bytes(mask: SecretMask) -> int:
    """Return how many bytes of a body to read. The rest is never received."""
    # The longest secret is added because a secret at the edge can only be masked if all of it was read.
    return MAX_BODY_BYTES + _COMPRESSION_OVERHEAD_BYTES + mask.longest_secret_chars


def capture(response: Response, mask: SecretMask) -> CapturedResponse:
    """Build the record of a response."""
    body = text = ""
    truncated = False
    if response.body:
        unpacked = _decompress_body(response, MAX_BODY_BYTES + mask.longest_secret_chars)
        text = mask(_decode(unpacked, response.header(b"content-type") or "")).replace("\0", "�")
        body = text[:MAX_BODY_BYTES]
        truncated = response.is_cut or len(unpacked) > MAX_BODY_BYTES or len(text) > MAX_BODY_BYTES
    return CapturedResponse(
        status=response.status, headers=_record_headers(response, mask), body=body, truncated=truncated
    )


def _decompress_body(response: Response, limit: int) -> bytes:
    """Return the decompressed body up to one byte more than is kept, so that a bomb is not expanded further."""
    window = _ZLIB_WINDOW_BITS.get((response.header(b"content-encoding") or "").strip().lower())
    if window is None:
        return response.body[: limit + 1]
    try:
        return zlib.decompressobj(window).decompress(response.body, limit + 1)
    except zlib.error:
        return b"(the Content-Encoding header is wrong: the body is not compressed)"


def _decode(body: bytes, content_type: str) -> str:
    return body.decode(_charset(content_type), "replace")


@lru_cache(maxsize=256)
def _charset(content_type: str) -> str:
    """Return the charset of a body, if it is a safe one, else UTF-8."""
    message = Message()
    message["Content-Type"] = content_type[:_MAX_HEADER_VALUE]
    name = (message.get_content_charset() or "utf-8").lower()
    return name if _SAFE_CHARSETS.fullmatch(name) else "utf-8"


def _record_headers(response: Response, mask: SecretMask) -> dict[str, str]:
    recorded: dict[str, str] = {}
    for name, value in response.headers:
        if len(recorded) >= _MAX_HEADERS:
            break
        if (shown := _to_recorded_name(name)) is not None:
            recorded[shown] = MASK if value and is_credential_name(shown) else _to_recorded_value(value, mask)
    return recorded


def _to_recorded_value(value: bytes, mask: SecretMask) -> str:
    """Return a header's value in a form that every store accepts."""
    text = mask(_header_text(value)[:_MAX_HEADER_VALUE]).replace("\0", "�")
    return text if value.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=1024)
def _to_recorded_name(name: bytes) -> str | None:
    """Return a header's name for the record; None if it is not recorded."""
    shown = name.decode("ascii", "replace")
    return None if shown.lower() in _UNRECORDED_HEADERS else shown.title()[:200]
