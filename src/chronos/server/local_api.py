"""LocalApi: the REST API of a store within this process, without a port, for ``chronosctl --store``.

The API runs on an event loop in a thread. Each connection is a pair of connected sockets, so no other process can
reach it.
"""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, TypeVar

from chronos.api import Access, ApiOptions, make_api
from chronos.assembly import collect_target_checks, make_node_clock, make_runners, make_service, make_visitor
from chronos.clock import Clock
from chronos.core.node import Node
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.service.live_nodes import find_live_nodes

_CLOSE_TIMEOUT_S = 1.0
T = TypeVar("T")


class LocalApi:
    """Serves the API of the store ``url`` within a ``with`` block. Entering raises the error of an unusable store."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._clock = make_node_clock(clock)
        self._store = make_visitor(url, self._find_live_nodes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chronos-local-api", daemon=True)
        self._stack = AsyncExitStack()
        self._serve: Any = None  # makes the protocol of a connection

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._start())
        except BaseException:
            self._end_loop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stack.aclose())
        self._end_loop()

    def connect(self) -> socket.socket:
        """Return the client's end of a new connection to the API."""
        own, other = socket.socketpair()
        other.setblocking(False)
        self._run(self._loop.connect_accepted_socket(self._serve, other))
        return own

    async def _start(self) -> None:
        await self._store.open()
        self._stack.push_async_callback(self._store.close)
        await self._clock.measure(self._store)
        runners = make_runners(FunctionRegistry(), clock=self._clock)
        for runner in runners.values():
            self._stack.push_async_callback(runner.close)
        api = make_api(
            make_service(self._store, self._clock, checks=collect_target_checks(runners)),
            self._store,
            options=ApiOptions(metrics_path=None),
            access=Access(self._clock),
            status=lambda: {"version": version("chronos-scheduler")},
            metrics=bytes,
            clock=self._clock,
        )
        app = api.runner(shutdown_timeout_s=_CLOSE_TIMEOUT_S)
        await app.setup()
        self._stack.push_async_callback(app.cleanup)
        self._serve = app.server

    def _find_live_nodes(self, nodes: Sequence[Node]) -> list[Node]:
        return find_live_nodes(nodes, self._clock.now_us())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
