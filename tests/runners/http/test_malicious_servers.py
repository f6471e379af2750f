"""Servers that break the rules: the outcome, and whether the connection is reused."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chronos.core.outcome import Failed, Outcome, Succeeded, TimedOut
from chronos.runners.contract import AttemptCall
from chronos.runners.http import connector
from chronos.runners.http.client import MAX_HEADER_BYTES, MAX_HEADERS
from chronos.runners.http.runner import HttpRunner
from tests.support.http_servers import Handler, Seen, Server, answer, failed
from tests.support.target_calls import make_call

OK = b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nok"
HEAD = b"HTTP/1.1 200 X\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def _sends(data: bytes, *, then: Callable[[asyncio.StreamWriter], None] | None = None) -> Handler:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if then is not None:
            then(writer)

    return handler


def _run_with_server(handler: Handler, play: Callable[[HttpRunner, Server], Awaitable[Any]], **settings: Any) -> Any:
    async def go() -> Any:
        runner = HttpRunner(allow_private=True, **settings)
        async with Server(handler) as server:
            try:
                return await play(runner, server)
            finally:
                await runner.close()

    return asyncio.run(go())


def _call_twice(handler: Handler, method: str = "POST") -> tuple[list[Outcome], list[AttemptCall], Server]:
    """Make two calls, the second after everything that the server sent for the first has arrived."""

    async def play(runner: HttpRunner, server: Server) -> tuple[list[Outcome], list[AttemptCall], Server]:
        calls = [make_call({"url": server.url, "method": method}) for _ in range(2)]
        outcomes = []
        for call in calls:
            outcomes.append(await runner.run(call))
            while server.done < len(server.seen):  # noqa: ASYNC110 - polled on purpose
                await asyncio.sleep(0.001)
            for _ in range(10):  # the written bytes have arrived and only have to be read
                await asyncio.sleep(0)
        return outcomes, calls, server

    result: tuple[list[Outcome], list[AttemptCall], Server] = _run_with_server(handler, play)
    return result


@pytest.mark.parametrize(
    "sent",
    [
        OK + OK,
        b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 X\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=["two", "101", "close", "old"],
)
def test_a_connection_is_kept_only_if_the_response_allows_it(sent: bytes) -> None:
    _, calls, server = _call_twice(_sends(sent))
    assert server.connections == 2
    assert all(call.detail["response"]["body"] in ("ok", "") for call in calls)


@pytest.mark.parametrize(
    ("sent", "method"),
    [
        (OK + b"x", "POST"),
        (b"HTTP/1.1 204 X\r\nContent-Length: 2\r\n\r\nok", "POST"),
        (b"HTTP/1.1 304 X\r\n\r\nok", "POST"),
        (OK, "HEAD"),
    ],
    ids=["garbage", "204 with a body", "304 with a body", "a body in answer to HEAD"],
)
def test_bytes_after_a_response_that_are_not_http_fail_it(sent: bytes, method: str) -> None:
    """aiohttp drops a response if the bytes after it, in the same packet, are not the start of another."""
    outcomes, _, server = _call_twice(_sends(sent), method)
    for outcome in outcomes:
        assert failed(outcome).kinds == ("connection", "protocol")
        assert failed(outcome).worth_retrying
    assert server.connections == 2


def test_half_an_unrequested_response_is_dropped() -> None:
    outcomes, calls, _ = _call_twice(_sends(CHUNKED + b"2\r\nok\r\n0\r\n\r\nHTTP/1.1 500 X\r\n"))
    assert outcomes == [Succeeded(), Succeeded()]
    assert [call.detail["response"]["body"] for call in calls] == ["ok", "ok"]


def test_an_unrequested_response_is_not_used_for_the_next_request() -> None:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.002)
        writer.write(b"HTTP/1.1 500 Smuggled\r\nContent-Length: 0\r\n\r\n")

    outcomes, _, server = _call_twice(handler)
    assert [type(outcome) for outcome in outcomes] == [Succeeded] * 2
    assert server.connections == 2


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        HEAD + b"Content-Length: 2, 3\r\n\r\nok",
        HEAD + b"Content-Length: -2\r\n\r\nok",
        HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nok",
        HEAD + b"X : y\r\n\r\n",
        CHUNKED + b"-2\r\nok\r\n0\r\n\r\n",
        CHUNKED + b"FFFFFFFFFFFFFFFFFF\r\nok\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\x01",
        b"HTTP/1.1 abc X\r\n\r\n",
    ],
)
def test_a_response_that_is_not_http_fails_and_is_worth_retrying(sent: bytes) -> None:
    outcomes, _, server = _call_twice(_sends(sent))
    for outcome in outcomes:
        assert failed(outcome).kinds == ("connection", "protocol")
        assert failed(outcome).worth_retrying
    assert server.connections == 2


@pytest.mark.parametrize("piece", [b"X-%d: y\r\n", b"Y" * 4_096], ids=["headers", "one header"])
def test_endless_headers_are_cut_off(piece: bytes) -> None:
    written = 0

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 100 X\r\n")
        data = b"".join(piece % n if b"%d" in piece else piece for n in range(1_000))
        while written < 1_000 * MAX_HEADER_BYTES:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0)
            written += len(data)

    outcomes, _, _ = _call_twice(handler)
    assert failed(outcomes[0]).kinds == ("connection", "protocol")
    assert written < 1_000 * MAX_HEADER_BYTES


def test_endless_interim_responses_end_with_the_timeout() -> None:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 X\r\nA: b\r\n\r\n" * 100)
            await writer.drain()
            await asyncio.sleep(0)

    async def play(runner: HttpRunner, server: Server) -> Outcome:
        return await runner.run(make_call({"url": server.url, "timeout": "100ms"}))

    assert isinstance(_run_with_server(handler, play), TimedOut)


def test_many_headers_in_one_piece() -> None:
    many = b"".join(b"A%d:b\r\n" % number for number in range(MAX_HEADERS + 1))
    outcomes, _, _ = _call_twice(_sends(HEAD + many + b"Content-Length: 0\r\n\r\n"))
    assert failed(outcomes[0]).kinds == ("connection", "protocol")
    assert "Too many headers" in failed(outcomes[0]).error


def test_endless_trailers() -> None:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"2\r\nok\r\n0\r\nX-Trailer: ")
        for _ in range(2_000):
            writer.write(b"x" * 65_536)
            await writer.drain()

    outcomes, _, _ = _call_twice(handler)
    assert failed(outcomes[0]).kinds == ("connection", "protocol")


def test_trailers_do_not_become_headers() -> None:
    _, calls, server = _call_twice(_sends(CHUNKED + b"2\r\nok\r\n0\r\nX-Trailer: y\r\n\r\n"))
    assert server.connections == 1
    assert [call.detail["response"]["headers"] for call in calls] == [{"Transfer-Encoding": "chunked"}] * 2


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (HEAD + b"\r\nuntil the end", "until the end"),
        (HEAD + b"Transfer-Encoding: chunked, odd\r\n\r\nuntil the end", "until the end"),
        (HEAD + b"\r\n", ""),
        (HEAD + b"Content-Length: 20\r\n\r\nhalf", None),
        (CHUNKED + b"4\r\nhalf\r\n", None),
        (b"HTTP/1.1 200 X\r\nX-Half: ", None),
        (b"HTTP/1.1 100 X\r\n\r\n", None),
        (b"", None),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])  # aiohttp would repeat PUT by itself
def test_a_server_that_closes_the_connection(sent: bytes, body: str | None, method: str) -> None:
    outcomes, calls, server = _call_twice(_sends(sent, then=asyncio.StreamWriter.close), method)
    assert len(server.seen) == 2
    for outcome, call in zip(outcomes, calls, strict=True):
        if body is None:
            assert failed(outcome).kinds == ("connection", "reset")
        else:
            assert outcome == Succeeded()
            assert call.detail["response"]["body"] == body


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "POST"])
@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 X\r\nX-Half: "], ids=["nothing", "half"])
def test_a_server_that_resets_the_connection(sent: bytes, method: str) -> None:
    def reset(writer: asyncio.StreamWriter) -> None:
        linger = struct.pack("ii", 1, 0)  # close with a TCP reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    outcomes, _, server = _call_twice(_sends(sent, then=reset), method)
    assert [failed(outcome).kinds for outcome in outcomes] == [("connection", "reset")] * 2
    assert len(server.seen) == 2


def test_lines_may_end_with_a_line_feed_alone() -> None:
    _, calls, server = _call_twice(_sends(OK.replace(b"\r\n", b"\n")))
    assert [call.detail["response"]["body"] for call in calls] == ["ok"] * 2
    assert server.connections == 1


def test_a_repeated_request_uses_a_fresh_connection() -> None:
    """Several kept connections are all dead at the next request. The repeated request uses none of them."""
    usual = answer(200, b"fine")
    together = asyncio.Barrier(3)

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.target == "/first":
            await together.wait()
        elif server_asked.count(seen.target) < 1:
            server_asked.append(seen.target)
            writer.close()
            return
        await usual(seen, writer)

    server_asked: list[str] = []

    async def play(runner: HttpRunner, server: Server) -> None:
        first = [make_call({"url": f"{server.url}/first"}) for _ in range(3)]
        await asyncio.gather(*(runner.run(call) for call in first))
        assert server.connections == 3
        assert isinstance(await runner.run(make_call({"url": f"{server.url}/again"})), Succeeded)
        assert server.connections == 4

    _run_with_server(handler, play)


def test_nothing_is_repeated_after_the_first_byte_of_a_response() -> None:
    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.target == "/half":
            writer.write(b"HTTP/1.1 2")
            await writer.drain()
            await asyncio.sleep(0.005)
            writer.close()
        else:
            writer.write(OK)

    async def play(runner: HttpRunner, server: Server) -> None:
        assert isinstance(await runner.run(make_call({"url": server.url})), Succeeded)
        assert failed(await runner.run(make_call({"url": f"{server.url}/half"}))).kinds == ("connection", "reset")
        assert [seen.target for seen in server.seen] == ["/", "/half"]

    _run_with_server(handler, play)


def test_a_request_on_a_fresh_connection_is_not_repeated() -> None:
    outcomes, _, server = _call_twice(_sends(b"", then=asyncio.StreamWriter.close), "GET")
    assert [type(outcome) for outcome in outcomes] == [Failed] * 2
    assert server.connections == 2


def test_connections_are_limited_and_requests_wait_in_order() -> None:
    go_on = asyncio.Event()

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        writer.write(OK)

    async def play(runner: HttpRunner, server: Server) -> None:
        calls = [make_call({"url": f"{server.url}/{number}"}) for number in range(8)]
        tasks = [asyncio.create_task(runner.run(call)) for call in calls]
        while len(server.seen) < 2:  # noqa: ASYNC110 - polled on purpose
            await asyncio.sleep(0.001)
        tasks[3].cancel()  # it waits for a slot and leaves the queue
        go_on.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(outcomes.pop(3), asyncio.CancelledError)
        assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
        assert server.connections == 2
        assert [seen.target for seen in server.seen] == [f"/{number}" for number in (0, 1, 2, 4, 5, 6, 7)]
        async with Server(handler) as other:  # connections kept for one server make room for another
            both = [make_call({"url": f"{each}/"}) for each in (other.url, other.url, server.url, server.url)]
            outcomes = await asyncio.gather(*(runner.run(call) for call in both))
            assert all(isinstance(outcome, Succeeded) for outcome in outcomes)

    _run_with_server(handler, play, max_connections=2)


def test_connections_are_not_kept_for_long() -> None:
    gone = asyncio.Event()

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        closed = asyncio.create_task(writer.wait_closed())
        closed.add_done_callback(lambda _: gone.set())
        tasks.add(closed)

    tasks: set[asyncio.Task[None]] = set()

    async def play(runner: HttpRunner, server: Server) -> None:
        for expected in (1, 2):
            gone.clear()
            assert isinstance(await runner.run(make_call({"url": server.url})), Succeeded)
            assert server.connections == expected
            await asyncio.wait_for(gone.wait(), 60)

    _run_with_server(handler, play, idle_timeout_s=0.02)


def test_running_and_waiting_requests_finish_when_the_runner_closes() -> None:
    go_on = asyncio.Event()

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        writer.write(OK)

    async def play(runner: HttpRunner, server: Server) -> list[Outcome]:
        urls = (server.url, server.url.replace("127.0.0.1", "localhost"))  # the name would have to be resolved
        calls = [asyncio.create_task(runner.run(make_call({"url": url}))) for url in urls]
        while not server.seen:  # noqa: ASYNC110 - polled on purpose
            await asyncio.sleep(0.001)
        await runner.close()
        go_on.set()
        return await asyncio.gather(*calls)

    ended, late = _run_with_server(handler, play, max_connections=1)
    assert isinstance(ended, Succeeded)
    assert failed(late).kinds == ("connection", "dns")


def test_a_canceled_call_closes_its_connection() -> None:
    async def play(runner: HttpRunner, server: Server) -> None:
        for expected in (1, 2):
            task = asyncio.create_task(runner.run(make_call({"url": server.url})))
            while len(server.seen) < expected:  # noqa: ASYNC110 - polled on purpose
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert server.connections == expected
        await asyncio.wait_for(ended.wait(), 60)

    async def handler(seen: Seen, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"HTTP/1.1 100 X\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.001)
        except OSError:
            ended.set()
            raise

    ended = asyncio.Event()
    _run_with_server(handler, play)


def test_one_lookup_serves_all_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[str] = []
    real = socket.getaddrinfo

    def lookup(host: Any, *args: Any, **more: Any) -> Any:
        lookups.append(host)
        return [
            *real("127.0.0.2", *args, **more),
            *real("127.0.0.1", *args, **more),
        ]  # no server listens at the first address

    async def play(runner: HttpRunner, server: Server) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        url = server.url.replace("127.0.0.1", "hooks.example")
        outcomes = await asyncio.gather(*(runner.run(make_call({"url": url})) for _ in range(3)))
        assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
        assert lookups == ["hooks.example"]

    _run_with_server(_sends(OK), play)


def test_a_name_that_cannot_be_resolved() -> None:
    async def play(runner: HttpRunner, server: Server) -> None:
        outcome = failed(await runner.run(make_call({"url": "http://no-such-name.invalid/"})))
        assert outcome.kinds == ("connection", "dns")
        assert outcome.worth_retrying

    _run_with_server(_sends(OK), play)


def test_only_the_public_addresses_of_a_name_are_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[Any] = []

    def make_socket(address: Any) -> Any:
        dialled.append(address[4][0])
        raise OSError("no server is there")

    both = [(2, 1, 6, "", ("10.0.0.1", 80)), (2, 1, 6, "", ("8.8.8.8", 80))]
    monkeypatch.setattr(connector, "_make_socket", make_socket)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)

    async def go() -> None:
        runner = HttpRunner()
        outcome = failed(await runner.run(make_call({"url": "http://both.example/"})))
        assert outcome.kinds == ("connection", "connect")
        assert dialled == ["8.8.8.8"]
        await runner.close()

    asyncio.run(go())
