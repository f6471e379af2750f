"""Streams: finished executions as server-sent events, and the log of an execution while it is written.

An event says that a record was written, and carries it. A client that reconnects names its last event
(``Last-Event-ID``) and gets the ones since. Hints of the store wake the streams; without hints they poll. The number of
streams is bounded.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec
from aiohttp import web

from chronos.api.auth.permissions import ANONYMOUS_ADMIN, Permission
from chronos.api.errors import Malformed, TooManyRequests
from chronos.api.request import RequestContext
from chronos.api.responses import HEADERS, write_within
from chronos.api.routing import NAMESPACE_FILTER, Param, ResponseDoc, RouteTable, Scope
from chronos.core.execution import Execution, Span
from chronos.errors import NotFound, Unavailable
from chronos.service.event_feed import LAST_ID, EventFeed, Position, format_position, parse_position, position_of
from chronos.store.commands import PROGRESS, OutputRow
from chronos.store.contract import Hint, Store

EVENT_STREAM = "text/event-stream"
_RETRY_AFTER_S = 5.0  # for a client at its limit of streams

route = RouteTable("Executions")


class Streams:
    """Open streams, at most ``limit`` in total and ``limit_per_client`` per client. A hint of the store wakes all."""

    def __init__(self, store: Store, limit: int, limit_per_client: int) -> None:
        self._limit, self._limit_per_client = limit, limit_per_client
        self._listening: dict[asyncio.Event, Hint] = {}
        self._clients: Counter[str] = Counter()
        store.on_hint(self._wake_by_hint)

    @contextmanager
    def listen(self, *clients: str) -> Iterator[asyncio.Event]:
        """Open a stream; yields an event that is set when there may be news. ``clients`` are the names that it counts
        for.

        Raises TooManyRequests if a client is at its limit, and Unavailable if too many streams are open in total.
        """
        for client in clients:
            if self._clients[client] >= self._limit_per_client:
                raise TooManyRequests(
                    f"{client} has {self._limit_per_client} open streams of events or logs, the maximum per client; "
                    "close one, or try again later",
                    _RETRY_AFTER_S,
                )
        if len(self._listening) >= self._limit:
            raise Unavailable(f"{self._limit} streams are already open, the maximum of this server; try again later")
        woken = asyncio.Event()
        self._listening[woken] = Hint(0)
        self._clients.update(clients)
        try:
            yield woken
        finally:
            del self._listening[woken]
            self._clients.subtract(clients)
            self._clients = +self._clients  # drops the zero counts

    def take_hint(self, woken: asyncio.Event) -> Hint:
        """Return the hints since the last call."""
        hint, self._listening[woken] = self._listening[woken], Hint(0)
        woken.clear()
        return hint

    def close(self) -> None:
        """Wake all streams, so that they notice that the server stops."""
        for woken in self._listening:
            woken.set()

    def _wake_by_hint(self, hint: Hint) -> None:
        for woken in self._listening:
            self._listening[woken] |= hint
            woken.set()


@route.get(
    "/events",
    permission=Permission.VIEW,
    scope=Scope.SEEN,
    tag="Server",
    summary="Stream finished executions as server-sent events",
    query=(NAMESPACE_FILTER, Param(name="after", description="alternative to the header Last-Event-ID")),
    returns={
        200: ResponseDoc(
            "events until one side closes the connection",
            {"type": "string", "description": "server-sent events"},
            type=EVENT_STREAM,
        )
    },
    is_stream=True,
)
async def events(context: RequestContext) -> web.StreamResponse:
    """Stream executions and spans as they end, from now on or since the event in Last-Event-ID."""
    store = context.api.store
    after = _read_last_event(context) or (await store.clock_us() or context.api.clock.now_us(), LAST_ID)
    with context.api.streams.listen(*_clients(context)) as woken:
        return await _send(context, EVENT_STREAM, _feed_chunks(context, EventFeed(store, after), woken))


async def _feed_chunks(context: RequestContext, feed: EventFeed, woken: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield events as they come, and a comment now and then to show that the connection is open."""
    options, loop = context.api.options, asyncio.get_running_loop()
    yield b"retry: 2000\n: welcome\n\n"
    quiet_since = loop.time()
    while not _is_closing(context):
        if context.api.streams.take_hint(woken) & Hint.JOBS:
            yield b"event: jobs\ndata: {}\n\n"
            quiet_since = loop.time()
        while items := await feed.read():
            async for chunk in _write_events(context, items):
                yield chunk
            quiet_since = loop.time()
        if loop.time() - quiet_since >= options.heartbeat_s:
            yield b": still here\n\n"
            quiet_since = loop.time()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(options.poll_s, options.heartbeat_s)):
                await woken.wait()


async def _write_events(context: RequestContext, items: Sequence[Execution | Span]) -> AsyncIterator[bytes]:
    names = await context.api.store.names_of(sorted({item.job for item in items}))
    for item, data in zip(items, await context.api.service.runs.write_items(items, names), strict=True):
        if not context.is_visible(names[item.job].namespace if item.job in names else None):
            continue
        kind = "span" if isinstance(item, Span) else "execution"
        yield b"event: %s\nid: %s\ndata: %s\n\n" % (
            kind.encode(),
            format_position(position_of(item)).encode(),
            msgspec.json.encode(data),
        )


def _read_last_event(context: RequestContext) -> Position | None:
    text = context.request.headers.get("Last-Event-ID") or context.text("after")
    if not text:
        return None
    position = parse_position(text)
    if position is None:
        raise Malformed("invalid Last-Event-ID; send the id of an event of this stream, or leave it out")
    return position


# --- logs


@route.get(
    "/executions/{id}/log",
    permission=Permission.VIEW,
    summary="Get the log of an execution as text",
    query=(
        Param(
            name="follow",
            description="stream until the execution has finished",
            schema={"type": "boolean", "default": False},
        ),
        Param(name="task", description="only the output of this task"),
        Param(
            name="attempt",
            description="only the output of this attempt, counted from 1",
            schema={"type": "integer", "minimum": 0, "maximum": 1_000_000},
        ),
    ),
    returns={200: ResponseDoc("the output", {"type": "string"}, "hello\n", type="text/plain")},
    is_stream=True,
)
async def log(context: RequestContext) -> web.StreamResponse:
    """Get the output of the attempts of an execution; with `follow`, stream it until the execution has finished."""
    task = context.text("task")
    attempt = context.integer("attempt", 0, low=0, high=1_000_000)
    if task is not None:
        await check_task(context, task)
    if not context.boolean("follow"):
        rows = await context.api.store.output(context.view.execution.id)
        text = "".join(OutputStream(task, attempt).new_text(rows))
        return web.Response(text=text, content_type="text/plain", charset="utf-8")
    with context.api.streams.listen(*_clients(context)) as woken:
        return await _send(
            context, "text/plain; charset=utf-8", _log_chunks(context, OutputStream(task, attempt), woken)
        )


async def check_task(context: RequestContext, task: str) -> None:
    """Raise ``NotFound`` for an unknown task. Hooks also write output, under their own names."""
    execution = context.view.execution.id
    names = {task_["name"] for task_ in (await context.api.service.runs.get_json(execution))["tasks"]}
    if task not in names and all(row.task != task for row in await context.api.store.output(execution)):
        raise NotFound(f'the execution has no task "{task[:200]}"; its tasks: {", ".join(sorted(names)) or "none"}')


class OutputStream:
    """Output as text: the part that was not sent yet, with a heading per attempt if there are several."""

    def __init__(self, task: str | None, attempt: int) -> None:
        self._task, self._attempt = task, attempt
        self._sent_text: dict[tuple[str, int, int], str] = {}
        self._current: tuple[str, int] | None = None

    def new_text(self, rows: Sequence[OutputRow]) -> Iterator[str]:
        """Yield the new text in the rows of an execution."""
        selected = [row for row in rows if row.part != PROGRESS and self._is_selected(row)]
        several = len({(row.task, row.number) for row in selected}) > 1
        for row in selected:
            key = (row.task, row.number, row.part)
            before = self._sent_text.get(key, "")
            if row.text == before:
                continue
            if self._current != (row.task, row.number) and (several or self._current is not None):
                yield f"--- {row.task}, attempt {row.number}\n"
            self._current = (row.task, row.number)
            self._sent_text[key] = row.text
            yield _find_appended_text(before, row.text)

    def _is_selected(self, row: OutputRow) -> bool:
        return self._task in (None, row.task) and self._attempt in (0, row.number)


def _find_appended_text(before: str, after: str) -> str:
    """Return the text that was appended to a part. The tail of a log moves: its front is cut while its end grows."""
    if after.startswith(before):
        return after[len(before) :]
    end = before[-200:]
    at = after.rfind(end)
    return after[at + len(end) :] if at >= 0 else f"\n… some output was omitted …\n{after}"


async def _log_chunks(context: RequestContext, text: OutputStream, woken: asyncio.Event) -> AsyncIterator[bytes]:
    execution, store = context.view.execution.id, context.api.store
    while not _is_closing(context):
        view = await store.execution(execution)
        is_over = view is None or view.execution.status.final
        for chunk in text.new_text(await store.output(execution)):
            yield chunk.encode()
        if is_over:
            return
        context.api.streams.take_hint(woken)
        with suppress(TimeoutError):
            async with asyncio.timeout(context.api.options.poll_s):
                await woken.wait()


# --- shared


def _clients(context: RequestContext) -> tuple[str, ...]:
    """Return the names that a stream counts for: the address, and the principal if there is authentication."""
    address = f"the address {context.address_group}"
    return (address,) if context.principal is ANONYMOUS_ADMIN else (context.principal.name, address)


async def _send(context: RequestContext, content_type: str, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send chunks as they come, until they end, the client disconnects, or the store is unavailable.

    A client that sees the end of a stream reconnects and resumes.
    """
    headers = {**dict(HEADERS), "Content-Type": content_type, "X-Accel-Buffering": "no", **context.headers}
    response = web.StreamResponse(headers=headers)
    writer = await response.prepare(context.request)
    assert writer is not None

    async def write(chunk: bytes) -> None:
        await response.write(chunk)
        await writer.drain()

    with suppress(ConnectionError, TimeoutError, Unavailable):
        async for chunk in chunks:
            await write_within(context.api.options.write_timeout_s, context.request, write(chunk))
    return response


def _is_closing(context: RequestContext) -> bool:
    transport = context.request.transport
    return transport is None or transport.is_closing() or context.api.status().get("ready") is False
