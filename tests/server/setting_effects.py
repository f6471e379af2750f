"""The effects of settings: each row shows that one setting changes an observation.

A row names a setting, a value, an observation, and its results with the default and with that value::

    @served("server.base_path", "/chronos", usually=404, then=200)
    async def where_it_answers(server: Served) -> int:
        return (await server.call("GET", "/chronos/healthz")).status

The observation is made twice, with configurations that differ only in this setting. It receives the composed parts and
never the configuration, so it cannot read the result from there. ``test_setting_effects.py`` runs all rows and fails
for every setting without a row.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from chronos.clock import SystemClock
from chronos.engine.options import EngineOptions
from chronos.errors import Invalid
from chronos.server.config import Config, load_config
from chronos.server.server import Server
from chronos.server.wiring import ALL_ROLES, engine_options
from chronos.testing.loop import run as run_virtually
from tests.support.api_server import V1, Reply
from tests.support.engine_world import World
from tests.support.server_process import Process

T = TypeVar("T")
Observe = Callable[[Config, Path], Any]
#: A test server has a store in memory and listens on a free port, unless the row is about these settings.
ALONE: Mapping[str, Any] = {"store": "sqlite://", "server.listen": "127.0.0.1:0"}
ABOUT = {"store": ("store",), "cluster.data_dir": ("store",)}
_ROUND_TRIPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One row. ``given`` applies to both observations; ``instead_of`` replaces the default in the first one."""

    setting: str
    value: Any
    usually: Any
    then: Any
    given: Mapping[str, Any]
    instead_of: Any
    observe: Observe

    def measure(self, folder: Path, *, changed: bool) -> Any:
        """Return the observation with the setting's value, or without it."""
        settings = dict(self.given)
        if changed:
            settings[self.setting] = self.value
        elif self.instead_of is not None:
            settings[self.setting] = self.instead_of
        file = folder / "chronos.yaml"
        file.write_text(json.dumps(nested(settings)))
        return self.observe(load_config(file, {}, {}), folder)


EFFECTS: list[Effect] = []


def _row(setting: str, value: Any, observe: Observe, options: dict[str, Any], alone: Mapping[str, Any]) -> None:
    usually, then = options["usually"], options["then"]
    given = {**alone, **options.get("given", {})}
    given.pop(setting, None)
    instead_of = options.get("instead_of", alone.get(setting))
    EFFECTS.append(
        Effect(
            setting=setting,
            value=value,
            usually=usually,
            then=then,
            given=given,
            instead_of=instead_of,
            observe=observe,
        )
    )


# --- a server within this process, on the test's own event loop


class Served:
    """A started server and a client on the same event loop."""

    def __init__(self, server: Server, client: aiohttp.ClientSession, folder: Path) -> None:
        self._server, self._client = server, client
        self.folder = folder
        self.port = server.port

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request to the server."""
        data = None if body is None else msgspec.json.encode(body)
        sent = {"Content-Type": "application/json"} if data is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self._client.request(method, url, data=data, headers=sent) as response:
            return Reply(response.status, response.headers, await response.read())

    async def create(self, name: str, **fields: Any) -> Reply:
        """Create a job that runs ``true``, unless the fields name another target."""
        if not {"http", "command"} & fields.keys():
            fields["command"] = {"argv": ["true"]}
        return await self.call("POST", f"{V1}/jobs", {"name": name, "schedule": "manual", **fields})

    async def trigger(self, name: str) -> Reply:
        return await self.call("POST", f"{V1}/jobs/{name}/trigger", {})

    async def ended(self, name: str) -> str:
        """Trigger a job and return the final status of its execution."""
        return str((await self._run(name))["status"])

    async def printed(self, *argv: str) -> str:
        """Run a command as a job and return its output."""
        await self.create("job", command={"argv": list(argv)}, retry={"max_attempts": 1})
        execution = (await self._run("job"))["id"]
        return (await self.call("GET", f"{V1}/executions/{execution}/log")).body.decode().strip()

    async def _run(self, name: str) -> dict[str, Any]:
        execution = (await self.trigger(name)).json["execution_id"]
        async with asyncio.timeout(60):
            while True:
                run: dict[str, Any] = (await self.call("GET", f"{V1}/executions/{execution}")).json
                if run["finished_at"] is not None:
                    return run
                await asyncio.sleep(0.01)

    async def pass_time(self, seconds: float) -> None:
        """Wait, then let the server handle everything that became due, even on a busy machine."""
        await asyncio.sleep(seconds)
        for _ in range(_ROUND_TRIPS):
            async with self._client.get(f"http://127.0.0.1:{self.port}/healthz") as response:
                await response.read()


def served(setting: str, value: Any, **options: Any) -> Callable[[Callable[[Served], Awaitable[Any]]], None]:
    """Add a row about a server. A server that does not start gives ``"refused"``."""

    def add(observe: Callable[[Served], Awaitable[Any]]) -> None:
        async def serve(config: Config, folder: Path) -> Any:
            server = Server(config, SystemClock())
            try:
                await server.start()
            except Invalid:
                return "refused"
            try:
                async with aiohttp.ClientSession() as client:
                    return await observe(Served(server, client, folder))
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await server.stop()
                await server.stop()  # the second call does not wait

        alone = {name: default for name, default in ALONE.items() if name not in ABOUT.get(setting, ())}
        _row(setting, value, lambda config, folder: asyncio.run(serve(config, folder)), options, alone)

    return add


# --- a node in virtual time


class Lived:
    """A world with the defaults of the configuration; its nodes have the options of the configuration."""

    def __init__(self, world: World, options: EngineOptions) -> None:
        self.world = world
        self._options = {
            field.name: getattr(options, field.name) for field in fields(EngineOptions) if field.name != "node_name"
        }

    async def node(self) -> Any:
        return await self.world.node(**self._options)


def lived(setting: str, value: Any, **options: Any) -> Callable[[Callable[[Lived], Awaitable[Any]]], None]:
    """Add a row about nodes in virtual time."""

    def add(observe: Callable[[Lived], Awaitable[Any]]) -> None:
        async def live(config: Config) -> Any:
            world = World(defaults=config.defaults())
            await world.open()
            try:
                return await observe(Lived(world, engine_options(config, ALL_ROLES)))
            finally:
                await world.close()

        _row(setting, value, lambda config, _: run_virtually(live(config)), options, {})

    return add


# --- a server as a process


def processed(setting: str, value: Any, **options: Any) -> Callable[[Callable[[Process], Any]], None]:
    """Add a row about ``chronos server`` as a process."""

    def add(observe: Callable[[Process], Any]) -> None:
        def process(_: Config, folder: Path) -> Any:
            with Process(folder, (), {}) as started:
                return observe(started)

        _row(setting, value, process, options, {})

    return add


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a file from settings by dotted name."""
    file: dict[str, Any] = {}
    for name, value in settings.items():
        *sections, last = name.split(".")
        mapping = file
        for section in sections:
            mapping = mapping.setdefault(section, {})
        mapping[last] = value
    return file


# --- observations of retries


async def pauses(here: Lived) -> list[float]:
    """Before the second and the third attempt."""
    work = here.world.work("work", fails=True)
    await here.node()
    await here.world.job("work", schedule="now", retry={"jitter": 0})
    await here.world.advance(1_000)
    return [round(later - sooner, 1) for sooner, later in zip(work.starts, work.starts[1:], strict=False)]


async def timeouts(here: Lived) -> list[float]:
    """Of the attempts of a task that never ends."""
    work = here.world.work("work", takes=1_000)
    await here.node()
    await here.world.job("work", schedule="now", timeout="10s")
    await here.world.advance(1_000)
    return [round(end - start, -1) for start, end in zip(work.starts, work.cut, strict=True)]  # timers are shared
