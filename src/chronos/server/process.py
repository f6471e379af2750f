"""The server as a process: it starts, greets, waits for a signal, drains, and ends with a status.

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
from chronos.server.server import Server
from chronos.server.wiring import ALL_ROLES, Roles, check_config, engine_options
from chronos.tuning import shorten_switch_interval, tune_garbage_collector, wait_for_task_or_signal

DEFAULT_URL = "http://127.0.0.1:8080"
try:  # where there is one for this platform: requests take less of its time than of asyncio's own
    from uvloop import new_event_loop as _new_loop
except ImportError:
    _new_loop = asyncio.new_event_loop  # type: ignore[assignment]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = line_logger("chronos.server")


def serve(
    config: Config, *, announce: Callable[[str], None], roles: Roles = ALL_ROLES, clock: Clock | None = None
) -> int:
    """Run a server until it is told to end; gives the status to exit with. Raises what kept it from starting."""
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
            return runner.run(_run_until_signal(Server(config, clock or SystemClock(), roles), announce))
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
        await server.stop()  # in case it had just been done
        return 0
    await starting
    tune_garbage_collector()
    announce(banner(server.config, server.url, is_new=not await server.has_jobs()))
    over = asyncio.create_task(server.failed())
    if number_ := await wait_for_task_or_signal(over, signals):
        log.info("shutting down", signal=number_.name, grace_s=server.config["scheduler.grace_period"])
    stopping = asyncio.create_task(server.stop())
    if await wait_for_task_or_signal(stopping, signals):
        log.info("not waiting any longer")
        await server.stop()
    await stopping
    over.cancel()
    [error] = await asyncio.gather(over, return_exceptions=True)
    if isinstance(error, Exception):
        log.error("the engine broke, and the server ends", exc_info=error)
        return 1
    log.info("stopped")
    return 0


def banner(config: Config, address: str, *, is_new: bool) -> str:
    """Where it is and where its data is; to somebody new, a first job."""
    authenticated = config["auth.type"] != "none"
    server_option = "" if authenticated or address == DEFAULT_URL else f" --server {address}"
    allowed = config["dispatcher.targets"]
    target = "-- echo hi" if allowed is None or "command" in allowed else "--url https://example.com/"
    lines = [
        f"Chronos {version('chronos-scheduler')} is ready",
        f"  address  {address}  (API: {address}/docs)",
        f"  data     {describe_store(config['store'])}",
        "  stop     Ctrl-C",
    ]
    if is_new:
        lines += [
            "",
            "There are no jobs yet. A first one:",
            *([f"  chronosctl login {address}"] if authenticated else []),
            f"  chronosctl{server_option} jobs create hello --every 10s {target}",
            f"  chronosctl{server_option} executions watch hello",
        ]
    return "\n".join(lines)


def describe_store(url: str) -> str:
    """Where a store is, in words."""
    if is_in_memory(url):
        return "in memory: everything is gone when the server stops"
    path = parse_sqlite_file(url)
    return hide_url_password(url) if path is None else str(path)
