"""Failed logins and denied requests are recorded, with a bounded number of entries."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chronos.api.auth.denials import REASONS, Denials
from chronos.api.errors import LockedOut, TooManyRequests, Unauthenticated
from chronos.assembly import make_store
from chronos.core.calendar import SECOND_US
from chronos.store.contract import Store
from tests.api.auth.test_password_guessing import StoppedClock
from tests.support.api_server import SECRET, V1, World, basic, in_world, shape

USERS: dict[str, dict[str, Any]] = {
    "ada": {"password_hash": SECRET, "role": "admin"},
    "bob": {"password_hash": SECRET, "role": "viewer"},
    "eve": {"password_hash": SECRET, "namespaces": {"here": "admin", "there": "viewer"}},
}
WRONG = Unauthenticated("incorrect username or password")


async def lines(world: World, count: int) -> list[dict[str, Any]]:
    """Wait for this many denials in the audit log, and return them."""
    async with asyncio.timeout(60):
        while True:
            found = (await world.get("/audit", user="ada"))["items"]
            refusals = [line for line in found if line["action"] in ("failed login", "denied")]
            if len(refusals) >= count:
                return refusals
            await asyncio.sleep(0.02)


def test_failed_logins_and_denials_are_in_the_audit_log_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def case(world: World) -> None:
        await world.call("GET", f"{V1}/jobs")  # a request without credentials is not a failed login
        for password in ("guess", "another"):
            await world.call("GET", f"{V1}/jobs", headers={"Authorization": basic("root\n\0", password)})
        await world.call("GET", f"{V1}/jobs", headers={"Authorization": "Bearer chr_unknown"})
        await world.call("GET", f"{V1}/jobs", headers={"Authorization": "Digest what"})
        refused = await world.call("POST", f"{V1}/jobs", shape(), user="bob")
        assert refused.status == 403
        bulk = {"jobs": [shape("a", namespace="there"), shape("b", namespace="there")]}
        assert (await world.post("/jobs/bulk?namespace=there", bulk, user="eve"))["failed"] == 2
        found = await lines(world, 5)
        entries = {(one["actor"], one["action"], one["subject"], one["origin"], one["detail"]) for one in found}
        assert entries == {
            ("anonymous", "failed login", "root??", "127.0.0.1", "wrong username or password: 2"),
            ("anonymous", "failed login", "(token)", "127.0.0.1", "unknown or expired token: 1"),
            ("anonymous", "failed login", "(unknown)", "127.0.0.1", "unreadable credentials: 1"),
            (
                *("bob", "denied", "POST /api/v1/jobs", "127.0.0.1"),
                "needs the admin role in default; bob has viewer; ask an admin of default",
            ),
            (
                *("eve", "denied", "POST /api/v1/jobs/bulk", "127.0.0.1"),
                "needs the admin role in there; eve has viewer; ask an admin of there",
            ),
        }
        assert {one["namespace"] for one in found} == {""}
        log_lines = [
            record.msg for record in caplog.records if record.name == "chronos.api" and isinstance(record.msg, dict)
        ]
        assert {(one["event"], one["name"], one["address"]) for one in log_lines} == {
            ("failed login", "root??", "127.0.0.1"),
            ("failed login", "(token)", "127.0.0.1"),
            ("failed login", "(unknown)", "127.0.0.1"),
            ("denied", "bob", "127.0.0.1"),
            ("denied", "eve", "127.0.0.1"),
        }

    in_world(case, users=USERS)


def with_denials(case: Callable[[Denials, Store, StoppedClock, list[str]], Awaitable[None]]) -> None:
    async def main() -> None:
        store, clock, counted = make_store("sqlite://"), StoppedClock(), list[str]()
        await store.open()
        try:
            await case(Denials(store, clock, counted.append), store, clock, counted)
        finally:
            await store.close()

    asyncio.run(main())


def test_a_guesser_leaves_one_entry_per_minute_with_a_count() -> None:
    async def case(denials: Denials, store: Store, clock: StoppedClock, counted: list[str]) -> None:
        errors = [WRONG, LockedOut("wait", 1), TooManyRequests("wait", 1)]
        for error in errors:
            for _ in range(500):
                denials.failed_login("root", "basic", error, address="2001:db8::7", counts_as="2001:db8::/64")
        await denials.close()
        [entry] = (await store.audit(namespace=None, limit=10)).items
        assert (entry.actor, entry.subject, entry.origin) == ("anonymous", "root", "2001:db8::7")
        assert entry.detail == ("too many logins at once: 500, locked out: 500, wrong username or password: 500")
        assert Counter(counted) == {"password": 500, "locked_out": 500, "busy": 500}
        assert set(counted) <= set(REASONS)

    with_denials(case)


def test_denials_within_a_minute_are_only_counted() -> None:
    async def case(denials: Denials, store: Store, clock: StoppedClock, counted: list[str]) -> None:
        for later_s, count in ((0, 1), (30, 1), (31, 2), (1, 2)):
            clock.us += later_s * SECOND_US
            denials.denied("bob", "POST /x: no", address="192.0.2.1", counts_as="192.0.2.1")
            await denials._flush()
            assert len((await store.audit(namespace=None, limit=10)).items) == count
        await denials.close()
        details = [entry.detail for entry in (await store.audit(namespace=None, limit=10)).items]
        assert sorted(details) == ["no", "no", "no (2 times)"]

    with_denials(case)


def test_guesses_at_many_names_from_many_addresses_share_an_entry() -> None:
    async def case(denials: Denials, store: Store, clock: StoppedClock, counted: list[str]) -> None:
        for number in range(5_000):
            address = f"192.0.{number // 250}.{number % 250}"
            denials.failed_login(f"name-{number}", "basic", WRONG, address=address, counts_as=address)
        await denials.close()
        found = (await store.audit(namespace=None, limit=1_000)).items
        assert len(found) == 61
        assert [entry.detail for entry in found if entry.subject == "(others)"] == ["wrong username or password: 4940"]

    with_denials(case)
