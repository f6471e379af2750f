"""Hooks: ``on_start`` gets the occurrence, ``on_complete`` the report. A webhook sends it, unless it has a body."""

import json
import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chronos import Chronos, Context

SOON_S = 60  # on a machine that is busy with others


class Receiver:
    """A real HTTP server that keeps the requests it receives."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/done"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def first(self) -> tuple[str, bytes]:
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests, SOON_S)
            return self.requests[0]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with receiver._changed:
                    receiver.requests.append((self.command, body))
                    receiver._changed.notify_all()
                self.send_response(204)
                self.end_headers()

            def do_POST(self) -> None:
                self.do_GET()

            def do_PUT(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def run(hook: dict[str, Any]) -> None:
    app = Chronos("sqlite://", allow_private=True)

    @app.job(on_complete={"http": hook}, retries=0)
    def digest() -> None: ...

    with app:
        assert digest.trigger().wait(SOON_S).status == "succeeded"


def test_a_hook_posts_the_report(receiver: Receiver) -> None:
    run({"url": receiver.url})
    method, body = receiver.first()
    report = json.loads(body)
    assert method == "POST"
    assert (report["status"], report["strategy"]) == ("succeeded", "fail_fast")
    assert report["job_name"] == "digest"
    assert [(task["name"], len(task["attempts"])) for task in report["tasks"]] == [("main", 1)]


def test_a_webhook_posts_the_occurrence(receiver: Receiver) -> None:
    app = Chronos("sqlite://", allow_private=True)

    @app.job(on_start={"http": {"url": receiver.url}}, payload={"n": 1})
    def digest(n: int) -> None: ...

    with app:
        run = digest.trigger()
        assert run.wait(SOON_S).status == "succeeded"
    method, body = receiver.first()
    occurrence = json.loads(body)
    assert (method, occurrence["execution_id"], occurrence["payload"]) == ("POST", run.id, {"n": 1})


def test_functions_take_what_they_name() -> None:
    app = Chronos("sqlite://")
    seen: dict[str, Any] = {}
    done = threading.Event()

    def before(occurrence: dict[str, Any], scheduled_at: datetime, ctx: Context) -> None:
        seen["before"] = (occurrence["job_name"], scheduled_at.tzinfo is not None, ctx.payload == occurrence)

    def after(report: dict[str, Any], status: str, **others: Any) -> None:
        seen["after"] = (report["job_name"], status, others["trigger"])
        done.set()

    @app.job(on_start=before, on_complete=after)
    def digest() -> None: ...

    with app:
        digest.trigger().wait(SOON_S)
        assert done.wait(SOON_S)
    assert seen == {"before": ("digest", True, True), "after": ("digest", "succeeded", "manual")}


@pytest.mark.parametrize(
    ("options", "request_sent"),
    [
        ({"method": "GET"}, ("GET", b"")),
        ({"json": {"it": "{{ payload.status }}"}}, ("POST", b'{"it":"succeeded"}')),
        ({"body": "over", "method": "PUT"}, ("PUT", b"over")),
    ],
)
def test_a_hook_sends_its_own_body(
    receiver: Receiver, options: dict[str, Any], request_sent: tuple[str, bytes]
) -> None:
    run({"url": receiver.url, **options})
    assert receiver.first() == request_sent
