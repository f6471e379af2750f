"""What is kept of an answer: a bounded part of it, as text, whatever the other side sends."""

import re
import zlib
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from typing import Any

import msgspec

from chronos.engine.runners.http_pool import Response
from chronos.engine.runners.masking import Mask

MAX_BODY = 1 << 20
MAX_RESULT = 1 << 16
_DIGITS = 12  # of a length that is worth reading as a number
_MAX_HEADERS = 64
_MAX_HEADER_VALUE = 1_024
_LEFT_OUT = ("set-cookie", "set-cookie2")  # credentials of a session that nobody goes on with
_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 47}
#: Encodings that decode in linear time; with any other, or none, it is taken for UTF-8.
_CHARSETS = re.compile(
    r"(us-)?ascii|utf-?8|utf-?16(le|be)?|latin-?1|iso-8859-(\d|1[0-6])|windows-125\d|koi8-[ru]|"
    r"shift_jis|euc-(jp|kr)|gbk|gb18030|big5",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as it is recorded."""

    status: int
    headers: dict[str, str]
    body: str
    truncated: bool

    def record(self) -> dict[str, Any]:
        return {"status": self.status, "headers": self.headers, "body": self.body, "truncated": self.truncated}

    def result(self) -> Any:
        """The value of a small JSON body, else None."""
        if not self.body or self.truncated or len(self.body) > MAX_RESULT:
            return None
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if not (kind == "application/json" or kind.endswith("+json")) or "\\u0000" in self.body:
            return None
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None


async def capture(response: Response, mask: Mask) -> Answer:
    """Read what is kept, and no more: the rest of a longer body is never taken off the wire."""
    room = MAX_BODY + mask.longest  # a secret at the edge must be seen whole to be masked
    body = await _read(response, room)
    masked = mask(_decode(body, response.headers.get("Content-Type", ""))).replace("\0", "�") if body else ""
    return Answer(
        status=response.status,
        headers=_headers(response, mask),
        body=masked[:MAX_BODY],
        truncated=len(body) > MAX_BODY or len(masked) > MAX_BODY,
    )


async def _read(response: Response, room: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    window = _WINDOW.get(encoding)
    length = response.headers.get("Content-Length", "")
    if window is None and length.isdecimal() and len(length) <= _DIGITS and int(length) <= room:
        return await response.content.read()
    unpack = None if window is None else zlib.decompressobj(window)
    found = bytearray()
    async for chunk in response.content.iter_any():
        if unpack is None:
            found += chunk[: room + 1 - len(found)]
        else:
            try:
                found += unpack.decompress(chunk, room + 1 - len(found))  # a bomb is not unpacked beyond what is kept
            except zlib.error:
                found += b"(the body says that it is compressed, and is not)"
                break
        if len(found) > room:
            break
    return bytes(found)


def _decode(body: bytes, content_type: str) -> str:
    return body.decode(_charset(content_type), "replace")


@lru_cache(maxsize=256)
def _charset(content_type: str) -> str:
    """What a body is written in, as far as that can be believed."""
    message = Message()
    message["Content-Type"] = content_type[:_MAX_HEADER_VALUE]
    name = (message.get_content_charset() or "utf-8").lower()
    return name if _CHARSETS.fullmatch(name) else "utf-8"


def _headers(response: Response, mask: Mask) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, value in response.headers.items():
        if len(kept) >= _MAX_HEADERS:
            break
        if (shown := _shown_name(name)) is not None:
            kept[shown] = _text(mask(value[:_MAX_HEADER_VALUE]))
    return kept


def _text(value: str) -> str:
    """A header's value as every store takes it; bytes that are no UTF-8 come from the parser as lone surrogates."""
    return value.replace("\0", "�").encode("utf-8", "replace").decode()


@lru_cache(maxsize=1024)
def _shown_name(name: str) -> str | None:
    """How a header is called in the record; None: it is left out."""
    return None if name.lower() in _LEFT_OUT else name.title()[:200]
