"""``app.on``: calls functions of the program with events of its node.

::

    engine ──event──► bounded queue ──► one task: names the job, converts the event, calls each callback in turn

Callbacks never delay the engine: async functions run on the loop, sync functions in one thread of their own.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from chronos.core import events as engine_events
from chronos.engine.engine import Engine
from chronos.errors import ChronosError
from chronos.sdk.events import EventCallback, JobEvent, Selection, to_event
from chronos.store.contract import Store

log = logging.getLogger("chronos.sdk")

_MAX_QUEUED = 10_000
_FINISH_TIMEOUT_S = 5.0  # how long a stop waits for callbacks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subscription:
    """A callback and the events that it receives."""

    selection: Selection
    callback: EventCallback

    def accepts(self, event: JobEvent) -> bool:
        """Whether the callback receives an event."""
        statuses = self.selection.statuses
        return isinstance(event, self.selection.kind) and (
            statuses is None or getattr(event, "status", None) in statuses
        )


@dataclass(slots=True)
class EventCallbacks:
    """The callbacks of an app. They outlive its sessions: each start delivers to all of them."""

    subscriptions: list[Subscription] = field(default_factory=list)
    _delivery: "EventDelivery | None" = None

    def add(self, selection: Selection, callback: EventCallback) -> Callable[[], None]:
        """Add a callback, from any thread. Returns a function that removes it."""
        subscription = Subscription(selection=selection, callback=callback)
        self._change([*self.subscriptions, subscription])

        def remove() -> None:
            self._change([one for one in self.subscriptions if one is not subscription])

        return remove

    def deliver(self, engine: Engine, store: Store, namespace: str, *, inline: bool = False) -> "EventDelivery":
        """Start to deliver the events of an engine. ``inline`` runs sync callbacks on the loop, for virtual time."""
        self._delivery = EventDelivery(self, engine, store, namespace, inline=inline)
        return self._delivery

    def _change(self, subscriptions: list[Subscription]) -> None:
        self.subscriptions = subscriptions
        if self._delivery is not None:
            self._delivery.watch_soon()


class EventDelivery:
    """Delivers the events of one engine to the callbacks of an app."""

    def __init__(
        self, callbacks: EventCallbacks, engine: Engine, store: Store, namespace: str, *, inline: bool
    ) -> None:
        self._callbacks, self._engine, self._store, self._namespace = callbacks, engine, store, namespace
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[engine_events.Event | None] = asyncio.Queue()
        self._dropped = 0
        self._unwatch: list[Callable[[], None]] = []
        self._thread = None if inline else ThreadPoolExecutor(1, thread_name_prefix="chronos-callbacks")
        self._task = self._loop.create_task(self._run())
        self._watch()

    def watch_soon(self) -> None:
        """Follow a change of the callbacks, from any thread."""
        if not self._task.done() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._watch)

    async def finish(self) -> None:
        """Deliver what is queued, within a few seconds, and stop."""
        self._stop_watching()
        self._events.put_nowait(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_TIMEOUT_S):
                await asyncio.shield(self._task)
        self._task.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _watch(self) -> None:
        """Ask the engine for the events that a callback receives, and only for these."""
        self._stop_watching()
        for kind in {kind for one in self._callbacks.subscriptions for kind in one.selection.engine_kinds}:
            selections = [one.selection for one in self._callbacks.subscriptions if kind in one.selection.engine_kinds]
            wants_routine = _always if any(one.wants_routine for one in selections) else _never
            self._unwatch.append(self._engine.on_event(self._take, kind, wants_routine=wants_routine))

    def _stop_watching(self) -> None:
        while self._unwatch:
            self._unwatch.pop()()

    def _take(self, event: engine_events.Event) -> None:
        if self._events.qsize() < _MAX_QUEUED:
            self._events.put_nowait(event)
            return
        self._dropped += 1
        if self._dropped == 1:
            log.warning("callbacks of app.on are too slow: %s events wait, and further ones are dropped", _MAX_QUEUED)

    async def _run(self) -> None:
        while (event := await self._events.get()) is not None:
            if self._dropped and self._events.empty():
                log.warning("%s events were not delivered to the callbacks of app.on", self._dropped)
                self._dropped = 0
            shown = await self._to_shown_event(event)
            if shown is None:
                continue
            for subscription in self._callbacks.subscriptions:
                if subscription.accepts(shown):
                    await self._call(subscription.callback, shown)

    async def _to_shown_event(self, event: engine_events.Event) -> JobEvent | None:
        """The event as users see it; None if it is about a job of another namespace."""
        job: bytes = getattr(event, "job", b"")
        name = self._engine.job_name(job)
        if name is None:  # the job was deleted
            try:
                name = (await self._store.names_of([job])).get(job)
            except ChronosError:
                return None
        return to_event(event, name[1]) if name is not None and name[0] == self._namespace else None

    async def _call(self, callback: EventCallback, event: JobEvent) -> None:
        try:
            if self._thread is None or is_async(callback):
                result = callback(event)
                if inspect.isawaitable(result):
                    await result
            else:
                await self._loop.run_in_executor(self._thread, callback, event)
        except Exception:
            log.exception("a callback of app.on failed for %s of %s", type(event).__name__, event.job)


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def is_async(callback: EventCallback) -> bool:
    """Whether a callback is an async function, or an object that is called like one."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__)
