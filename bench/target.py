"""A server that receives webhooks, in its own process: ``python -m bench.target`` prints its address.

It only finds the end of each request and always sends the same response, so that it takes little CPU from the program
under test. A real server would be on another machine.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: application/octet-stream\r\n"
    b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: bench\r\n\r\n"
)


@contextmanager
def target_server() -> Iterator[str]:
    """The address of a running target server."""
    process = subprocess.Popen([sys.executable, "-m", "bench.target"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


class _Hook(asyncio.Protocol):
    def __init__(self) -> None:
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (head := self._unread.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._unread, 0, head + 2)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._unread) < end:
                return
            self._unread = self._unread[end:]
            self._transport.write(_ANSWER)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Hook, "127.0.0.1", 0)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
