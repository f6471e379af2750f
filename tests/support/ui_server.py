"""A whole server with its web UI, in this process, and a browser-like client of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import aiohttp
import msgspec

from chronos.clock import Clock, SystemClock
from chronos.server.config import load_config
from chronos.server.server import Server
from tests.support.api_server import SECRET, V1, Reply, basic

USERS = {
    "ana": {"password_hash": SECRET, "role": "admin"},
    "vic": {"password_hash": SECRET, "role": "viewer", "namespaces": ["billing"]},
}
WITH_USERS: Mapping[str, Any] = {"auth.type": "basic", "auth.users": USERS}


class _InlineCode(HTMLParser):
    """Finds what the content security policy forbids."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "style" or (tag == "script" and "src" not in values):
            self.found.append(f"<{tag}>")
        for name, value in values.items():
            is_code = name == "style" or name.startswith("on")
            if is_code or value.lower().startswith(("javascript:", "data:", "http:", "https:", "//")):
                self.found.append(f"{name}={value}")


@dataclass(slots=True)
class UiServer:
    """A started server, and a client that keeps cookies."""

    server: Server
    client: aiohttp.ClientSession
    base_path: str = ""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server.port}{self.base_path}"

    async def get(self, path: str, **headers: str) -> Reply:
        """Fetch a page without following redirects."""
        sent = {"Accept": "text/html", **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.client.get(self.root + path, headers=sent, allow_redirects=False) as response:
            return Reply(response.status, response.headers, await response.read())

    async def page(self, path: str) -> str:
        """Return the HTML of a page that must be there, and must have neither inline script nor inline style."""
        reply = await self.get(path)
        html = reply.body.decode()
        assert reply.status == 200, html
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'self';")
        assert _InlineCode(html).found == []
        return html

    async def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Reply:
        """Send a form without following redirects."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.post(self.root + path, data=fields, headers=sent, allow_redirects=False) as response:
            return Reply(response.status, response.headers, await response.read())

    async def call(self, method: str, path: str, body: Any = None, *, user: str | None = None) -> Reply:
        """Call the API, as a program does."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        if user is not None:
            headers["Authorization"] = basic(user, "secret")
        url = f"{self.root}{V1}{path}"
        async with (
            aiohttp.ClientSession() as program,
            program.request(method, url, data=data, headers=headers) as response,
        ):
            return Reply(response.status, response.headers, await response.read())

    async def create(self, name: str, *, user: str | None = None, **fields: Any) -> None:
        """Create a job; without a target it runs ``true``."""
        if not {"http", "command", "tasks"} & fields.keys():
            fields["command"] = {"argv": ["true"]}
        reply = await self.call("POST", "/jobs", {"name": name, "schedule": "manual", **fields}, user=user)
        assert reply.status == 201, reply.body

    async def run(self, name: str) -> dict[str, Any]:
        """Run a job and return its finished run."""
        execution = (await self.call("POST", f"/jobs/{name}/trigger", {})).json["execution_id"]
        async with asyncio.timeout(60):
            while True:
                run: dict[str, Any] = (await self.call("GET", f"/executions/{execution}")).json
                if run["finished_at"] is not None:
                    return run
                await asyncio.sleep(0.02)

    async def sign_in(self, name: str, password: str = "secret", *, next_path: str = "") -> Reply:
        """Send the sign-in form."""
        return await self.post("/login", {"username": name, "password": password, "next": next_path})


@asynccontextmanager
async def serve_ui(settings: Mapping[str, Any] | None = None, clock: Clock | None = None) -> AsyncIterator[UiServer]:
    """Start a server with a store in memory on a free port."""
    flags = {"store": "sqlite://", "server.listen": "127.0.0.1:0", **(settings or {})}
    config = load_config(None, {}, flags)
    server = Server(config, clock or SystemClock())
    await server.start()
    jar = aiohttp.CookieJar(unsafe=True)  # for an address instead of a host name
    async with aiohttp.ClientSession(cookie_jar=jar) as client:
        try:
            yield UiServer(server, client, config["server.base_path"])
        finally:
            await server.stop()
