"""The server process: start, banner, wait for a signal, drain, exit status.

The first SIGTERM or SIGINT lets running work finish within the grace period; the second one skips the wait.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version

from chronos.assembly import hide_url_password, is_in_memory, parse_sqlite_file
from chronos.clock import Clock, SystemClock
from chronos.observe.log_setup import Logs, is_terminal, line_logger
from chronos.server.config import Config
from chronos.server.server import RunnerReplacement, Server, keep_runners
from chronos.server.wiring import ALL_ROLES, Roles, check_config, engine_options
from chronos.tuning import shorten_switch_interval, tune_garbage_collector, wait_for_task_or_signal

DEFAULT_URL = "http://127.0.0.1:8080"
try:  # if it is installed: it handles requests faster than asyncio's own loop
    from uvloop import new_event_loop as _new_loop
except ImportError:
    _new_loop = asyncio.new_event_loop  # type: ignore[assignment]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = line_logger("chronos.server")


def serve(
    config: Config,
    *,
    announce: Callable[[str], None],
    roles: Roles = ALL_ROLES,
    clock: Clock | None = None,
    replace_runners: RunnerReplacement = keep_runners,
) -> int:
    """Run a server until a signal ends it, and return the exit status. Raises the error that prevented the start."""
    warnings = check_config(config)
    options = engine_options(config, roles)
    output = config["logging.output"]
    form = config["logging.format"] or ("console" if is_terminal(output) else "json")
    logs = Logs(level=config["logging.level"], form=form, output=output, node=options.node_name)
    shorten_switch_interval()
    try:
        for warning in warnings:
            log.warning(warning)
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            server = Server(config, clock or SystemClock(), roles, replace_runners)
            return runner.run(_run_until_signal(server, announce))
    finally:
        logs.close()


async def _run_until_signal(server: Server, announce: Callable[[str], None]) -> int:
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, signals.put_nowait, number)
    starting = asyncio.create_task(server.start())
    if await wait_for_task_or_signal(starting, signals):
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        await server.stop()  # it may just have started
        return 0
    await starting
    tune_garbage_collector()
    is_new = server.is_node and not await server.has_jobs()
    announce(banner(server.config, server.url, is_new=is_new, is_node=server.is_node))
    failure = asyncio.create_task(server.failed())
    if number_ := await wait_for_task_or_signal(failure, signals):
        log.info("shutting down", signal=number_.name, grace_s=server.config["scheduler.grace_period"])
    stopping = asyncio.create_task(server.stop())
    if await wait_for_task_or_signal(stopping, signals):
        log.info("stopping without waiting for running work")
        await server.stop()
    await stopping
    failure.cancel()
    [error] = await asyncio.gather(failure, return_exceptions=True)
    if isinstance(error, Exception):
        log.error("the engine failed; the server stops", exc_info=error)
        return 1
    log.info("stopped")
    return 0


def banner(config: Config, address: str, *, is_new: bool, is_node: bool = True) -> str:
    """Return the start message: the address, the store, and for a new store the commands for a first job."""
    authenticated = config["auth.type"] != "none"
    server_option = "" if authenticated or address == DEFAULT_URL else f" --server {address}"
    allowed = config["dispatcher.targets"]
    target = "-- echo hi" if allowed is None or "command" in allowed else "--url https://example.com/"
    lines = [
        f"Chronos {version('chronos-scheduler')} is ready",
        f"  address  {address}  (API: {address}/docs)",
        f"  data     {describe_store(config['store'])}",
        *([] if is_node else ["  role     only the API: it schedules and runs nothing"]),
        "  stop     Ctrl-C",
    ]
    if is_new:
        lines += [
            "",
            "No jobs yet. Create your first one:",
            *([f"  chronosctl login {address}"] if authenticated else []),
            f"  chronosctl{server_option} jobs create hello --every 10s {target}",
            f"  chronosctl{server_option} executions watch hello",
        ]
    return "\n".join(lines)


def describe_store(url: str) -> str:
    """Return the place of a store, without its password."""
    if is_in_memory(url):
        return "in memory: all data is lost when the server stops"
    path = parse_sqlite_file(url)
    return hide_url_password(url) if path is None else str(path)
