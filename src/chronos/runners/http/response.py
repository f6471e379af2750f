"""What is kept of an answer: a bounded part of it, as text, whatever the other side sends."""

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
_COMPRESSION_OVERHEAD_BYTES = 1 << 16  # by which packing may make a body longer that would have fitted
_MAX_HEADERS = 64
_MAX_HEADER_VALUE = 1_024
_UNRECORDED_HEADERS = ("set-cookie", "set-cookie2")  # credentials of a session that nobody goes on with
_ZLIB_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 47}
#: Encodings that decode in linear time; with any other, or none, it is taken for UTF-8.
_SAFE_CHARSETS = re.compile(
    r"(us-)?ascii|utf-?8|utf-?16(le|be)?|latin-?1|iso-8859-(\d|1[0-6])|windows-125\d|koi8-[ru]|"
    r"shift_jis|euc-(jp|kr)|gbk|gb18030|big5",
    re.ASCII,
)


class Response(NamedTuple):
    """An answer as it came. ``is_cut``: there was more of the body than there was room for."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    is_cut: bool

    def header(self, name: bytes) -> str | None:
        """The first header of this name, which is given in lower case."""
        for header, value in self.headers:
            if header.lower() == name:
                return _header_text(value)
        return None


def _header_text(value: bytes) -> str:
    """A header's value; bytes that are no UTF-8 become lone surrogates."""
    return value.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedResponse:
    """An answer as it is recorded."""

    status: int
    headers: dict[str, str]
    body: str
    truncated: bool

    def record(self) -> dict[str, Any]:
        return {"status": self.status, "headers": self.headers, "body": self.body, "truncated": self.truncated}

    def result(self) -> Any:
        """The value of a small JSON body, else None."""
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
    """How many bytes of a body are worth reading; what is beyond is never taken off the wire."""
    return (
        MAX_BODY_BYTES + _COMPRESSION_OVERHEAD_BYTES + mask.longest_secret_chars
    )  # a secret at the edge must be seen whole to be masked


def capture(response: Response, mask: SecretMask) -> CapturedResponse:
    """What is kept of an answer."""
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
    """The body without its compression, up to one byte more than is recorded: a bomb is not unpacked any further."""
    window = _ZLIB_WINDOW_BITS.get((response.header(b"content-encoding") or "").strip().lower())
    if window is None:
        return response.body[: limit + 1]
    try:
        return zlib.decompressobj(window).decompress(response.body, limit + 1)
    except zlib.error:
        return b"(the body says that it is compressed, and is not)"


def _decode(body: bytes, content_type: str) -> str:
    return body.decode(_charset(content_type), "replace")


@lru_cache(maxsize=256)
def _charset(content_type: str) -> str:
    """What a body is written in, as far as that can be believed."""
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
    """A header's value as every store takes it."""
    text = mask(_header_text(value)[:_MAX_HEADER_VALUE]).replace("\0", "�")
    return text if value.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=1024)
def _to_recorded_name(name: bytes) -> str | None:
    """How a header is called in the record; None: it is left out."""
    shown = name.decode("ascii", "replace")
    return None if shown.lower() in _UNRECORDED_HEADERS else shown.title()[:200]
