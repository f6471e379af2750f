"""The effect of a setting: what can be observed differs, and nothing but the setting does.

A row names a setting, a value for it, and an observation with what it finds usually and with that value::

    @served("server.base_path", "/chronos", usually=404, then=200)
    async def where_it_answers(server: Served) -> int:
        return (await server.call("GET", "/chronos/healthz")).status

The observation is made twice, on parts that are put together from a configuration that differs in this setting alone.
It is given these parts, never the configuration: so it cannot answer from what is written there. ``test_effects.py``
runs all rows and fails for every setting that has none.
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
#: A server of a test keeps nothing and listens on a free port of this machine, unless the row is about that.
ALONE: Mapping[str, Any] = {"store": "sqlite://", "server.listen": "127.0.0.1:0"}
ABOUT = {"store": ("store",), "cluster.data_dir": ("store",)}
_ROUND_TRIPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One row. ``given`` holds both times; ``instead_of`` is the value of the first time, where the default is not."""

    setting: str
    value: Any
    usually: Any
    then: Any
    given: Mapping[str, Any]
    instead_of: Any
    observe: Observe

    def seen(self, folder: Path, *, changed: bool) -> Any:
        """What is observed with the setting's value, or without it."""
        said = dict(self.given)
        if changed:
            said[self.setting] = self.value
        elif self.instead_of is not None:
            said[self.setting] = self.instead_of
        file = folder / "chronos.yaml"
        file.write_text(json.dumps(nested(said)))
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
    """A server that was started, and a client of it on the same event loop."""

    def __init__(self, server: Server, client: aiohttp.ClientSession, folder: Path) -> None:
        self._server, self._client = server, client
        self.folder = folder
        self.port = server.port

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Ask it, by the address that it listens on."""
        data = None if body is None else msgspec.json.encode(body)
        sent = {"Content-Type": "application/json"} if data is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self._client.request(method, url, data=data, headers=sent) as response:
            return Reply(response.status, response.headers, await response.read())

    async def create(self, name: str, **says: Any) -> Reply:
        """A job that asks for nothing but ``true``, unless it says something else to do."""
        if not {"http", "command"} & says.keys():
            says["command"] = {"argv": ["true"]}
        return await self.call("POST", f"{V1}/jobs", {"name": name, "schedule": "manual", **says})

    async def trigger(self, name: str) -> Reply:
        return await self.call("POST", f"{V1}/jobs/{name}/trigger", {})

    async def ended(self, name: str) -> str:
        """Trigger a job, and the status that its execution ends with."""
        return str((await self._run(name))["status"])

    async def printed(self, *argv: str) -> str:
        """What a command prints that runs as a job."""
        await self.create("job", command={"argv": list(argv)}, retry={"max_attempts": 1})
        execution = (await self._run("job"))["id"]
        return (await self.call("GET", f"{V1}/executions/{execution}/log")).body.decode().strip()

    async def _run(self, name: str) -> dict[str, Any]:
        execution = (await self.trigger(name)).json["execution_id"]
        async with asyncio.timeout(60):
            while True:
                found: dict[str, Any] = (await self.call("GET", f"{V1}/executions/{execution}")).json
                if found["finished_at"] is not None:
                    return found
                await asyncio.sleep(0.01)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and what was due in it happen, also where the loop was held up: it answers in turns."""
        await asyncio.sleep(seconds)
        for _ in range(_ROUND_TRIPS):
            async with self._client.get(f"http://127.0.0.1:{self.port}/healthz") as response:
                await response.read()


def served(setting: str, value: Any, **options: Any) -> Callable[[Callable[[Served], Awaitable[Any]]], None]:
    """A row that looks at a server; one that does not start is ``"refused"``."""

    def add(look: Callable[[Served], Awaitable[Any]]) -> None:
        async def serve(config: Config, folder: Path) -> Any:
            server = Server(config, SystemClock())
            try:
                await server.start()
            except Invalid:
                return "refused"
            try:
                async with aiohttp.ClientSession() as client:
                    return await look(Served(server, client, folder))
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await server.stop()
                await server.stop()  # the second time it does not wait

        alone = {name: one for name, one in ALONE.items() if name not in ABOUT.get(setting, ())}
        _row(setting, value, lambda config, folder: asyncio.run(serve(config, folder)), options, alone)

    return add


# --- a node in virtual time


class Lived:
    """A world of the configuration's defaults, in which nodes with its options come and go."""

    def __init__(self, world: World, options: EngineOptions) -> None:
        self.world = world
        self._options = {
            one.name: getattr(options, one.name) for one in fields(EngineOptions) if one.name != "node_name"
        }

    async def node(self) -> Any:
        return await self.world.node(**self._options)


def lived(setting: str, value: Any, **options: Any) -> Callable[[Callable[[Lived], Awaitable[Any]]], None]:
    """A row that looks at nodes in virtual time."""

    def add(look: Callable[[Lived], Awaitable[Any]]) -> None:
        async def live(config: Config) -> Any:
            world = World(defaults=config.defaults())
            await world.open()
            try:
                return await look(Lived(world, engine_options(config, ALL_ROLES)))
            finally:
                await world.close()

        _row(setting, value, lambda config, _: run_virtually(live(config)), options, {})

    return add


# --- a server as a process


def processed(setting: str, value: Any, **options: Any) -> Callable[[Callable[[Process], Any]], None]:
    """A row that looks at ``chronos server`` as a process, which is ready."""

    def add(look: Callable[[Process], Any]) -> None:
        def process(_: Config, folder: Path) -> Any:
            with Process(folder, (), {}) as started:
                return look(started)

        _row(setting, value, process, options, {})

    return add


def nested(said: Mapping[str, Any]) -> dict[str, Any]:
    """A file, of settings by their dotted names."""
    file: dict[str, Any] = {}
    for name, value in said.items():
        *sections, last = name.split(".")
        place = file
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return file
