"""A credential of its own in every place where a job may hold one; then every answer, log line and output is searched.

The jobs run against a server that sends back all that it is given, and a command that prints its environment, so the
credentials come back from the targets as well.
"""

import http.client
import json
import signal
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from click.testing import CliRunner

from chronos.api.handlers import ROUTES
from chronos.cli.main import chronosctl
from tests.support.e2e_server import Client
from tests.support.server_process import PATIENCE_S, Process

Start = Callable[..., Process]
VARIABLES = {"CHRONOS_DISPATCHER__HTTP__ALLOW_PRIVATE": "true", "CHRONOS_LOGGING__LEVEL": "debug"}


USUAL = ("Host", "User-Agent", "Accept", "Content-", "X-Chronos", "Idempotency", "traceparent")


class Echo(BaseHTTPRequestHandler):
    """A handler that fails and echoes the request in headers and body."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        own = {name: value for name, value in self.headers.items() if not name.startswith(USUAL)}
        echo = {"own": own, "path": self.path, "headers": dict(self.headers.items()), "body": sent}
        body = json.dumps(echo).encode()
        self.send_response(500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in self.headers.items():
            self.send_header(f"Echo-{name}", value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook"
    server.shutdown()
    server.server_close()


class Canaries:
    """Unique credentials, each with the place where it is used."""

    def __init__(self) -> None:
        self.by_secret: dict[str, str] = {}
        self._numbers = count(1)

    def __call__(self, place: str) -> str:
        made = f"canary{next(self._numbers):03}x7Q"
        self.by_secret[made] = place
        return made

    def url(self, place: str) -> str:
        return f"postgres://robot:{self(place)}@db.example.com/orders"

    def find_in(self, text: str) -> list[str]:
        """The places whose credentials appear in a text, plain or encoded."""
        return [place for one, place in self.by_secret.items() if any(form in text for form in _forms(one))]


def _forms(secret: str) -> tuple[str, ...]:
    encoded = b64encode(secret.encode()).decode()
    return secret, quote(secret), encoded.rstrip("=")[:-1]


def make_jobs(canary: Canaries, url: str) -> list[dict[str, Any]]:
    """One job for each place that can have credentials."""
    auths = {
        "basic": {"type": "basic", "username": "ana", "password": canary("auth.password")},
        "user-only": {"type": "basic", "username": canary("auth.username")},
        "bearer": {"type": "bearer", "token": canary("auth.token")},
        "api-key": {"type": "api_key", "value": canary("auth.value")},
        "api-key-in-query": {"type": "api_key", "in": "query", "name": "k", "value": canary("auth.value, query")},
        "hmac": {"type": "hmac", "secret": canary("auth.secret")},
    }
    headers = {
        "Authorization": f"Bearer {canary('Authorization')}",
        "X-API-Key": canary("X-API-Key"),
        "Cookie": f"theme=dark; sid={canary('Cookie')}",
        "X-Vault-Token": canary("X-Vault-Token"),
        "X-From": f"see {canary.url('a URL in a header')}",
    }
    env = {
        "API_TOKEN": canary("env.API_TOKEN"),
        "DB_PASSWORD": canary("env.DB_PASSWORD"),
        "AWS_SECRET_ACCESS_KEY": canary("env.AWS_SECRET_ACCESS_KEY"),
        "DATABASE_URL": canary.url("env.DATABASE_URL"),
    }
    https: dict[str, dict[str, Any]] = {
        "headers": {"url": url, "headers": headers},
        "url": {"url": f"http://robot:{canary('a URL with a template')}@{{{{ payload.host }}}}/"},
        "query": {"url": url, "query": {"next": canary.url("query")}},
        "json": {"url": url, "json": {"to": [canary.url("json")]}},
        "body": {"url": url, "body": f"to={canary.url('body')} please"},
        **{name: {"url": url, "auth": auth} for name, auth in auths.items()},
    }
    script = f"# {canary.url('the script of a shell')}\nenv; cat; exit 3"
    commands: dict[str, dict[str, Any]] = {
        "environment": {"command": "env; env >&2; exit 3", "shell": True, "env": env},
        "arguments": {"argv": ["sh", "-c", 'echo "$1"; exit 3', "sh", canary.url("argv")]},
        "script": {"command": script, "shell": True, "stdin": canary.url("stdin")},
    }
    hooked = {
        "on_start": {"http": {"url": url, "headers": {"X-Secret": canary("on_start")}}},
        "on_complete": {"http": {"url": url, "auth": {"type": "bearer", "token": canary("on_complete")}}},
        "payload": {"dsn": canary.url("the payload of the job")},
        "description": f"reads {canary.url('description')}",
        "command": {"command": "cat; exit 3", "shell": True, "stdin": True},
    }
    made: list[dict[str, Any]] = [
        {"name": name, "http": {**options, "method": "POST"}} for name, options in https.items()
    ]
    made += [{"name": name, "command": options} for name, options in commands.items()]
    return [{**one, "schedule": "manual", "max_retries": 0} for one in (*made, {"name": "hooked", **hooked})]


def test_no_response_shows_a_credential(start: Start, echo: str) -> None:
    process = start("--node-id", "one", **VARIABLES).ready()
    api, canary = Client(process, None), Canaries()
    seen: dict[str, str] = {}  # responses by request
    jobs = make_jobs(canary, echo)
    before = [{**job, "tags": {"of": "yore"}} for job in make_jobs(canary, echo)]  # other credentials, for old versions
    executions = []
    for old, job in zip(before, jobs, strict=True):
        seen[f"create {job['name']}"] = read_text(api, "POST", "/api/v1/jobs", old, status=201)
        seen[f"dry run {job['name']}"] = read_text(api, "PUT", f"/api/v1/jobs/{job['name']}?dry_run=true", job)
        seen[f"update {job['name']}"] = read_text(api, "PUT", f"/api/jobs/{job['name']}", job)
        payload = {"payload": {"dsn": canary.url(f"the payload of a run of {job['name']}"), "host": "db.example.com"}}
        executions.append(api.trigger(job["name"], payload if job["name"] != "hooked" else None))
    ended = [api.ended(execution) for execution in executions]
    assert {one["status"] for one in ended} == {"failed"}, ended
    assert "***" in api.get(f"/executions/{executions[0]}")["reason"]["message"]

    refs = [(job["name"], execution) for job, execution in zip(jobs, executions, strict=True)]
    for path in list_paths(refs):
        seen[path] = read_text(api, "GET", path)
    seen["events"] = read_events(process, set(executions))
    seen["apply"] = read_text(api, "POST", "/api/v1/apply?dry_run=true", {"jobs": jobs, "owner": "ana"})
    seen["replay"] = read_text(api, "POST", f"/api/v1/executions/{executions[0]}/replay?dry_run=true")
    for name, execution in refs:
        for command in (
            ("jobs", "get", name, "-o", "yaml"),
            ("jobs", "get", name),
            ("jobs", "diff", name),
            ("jobs", "versions", name, "-o", "json"),
            ("executions", "get", execution, "-o", "json"),
            ("executions", "logs", execution),
            ("executions", "why", execution),
        ):
            seen[" ".join(command)] = ctl(process, *command)
    for noun in ("jobs", "executions", "dlq"):
        seen[f"{noun} list"] = ctl(process, noun, "list", "-o", "yaml")
    for job in jobs:
        seen[f"delete {job['name']}"] = read_text(api, "DELETE", f"/api/v1/jobs/{job['name']}")
    process.send(signal.SIGTERM)
    process.wait()
    seen["standard error"], seen["standard output"] = process.errors, process.banner + process.rest()
    assert "the server answered 500" in seen["standard error"]

    shown = {request: places for request, text in seen.items() if (places := canary.find_in(text))}
    assert not shown


def list_paths(refs: list[tuple[str, str]]) -> Iterator[str]:
    """Every path that can be read, for every job and its run."""
    for route in ROUTES:
        if route.method != "GET" or route.path.endswith("/events"):
            continue
        filled = [route.path]
        if "{ref}" in route.path:
            filled = [route.path.replace("{ref}", name) for name, _ in refs]
        elif "{id}" in route.path:
            filled = [route.path.replace("{id}", execution) for _, execution in refs]
        for path in filled:
            yield from (path.replace("{version}", version) for version in ("1", "2"))


def read_text(api: Client, method: str, path: str, body: Any = None, status: int = 200) -> str:
    reply = api.call(method, path, body)
    assert reply.status == status, (method, path, reply.status, reply.body)
    return json.dumps(dict(reply.headers)) + reply.body.decode()


def read_events(process: Process, executions: set[str]) -> str:
    """Read the event stream until it has reported these executions."""
    connection = http.client.HTTPConnection(urlsplit(process.url).netloc, timeout=PATIENCE_S)
    connection.request("GET", f"/api/v1/events?after=1-{'0' * 32}")
    response = connection.getresponse()
    text = ""
    while any(execution not in text for execution in executions):
        text += response.readline().decode()
    connection.close()
    return text


def ctl(process: Process, *arguments: str) -> str:
    variables = {"CHRONOS_SERVER": process.url, "CHRONOS_TOKEN": "", "NO_COLOR": "1"}
    result = CliRunner().invoke(chronosctl, list(arguments), env=variables)
    assert result.exit_code == 0, (arguments, result.output)
    return result.output
