"""One server: store, engine, service and API put together, started and stopped in the right order.

::

    start   sockets ─► store ─► engine (registers the node) ─► API
    stop    not ready any more ─► engine drains ─► API hangs up ─► runners ─► store
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from chronos.api import REQUEST_INFO, Api, make_api
from chronos.assembly import collect_target_checks, make_engine, make_node_clock, make_runners, make_service, make_store
from chronos.clock import Clock
from chronos.core.job import JobState
from chronos.engine.engine import Engine
from chronos.observe.log_setup import line_logger
from chronos.observe.metrics import Metrics
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.server.config import Config
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
from chronos.store.contract import Store

CLOSE_TIMEOUT_S = 3.0  # how long requests that are being answered may take when everything else is over

log = line_logger("chronos.server")
_http = logging.getLogger("chronos.http")


class _ClientErrorFilter(logging.Filter):
    """What a client sent, or did not send to the end, is no fault of ours: it is told, and the log need not be."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


_http.addFilter(_ClientErrorFilter())


class Server:
    """A node with its API. ``start`` it, then ``stop`` it; ``stop`` again while it drains skips the wait."""

    def __init__(self, config: Config, clock: Clock, roles: Roles = ALL_ROLES) -> None:
        self.config = config
        self._clock, self._roles = make_node_clock(clock), roles
        self._options = engine_options(config, roles)
        self._stack = AsyncExitStack()
        self._store: Store | None = None
        self._engine: Engine | None = None
        self._metrics: Metrics | None = None
        self._draining = False
        self._stopping: asyncio.Task[None] | None = None
        self.recovered = 0
        self.port = 0

    # --- life

    async def start(self) -> None:
        """Everything, or nothing: what was begun is let go of again. Raises with a sentence that says what to do."""
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
        for runner in runners.values():
            self._stack.push_async_callback(runner.close)
        service = make_service(
            store,
            self._clock,
            checks=collect_target_checks(runners),
            defaults=config.defaults(),
            max_pending=config["queue.max_pending"],
        )
        engine = make_engine(
            store,
            clock=self._clock,
            options=self._options,
            functions=functions,
            runners=runners,
            defaults=config.defaults(),
        )
        metrics = self._watch(store, engine)
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
        self._stack.push_async_callback(engine.crash)  # drops whatever a stop has not ended
        await self._serve(api, metrics, sockets)
        metrics.set_leader(self._roles.schedules)

    async def stop(self) -> None:
        """Stop admitting and claiming, let the work finish within the grace period, then end. Again: wait no longer."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        elif self._engine is not None:
            await self._engine.stop(0)
        await asyncio.shield(self._stopping)

    async def failed(self) -> None:
        """Wait until the engine is over; raises what broke it, if something did."""
        if self._engine is not None:
            await self._engine.failed()

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

    def _watch(self, store: Store, engine: Engine) -> Metrics:
        """Metrics hear what happens."""
        metrics = Metrics(
            store,
            self._clock,
            name_of=engine.job_name,
            per_job=self.config["metrics.per_job"],
            silence_s=self._options.heartbeat_timeout_s,
        )
        engine.on_event(metrics.watch)
        store.on_commit(metrics.observe_commit)
        self._metrics = metrics
        return metrics

    async def _serve(self, api: Api, metrics: Metrics, sockets: list[Any]) -> None:
        tell = _request_middleware(metrics, self.config["server.base_path"], self.config["metrics.prometheus.path"])
        runner = api.runner(middlewares=(tell,), shutdown_timeout_s=CLOSE_TIMEOUT_S, logger=_http)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        for one in sockets:
            await web.SockSite(runner, one).start()

    # --- what it says of itself

    @property
    def url(self) -> str:
        """The address to call it by, from this machine."""
        return server_url(self.config["server.listen"][0], self.port, self.config["server.base_path"])

    async def has_jobs(self) -> bool:
        """Whether anything was ever put into the store that is still there."""
        return self._store is not None and bool(sum((await self._store.counts()).jobs.values()))

    def status(self) -> dict[str, Any]:
        """The node's own facts, for ``/readyz`` and ``/status``."""
        engine, metrics = self._engine, self._metrics
        reason = self._reason()
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
            "executions_here": 0 if engine is None else engine.busy,
            "jobs_held": held,
            "jobs_recovered": self.recovered,
            "jobs_failed_to_recover": broken,
        }

    def _reason(self) -> str | None:
        """Why it is of no use at the moment; None: it is."""
        if self._draining:
            return "this node is shutting down"
        if self._engine is None:
            return "this node is not registered with the store"
        if self._engine.node.fault is not None:
            return self._engine.node.fault
        for duty, failure in sorted(self._engine.node.duties.failing.items()):
            return f"{duty} has failed the same way {failure.times} times in a row: {failure.error}"
        return None


def _request_middleware(metrics: Metrics, base_path: str, metrics_path: str) -> Middleware:
    """Each request as a quiet log line; what stands in the store is read again before it is shown."""
    shown = {f"{base_path}{metrics_path}", f"{base_path}/api/v1/status"}
    lines = logging.getLogger("chronos.server")  # to be asked for each request, which it answers sooner than ``log``

    @web.middleware
    async def tell(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in shown:
            await metrics.refresh()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        response = await handler(request)
        broken = response.status >= 500
        if broken or lines.isEnabledFor(logging.DEBUG):
            (log.warning if broken else log.debug)(
                "request",
                method=request.method,
                path=request.path,
                status=response.status,
                duration_s=round(loop.time() - began_s, 6),
                request_id=response.headers.get("X-Request-Id"),
                **(about.log_fields() if (about := request.get(REQUEST_INFO)) is not None else {}),
            )
        return response

    return tell
