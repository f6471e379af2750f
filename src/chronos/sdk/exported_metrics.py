"""``Chronos(metrics=registry)``: the metrics of a server, in a registry of the program.

The registry gets one collector. It shows the metrics of the node that runs, or that ran last. The gauges are read from
the store when the registry is scraped.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import TimeoutError as ScrapeTimeoutError
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from chronos.errors import Invalid
from chronos.observe.metrics import Metrics, add_process_metrics, describe_metrics
from chronos.tuning import is_on_loop

if TYPE_CHECKING:
    from typing import Any

_REFRESH_TIMEOUT_S = 3.0


class ExportedMetrics(Collector):
    """The metrics of an app, as a collector in a registry. Raises ``Invalid`` for a registry that has them already."""

    def __init__(self, registry: "Any") -> None:
        if not isinstance(registry, CollectorRegistry):
            raise Invalid(f"metrics is {registry!r}; use a registry, such as prometheus_client.REGISTRY")
        self._metrics: Metrics | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refreshing: set[asyncio.Task[None]] = set()
        try:
            registry.register(self)
        except ValueError:
            raise Invalid("metrics: the registry has the metrics of another app; use a registry for each app") from None
        add_process_metrics(registry)

    def show(self, metrics: Metrics) -> None:
        """Show the metrics of a node that starts on the running loop."""
        self._metrics, self._loop = metrics, asyncio.get_running_loop()

    def stop(self) -> None:
        """Show the last values from now on: the node stops."""
        if self._metrics is not None:
            self._metrics.set_leader(False)
        self._loop = None

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without values. The registry compares their names with those that it has."""
        return describe_metrics()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics, with gauges from the store. On an event loop the gauges are those of the last scrape."""
        if self._metrics is None:
            return ()
        if self._loop is not None and self._loop.is_running():
            self._refresh(self._metrics, self._loop)
        return self._metrics.collect()

    def _refresh(self, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        if not is_on_loop():
            with suppress(ScrapeTimeoutError):
                asyncio.run_coroutine_threadsafe(metrics.refresh(), loop).result(_REFRESH_TIMEOUT_S)
        elif asyncio.get_running_loop() is loop:
            task = loop.create_task(metrics.refresh())
            self._refreshing.add(task)
            task.add_done_callback(self._refreshing.discard)
        else:
            asyncio.run_coroutine_threadsafe(metrics.refresh(), loop)
