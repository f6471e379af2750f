"""LiveSignals: tells open pages what changed, never what to show. A page then fetches its regions again.

::

    events of this node ─┐
    hints of the store  ─┼─► collected for 400 ms ─► one list of topics per viewer: ["jobs", "job:nightly-etl"]
    ended runs (polled) ─┘

Topics are ``jobs``, ``runs``, ``nodes``, ``letters``, ``job:NAME`` and ``run:ID``. Above a rate, a signal is ``many``,
which means all of them. Without open pages nothing is collected.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.events import (
    AttemptEnded,
    Event,
    ExecutionAdmitted,
    ExecutionEnded,
    ExecutionStarted,
    ExecutionWaits,
    NodeLost,
)
from chronos.errors import ChronosError, Unavailable
from chronos.service.serializers import id_text
from chronos.store.contract import Hint, Store
from chronos.ui.accounts import Account

COLLECT_S = 0.4
_POLL_S = 2.0
_MAX_CHANGES = 50  # changed runs in one signal; beyond, it says "many"
_LOOK_BACK_US = 2 * SECOND_US
_PAGE = 100
_LAST_ID = b"\xff" * 16
_MANY = "many"


@dataclass(eq=False, slots=True)
class _Viewer:
    """One open page and its unsent topics."""

    account: Account
    namespace: str
    topics: set[str] = field(default_factory=set)
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class LiveSignals:
    """Collects changes and hands them to open pages."""

    def __init__(self, store: Store, clock: Clock, *, limit: int, limit_each: int, heartbeat_s: float) -> None:
        self._store, self._clock = store, clock
        self._limit, self._limit_each, self._heartbeat_s = limit, limit_each, heartbeat_s
        self._viewers: set[_Viewer] = set()
        self._clients: Counter[str] = Counter()
        self._runs: dict[bytes, bytes] = {}  # run → its job
        self._topics: set[str] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        store.on_hint(self._note_hint)

    # --- what changed

    @property
    def has_viewers(self) -> bool:
        """Whether a page is open: otherwise events are not needed."""
        return bool(self._viewers)

    def note_event(self, event: Event) -> None:
        """Remember what an event of this node changes."""
        if not self._viewers:
            return
        match event:
            case ExecutionAdmitted() | ExecutionStarted() | AttemptEnded() | ExecutionWaits() | ExecutionEnded():
                self._note_run(event.execution, event.job)
            case NodeLost():
                self._topics.add("nodes")
            case _:
                return
        self._changed.set()

    def _note_hint(self, hint: Hint) -> None:
        if self._viewers and hint & Hint.JOBS:
            self._topics |= {"jobs", "nodes"}
            self._changed.set()

    def _note_run(self, run: bytes, job: bytes) -> None:
        if len(self._runs) <= _MAX_CHANGES:
            self._runs[run] = job

    # --- open pages

    @contextmanager
    def watch(self, account: Account, namespace: str, *clients: str) -> Iterator[_Viewer]:
        """Register an open page. Raises ``Unavailable`` if too many are open."""
        if len(self._viewers) >= self._limit or any(self._clients[client] >= self._limit_each for client in clients):
            raise Unavailable("too many pages are open at once; close some, or wait")
        viewer = _Viewer(account, namespace)
        self._viewers.add(viewer)
        self._clients.update(clients)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            self._clients.subtract(clients)
            self._clients = +self._clients
            if not self._viewers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def chunks(self, viewer: _Viewer) -> AsyncIterator[bytes]:
        """Yield server-sent events until the server stops."""
        yield b"retry: 2000\nevent: hello\ndata: []\n\n"
        while not self._closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await viewer.woken.wait()
            viewer.woken.clear()
            topics, viewer.topics = viewer.topics, set()
            yield b"data: %s\n\n" % msgspec.json.encode(sorted(topics)) if topics else b": still here\n\n"

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        for viewer in self._viewers:
            viewer.woken.set()
        if self._task is not None:
            self._task.cancel()

    # --- the collector

    async def _run(self) -> None:
        position = (self._clock.now_us() - _LOOK_BACK_US, _LAST_ID)
        seen: dict[bytes, None] = {}
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._changed.wait()
            await asyncio.sleep(COLLECT_S)
            with suppress(ChronosError):  # pages say by themselves that they cannot be fetched
                position = await self._poll(position, seen)
                await self._signal()

    async def _poll(self, position: tuple[int, bytes], seen: dict[bytes, None]) -> tuple[int, bytes]:
        """Note the runs that ended on any node since the last call."""
        items = await self._store.ended_since(position, _PAGE)
        for item in items:
            if item.id not in seen:
                self._note_run(item.id, item.job)
                seen[item.id] = None
        while len(seen) > 10 * _PAGE:
            del seen[next(iter(seen))]
        now_us = self._clock.now_us()
        return (now_us - _LOOK_BACK_US, _LAST_ID) if len(items) < _PAGE else (now_us, _LAST_ID)

    async def _signal(self) -> None:
        self._changed.clear()
        runs, self._runs = self._runs, {}
        topics, self._topics = self._topics, set()
        if not runs and not topics:
            return
        names = await self._store.names_of(sorted(set(runs.values())))
        for viewer in list(self._viewers):
            own = {run: names[job].name for run, job in runs.items() if job in names and _is_shown(viewer, names[job])}
            news = topics | _name_topics(own)
            if news:
                viewer.topics |= news
                viewer.woken.set()


def _is_shown(viewer: _Viewer, name: tuple[str, str]) -> bool:
    return name[0] == viewer.namespace and viewer.account.sees(name[0])


def _name_topics(runs: dict[bytes, str]) -> set[str]:
    if not runs:
        return set()
    if len(runs) > _MAX_CHANGES:
        return {_MANY}
    return {"runs", "letters", *(f"job:{name}" for name in runs.values()), *(f"run:{id_text(run)}" for run in runs)}
