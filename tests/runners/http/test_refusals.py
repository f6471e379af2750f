"""Requests that the http target refuses: private addresses in any form, redirects, header injection."""

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from chronos.core.outcome import Outcome, Succeeded
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall
from chronos.runners.http.runner import HttpRunner
from tests.support.http_servers import Handler, Seen, Server, answer, failed, run
from tests.support.target_calls import make_call


def test_redirects_are_followed_only_with_the_option() -> None:
    async def hop(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await answer(*((302, b"", "x") if seen.target == "/hook" else (200, b"there")), Location="/next")(seen, writer)

    outcome, _, _ = run(hop, {"json": 1})
    assert 'set the option "redirects"' in failed(outcome).error
    outcome, call, seen = run(hop, {"json": 1, "redirects": True})
    assert outcome == Succeeded()
    assert [(each.method, each.target) for each in seen] == [("POST", "/hook"), ("GET", "/next")]
    assert call.detail["response"]["body"] == "there"
    outcome, _, seen = run(answer(307, Location="/hook"), {"json": 1, "redirects": 3})
    assert "too many redirects" in failed(outcome).error
    assert [each.body for each in seen] == [b"1"] * 4


def test_credentials_are_not_sent_to_another_host() -> None:
    async def go() -> list[Seen]:
        async with Server(answer()) as other:
            where = other.url.replace("127.0.0.1", "localhost")
            async with Server(answer(307, Location=where)) as server:
                runner = HttpRunner(allow_private=True)
                auth = {"type": "bearer", "token": "abc"}
                await runner.run(
                    make_call({"url": server.url, "auth": auth, "headers": {"X-A": "b"}, "redirects": True})
                )
                await runner.close()
            return other.seen

    (seen,) = asyncio.run(go())
    assert "authorization" not in seen.headers
    assert "x-a" not in seen.headers
    assert seen.headers["x-chronos-attempt"] == "1"


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:1/", "http://[::ffff:7f00:1]/", "//0x7f.1/", "http://localhost/"]
)
def test_a_redirect_into_private_space_is_refused(monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    _resolve(monkeypatch, {"hooks.internal": ["127.0.0.1"]})
    options = {"url": "URL/", "redirects": True}
    outcome, _, _ = _run_as("hooks.internal", answer(302, Location=location), options)
    assert failed(outcome).kinds == ("address",)
    assert not failed(outcome).worth_retrying


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://x/", "http://u:p@example.com/", "http://[bad/"])
def test_a_redirect_to_an_invalid_url_is_refused(location: str) -> None:
    outcome, _, _ = run(answer(302, Location=location), {"redirects": True})
    assert failed(outcome).kinds == ("request",)


def _resolve(monkeypatch: pytest.MonkeyPatch, names: Mapping[str, list[str]]) -> None:
    """Make names resolve to these addresses, the next one with each lookup."""
    real, lookups = socket.getaddrinfo, dict.fromkeys(names, 0)

    def lookup(host: Any, *args: Any, **more: Any) -> Any:
        if host in lookups:
            lookups[host] += 1
            host = names[host][min(lookups[host], len(names[host])) - 1]
        return real(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


def _run_as(name: str, handler: Handler, options: Mapping[str, Any]) -> tuple[Outcome, AttemptCall, list[Seen]]:
    """Like ``run``, with the server under a name that allow_hosts contains."""

    async def go() -> tuple[Outcome, AttemptCall, list[Seen]]:
        async with Server(handler) as server:
            runner = HttpRunner(allow_hosts=[name])
            given = {**options, "url": options["url"].replace("URL", server.url.replace("127.0.0.1", name))}
            call = make_call(given)
            runner.check(given)
            try:
                return await runner.run(call), call, server.seen
            finally:
                await runner.close()

    return asyncio.run(go())


def test_an_allowed_name_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve(monkeypatch, {"hooks.internal": ["127.0.0.1"]})
    outcome, _, (seen,) = _run_as("hooks.internal", answer(), {"url": "URL/x"})
    assert outcome == Succeeded()
    assert seen.headers["host"].startswith("hooks.internal:")


def test_names_are_checked_by_the_dialled_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the dialled address counts, whatever the name resolved to before.

    Authors of jobs do not learn internal addresses. The operator finds them in the log, at debug.
    """
    caplog.set_level(logging.DEBUG, "chronos.engine")
    _resolve(monkeypatch, {"rebound.example": ["127.0.0.1"], "mapped.example": ["::ffff:127.0.0.1"]})

    async def go() -> list[Outcome]:
        async with Server(answer()) as server:
            port = server.url.rpartition(":")[2]
            runner = HttpRunner()
            outcomes = []
            for host in ("rebound.example", "mapped.example"):
                options = {"url": f"http://{host}:{port}/"}
                runner.check(options)
                outcomes.append(await runner.run(make_call(options)))
            await runner.close()
            assert server.connections == 0
            return outcomes

    for host, outcome in zip(("rebound.example", "mapped.example"), asyncio.run(go()), strict=True):
        assert failed(outcome).kinds == ("address",)
        assert f"{host} has no public address" in failed(outcome).error
        assert "127.0.0.1" not in failed(outcome).error
    logged = [(record.levelname, getattr(record, "addresses", None)) for record in caplog.records]
    assert ("DEBUG", ["127.0.0.1"]) in logged


def test_the_error_of_an_unreachable_name_hides_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve(monkeypatch, {"hooks.internal": ["127.0.0.1"]})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # no server listens there
        port = taken.getsockname()[1]

        async def go() -> Outcome:
            runner = HttpRunner(allow_hosts=["hooks.internal"])
            outcome = await runner.run(make_call({"url": f"http://hooks.internal:{port}/"}))
            await runner.close()
            return outcome

        error = failed(asyncio.run(go())).error
    assert error == "no connection to hooks.internal: Connection refused"


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1"])
def test_an_address_in_an_old_form_is_not_dialled_even_if_allowed(host: str) -> None:
    outcome, _, seen = run(answer(), {"url": f"http://{host}:1/"})
    assert failed(outcome).kinds == ("request",)
    assert "canonical" in failed(outcome).error
    assert not seen


def test_addresses_from_a_payload_are_checked_too() -> None:
    outcome, _, seen = run(
        answer(), {"url": "{{ payload.u }}"}, {"allow_private": False}, payload={"u": "http://127.1/"}
    )
    assert failed(outcome).kinds == ("address",)
    assert not seen


@pytest.mark.parametrize(
    ("options", "changes", "error"),
    [
        ({"headers": {"X-A": "{{ payload.a }}"}}, {"payload": {"a": "b\r\nEvil: 1"}}, "line break"),
        ({"headers": {"X-A": "{{ secret.BAD }}"}}, {}, "line break"),
        ({"json": {"x": "{{ payload.a.c }}"}}, {"payload": {"a": {"b": 1}}}, '"payload.a.c" does not exist'),
        ({"url": "{{ payload.a }}"}, {"payload": {"a": "ftp://x/"}}, "expected a URL that starts with https://"),
        ({"url": "http://{{ payload.a }}/"}, {"payload": {"a": "good.example@127.0.0.1"}}, "has an invalid host"),
    ],
)
def test_requests_that_become_invalid_with_the_payload(
    options: dict[str, Any], changes: dict[str, Any], error: str
) -> None:
    outcome, _, seen = run(answer(), options, **changes)
    assert error in failed(outcome).error
    assert not failed(outcome).worth_retrying
    assert not seen


def test_a_missing_secret_is_worth_retrying() -> None:
    outcome, _, _ = run(answer(), {"headers": {"X": "{{ secret.LATER }}"}})
    assert failed(outcome).kinds == ("secret",)
    assert failed(outcome).worth_retrying


PUBLIC = "https://example.com/"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "http needs a url"),
        ({"url": PUBLIC, "metod": "GET"}, 'no option "metod"; did you mean "method"?'),
        ({"url": PUBLIC, "method": "BREW"}, 'http.method is "BREW"'),
        ({"url": PUBLIC, "method": "GET\r\n"}, "http.method"),
        ({"url": "example.com"}, "starts with https://"),
        ({"url": "ftp://example.com/"}, "starts with https://"),
        ({"url": "https:///x"}, "http.url"),
        ({"url": "https://u:p@example.com/"}, "use auth, which keeps them hidden"),
        ({"url": "https://example.com/\r\nX: y"}, "control character"),
        ({"url": "https://example.com:99999/"}, "http.url"),
        ({"url": "http://127.0.0.1/"}, "not a public address"),
        ({"url": "http://127.1/"}, "not a public address"),
        ({"url": "http://0x7f000001/"}, "not a public address"),
        ({"url": "http://2130706433/"}, "not a public address"),
        ({"url": "http://[::1]/"}, "not a public address"),
        ({"url": "http://[::ffff:a00:1]/"}, "not a public address"),
        ({"url": "http://①②⑦.0.0.1/"}, "not a public address"),
        ({"url": "http://localhost:8080/"}, "is this machine"),
        ({"url": "http://169.254.169.254/latest/meta-data"}, "not a public address"),
        ({"url": PUBLIC, "headers": {"X-A": "b\r\nEvil: 1"}}, "line break"),
        ({"url": PUBLIC, "headers": {"X A": "b"}}, "not a valid header name"),
        ({"url": PUBLIC, "headers": {"X-A\r\nB": "b"}}, "not a valid header name"),
        ({"url": PUBLIC, "headers": {"Host": "b"}}, "the connection sets it"),
        ({"url": PUBLIC, "headers": {"Transfer-Encoding": "chunked"}}, "the connection sets it"),
        ({"url": PUBLIC, "headers": {"X-Chronos-Attempt": "1"}}, "Chronos sets it"),
        ({"url": PUBLIC, "headers": {"idempotency-key": "1"}}, "Chronos sets it"),
        ({"url": PUBLIC, "headers": ["X"]}, "http.headers must be an object"),
        ({"url": PUBLIC, "body": {"a": 1}}, "use json for other values"),
        ({"url": PUBLIC, "body": "a", "json": 1}, "both body and json"),
        ({"url": PUBLIC, "json": "{{ paylod.x }}"}, 'did you mean "payload"?'),
        ({"url": PUBLIC, "auth": {"type": "digest"}}, "one of basic, bearer, api_key, hmac"),
        ({"url": PUBLIC, "auth": {"type": {}}}, "one of basic, bearer, api_key, hmac"),
        ({"url": PUBLIC, "auth": {"type": "api_key", "value": 1, "in": []}}, "http.auth.in must be text"),
        ({"url": PUBLIC, "auth": {"type": "bearer"}}, 'needs "token"'),
        ({"url": PUBLIC, "auth": {"type": "bearer", "tokn": "x"}}, 'did you mean "token"?'),
        ({"url": PUBLIC, "auth": {"type": "hmac", "secret": "whsec_!"}}, "not base64"),
        ({"url": PUBLIC, "success_codes": [99]}, "expected a status"),
        ({"url": PUBLIC, "success_codes": []}, "must be a list"),
        ({"url": PUBLIC, "redirects": 11}, "allowed 0 to 10"),
        ({"url": PUBLIC, "timeout": "soon"}, "http.timeout"),
    ],
)
def test_invalid_requests_are_rejected(options: dict[str, Any], error: str) -> None:
    with pytest.raises(Invalid) as raised:
        HttpRunner().check(options)
    assert error in str(raised.value)
