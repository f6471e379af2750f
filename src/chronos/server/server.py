"""Server: composes store, engine, service and API, and starts and stops them in order.

::

    start   sockets ─► store ─► engine (registers the node) ─► API
    stop    not ready ─► engine drains ─► API closes connections ─► runners ─► store
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from chronos.api import REQUEST_INFO, Api, make_api
from chronos.assembly import (
    collect_target_checks,
    count_abandoned_threads,
    make_engine,
    make_node_clock,
    make_runners,
    make_service,
    make_store,
)
from chronos.clock import Clock
from chronos.core.job import JobState
from chronos.engine.engine import Engine
from chronos.observe.log_setup import line_logger
from chronos.observe.metrics import Metrics
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.server.config import Config
from chronos.server.defaults_watch import DefaultsWatch
from chronos.server.sockets import bind_sockets, close_sockets, server_url
from chronos.server.wiring import (
    ALL_ROLES,
    Roles,
    allowed_targets,
    api_options,
    command_rules,
    create_data_folder,
    engine_options,
    make_access,
    webhook_options,
)
from chronos.service.node_defaults import DEFAULTS_LABEL
from chronos.store.contract import Store

CLOSE_TIMEOUT_S = 3.0  # for requests that are still being answered when everything else has stopped

log = line_logger("chronos.server")
_http = logging.getLogger("chronos.http")


class _ClientErrorFilter(logging.Filter):
    """Drops log records about malformed or incomplete requests: the client gets the error."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


_http.addFilter(_ClientErrorFilter())


RunnerReplacement = Callable[[dict[str, Runner]], dict[str, Runner]]


def keep_runners(runners: dict[str, Runner]) -> dict[str, Runner]:
    """Return the same runners: nothing is replaced."""
    return runners


class Server:
    """A node with its API. A second call of ``stop`` ends the drain at once."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        roles: Roles = ALL_ROLES,
        replace_runners: RunnerReplacement = keep_runners,
    ) -> None:
        self.config = config
        self._clock, self._roles = make_node_clock(clock), roles
        self._options = engine_options(config, roles)
        self._replace_runners = replace_runners
        self._stack = AsyncExitStack()
        self._store: Store | None = None
        self._engine: Engine | None = None
        self._metrics: Metrics | None = None
        self._draining = False
        self._stopping: asyncio.Task[None] | None = None
        self.recovered = 0
        self.port = 0

    # --- start and stop

    async def start(self) -> None:
        """Start all parts. If one fails, stop the others and raise its error, which says what to do."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _start(self) -> None:
        config = self.config
        host, port = config["server.listen"]
        sockets = bind_sockets(host, port, authenticated=config["auth.type"] != "none" or config["server.insecure"])
        self._stack.callback(close_sockets, sockets)
        self.port = sockets[0].getsockname()[1]
        store = await self._open_store()
        functions = FunctionRegistry()
        runners = make_runners(
            functions,
            clock=self._clock,
            slots=self._options.slots,
            http=webhook_options(config),
            command=command_rules(config),
            allowed=allowed_targets(config),
        )
        runners = self._replace_runners(runners)
        for runner in runners.values():
            self._stack.push_async_callback(runner.close)
        service = make_service(
            store,
            self._clock,
            checks=collect_target_checks(runners),
            max_pending=config["queue.max_pending"],
        )
        number = await DefaultsWatch(store, self._clock, config.defaults(), self._options.node_name).start()
        engine = make_engine(
            store,
            clock=self._clock,
            options=replace(self._options, labels={**self._options.labels, DEFAULTS_LABEL: str(number)}),
            functions=functions,
            runners=runners,
        )
        metrics = self._make_metrics(store, engine)
        api = make_api(
            service,
            store,
            options=api_options(config),
            access=make_access(config, self._clock, store),
            status=self.status,
            metrics=metrics.render,
            clock=self._clock,
            on_refusal=metrics.count_auth_failure,
        )
        counts = await store.counts()
        self.recovered = counts.jobs.get(JobState.ACTIVE, 0) + counts.jobs.get(JobState.PAUSED, 0)
        metrics.count_recovered_jobs(self.recovered)
        await engine.start()
        self._engine = engine
        metrics.set_failing_duties_source(lambda: len(engine.node.duties.failing))
        metrics.set_abandoned_threads_source(lambda: count_abandoned_threads(runners))
        self._stack.push_async_callback(engine.crash)  # ends the work that a stop has not ended
        await self._serve(api, metrics, sockets)
        metrics.set_leader(self._roles.schedules)

    async def stop(self) -> None:
        """Stop admitting and claiming, and let work finish within the grace period. A second call does not wait."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        elif self._engine is not None:
            await self._engine.stop(0)
        await asyncio.shield(self._stopping)

    async def failed(self) -> None:
        """Wait until the engine ends. Raises the error that ended it, if any."""
        if self._engine is not None:
            await self._engine.wait_until_stopped()

    async def _stop(self) -> None:
        self._draining = True
        if self._metrics is not None:
            self._metrics.set_leader(False)
        try:
            if self._engine is not None:
                await self._engine.stop()
        finally:
            await self._stack.aclose()

    # --- parts

    async def _open_store(self) -> Store:
        create_data_folder(self.config)
        store = make_store(self.config["store"])
        await store.open()
        self._stack.push_async_callback(store.close)
        self._store = store
        return store

    def _make_metrics(self, store: Store, engine: Engine) -> Metrics:
        """Return metrics that observe the engine's events and the store's commits."""
        metrics = Metrics(
            store,
            self._clock,
            name_of=engine.job_name,
            per_job=self.config["metrics.per_job"],
            heartbeat_timeout_s=self._options.heartbeat_timeout_s,
        )
        engine.on_event(metrics.count_event)
        store.on_commit(metrics.observe_commit)
        self._metrics = metrics
        return metrics

    async def _serve(self, api: Api, metrics: Metrics, sockets: list[Any]) -> None:
        middleware = _request_middleware(
            metrics, self.config["server.base_path"], self.config["metrics.prometheus.path"]
        )
        runner = api.runner(middlewares=(middleware,), shutdown_timeout_s=CLOSE_TIMEOUT_S, logger=_http)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        for listener in sockets:
            await web.SockSite(runner, listener).start()

    # --- status

    @property
    def url(self) -> str:
        """The server's URL, as seen from this machine."""
        return server_url(self.config["server.listen"][0], self.port, self.config["server.base_path"])

    async def has_jobs(self) -> bool:
        """Return whether the store contains jobs."""
        return self._store is not None and bool(sum((await self._store.counts()).jobs.values()))

    def status(self) -> dict[str, Any]:
        """Return the state of this node, for ``/readyz`` and ``/status``."""
        engine, metrics = self._engine, self._metrics
        reason = self._not_ready_reason()
        broken = 0 if metrics is None else metrics.unschedulable_jobs
        held = 0 if metrics is None or not self._roles.schedules else max(0, metrics.active_jobs - broken)
        return {
            "node": self._options.node_name,
            "number": 0 if engine is None else engine.node.number,
            "version": version("chronos-scheduler"),
            "ready": reason is None,
            "reason": reason,
            "schedules": self._roles.schedules,
            "works": self._roles.works,
            "slots": self._options.slots if self._roles.works else 0,
            "executions_here": 0 if engine is None else engine.running_count,
            "jobs_held": held,
            "jobs_recovered": self.recovered,
            "jobs_failed_to_recover": broken,
        }

    def _not_ready_reason(self) -> str | None:
        """Why the node is not ready; None if it is."""
        if self._draining:
            return "this node is shutting down"
        if self._engine is None:
            return "this node is not registered with the store"
        if self._engine.node.fault is not None:
            return self._engine.node.fault
        for duty, failure in sorted(self._engine.node.duties.failing.items()):
            return f"{duty} has failed {failure.times} times in a row with the same error: {failure.error}"
        return None


def _request_middleware(metrics: Metrics, base_path: str, metrics_path: str) -> Middleware:
    """Return middleware that logs requests, and refreshes the metrics before it shows them."""
    refreshing_paths = {f"{base_path}{metrics_path}", f"{base_path}/api/v1/status"}
    logger = logging.getLogger("chronos.server")  # its isEnabledFor is faster than that of ``log``

    @web.middleware
    async def log_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in refreshing_paths:
            await metrics.refresh()
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        response = await handler(request)
        has_failed = response.status >= 500
        if has_failed or logger.isEnabledFor(logging.DEBUG):
            (log.warning if has_failed else log.debug)(
                "request",
                method=request.method,
                path=request.path,
                status=response.status,
                duration_s=round(loop.time() - started_s, 6),
                request_id=response.headers.get("X-Request-Id"),
                **(about.log_fields() if (about := request.get(REQUEST_INFO)) is not None else {}),
            )
        return response

    return log_request
