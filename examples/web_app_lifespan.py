"""Jobs in a web app: they start and stop with it, on its event loop.

FastAPI and Starlette accept ``lifespan`` (``FastAPI(lifespan=lifespan)``). ``asgi`` shows the protocol underneath.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from chronos import Chronos

jobs = Chronos("sqlite://", grace="5s")
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@jobs.job(every="1m")
async def refresh_cache() -> None: ...


@jobs.job
async def send_mail(to: str) -> str:
    return f"sent to {to}"


@asynccontextmanager
async def lifespan(_app: object) -> AsyncIterator[None]:
    async with jobs:
        yield


async def asgi(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        async with lifespan(None):
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    run = await send_mail.atrigger({"to": "ana@example.org"})  # the request only triggers the job
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": run.id.encode()})


async def main() -> None:
    """Act as an ASGI server: start, one request, stop."""
    received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    server = asyncio.create_task(asgi({"type": "lifespan"}, received.get, sent.put))
    await received.put({"type": "lifespan.startup"})
    print((await sent.get())["type"])
    await asgi({"type": "http"}, received.get, sent.put)
    print((await sent.get())["status"])
    run = jobs.get_run((await sent.get())["body"].decode())
    print(await run.aresult(timeout=30))
    await received.put({"type": "lifespan.shutdown"})
    print((await sent.get())["type"])
    await server


if __name__ == "__main__":
    asyncio.run(main())
