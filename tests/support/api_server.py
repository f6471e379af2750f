"""The API on a loopback socket, over a store in memory, with or without an engine behind it."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from chronos.api import Access, ApiOptions, TokenStore, make_api, read_users
from chronos.assembly import Service, collect_target_checks, make_engine, make_runners, make_service, make_store
from chronos.clock import Clock, SystemClock
from chronos.core.token import ApiToken
from chronos.engine.engine import Engine
from chronos.engine.options import EngineOptions
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.store.contract import Store

#: argon2id of "secret", with the cheapest parameters, since the hash is not under test.
SECRET = "$argon2id$v=19$m=8,t=1,p=1$VEw03TFcvDv2G7ugb9Eysg$aKmFDcBGinTPOjTDd2NVZp0VIldjgpZ0Ke0RQx0mTo0"
#: bcrypt of the same, with the cheapest parameters.
BCRYPT = "$2b$04$Wij.x9WzPVW77EWb32BSyuXINPTVBtGgG.lNsqcxVIYhDn7Ktymam"
V1 = "/api/v1"


@dataclass(slots=True)
class Reply:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """The code of a problem response."""
        assert self.headers["Content-Type"].startswith("application/problem+json"), self.body
        assert self.json["status"] == self.status
        return str(self.json["code"])


@dataclass(slots=True)
class World:
    """A server and a client of it."""

    base: str
    client: aiohttp.ClientSession
    store: Store
    service: Service
    access: Access
    engine: Engine | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Reply:
        """Send a request. ``user`` sends Basic authentication with the password that all users have."""
        sent = dict(headers or {})
        if body is not None or raw is not None:
            sent.setdefault("Content-Type", "application/json")
        if user is not None:
            sent["Authorization"] = basic(user, "secret")
        data = raw if raw is not None else None if body is None else msgspec.json.encode(body)
        url = self.base + path
        async with self.client.request(method, url, data=data, headers=sent, allow_redirects=False) as response:
            return Reply(response.status, response.headers, await response.read())

    async def get(self, path: str, **options: Any) -> Any:
        """GET a JSON value, and assert success."""
        reply = await self.call("GET", V1 + path, **options)
        assert reply.status == 200, reply.body
        return reply.json

    async def post(self, path: str, body: Any = None, *, status: int = 200, **options: Any) -> Any:
        """POST a JSON value, and assert the status."""
        reply = await self.call("POST", V1 + path, body, **options)
        assert reply.status == status, reply.body
        return reply.json

    async def create(self, name: str = "job", **fields: Any) -> Any:
        """Create a job."""
        return await self.post("/jobs", shape(name, **fields), status=201)

    async def seen(self, path: str, status: str, *, within_s: float = 60.0) -> None:
        """Wait until an execution is in a status."""
        async with asyncio.timeout(within_s):
            while True:
                if (await self.get(path))["status"] == status:
                    return
                await asyncio.sleep(0.01)

    async def ended(self, execution: str, *, within_s: float = 60.0, **options: Any) -> Any:
        """Wait until an execution is over, and return it."""
        async with asyncio.timeout(within_s):
            while True:
                run = await self.get(f"/executions/{execution}", **options)
                if run["finished_at"] is not None:
                    return run
                await asyncio.sleep(0.01)


def basic(user: str, password: str) -> str:
    """The Authorization header of a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def shape(name: str = "job", **fields: Any) -> dict[str, Any]:
    """A job shape, with a command unless ``fields`` has a target."""
    job: dict[str, Any] = {"name": name, "schedule": "0 * * * *", **fields}
    if not {"tasks", "http", "webhook", "python", "command", "wait", "job_type"} & job.keys():
        job["command"] = {"argv": ["true"]}
    return job


def in_world(
    case: Callable[[World], Awaitable[None]],
    *,
    options: ApiOptions | None = None,
    users: Mapping[str, Mapping[str, Any]] | None = None,
    tokens: Iterable[ApiToken] = (),
    runs: bool = False,
    functions: FunctionRegistry | None = None,
    max_pending: int | None = None,
    metrics: Callable[[], bytes] = lambda: b"# nothing\n",
    access_clock: Clock | None = None,
    store_url: str = "sqlite://",
) -> None:
    """Run a test case against its own server; with ``runs``, an engine executes its jobs."""

    async def main() -> None:
        clock = SystemClock()
        async with AsyncExitStack() as stack:
            store = make_store(store_url)
            await store.open()
            stack.push_async_callback(store.close)
            known = functions or FunctionRegistry()
            runners = make_runners(known, clock=clock)
            for runner in runners.values():
                stack.push_async_callback(runner.close)
            service = make_service(store, clock, checks=collect_target_checks(runners), max_pending=max_pending)
            access = Access(clock)
            if users is not None:
                access = Access(access_clock or clock, users=read_users(users), tokens=TokenStore(store, tokens))
            facts: dict[str, Any] = {"node": "node-a"}
            api = make_api(
                service,
                store,
                options=options or ApiOptions(poll_s=0.05),
                access=access,
                status=lambda: facts,
                metrics=metrics,
                clock=clock,
            )
            engine = None
            if runs:
                engine = make_engine(store, clock=clock, options=EngineOptions(), functions=known, runners=runners)
                await engine.start()
                stack.push_async_callback(engine.stop, 0)
            runner_ = api.runner(shutdown_timeout_s=0.1)
            await runner_.setup()
            stack.push_async_callback(runner_.cleanup)
            await web.TCPSite(runner_, "127.0.0.1", 0).start()
            port = runner_.addresses[0][1]
            client = await stack.enter_async_context(aiohttp.ClientSession())
            await case(
                World(
                    base=f"http://127.0.0.1:{port}" + (options.base_path if options else ""),
                    client=client,
                    store=store,
                    service=service,
                    access=access,
                    engine=engine,
                    facts=facts,
                )
            )

    asyncio.run(main())
