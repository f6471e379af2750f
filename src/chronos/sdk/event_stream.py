"""``app.events()``: an iterator over runs that ended and spans that were recorded, on any node.

The records of the store are the source. So the stream has no gaps, and continues after a stop at its last position.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from chronos.core.events import Event as EngineEvent
from chronos.core.events import ExecutionAdmitted, ExecutionEnded
from chronos.errors import ChronosError, Invalid
from chronos.sdk.events import RunEnded, SpanRecorded, to_recorded_event
from chronos.sdk.home_loop import HomeLoop, OnHomeLoop, blocking, on_home_loop
from chronos.service.event_feed import LAST_ID, EventFeed, format_position, parse_position, position_of

if TYPE_CHECKING:
    from chronos.engine.engine import Engine
    from chronos.sdk.runtime import Runtime, RuntimeSession

RecordedEvent = RunEnded | SpanRecorded
_MIN_POLL_S = 0.005  # other processes run executions too, so the store is polled
_MAX_POLL_S = 0.5


class EventStream(OnHomeLoop, ABC):
    """Runs that ended and spans that were recorded in the namespace of an app, on any node, oldest first.

    Iterate with ``for`` or ``async for``: each step waits for the next event. The stream begins when it is opened by
    ``with`` or ``async with``, or else by the first step. ``position`` is the position of the last event: a later
    stream with ``after=position`` continues there. The iteration ends when the app stops.

    Example::

        async for event in app.events():
            match event:
                case RunEnded(status="failed"):
                    print(event.job, event.message)
    """

    def __init__(self, home: HomeLoop, after: str | None) -> None:
        if after is not None and (not isinstance(after, str) or parse_position(after) is None):
            raise Invalid(f"after is {after!r}; use the position of a stream, or leave it out")
        self._home = home
        self.position = after
        self._events: deque[tuple[str, RecordedEvent]] = deque()
        self._is_open = False
        self._is_closed = False

    @on_home_loop
    async def aopen(self) -> None:
        """Begin the stream now. No-op for an open stream."""
        if not self._is_open and not self._is_closed:
            await self._open()
            self._is_open = True

    async def aclose(self) -> None:
        """End the stream."""
        self._is_closed = True

    @abstractmethod
    async def _open(self) -> None:
        """Begin the stream."""

    @abstractmethod
    async def _read(self) -> Sequence[tuple[str, RecordedEvent]] | None:
        """Wait for events, and return them with their positions; None when the app has stopped."""

    @on_home_loop
    async def _next(self) -> RecordedEvent | None:
        await self.aopen()
        while not self._events:
            read = None if self._is_closed else await self._read()
            if read is None:
                return None
            self._events.extend(read)
        self.position, event = self._events.popleft()
        return event

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordedEvent:
        event = await self._next()
        if event is None:
            raise StopAsyncIteration
        return event

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordedEvent:
        try:
            event = self._home.run_blocking(self._next, "anext(events), or: async for event in events")
        except CancelledError:  # the app stopped
            event = None
        if event is None:
            raise StopIteration
        return event

    open = blocking(aopen)
    close = blocking(aclose)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.aopen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _format_call(self, method: str) -> str:
        return f"events.{method}()"


class StoreEventStream(EventStream):
    """A stream of the events of a store."""

    def __init__(self, runtime: "Runtime", after: str | None) -> None:
        super().__init__(runtime.home, after)
        self._runtime = runtime
        self._session: RuntimeSession | None = None
        self._feed: EventFeed | None = None

    async def _open(self) -> None:
        session = self._session = await self._runtime.session()
        position = None if self.position is None else parse_position(self.position)
        if position is None:
            position = (await session.store.clock_us() or session.clock.now_us(), LAST_ID)
        self._feed = EventFeed(session.store, position)

    async def _read(self) -> Sequence[tuple[str, RecordedEvent]] | None:
        session, feed = self._session, self._feed
        assert session is not None
        assert feed is not None
        with _watch_ends(session.engine) as woken:
            poll_s = _MIN_POLL_S
            while not self._is_ending(session):
                try:
                    items = await feed.read()
                    names = await session.store.names_of(sorted({item.job for item in items})) if items else {}
                except ChronosError:
                    if self._is_ending(session):
                        break
                    raise
                own = [item for item in items if item.job in names and names[item.job][0] == self._runtime.namespace]
                if own:
                    return [
                        (format_position(position_of(item)), to_recorded_event(item, names[item.job].name))
                        for item in own
                    ]
                with suppress(TimeoutError):
                    async with asyncio.timeout(poll_s):
                        await woken.wait()
                    woken.clear()  # the event may come shortly before the write is visible
                    poll_s = 0.0
                poll_s = min(max(poll_s * 1.5, _MIN_POLL_S), _MAX_POLL_S)
        return None

    def _is_ending(self, session: "RuntimeSession") -> bool:
        return session.closing is not None or self._is_closed


@contextmanager
def _watch_ends(engine: "Engine | None") -> Iterator[asyncio.Event]:
    """Yield an event that is set when an execution ends on this node."""
    woken = asyncio.Event()

    def wake(_: EngineEvent) -> None:
        woken.set()

    unwatch = None if engine is None else engine.on_event(wake, ExecutionEnded, ExecutionAdmitted)
    try:
        yield woken
    finally:
        if unwatch is not None:
            unwatch()
