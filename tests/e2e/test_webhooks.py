"""Two servers on one PostgreSQL send webhooks: each once, and all of them even if one server dies."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from tests.support.e2e_server import Client
from tests.support.server_process import Process

Start = Callable[..., Process]
MANY = 500
SLOTS = 100  # of a server
TIMEOUT_S, SCAN_S = 4.0, 0.5
SLACK_S = 10.0  # for a busy machine
LIVELY = {
    "CHRONOS_DISPATCHER__HTTP__ALLOW_PRIVATE": "true",
    "CHRONOS_SCHEDULER__HEARTBEAT_INTERVAL": "500ms",
    "CHRONOS_SCHEDULER__HEARTBEAT_TIMEOUT": f"{TIMEOUT_S:g}s",
    "CHRONOS_SCHEDULER__REAPER_INTERVAL": f"{SCAN_S * 1000:g}ms",
}


class Arrival(NamedTuple):
    """One request, read from its headers."""

    at_s: float
    execution: str
    attempt: int
    token: int
    key: str


class Target:
    """A real HTTP server that keeps the requests, and answers slowly."""

    def __init__(self) -> None:
        self.arrived: list[Arrival] = []
        self.delay_s = 0.0
        self.min_requests = 0  # no request is answered before this many have arrived
        self._enough = threading.Condition()
        self._server = _Listener(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait_for(self, count: int) -> None:
        """Wait until this many requests have arrived."""
        end_s = time.monotonic() + 60
        while len(self.arrived) < count:
            assert time.monotonic() < end_s, f"only {len(self.arrived)} arrived"
            time.sleep(0.01)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                headers = self.headers
                with target._enough:
                    target.arrived.append(
                        Arrival(
                            time.monotonic(),
                            headers["X-Chronos-Execution-ID"],
                            int(headers["X-Chronos-Attempt"]),
                            int(headers["X-Chronos-Fencing-Token"]),
                            headers["Idempotency-Key"],
                        )
                    )
                    target._enough.notify_all()
                    target._enough.wait_for(lambda: len(target.arrived) >= target.min_requests, 20)
                self.rfile.read(int(headers.get("Content-Length", "0")))
                time.sleep(target.delay_s)
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        return Handler


class _Listener(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that die."""


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


def save_jobs(api: Client, target: Target) -> None:
    """Save webhooks that are all due in the same second."""
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5)
    jobs = [
        {
            "name": f"hook-{number}",
            "schedule": {"at": (at + timedelta(milliseconds=number)).isoformat()},
            "http": {"url": target.url, "method": "POST", "json": {"number": number}},
        }
        for number in range(MANY)
    ]
    assert api.post("/jobs/bulk", {"jobs": jobs})["created"] == MANY


def wait_for_all(api: Client) -> list[dict[str, Any]]:
    """Wait for the last execution to end, and return all of them."""
    end_s = time.monotonic() + 60
    while True:
        found = api.get("/executions?limit=1000")["items"]
        if len(found) == MANY and all(one["finished_at"] for one in found):
            return list(found)
        assert time.monotonic() < end_s, Counter(one["status"] for one in found)
        time.sleep(0.1)


def start_two(start: Start, url: str) -> tuple[Process, Process]:
    a, b = (start("--store", url, "--node-id", name, **LIVELY) for name in ("a", "b"))
    return a.ready(), b.ready()


def test_each_webhook_arrives_once(start: Start, target: Target, postgres_url: str) -> None:
    a, b = start_two(start, postgres_url)
    target.min_requests = SLOTS + 1  # more than one server can send alone
    save_jobs(Client(a, None), target)
    found = wait_for_all(Client(b, None))
    assert {(one["status"], one["attempts"]) for one in found} == {("succeeded", 1)}
    assert Counter(one.execution for one in target.arrived) == Counter(one["id"] for one in found)
    assert {one["node"] for one in found} == {"a", "b"}


@pytest.mark.chaos
def test_killing_a_server_loses_no_webhook(start: Start, target: Target, postgres_url: str) -> None:
    a, b = start_two(start, postgres_url)
    target.delay_s = 1.0
    save_jobs(Client(b, None), target)
    target.wait_for(MANY // 3)
    a.send(signal.SIGKILL)
    killed_s = time.monotonic()
    found = wait_for_all(Client(b, None))
    assert {one["status"] for one in found} == {"succeeded"}
    counts = Counter(one.execution for one in target.arrived)
    attempts = {one["id"]: one["attempts"] for one in found}
    assert counts.keys() == attempts.keys()
    assert not {execution: count for execution, count in counts.items() if count > attempts[execution]}
    again = [one for one in target.arrived if one.attempt > 1]
    assert again, "the kill came too late to matter"
    assert max(one.at_s for one in again) - killed_s < TIMEOUT_S + 2 * SCAN_S + target.delay_s + SLACK_S
    first = {one.execution: one for one in target.arrived if one.attempt == 1}
    for one in again:
        if one.execution in first:  # otherwise it was lost before it was sent
            assert one.key == first[one.execution].key
            assert one.token > first[one.execution].token
