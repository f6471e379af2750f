"""A client of a server process, which sends requests as a script would."""

import base64
import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support.server_process import PATIENCE_S, Process

V1 = "/api/v1"
ADMIN = "Basic " + base64.b64encode(b"ana:secret").decode()


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem response."""
        assert self.headers["Content-Type"].startswith("application/problem+json"), self.body
        assert self.json["status"] == self.status
        return str(self.json["code"])


class Client:
    """A client of a server, with or without credentials."""

    def __init__(self, process: Process, authorization: str | None = ADMIN) -> None:
        self.process = process
        self._authorization = authorization

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send one request on its own connection. ``If_Match`` is the header If-Match."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self._authorization is not None:
            sent.setdefault("Authorization", self._authorization)
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(urlsplit(self.process.url).netloc, timeout=PATIENCE_S)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers.items()), response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """GET a JSON value, and assert success."""
        return self._expect("GET", path, None, (200,))

    def post(self, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        """POST a JSON value, and assert the status."""
        return self._expect("POST", path, body, (status,), **headers)

    def create(self, name: str, **fields: Any) -> Any:
        """Create a job, which is manual unless ``fields`` has a schedule."""
        return self.post("/jobs", shape(name, **fields), 201)

    def trigger(self, name: str, body: Any = None, **headers: str) -> str:
        """Trigger a run. Returns the execution id."""
        return str(self.post(f"/jobs/{name}/trigger", body, 202, **headers)["execution_id"])

    def until(self, path: str, condition: Callable[[Any], bool], *, within_s: float = PATIENCE_S) -> Any:
        """GET a path until its value meets a condition."""
        end_s = time.monotonic() + within_s
        while not condition(answer := self.get(path)):
            assert time.monotonic() < end_s, answer
            time.sleep(0.02)
        return answer

    def ended(self, execution: str) -> Any:
        """Wait until an execution is over, and return it."""
        return self.until(f"/executions/{execution}", lambda run: run["finished_at"] is not None)

    def _expect(self, method: str, path: str, body: Any, statuses: tuple[int, ...], **headers: str) -> Any:
        reply = self.call(method, V1 + path, body, **headers)
        assert reply.status in statuses, (method, path, reply.status, reply.body)
        return reply.json


def shape(name: str, **fields: Any) -> dict[str, Any]:
    """A job shape, with a command unless ``fields`` has a target."""
    job: dict[str, Any] = {"name": name, "schedule": "manual", **fields}
    if not {"tasks", "http", "webhook", "python", "command", "wait"} & job.keys():
        job["command"] = {"argv": ["true"]}
    return job
