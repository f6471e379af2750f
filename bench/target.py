"""A server for webhooks to arrive at, in a process of its own: ``python -m bench.target`` prints where it listens."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web


@contextmanager
def target_server() -> Iterator[str]:
    """The address of such a server."""
    process = subprocess.Popen([sys.executable, "-m", "bench.target"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


async def _serve() -> None:
    app = web.Application()
    app.router.add_route("*", "/hook", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}/hook\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def _answer(_: web.Request) -> web.Response:
    return web.Response()


if __name__ == "__main__":
    asyncio.run(_serve())
