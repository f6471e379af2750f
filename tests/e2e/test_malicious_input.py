"""Malformed and concurrent requests: each gets a response, and the server keeps working."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tests.support.e2e_server import ADMIN, V1, Client, shape
from tests.support.server_process import PATIENCE_S, Process

CLOSE = b"Connection: close\r\n"
JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(api: Client) -> Iterator[Process]:
    """The module's server. At the end it works, and its log has no complaints about clients."""
    yield api.process
    assert api.process.get("/readyz")[0] == 200
    assert "Traceback" not in api.process.errors
    assert "[error" not in api.process.errors


def send(server: Process, request: bytes) -> bytes:
    """Send bytes. Returns the first line of the response."""
    place = urlsplit(server.url)
    with socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


def get(path: bytes, headers: bytes = b"", *, method: bytes = b"GET", body: bytes = b"") -> bytes:
    head = b"%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n" % (method, path, ADMIN.encode())
    return head + headers + CLOSE + b"\r\n" + body


def post(headers: bytes, body: bytes = b"") -> bytes:
    return get(b"/api/v1/jobs", headers, method=b"POST", body=body)


WEIRD: dict[str, tuple[bytes, int]] = {
    "bytes": (b"\x00\x01\x02\xff\r\n\r\n", 400),
    "tls": (bytes.fromhex("16030100c8010000c40303") + b"a" * 50 + b"\r\n\r\n", 400),
    "http/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "no host": (b"GET /healthz HTTP/1.1\r\n" + CLOSE + b"\r\n", 400),
    "two hosts": (get(b"/healthz", b"Host: other\r\n"), 400),
    "odd method": (get(b"/healthz", method=b"FROBNICATE"), 400),
    "trace": (get(b"/healthz", method=b"TRACE"), 405),
    "options": (get(b"*", method=b"OPTIONS"), 404),
    "dots": (get(b"/%2e%2e/%2e%2e/etc/passwd"), 404),
    "slashes": (get(b"//api//v1//jobs"), 404),
    "not utf-8": (get(b"/api/v1/jobs/%ff%fe"), 404),
    "nul": (get(b"/api/v1/jobs/%00"), 404),
    "long path": (get(b"/api/v1/jobs/" + b"a" * 9_000), 400),
    "long header": (get(b"/healthz", b"X-A: " + b"a" * 20_000 + b"\r\n"), 400),
    "many headers": (get(b"/healthz", b"".join(b"X-%d: 1\r\n" % n for n in range(5_000))), 400),
    "two lengths": (post(b"Content-Length: 3\r\nContent-Length: 5\r\n", b"{}aaa"), 400),
    "length and chunks": (post(b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400),
    "negative length": (post(b"Content-Length: -3\r\n"), 400),
    "more than is taken, before it is sent": (post(JSON + b"Content-Length: 3000000\r\n"), 413),
    "broken chunks": (post(JSON + b"Transfer-Encoding: chunked\r\n", b"zz\r\n{}\r\n"), 400),
    "no gzip": (post(JSON + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n", b"abcd"), 415),
    "odd expectation": (post(JSON + b"Expect: 999-what\r\nContent-Length: 2\r\n", b"{}"), 417),
    "odd origin": (post(b"Origin: http://[::1\r\nContent-Length: 0\r\n"), 403),
    "odd type": (post(b"Content-Type: \xff;;=\r\nContent-Length: 2\r\n", b"{}"), 415),
    "odd tag": (get(b"/api/v1/jobs/x", b'If-Match: "\xff"\r\n', method=b"DELETE"), 404),
    "odd id": (get(b"/healthz", b"X-Request-Id: \xe4\r\n"), 200),
    "odd credentials": (
        b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Basic \xff\r\n" + CLOSE + b"\r\n",
        401,
    ),
    "odd token": (
        b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n" + CLOSE + b"\r\n",
        401,
    ),
}


@pytest.mark.parametrize(("request_", "status"), WEIRD.values(), ids=list(WEIRD))
def test_malformed_requests_get_the_expected_status(server: Process, request_: bytes, status: int) -> None:
    assert b" %d " % status in send(server, request_)


def test_an_unknown_host_is_refused_on_a_server_without_login(start: Callable[..., Process]) -> None:
    server = start().ready()
    for host in (b"[::1", b"evil.example"):
        assert b" 403 " in send(server, b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n" + CLOSE + b"\r\n")
    assert "Traceback" not in server.errors


def test_a_lone_surrogate_is_handled(server: Process, api: Client) -> None:
    bulk = api.call("POST", f"{V1}/jobs/bulk", rb'{"jobs": [{"name": "\ud800"}]}')
    assert (bulk.status, bulk.json["failed"]) == (200, 1)
    for path, body in (("/apply", rb'{"\ud800": 1, "jobs": []}'), ("/jobs", rb'{"\ud800": 1}')):
        assert api.call("POST", V1 + path, body).status == 422


def test_clients_that_disconnect_or_never_finish_block_no_others(server: Process, api: Client) -> None:
    place = urlsplit(server.url)
    head = get(b"/api/v1/jobs", JSON + b"Content-Length: 100\r\n", method=b"POST")
    slow = [socket.create_connection((str(place.hostname), int(place.port or 0))) for _ in range(100)]
    for number, connection in enumerate(slow):
        connection.sendall(head[: len(head) - number % 3] + b"{" * (number % 2))
    assert api.call("GET", "/healthz").status == 200
    for connection in slow:
        connection.close()
    assert api.call("GET", f"{V1}/jobs").status == 200


def call_concurrently(call: Callable[[int], int], count: int = 24) -> Counter[int]:
    """Make ``count`` calls from several clients. Returns how often each status came."""
    with ThreadPoolExecutor(12) as clients:
        return Counter(clients.map(call, range(count)))


def test_one_of_many_changes_to_the_same_version_succeeds(server: Process, api: Client) -> None:
    api.create("raced")
    for version in (1, 2):
        statuses = call_concurrently(
            lambda n, version=version: (
                api.call(  # type: ignore[misc]
                    "PUT", f"{V1}/jobs/raced", shape("raced", description=f"{version}-{n}"), If_Match=f'"{version}"'
                ).status
            )
        )
        assert statuses == {200: 1, 412: 23}
    assert api.get("/jobs/raced")["version"] == 3


def test_independent_changes_all_succeed(server: Process, api: Client) -> None:
    api.create("patched")
    assert call_concurrently(lambda n: api.call("PATCH", f"{V1}/jobs/patched", {"tags": {f"k{n}": ""}}).status) == {
        200: 24
    }
    assert len(api.get("/jobs/patched")["tags"]) == 24


def test_concurrent_creations_of_a_name_create_one_job(server: Process, api: Client) -> None:
    assert call_concurrently(lambda _: api.call("POST", f"{V1}/jobs", shape("wanted")).status) == {201: 1, 409: 23}
    storm = call_concurrently(
        lambda n: api.call("PUT" if n % 2 else "DELETE", f"{V1}/jobs/storm", shape("storm") if n % 2 else None).status
    )
    assert set(storm) <= {200, 201, 404}


def test_a_running_job_can_be_deleted(server: Process, api: Client) -> None:
    api.create("doomed", command={"argv": ["sleep", "600"]})
    execution = api.trigger("doomed")
    api.until(f"/executions/{execution}", lambda one: one["status"] == "running")
    assert api.call("DELETE", f"{V1}/jobs/doomed").status == 200
    ended = api.ended(execution)
    assert (ended["status"], ended["reason"]["code"]) == ("canceled", "job_deleted")
    api.create("doomed")
    assert api.call("POST", f"{V1}/executions/{execution}/replay").status == 404


def test_a_job_of_the_largest_size_is_accepted(server: Process, api: Client) -> None:
    own = {"text": "ä" * (128 * 1024 - 10)}
    assert api.create("large", payload=own, overlap="allow")["payload"] == own
    assert api.ended(api.trigger("large"))["status"] == "succeeded"
    other = {"text": "b" * (256 * 1024 - 20)}
    assert api.ended(api.trigger("large", {"payload": other}))["payload"] == other
    refused = api.call("POST", f"{V1}/jobs", shape("larger", payload={"text": "c" * (256 * 1024)}))
    assert [error["pointer"] for error in refused.json["errors"]] == ["/payload"]


def test_a_job_can_be_sent_back_as_it_was_read(server: Process, api: Client) -> None:
    api.create("round", schedule="0 9 * * *", tags={"a": "b"}, retry={"max_attempts": 2}, concurrency={"limit": 3})
    read = api.get("/jobs/round")
    for method in ("PUT", "PATCH"):
        reply = api.call(method, f"{V1}/jobs/round", read)
        assert (reply.status, reply.json["version"]) == (200, 1)


def test_failing_requests_do_not_delay_others(server: Process, api: Client) -> None:
    """Logging them is quick."""
    began_s = time.monotonic()
    for _ in range(50):
        send(server, WEIRD["no gzip"][0])
    assert time.monotonic() - began_s < 20
