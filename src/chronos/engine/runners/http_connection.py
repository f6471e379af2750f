"""One connection to a server: a request goes out in one piece, its answer comes back as one value.

::

    send ─► bytes ─► parser ─► head ─► body, up to a bound ─► answer
                       │         └─► 1xx: go on                 └─► the connection is kept, if nothing speaks against it
                       └─► no HTTP, too much of it, or the end of the connection: NoAnswer

Nobody reads along, so nobody is woken before the answer is complete. What one exchange may bring is bounded in every
respect: the head, the body, and all that comes over the wire for it. A connection is used again only when the server
said what was asked for and not a byte more.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD = 1 << 16  # bytes of it, together with those of interim answers
MAX_HEADERS = 256
_MAX_WIRE = 8 << 20  # bytes for one answer: of a body in chunks of one byte it takes six times as many
_SWITCHING = 101

Header = tuple[bytes, bytes]


class NoAnswer(Exception):
    """There is none, or half of one. ``kind`` is dns, connect, tls, reset or protocol."""

    def __init__(self, kind: str, said: str = "") -> None:
        super().__init__(said)
        self.kind = kind


class Response(NamedTuple):
    """An answer as it came. ``cut``: there was more of the body than there was room for."""

    status: int
    headers: list[Header]
    body: bytes
    cut: bool

    def header(self, name: bytes) -> str | None:
        """The first header of this name, which is given in lower case."""
        for found, value in self.headers:
            if found.lower() == name:
                return header_text(value)
        return None


def header_text(value: bytes) -> str:
    """A header's value; bytes that are no UTF-8 become lone surrogates."""
    return value.decode("utf-8", "surrogateescape")


class Connection(asyncio.Protocol):
    """Exchanges, one after the other. ``lost`` is called when the connection is no more."""

    __slots__ = (
        "_answer",
        "_body",
        "_head_done",
        "_headers",
        "_loop",
        "_lost",
        "_parser",
        "_received",
        "_room",
        "_size",
        "_status",
        "_transport",
        "_waiter",
        "_without_body",
        "heard",
        "idle_since_s",
        "reusable",
    )

    def __init__(self, lost: Callable[["Connection"], None]) -> None:
        self.heard = False  # anything, since something was sent
        self.reusable = False
        self.idle_since_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None  # it holds this object: let go of when all is over
        self._waiter: asyncio.Future[Response] | None = None
        self._answer: Response | None = None
        self._headers: list[Header] = []
        self._body: list[bytes] = []
        self._head_done = self._without_body = False
        self._status = self._received = self._size = self._room = 0

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, *, without_body: bool, room: int) -> asyncio.Future[Response]:
        """Send a request; gives its answer with up to so many bytes of the body, or raises ``NoAnswer``."""
        assert self._transport is not None
        if self._parser is None:
            self._parser = HttpResponseParser(self)
            self._parser.set_dangerous_leniencies(  # of which none changes where an answer ends
                lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
            )
        self.heard = self.reusable = self._head_done = False
        self._answer = None
        self._without_body, self._room, self._received = without_body, room, 0
        waiter = self._waiter = self._loop.create_future()
        self._transport.write(request)
        return waiter

    def abort(self) -> None:
        """Close it at once, whatever is under way."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._parser is None:  # nothing was asked
            self.abort()
            return
        self.heard = True
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.reusable = False
            if self._answer is None:
                self._fail("protocol", str(error))
                return
        if len(self._headers) > MAX_HEADERS:
            self._fail("protocol", f"more than {MAX_HEADERS} headers")
        elif self._answer is not None:
            self._succeed(self._answer)
        elif self._received > (_MAX_WIRE if self._head_done else MAX_HEAD):
            self._fail("protocol", f"there is no end to its {'body' if self._head_done else 'headers'}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        if self._waiter is not None:
            if exc is None and self._head_done and _ends_with_connection(self._headers):
                self._succeed(self._made(cut=False))
            else:
                self._fail("reset")
        self._parser = None
        self._lost(self)

    # --- the parser's side

    def on_message_begin(self) -> None:
        if self._answer is not None:  # another answer, which nobody asked for
            self.reusable = False
        self._headers, self._body, self._size = [], [], 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # else it comes after the body, where nothing of interest is
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser is None or self._answer is not None:
            return
        status = self._status = parser.get_status_code()
        if 100 <= status <= 199 and status != _SWITCHING:
            return  # the answer is still to come
        self._head_done = True
        self.reusable = status != _SWITCHING and parser.should_keep_alive()
        if self._without_body:
            self._answer = self._made(cut=False)

    def on_body(self, body: bytes) -> None:
        if self._answer is not None:  # more of it than there is room for, or any where there should be none
            self.reusable = False
            return
        self._body.append(body)
        self._size += len(body)
        if self._size > self._room:
            self.reusable = False
            self._answer = self._made(cut=True)

    def on_message_complete(self) -> None:
        if self._head_done and self._answer is None:
            self._answer = self._made(cut=False)

    # --- ends

    def _made(self, *, cut: bool) -> Response:
        return Response(self._status, self._headers, b"".join(self._body), cut)

    def _succeed(self, answer: Response) -> None:
        waiter, self._waiter = self._waiter, None
        self._body, self._answer = [], None
        if self._without_body:
            self._parser = None  # it waits for a body that never comes
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def _fail(self, kind: str, said: str = "") -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(NoAnswer(kind, said))
        self.abort()


def _ends_with_connection(headers: list[Header]) -> bool:
    """Whether a body with these headers is complete when the server hangs up."""
    coding = None
    for name, value in headers:
        match name.lower():
            case b"content-length":
                return False
            case b"transfer-encoding":
                coding = value.rpartition(b",")[2].strip().lower()
            case _:
                pass
    return coding != b"chunked"
