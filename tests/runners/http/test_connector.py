"""Connections of the http target: kept, dropped and reused, and what goes over them."""

import asyncio
import socket
from typing import Any

import pytest
from yarl import URL

from chronos.core.outcome import Failed, Outcome, Succeeded
from chronos.runners.http import connector
from chronos.runners.http.request import Request
from chronos.runners.http.runner import HttpRunner
from chronos.runners.secret_mask import SecretMask
from tests.support.http_servers import Handler, Seen, Server, answer
from tests.support.target_calls import make_call


def _run_calls(handler: Handler, *options: dict[str, Any], **settings: Any) -> tuple[list[Outcome], Server]:
    """Make calls one after the other, with one runner to one server."""

    async def scene() -> tuple[list[Outcome], Server]:
        runner = HttpRunner(allow_private=True, **settings)
        try:
            async with Server(handler) as server:
                outcomes = [await runner.run(make_call({"url": f"{server.url}/hook", **each})) for each in options]
                return outcomes, server
        finally:
            await runner.close()

    return asyncio.run(scene())


def test_a_connection_is_reused() -> None:
    outcomes, server = _run_calls(answer(200, b"fine"), {}, {"method": "POST"}, {"json": {"a": 1}})
    assert [type(outcome) for outcome in outcomes] == [Succeeded] * 3
    assert (len(server.seen), server.connections) == (3, 1)


@pytest.mark.parametrize(
    ("settings", "connections"),
    [({"max_age_s": 0.0}, 3), ({"max_age_s": 3_600.0}, 1), ({"max_idle": 0}, 3), ({"idle_timeout_s": 0.0}, 3)],
)
def test_a_connection_is_reused_only_until_it_expires(settings: dict[str, Any], connections: int) -> None:
    outcomes, server = _run_calls(answer(200, b"fine"), {}, {}, {}, **settings)
    assert outcomes == [Succeeded()] * 3
    assert server.connections == connections


@pytest.mark.parametrize(
    ("keep_alive", "connections"),
    [("timeout=1", 2), ("max=5, timeout=0", 2), ("timeout=5, max=5", 1), ("max=5", 1), ("timeout=soon", 1)],
)
def test_keep_alive_headers_limit_the_reuse_of_a_connection(keep_alive: str, connections: int) -> None:
    """A connection that the server keeps for one second may close at any moment."""
    outcomes, server = _run_calls(answer(200, b"fine", Keep_Alive=keep_alive), {}, {})
    assert outcomes == [Succeeded()] * 2
    assert server.connections == connections


def test_no_more_connections_are_kept_than_allowed() -> None:
    """The longest idle connection is closed; the others are reused."""

    async def scene() -> list[int]:
        runner = HttpRunner(allow_private=True, max_idle=2)
        try:
            async with Server(answer()) as one, Server(answer()) as two, Server(answer()) as three:
                for server in (one, two, three, three, two, one):
                    assert isinstance(await runner.run(make_call({"url": server.url})), Succeeded)
                return [one.connections, two.connections, three.connections]
        finally:
            await runner.close()

    assert asyncio.run(scene()) == [2, 1, 1]


def test_a_name_that_changes_its_address_is_resolved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a connection expires, the next one goes to the new address."""
    real, where = socket.getaddrinfo, ["127.0.0.1"]

    def lookup(host: Any, *args: Any, **more: Any) -> Any:
        return real(where[0] if host == "hooks.example" else host, *args, **more)

    async def scene() -> None:
        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        monkeypatch.setattr(connector, "_DNS_CACHE_S", 0)
        runner = HttpRunner(allow_private=True, max_age_s=0.05)
        async with Server(answer()) as before:
            url = before.url.replace("127.0.0.1", "hooks.example")
            for _ in range(2):
                assert isinstance(await runner.run(make_call({"url": url})), Succeeded)
            where[0] = "127.0.0.2"  # no server listens there
            await asyncio.sleep(0.06)
            assert isinstance(await runner.run(make_call({"url": url})), Failed)
            assert len(before.seen) == 2
        await runner.close()

    asyncio.run(scene())


def test_a_connection_with_an_unread_response_is_not_reused() -> None:
    async def longer_than_is_kept(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000)

    outcomes, server = _run_calls(longer_than_is_kept, {}, {})
    assert [type(outcome) for outcome in outcomes] == [Succeeded] * 2
    assert server.connections == 2


@pytest.mark.parametrize(("method", "ends"), [("GET", Succeeded), ("PUT", Failed), ("POST", Failed)])
def test_only_repeatable_requests_are_repeated_after_a_closed_connection(method: str, ends: type[Outcome]) -> None:
    usual = answer(200, b"fine")

    async def hangs_up_on_the_second(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if len(server_saw) == 1:
            writer.close()
        else:
            await usual(seen, writer)
        server_saw.append(seen)

    server_saw: list[Seen] = []
    outcomes, server = _run_calls(hangs_up_on_the_second, {"method": method}, {"method": method})
    assert [type(outcome) for outcome in outcomes] == [Succeeded, ends]
    assert len(server.seen) == (3 if ends is Succeeded else 2)
    if isinstance(outcomes[1], Failed):
        assert "reset" in outcomes[1].kinds
        assert outcomes[1].worth_retrying


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    ],
    ids=["interim answers", "chunks"],
)
def test_responses_in_several_pieces(response: bytes) -> None:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        for begin in range(0, len(response), 20):
            writer.write(response[begin : begin + 20])
            await writer.drain()
            await asyncio.sleep(0)

    async def scene() -> None:
        runner = HttpRunner(allow_private=True)
        async with Server(handler) as server:
            for _ in range(2):
                call = make_call({"url": server.url})
                assert isinstance(await runner.run(call), Succeeded)
                assert call.detail["response"]["body"] == "ok"
            assert server.connections == 1
        await runner.close()

    asyncio.run(scene())


def test_a_response_to_head_has_no_body() -> None:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000\r\n\r\n")

    outcomes, server = _run_calls(handler, {"method": "HEAD"}, {"method": "HEAD"})
    assert [type(outcome) for outcome in outcomes] == [Succeeded] * 2
    assert server.connections == 1


@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\nb", "a\rb", "a\0b"])
def test_a_header_value_cannot_add_a_header(value: str) -> None:
    """The last line of defence: options are checked long before."""

    async def scene() -> None:
        runner = HttpRunner(allow_private=True)
        async with Server(answer()) as server:
            request = Request(method="GET", url=URL(server.url), headers={"X-Own": value}, mask=SecretMask())
            with pytest.raises(ValueError, match="control character"):
                await runner._open_client().send(request, 0)
            assert not server.seen
        await runner.close()

    asyncio.run(scene())


def test_cached_request_outlines_are_not_mixed_up() -> None:
    async def scene() -> None:
        runner = HttpRunner(allow_private=True)
        async with Server(answer()) as server:
            one = {"url": f"{server.url}/one", "headers": {"X-Own": "one", "User-Agent": "Mine"}, "method": "POST"}
            two = {"url": f"{server.url}/two", "headers": {"X-Own": "{{ payload.a }}"}, "method": "POST"}
            for options, payload in ((one, None), (two, {"a": "1"}), (one, {"b": 2}), (two, {"a": "2"})):
                assert isinstance(await runner.run(make_call(options, payload=payload)), Succeeded)
            received = [
                (seen.target, seen.headers["x-own"], seen.headers["user-agent"], seen.body) for seen in server.seen
            ]
            assert received == [
                ("/one", "one", "Mine", b""),
                ("/two", "1", "Chronos", b'{"a":"1"}'),
                ("/one", "one", "Mine", b'{"b":2}'),
                ("/two", "2", "Chronos", b'{"a":"2"}'),
            ]
            types = [seen.headers.get("content-type") for seen in server.seen]
            assert types == [None, "application/json", "application/json", "application/json"]
        await runner.close()

    asyncio.run(scene())
