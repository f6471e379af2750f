"""Malicious and invalid requests, and their problems."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chronos.api import ApiOptions
from chronos.api.errors import Malformed, TooManyRequests
from chronos.api.json_body import MAX_DEPTH, read_json
from chronos.api.rate_limits import RateLimit, RecentlyUsedMap
from chronos.core.calendar import SECOND_US
from tests.support.api_server import V1, World, in_world, shape


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"name": ', "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"name": "a", "name": "b"}', '"name" twice'),
        (b'{"tasks": [{"http": {"url": 1, "url": 2}}]}', '"url" twice'),
        (b'{"priority": NaN}', "NaN"),
        (b'{"priority": Infinity}', "Infinity"),
        (b'{"priority": 1e999}', "1e999"),
        (b'{"priority": ' + b"9" * 5000 + b"}", "64 bits"),
        (b"[" * 100_000, "nested"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "nested"),
        (b"", "missing"),
    ],
    ids=[
        "cut",
        "bytes",
        "twice",
        "twice-within",
        "nan",
        "infinity",
        "too-large",
        "digits",
        "lists",
        "lists-closed",
        "objects",
        "nothing",
    ],
)
def test_unreadable_bodies_are_malformed(body: bytes, words: str) -> None:
    async def case(world: World) -> None:
        reply = await world.call("POST", f"{V1}/jobs", raw=body)
        assert (reply.status, reply.code) == (400, "malformed")
        assert words in reply.json["detail"]

    in_world(case)


def test_bodies_at_the_depth_limit_are_read() -> None:
    for depth in range(1, MAX_DEPTH + 1):
        assert read_json(b"[" * depth + b"]" * depth) == json.loads("[" * depth + "]" * depth)
    with pytest.raises(Malformed):
        read_json(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://224.0.0.1/",
        "http://0.0.0.0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[fe80::1]/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "http://example.com\r\nX-Evil: 1/",
    ],
)
def test_forbidden_webhook_targets_are_rejected(url: str) -> None:
    async def case(world: World) -> None:
        reply = await world.call("POST", f"{V1}/jobs", shape("evil", http={"url": url}))
        assert (reply.status, reply.code) == (422, "invalid_job"), reply.body
        assert reply.json["errors"][0]["pointer"].startswith("/http")

    in_world(case)


@pytest.mark.parametrize(
    "fields",
    [
        {"http": {"url": "https://example.com/", "headers": {"X-A": "1\r\nX-Evil: 2"}}},
        {"http": {"url": "https://example.com/", "headers": {"X-A\r\nX-Evil": "1"}}},
        {"http": {"url": "https://example.com/", "body": "{{ execution.__class__ }}"}},
        {"http": {"url": "https://example.com/", "json": {"a": "{{ ''.__class__.__mro__ }}"}}},
        {"command": {"argv": "rm -rf /"}},
        {"command": {"argv": []}},
        {"schedule": "0 0 30 2 *"},
        {"schedule": "* " * 5_000},
        {"name": "../../etc/passwd"},
        {"name": "0b7c1f3e-6a52-5d0f-9d0e-0c5e5a4f1a11"},
        {"name": "a\0b"},
        {"name": "ä"},
        {"payload": "\ud800"},
        {"payload": 1 << 70},
        {"payload": "x" * 300_000},
        {"tags": {f"k{n}": "v" for n in range(100)}},
        {"description": "x" * 20_000},
        {"unknown_field": 1},
    ],
    ids=[
        "header-value",
        "header-name",
        "template-attribute",
        "template-code",
        "argv-text",
        "argv-empty",
        "never",
        "long-cron",
        "path",
        "uuid",
        "nul",
        "accent",
        "surrogate",
        "large-number",
        "large-payload",
        "many-tags",
        "long-text",
        "unknown",
    ],
)
def test_malicious_jobs_are_rejected(fields: dict[str, Any]) -> None:
    async def case(world: World) -> None:
        body = json.dumps(shape(**{"name": "evil"} | fields)).encode()  # it also writes surrogates
        reply = await world.call("POST", f"{V1}/jobs", raw=body)
        assert (reply.status, reply.code) == (422, "invalid_job"), reply.body
        assert reply.json["errors"]

    in_world(case)


def test_an_unpaired_surrogate_fails_only_its_own_job() -> None:
    """The response quotes it, and also lists the saved jobs."""

    async def case(world: World) -> None:
        body = json.dumps({"jobs": [shape("good"), shape("ba\ud800d")]}).encode()
        reply = await world.call("POST", f"{V1}/jobs/bulk", raw=body)
        assert reply.status == 200
        assert [(one["name"], one["result"]) for one in json.loads(reply.body)["results"]] == [
            ("good", "created"),
            ("ba\ud800d", "failed"),
        ]
        assert "diff" not in json.loads(reply.body)["results"][0]

    in_world(case)


def test_a_body_above_the_limit_is_413() -> None:
    async def case(world: World) -> None:
        for path in ("/jobs", "/jobs/bulk", "/apply", "/schedule/preview"):
            reply = await world.call("POST", V1 + path, raw=b'"' + b"x" * 5_000 + b'"')
            assert (reply.status, reply.code) == (413, "too_large")

        async def drip() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 100

        typed = {"Content-Type": "application/json"}
        async with world.client.post(f"{world.base}{V1}/jobs", data=drip(), headers=typed) as response:
            assert response.status == 413

    in_world(case, options=ApiOptions(request_limit=4_096))


def test_other_media_types_are_415() -> None:
    async def case(world: World) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/x-yaml"):
            reply = await world.call("POST", f"{V1}/jobs", shape(), headers={"Content-Type": kind})
            assert (reply.status, reply.code) == (415, "unsupported_media_type")

    in_world(case)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=ten",
        "limit=٣",
        "limit=1&limit=2",
        "limitt=1",
        "cursor=%%%",
        "cursor=AAAA",
        "cursor=" + "A" * 3_000,
        "state=asleep",
        "namespace=a%20b",
        "namespace=" + "a" * 201,
        "q=%00",
    ],
)
def test_invalid_parameters_are_malformed(query: str) -> None:
    async def case(world: World) -> None:
        reply = await world.call("GET", f"{V1}/jobs?{query}")
        assert (reply.status, reply.code) == (400, "malformed"), reply.body

    in_world(case)


def test_other_lists_check_their_parameters() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        for path in (
            "/executions?cursor=AAAA",
            "/executions?status=odd",
            "/dead-letters?cursor=AAAA",
            "/audit?cursor=zzz",
            "/jobs/digest/versions?cursor=x",
            "/jobs/digest/next?count=100000",
            "/jobs/digest/why?at=yesterday",
            "/jobs/digest/diff?from=0",
            "/events?after=x",
        ):
            reply = await world.call("GET", V1 + path)
            assert (reply.status, reply.code) == (400, "malformed"), path

    in_world(case)


def test_pages_of_other_sites_change_nothing() -> None:
    async def case(world: World) -> None:
        own = world.base
        refused = [
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site", "Origin": own},
        ]
        for headers in refused:
            reply = await world.call("POST", f"{V1}/jobs", shape(), headers=headers)
            assert (reply.status, reply.code) == (403, "forbidden"), headers
        for number, headers in enumerate([{"Sec-Fetch-Site": "same-origin"}, {"Origin": own}, {}]):
            reply = await world.call("POST", f"{V1}/jobs", shape(f"job-{number}"), headers=headers)
            assert reply.status == 201, headers
        assert (await world.call("GET", f"{V1}/jobs", headers=refused[0])).status == 200
        assert "Access-Control-Allow-Origin" not in reply.headers

    in_world(case)


def test_foreign_host_names_are_refused_without_authentication() -> None:
    async def case(world: World) -> None:
        for host, status in (("evil.example", 403), ("localhost:1", 200), ("chronos.test", 200), ("[::1]:80", 200)):
            assert (await world.call("GET", f"{V1}/jobs", headers={"Host": host})).status == status, host

    in_world(case, options=ApiOptions(hosts=("chronos.test",)))


def test_headers_cannot_be_smuggled() -> None:
    async def case(world: World) -> None:
        given = await world.call("GET", "/healthz", headers={"X-Request-Id": "abc-123"})
        assert given.headers["X-Request-Id"] == "abc-123"
        for odd in ("a b", "x" * 200, "<script>", "a\tb"):
            made = await world.call("GET", "/healthz", headers={"X-Request-Id": odd})
            assert made.headers["X-Request-Id"] != odd
        reply = await world.call("GET", f"{V1}/jobs/a%0d%0aX-Evil:%201")
        assert reply.status == 404
        assert "X-Evil" not in reply.headers
        for name in ("Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"):
            assert reply.headers[name]
        assert reply.headers["Server"] == "chronos"

    in_world(case)


def test_a_slow_body_times_out() -> None:
    async def case(world: World) -> None:
        host, port = world.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"POST {V1}/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
        )
        writer.write(head.encode() + b"{")
        status = await asyncio.wait_for(reader.readline(), 60)
        assert b"408" in status
        writer.close()

    in_world(case, options=ApiOptions(request_timeout_s=0.1))


def test_submissions_are_rate_limited() -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        for _ in range(100):  # more are allowed if the machine pauses meanwhile
            reply = await world.call("POST", f"{V1}/jobs/digest/trigger")
            if reply.status == 429:
                break
        assert reply.code == "rate_limited"
        assert int(reply.headers["Retry-After"]) >= 1
        assert (await world.call("GET", f"{V1}/jobs")).status == 200

    in_world(case, options=ApiOptions(submit_rate=2.0))


def test_streams_are_bounded() -> None:
    async def case(world: World) -> None:
        async with world.client.get(f"{world.base}{V1}/events") as response:
            assert response.status == 200
            reply = await world.call("GET", f"{V1}/events")
            assert (reply.status, reply.code) == (503, "unavailable")

    in_world(case, options=ApiOptions(max_streams=1, poll_s=0.05))


def test_an_idle_stream_sends_heartbeats() -> None:
    async def case(world: World) -> None:
        async with asyncio.timeout(60), world.client.get(f"{world.base}{V1}/events") as response:
            while await response.content.readline() != b": still here\n":
                pass

    in_world(case, options=ApiOptions(heartbeat_s=0.05, poll_s=0.05))


# --- bounds


def test_a_token_bucket_refills() -> None:
    rate = RateLimit(2.0)
    for _ in range(2):
        rate.take("a", 0)
    with pytest.raises(TooManyRequests) as caught:
        rate.take("a", 0)
    assert caught.value.retry_after_s == 0.5
    rate.take("b", 0)
    rate.take("a", SECOND_US // 2)
    with pytest.raises(TooManyRequests):
        rate.take("a", SECOND_US // 2)
    RateLimit(None).take("a", 0)


def test_remembered_clients_are_bounded() -> None:
    recent: RecentlyUsedMap[int] = RecentlyUsedMap(3)
    for number in range(5):
        recent.put(number, number)
    assert len(recent) == 3
    assert recent.get(0) is None
    recent.get(2)
    recent.put(9, 9)
    assert recent.get(2) == 2
    assert recent.get(3) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": [true, null, "x"]}',
        '{"a":1.5,"b":-0,"c":1e3,"d":1.50}',
        ' {"a" : "\\u00e9\\/", "é": "\\ud83d\\ude00"} ',
        '{"a": 9223372036854775808, "b": 18446744073709551615}',
        '"text"',
        "0",
    ],
)
def test_a_body_means_the_same_in_any_json_notation(text: str) -> None:
    assert read_json(text.encode()) == json.loads(text)
    assert repr(read_json(text.encode())) == repr(json.loads(text))  # 1 is not 1.0


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"a":{"b":1,"b":2}}', '[{"a":1,"a":2}]', "NaN", "[1e999]", "{"])
def test_an_ambiguous_body_is_rejected(text: str) -> None:
    with pytest.raises(Malformed):
        read_json(text.encode())
