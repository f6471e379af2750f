"""A webhook as ``on_complete``: it is sent the report, unless it says what to send."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chronos import Chronos

SOON_S = 60  # on a machine that is busy with others


class Receiver:
    """A real HTTP server that keeps what arrives."""

    def __init__(self) -> None:
        self.arrived: list[tuple[str, bytes]] = []
        self._some = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/done"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def first(self) -> tuple[str, bytes]:
        with self._some:
            assert self._some.wait_for(lambda: self.arrived, SOON_S)
            return self.arrived[0]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with receiver._some:
                    receiver.arrived.append((self.command, body))
                    receiver._some.notify_all()
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
    made = Receiver()
    yield made
    made.close()


def run(hook: dict[str, Any]) -> None:
    app = Chronos("sqlite://", allow_private=True)

    @app.job(on_complete={"http": hook}, retries=0)
    def digest() -> None: ...

    with app:
        assert digest.trigger().wait(SOON_S).status == "succeeded"


def test_the_report_is_posted(receiver: Receiver) -> None:
    run({"url": receiver.url})
    method, body = receiver.first()
    report = json.loads(body)
    assert method == "POST"
    assert (report["status"], report["strategy"]) == ("succeeded", "fail_fast")
    assert [(task["name"], task["attempts"]) for task in report["tasks"]] == [("main", 1)]


@pytest.mark.parametrize(
    ("says", "sent"),
    [
        ({"method": "GET"}, ("GET", b"")),
        ({"json": {"it": "{{ payload.status }}"}}, ("POST", b'{"it":"succeeded"}')),
        ({"body": "over", "method": "PUT"}, ("PUT", b"over")),
    ],
)
def test_what_the_hook_says_is_sent(receiver: Receiver, says: dict[str, Any], sent: tuple[str, bytes]) -> None:
    run({"url": receiver.url, **says})
    assert receiver.first() == sent
