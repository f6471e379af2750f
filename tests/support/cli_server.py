"""A real API server on a loopback socket, in its own thread, with a node that runs the work."""

import asyncio
import json
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

from aiohttp import web
from click.testing import CliRunner, Result

from chronos.api import Access, ApiOptions, TokenStore, make_api, read_users
from chronos.assembly import WebhookOptions, collect_target_checks, make_engine, make_runners, make_service, make_store
from chronos.cli.main import chronosctl
from chronos.clock import SystemClock
from chronos.engine.options import EngineOptions
from chronos.runners.python.function_registry import FunctionRegistry

#: argon2id of "secret", with the cheapest parameters, because the tests are not about the hash.
SECRET = "$argon2id$v=19$m=8,t=1,p=1$VEw03TFcvDv2G7ugb9Eysg$aKmFDcBGinTPOjTDd2NVZp0VIldjgpZ0Ke0RQx0mTo0"


def interrupt(process: "subprocess.Popen[Any]") -> None:
    """Press Ctrl-C until a program ends: Python drops an interrupt that arrives during an import."""
    for _ in range(24):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
            return
    process.kill()
    raise AssertionError("the program ignores Ctrl-C")


class Served:
    """A running server with two clients: plain HTTP and ``chronosctl``."""

    def __init__(self, url: str) -> None:
        self.url = url

    def rest(self, path: str) -> Any:
        """Return the API's reply to a GET request."""
        with urllib.request.urlopen(f"{self.url}/api/v1{path}") as response:
            return json.load(response)

    def ctl(self, *arguments: str, code: int = 0, input: str | None = None, env: Mapping[str, str] = {}) -> Result:
        """Run ``chronosctl`` and assert its exit code."""
        variables = {"CHRONOS_SERVER": self.url, "CHRONOS_TOKEN": "", "NO_COLOR": "1", **env}
        result = CliRunner().invoke(chronosctl, list(arguments), input=input, env=variables)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"{arguments}: {result.exit_code}\n{result.output}"
        return result

    def json(self, *arguments: str) -> Any:
        """Return the output of ``chronosctl … -o json``."""
        return json.loads(self.ctl(*arguments, "-o", "json").stdout)

    def create(self, name: str = "hello", *argv: str, schedule: str = "manual") -> None:
        """Create a job with a command."""
        self.ctl("jobs", "create", name, "--schedule", schedule, "--retries", "0", "--", *(argv or ("echo", "hi")))

    def run(self, name: str = "hello") -> str:
        """Run a job, wait until it ends, and return the id of the run."""
        result = CliRunner().invoke(
            chronosctl, ["jobs", "run", name, "--wait", "-o", "name"], env={"CHRONOS_SERVER": self.url}
        )
        assert result.exit_code in (0, 6), result.output
        return result.stdout.strip()


@contextmanager
def serving(
    *,
    functions: FunctionRegistry | None = None,
    users: Mapping[str, Mapping[str, Any]] | None = None,
    options: ApiOptions | None = None,
    works: bool = True,
    max_pending: int | None = None,
) -> Iterator[Served]:
    """Run a server while the block runs."""
    loop = asyncio.new_event_loop()
    stack = AsyncExitStack()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def open_all() -> str:
        clock = SystemClock()
        store = make_store("sqlite://")
        await store.open()
        stack.push_async_callback(store.close)
        registry = functions or FunctionRegistry()
        runners = make_runners(registry, clock=clock, http=WebhookOptions(allow_private=True))
        for runner in runners.values():
            stack.push_async_callback(runner.close)
        service = make_service(store, clock, checks=collect_target_checks(runners), max_pending=max_pending)
        access = Access(clock)
        if users is not None:
            access = Access(clock, users=read_users(users), tokens=TokenStore(store))
        api = make_api(
            service,
            store,
            options=options or ApiOptions(poll_s=0.05),
            access=access,
            status=lambda: {"node": "node-a"},
            metrics=lambda: b"",
            clock=clock,
        )
        if works:
            engine = make_engine(
                store, clock=clock, options=EngineOptions(node_name="node-a"), functions=registry, runners=runners
            )
            await engine.start()
            stack.push_async_callback(engine.stop, 0)
        site = api.runner(shutdown_timeout_s=0.1)
        await site.setup()
        stack.push_async_callback(site.cleanup)
        await web.TCPSite(site, "127.0.0.1", 0).start()
        base = "" if options is None else options.base_path
        return f"http://127.0.0.1:{site.addresses[0][1]}{base}"

    try:
        yield Served(asyncio.run_coroutine_threadsafe(open_all(), loop).result())
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
