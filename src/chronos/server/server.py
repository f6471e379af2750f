"""Server: composes store, engine, service, API and web UI, and starts and stops them in order.

::

    start   sockets ─► store ─► engine (registers the node) ─► API
    stop    not ready ─► engine drains ─► API closes connections ─► runners ─► store
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from importlib.metadata import version
from time import perf_counter
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from chronos.api import REQUEST_INFO, Access, Api, SessionStore, make_api
from chronos.assembly import (
    Service,
    collect_target_checks,
    hide_url_password,
    make_engine,
    make_metrics,
    make_node_clock,
    make_runners,
    make_service,
    make_store,
    make_visitor,
)
from chronos.clock import Clock
from chronos.engine.engine import Engine
from chronos.engine.job_survey import StartReport
from chronos.observe.log_line import line_logger
from chronos.observe.metrics import Metrics
from chronos.runners.contract import Runner
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.server.config import Config
from chronos.server.defaults_watch import DefaultsWatch
from chronos.server.disk_space import describe_shortage
from chronos.server.sockets import bind_sockets, close_sockets, server_url
from chronos.server.ui_accounts import UiAccounts
from chronos.server.wiring import (
    ALL_ROLES,
    Roles,
    allowed_targets,
    api_options,
    command_rules,
    create_data_folder,
    engine_options,
    make_access,
    ui_options,
    webhook_options,
)
from chronos.service.live_nodes import find_live_nodes
from chronos.service.settings.node_defaults import DEFAULTS_LABEL
from chronos.store.contract import Store
from chronos.ui import WebUi, make_ui

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
        config, began_s = self.config, perf_counter()
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
        engine = None
        if self._roles.is_node:
            number = await DefaultsWatch(store, self._clock, config.defaults(), self._options.node_name).start()
            engine = make_engine(
                store,
                clock=self._clock,
                options=replace(self._options, labels={**self._options.labels, DEFAULTS_LABEL: str(number)}),
                functions=functions,
                runners=runners,
            )
        per_job = config["metrics.per_job"]
        metrics = self._metrics = make_metrics(store, engine, runners, clock=self._clock, per_job=per_job)
        access = make_access(config, self._clock, store)
        api = make_api(
            service,
            store,
            options=api_options(config),
            access=access,
            status=self.status,
            metrics=metrics.render,
            clock=self._clock,
            on_refusal=metrics.count_auth_failure,
            delays=metrics.delays,
        )
        if engine is None:
            await self._clock.measure(store)
        else:
            await self._start_engine(engine)
        ui = self._make_ui(service, store, api, access, metrics) if config["ui.enabled"] else None
        if ui is not None and engine is not None:
            engine.on_event(ui.note_event, wants_routine=lambda: ui.has_viewers)
        await self._serve(api, ui, metrics, sockets)
        metrics.set_leader(self._roles.schedules)
        log.info("started", took_ms=round((perf_counter() - began_s) * 1000))

    async def _start_engine(self, engine: Engine) -> None:
        await engine.start()
        self._engine = engine
        self._stack.push_async_callback(engine.crash)  # ends the work that a stop has not ended
        await engine.survey_jobs(self._note_found_jobs)

    async def stop(self) -> None:
        """Stop admitting and claiming, and let work finish within the grace period. A second call does not wait."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        elif self._engine is not None:
            await self._engine.stop(0)
        await asyncio.shield(self._stopping)

    async def failed(self) -> None:
        """Wait until the engine ends. Raises the error that ended it, if any. Without an engine, wait for ever."""
        if self._engine is not None:
            await self._engine.wait_until_stopped()
        elif not self._roles.is_node:
            await asyncio.get_running_loop().create_future()

    async def _stop(self) -> None:
        self._draining = True
        if self._metrics is not None:
            self._metrics.set_leader(False)
        try:
            if self._engine is not None:
                await self._engine.stop()
        finally:
            await self._stack.aclose()

    def _note_found_jobs(self, report: StartReport) -> None:
        log.info("jobs found", **asdict(report))
        self.recovered = report.recovered
        if self._metrics is not None:
            self._metrics.count_recovered_jobs(report.recovered)

    # --- parts

    async def _open_store(self) -> Store:
        began_s = perf_counter()
        if self._roles.is_node:
            create_data_folder(self.config)
            store = make_store(self.config["store"])
        else:
            store = make_visitor(self.config["store"], lambda nodes: find_live_nodes(nodes, self._clock.now_us()))
        await store.open()
        place = hide_url_password(self.config["store"])
        log.info("store opened", store=place, took_ms=round((perf_counter() - began_s) * 1000))
        self._stack.push_async_callback(store.close)
        self._store = store
        return store

    def _make_ui(self, service: Service, store: Store, api: Api, access: Access, metrics: Metrics) -> WebUi:
        sessions = SessionStore(store, self._clock, access)
        return make_ui(
            service,
            store,
            options=ui_options(self.config),
            accounts=UiAccounts(access, sessions, api.denials, api_options(self.config)),
            status=self.status,
            threats=lambda: tuple(filter(None, [describe_shortage(self.config["store"])])),
            delays=metrics.delays,
            clock=self._clock,
        )

    async def _serve(self, api: Api, ui: WebUi | None, metrics: Metrics, sockets: list[Any]) -> None:
        middleware = _request_middleware(
            metrics, self.config["server.base_path"], self.config["metrics.prometheus.path"]
        )
        runner = api.runner(
            middlewares=(middleware,) if ui is None else (middleware, ui.middleware()),
            add_routes=_add_no_routes if ui is None else ui.add_routes,
            shutdown_timeout_s=CLOSE_TIMEOUT_S,
            logger=_http,
        )
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        for listener in sockets:
            await web.SockSite(runner, listener).start()

    # --- status

    @property
    def url(self) -> str:
        """The server's URL, as seen from this machine."""
        return server_url(self.config["server.listen"][0], self.port, self.config["server.base_path"])

    @property
    def is_node(self) -> bool:
        """Whether this server schedules or runs jobs, and does not only serve the API."""
        return self._roles.is_node

    async def has_jobs(self) -> bool:
        """Return whether the store contains jobs."""
        return self._store is not None and bool(sum((await self._store.counts()).jobs.values()))

    def status(self) -> dict[str, Any]:
        """Return the state of this node, for ``/readyz`` and ``/status``."""
        engine, metrics = self._engine, self._metrics
        reason = self._not_ready_reason()
        broken = 0 if metrics is None else metrics.unschedulable_jobs
        left_alone = 0 if metrics is None else metrics.left_alone_jobs
        held = 0 if metrics is None or not self._roles.schedules else max(0, metrics.active_jobs - broken - left_alone)
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
        if self._engine is None and self._roles.is_node:
            return "this node is not registered with the store"
        if self._engine is None:
            return None
        if self._engine.node.fault is not None:
            return self._engine.node.fault
        for duty, failure in sorted(self._engine.node.duties.failing.items()):
            return f"{duty} has failed {failure.times} times in a row with the same error: {failure.error}"
        return None


def _add_no_routes(_: web.Application) -> None:
    """Add nothing: the server has no web UI."""


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
