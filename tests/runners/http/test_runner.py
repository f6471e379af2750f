"""The http target against real servers on loopback: what is sent, what is recorded, and misbehaving servers."""

import asyncio
import base64
import gzip
import hmac
import socket
import time
from typing import Any

import msgspec
import pytest

from chronos.core.outcome import Failed, Outcome, Succeeded, TimedOut
from chronos.core.planner import CoveredSpan
from chronos.runners.contract import StopReason
from chronos.runners.http.runner import HttpRunner
from tests.support.http_servers import Handler, Seen, Server, answer, failed, run
from tests.support.target_calls import STARTED_US, make_call


def test_the_headers_of_a_webhook() -> None:
    outcome, call, (seen,) = run(answer(200, b'{"n": [1]}', "application/json; charset=utf-8"), {"json": {"a": 1}})
    assert outcome == Succeeded(result={"n": [1]})
    assert (seen.method, seen.target, seen.body) == ("POST", "/hook", b'{"a":1}')
    response = call.detail["response"]
    assert (response["status"], response["body"], response["truncated"]) == (200, '{"n": [1]}', False)
    assert response["headers"]["Content-Type"] == "application/json; charset=utf-8"
    wanted = {
        "content-type": "application/json",
        "x-chronos-job-id": "6d1f1f38-6a0e-5c8e-9c0b-0f6b6c5f2a11",
        "x-chronos-execution-id": "0190f1f2-aaaa-8bbb-8ccc-dddddddddddd",
        "x-chronos-scheduled-time": "2027-01-15T08:00:00Z",
        "x-chronos-task-run-id": "033f4f5f-b6dd-56a3-a068-49b6c1c1b588",
        "x-chronos-attempt": "1",
        "x-chronos-attempt-id": "1c881070-c766-8e38-93f7-adb9a0cde1ba",
        "x-chronos-fencing-token": "7",
        "user-agent": "Chronos",
    }
    assert {name: seen.headers[name] for name in wanted} == wanted
    assert seen.headers["traceparent"].startswith("00-0190f1f2aaaa8bbb8cccdddddddddddd-")
    assert not [name for name in seen.headers if name.startswith("x-chronos-span") or name == "cookie"]


def test_a_compressed_run_tells_its_span() -> None:
    _, _, (seen,) = run(answer(), {}, span=CoveredSpan(from_us=0, to_us=60_000_000, count=2))
    assert {name: value for name, value in seen.headers.items() if name.startswith("x-chronos-span")} == {
        "x-chronos-span-from": "1970-01-01T00:00:00Z",
        "x-chronos-span-to": "1970-01-01T00:01:00Z",
        "x-chronos-span-count": "2",
    }


def test_retries_share_a_key_and_a_trace_but_not_a_span() -> None:
    _, _, (first,) = run(answer(), {})
    _, _, (second,) = run(answer(), {}, number=2)
    _, _, (other,) = run(answer(), {}, task="other")
    assert first.headers["x-chronos-task-run-id"] == second.headers["x-chronos-task-run-id"]
    assert first.headers["x-chronos-attempt-id"] != second.headers["x-chronos-attempt-id"]
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] != other.headers["idempotency-key"]
    one, two = first.headers["traceparent"].split("-"), second.headers["traceparent"].split("-")
    assert one[1] == two[1]
    assert one[2] != two[2]


@pytest.mark.parametrize(
    ("options", "payload", "method", "body"),
    [
        ({}, None, "GET", b""),
        ({}, {"a": 1}, "GET", b""),
        ({"method": "post"}, {"a": 1}, "POST", b'{"a":1}'),
        ({"method": "PUT"}, None, "PUT", b""),
        ({"body": "id={{ payload.id }}"}, {"id": "x"}, "POST", b"id=x"),
        ({"json": {"due": "{{ execution.scheduled_at }}"}}, None, "POST", b'{"due":"2027-01-15T08:00:00Z"}'),
        ({"json": ["{{ payload }}"], "method": "PATCH"}, {"a": None}, "PATCH", b'[{"a":null}]'),
        ({"method": "DELETE"}, None, "DELETE", b""),
    ],
)
def test_methods_and_bodies(options: dict[str, Any], payload: Any, method: str, body: bytes) -> None:
    outcome, _, (seen,) = run(answer(), options, payload=payload)
    assert outcome == Succeeded()
    assert (seen.method, seen.body) == (method, body)


def test_a_payload_cannot_change_where_a_request_goes() -> None:
    options = {"url": "URL/orders/{{ payload.id }}?x={{ payload.q }}", "query": {"name": "{{ job.name }}", "n": 2}}
    _, _, (seen,) = run(answer(), options, payload={"id": "../admin#?", "q": "1&y=2"})
    assert seen.target == "/orders/..%2Fadmin%23%3F?x=1%26y%3D2&name=report&n=2"


def test_a_url_may_be_a_single_placeholder() -> None:
    async def go() -> tuple[Outcome, str]:
        async with Server(answer()) as server:
            runner = HttpRunner(allow_private=True)
            call = make_call({"url": "{{ payload.callback }}"}, payload={"callback": f"{server.url}/a/b?c=d"})
            outcome = await runner.run(call)
            await runner.close()
            return outcome, server.seen[0].target

    assert asyncio.run(go()) == (Succeeded(), "/a/b?c=d")


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (
            {"type": "basic", "username": "u", "password": "{{ secret.TOKEN }}"},
            "authorization",
            "Basic dTp0MHAvczNjcjN0",
        ),
        ({"type": "bearer", "token": "{{ secret.TOKEN }}"}, "authorization", "Bearer t0p/s3cr3t"),
        ({"type": "api_key", "value": "{{ secret.TOKEN }}"}, "x-api-key", "t0p/s3cr3t"),
        ({"type": "api_key", "name": "X-Key", "value": "k"}, "x-key", "k"),
        ({"type": "api_key", "name": 7, "value": 5}, "7", "5"),
    ],
)
def test_credentials(auth: dict[str, Any], header: str, value: str) -> None:
    _, _, (seen,) = run(answer(), {"auth": auth})
    assert seen.headers[header] == value


def test_an_api_key_in_the_query() -> None:
    auth = {"type": "api_key", "in": "query", "name": "key", "value": "{{ secret.TOKEN }}"}
    assert run(answer(), {"auth": auth})[2][0].target == "/hook?key=t0p/s3cr3t"


def test_signatures_are_standard_webhooks() -> None:
    _, _, (seen,) = run(answer(), {"json": {"a": 1}, "auth": {"type": "hmac", "secret": "{{ secret.SIGNING }}"}})
    message, seconds = seen.headers["webhook-id"], seen.headers["webhook-timestamp"]
    digest = hmac.digest(b"k" * 24, f"{message}.{seconds}.".encode() + seen.body, "sha256")
    assert seen.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert seconds == str(STARTED_US // 1_000_000)
    assert message == seen.headers["idempotency-key"]


def test_secrets_are_masked_in_the_recorded_response() -> None:
    async def echo(seen: Seen, writer: asyncio.StreamWriter) -> None:
        body = repr(seen.headers).encode() + seen.target.encode()
        writer.write(f"HTTP/1.1 500 X\r\nX-Echo: {seen.headers['x-t']}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        writer.write(body)

    options = {
        "url": "URL/{{ secret.TOKEN }}",
        "headers": {"X-T": "{{ secret.TOKEN }}"},
        "auth": {"type": "basic", "username": "u", "password": "{{ secret.TOKEN }}"},
    }
    outcome, call, (seen,) = run(echo, options)
    assert seen.target == "/t0p/s3cr3t"
    for text in (repr(outcome), repr(call.detail)):
        assert "s3cr3t" not in text
        assert "dTp0MHAvczNjcjN0" not in text
    assert call.detail["response"]["headers"]["X-Echo"] == "***"


def test_a_secret_at_the_edge_of_the_kept_body_is_masked() -> None:
    body = b"x" * ((1 << 20) - 4) + b"t0p/s3cr3t" + b"y" * 100
    _, call, _ = run(answer(200, body), {"headers": {"X-T": "{{ secret.TOKEN }}"}})
    assert "t0p" not in call.detail["response"]["body"]
    assert call.detail["response"]["truncated"]


@pytest.mark.parametrize(
    ("status", "worth"),
    [
        (400, False),
        (401, False),
        (404, False),
        (408, True),
        (410, False),
        (425, True),
        (429, True),
        (500, True),
        (503, True),
    ],
)
def test_which_statuses_are_worth_retrying(status: int, worth: bool) -> None:
    outcome, call, _ = run(answer(status, b"why\n not"), {})
    assert failed(outcome) == Failed(
        error=f"the server answered {status}: why not",
        kinds=(f"http_{status}", f"http_{status // 100}xx"),
        worth_retrying=worth,
    )
    assert call.detail["response"]["status"] == status


def test_a_job_may_choose_its_success_and_retry_statuses() -> None:
    assert run(answer(404), {"success_codes": [200, "404-409"]})[0] == Succeeded()
    assert failed(run(answer(200), {"success_codes": [201]})[0]).kinds == ("http_200", "http_2xx")
    assert failed(run(answer(404), {"retry_codes": ["4xx"]})[0]).worth_retrying
    assert not failed(run(answer(503), {"retry_codes": [429]})[0]).worth_retrying


@pytest.mark.parametrize(
    ("body", "kind", "result"),
    [
        (b"[1, 2]", "application/json", [1, 2]),
        (b'{"a": 1}', "application/problem+json", {"a": 1}),
        (b'{"a": 1}', "text/plain", None),
        (b'{"a": NaN}', "application/json", None),
        (b'"\\u0000"', "application/json", None),
        (b"{", "application/json", None),
        (b"[" * 30_000, "application/json", None),
        (b'"' + b"x" * 70_000 + b'"', "application/json", None),
        (b"", "application/json", None),
    ],
)
def test_results_are_small_json(body: bytes, kind: str, result: Any) -> None:
    assert run(answer(200, body, kind), {})[0] == Succeeded(result=result)


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("é".encode("latin-1"), "text/plain; charset=latin-1", "é"),
        (b"a\xff\x00b", "text/plain", "a��b"),
        (b"abc", "text/plain; charset=punycode", "abc"),
        (b"abc", "text/plain; charset=no-such", "abc"),
    ],
)
def test_bodies_become_text(body: bytes, kind: str, text: str) -> None:
    assert run(answer(200, body, kind), {})[1].detail["response"]["body"] == text


def test_a_large_body_is_cut_without_being_read() -> None:
    written = 0

    async def flood(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(15_000):
            writer.write(b"x" * 65_536)
            await writer.drain()
            written += 65_536

    outcome, call, _ = run(flood, {})
    assert outcome == Succeeded()
    assert call.detail["response"]["truncated"]
    assert len(call.detail["response"]["body"]) == 1 << 20
    assert written < 50_000_000


def test_a_compression_bomb_is_not_expanded() -> None:
    bomb = gzip.compress(b"x" * 20_000_000)
    outcome, call, _ = run(answer(200, bomb, Content_Encoding="gzip"), {})
    assert outcome == Succeeded()
    assert len(call.detail["response"]["body"]) == 1 << 20
    assert call.detail["response"]["truncated"]
    _, call, _ = run(answer(200, gzip.compress(b"fine"), Content_Encoding="gzip"), {})
    assert call.detail["response"]["body"] == "fine"
    _, call, _ = run(answer(200, b"fine", Content_Encoding="gzip"), {})
    assert "the body is not compressed" in call.detail["response"]["body"]


def test_cookies_are_not_shared_between_calls() -> None:
    async def go() -> None:
        async with Server(answer(200, b"", Set_Cookie="session=abc")) as server:
            runner = HttpRunner(allow_private=True)
            calls = [make_call({"url": server.url}) for _ in range(3)]
            for call in calls:
                await runner.run(call)
            await runner.close()
            assert all("cookie" not in seen.headers for seen in server.seen)
            assert "abc" not in repr(calls[0].detail)
            assert server.connections == 1  # the connection was kept open

    asyncio.run(go())


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert run(answer(), {})[0] == Succeeded()


async def hangs(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drips(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("handler", [hangs, drips])
def test_a_slow_server_times_out(handler: Handler) -> None:
    begun = time.monotonic()
    assert run(handler, {"timeout": "50ms"})[0] == TimedOut(error="no complete response within 0.05 s")
    longer, _, _ = run(handler, {"timeout": "50ms"}, number=2, timeout_factor=2.0)
    assert longer == TimedOut(error="no complete response within 0.1 s")
    outcome, _, _ = run(handler, {}, {"timeout_s": 0.05}, has_timeout=False)
    assert isinstance(outcome, TimedOut)
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("handler", [hangs, drips])
def test_a_call_is_stopped_or_canceled_at_once(handler: Handler) -> None:
    async def go() -> Outcome:
        async with Server(handler) as server:
            runner = HttpRunner(allow_private=True)
            call = make_call({"url": server.url})
            stopped, canceled = (
                asyncio.create_task(runner.run(call)),
                asyncio.create_task(runner.run(make_call({"url": server.url}))),
            )
            while len(server.seen) < 2:  # noqa: ASYNC110 - polled on purpose
                await asyncio.sleep(0.001)
            call.stop.request(StopReason.TIMEOUT)
            canceled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await canceled
            outcome = await stopped
            call.stop.request(StopReason.CANCELED)
            await runner.close()
            return outcome

    assert failed(asyncio.run(go())).kinds == ("stopped",)


async def resets(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def hangs_up(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\nxx")
    writer.close()


async def babbles(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 smtp.example ready\r\n\r\n")
    writer.close()


async def endless_headers(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\n")
    for number in range(100_000):
        writer.write(b"X-%d: %s\r\n" % (number, b"x" * 1_000))
        await writer.drain()


async def miscounts(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
    await writer.drain()
    await asyncio.sleep(0.01)
    writer.write(b"many\r\nmore\r\n")
    await writer.drain()
    await asyncio.sleep(60)


@pytest.mark.parametrize("handler", [resets, hangs_up, babbles, endless_headers, miscounts])
def test_a_misbehaving_server_is_worth_retrying(handler: Handler) -> None:
    outcome = failed(run(handler, {"json": 1})[0])
    assert outcome.kinds[0] == "connection"
    assert outcome.worth_retrying
    assert len(outcome.error) < 300


def test_a_server_that_cannot_be_reached() -> None:
    with socket.socket() as taken:  # no server listens there
        taken.bind(("127.0.0.1", 0))
        outcome = failed(run(answer(), {"url": f"http://127.0.0.1:{taken.getsockname()[1]}/"})[0])
    assert outcome.kinds == ("connection", "connect")
    assert outcome.worth_retrying


def test_a_header_that_is_not_text_can_be_recorded() -> None:
    async def latin(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nX-Town: M\xfcnchen\r\nContent-Length: 0\r\n\r\n")

    outcome, call, _ = run(latin, {})
    assert outcome == Succeeded()
    assert msgspec.json.decode(msgspec.json.encode(call.detail))["response"]["headers"]["X-Town"] == "M?nchen"
