"""Password guessing: each guess counts before it is checked, in a bounded queue that is fair to other addresses."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import bcrypt
import pytest

from chronos.api import Access, ApiOptions, read_users
from chronos.api.auth.hash_queue import HASH_THREADS, MAX_WAITING_HASHES, MAX_WAITING_PER_ADDRESS, HashQueue
from chronos.api.auth.lockout import FREE_GUESSES, FREE_GUESSES_PER_ADDRESS, UNLOCKED_US, Lockout
from chronos.api.errors import LockedOut, TooManyRequests, Unauthenticated
from chronos.clock import SystemClock
from chronos.core.calendar import SECOND_US
from tests.support.api_server import SECRET, V1, Reply, World, basic, in_world

USERS: dict[str, dict[str, Any]] = {
    "root": {"password_hash": SECRET, "role": "admin"},
    "bob": {"password_hash": SECRET, "role": "viewer"},
}
#: Takes tens of milliseconds, so that guesses queue up.
SLOW = {
    name: user | {"password_hash": bcrypt.hashpw(b"secret", bcrypt.gensalt(9)).decode()} for name, user in USERS.items()
}
PROXIED = ApiOptions(trusted_proxies=("127.0.0.1",))


class StoppedClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.us = SystemClock().now_us()

    def now_us(self) -> int:
        return self.us

    def outside(self) -> AbstractContextManager[None]:
        return nullcontext()


def login(world: World, name: str, password: str, address: str = "") -> asyncio.Task[Reply]:
    headers = {"Authorization": basic(name, password)} | ({"X-Forwarded-For": address} if address else {})
    return asyncio.create_task(world.call("GET", f"{V1}/jobs", headers=headers))


async def statuses(tries: list[asyncio.Task[Reply]]) -> Counter[int]:
    return Counter(reply.status for reply in await asyncio.gather(*tries))


class Held:
    """Work that blocks until it is released, and records the order of its starts."""

    def __init__(self, queue: HashQueue) -> None:
        self._queue = queue
        self._gates: dict[str, threading.Event] = {}
        self.began: list[str] = []

    def put(self, name: str, address: str, *, known: bool = False) -> asyncio.Task[str]:
        gate = self._gates[name] = threading.Event()

        def work() -> str:
            self.began.append(name)
            assert gate.wait(60)
            return name

        return asyncio.create_task(self._queue.run(work, address=address, known=known))

    def release_held(self) -> None:
        for gate in self._gates.values():
            gate.set()


async def until(found: Callable[[], bool]) -> None:
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(60):
        while True:
            if found():
                return
            await asyncio.sleep(0)


# --- through a server


@pytest.mark.parametrize("guess", [lambda n: f"guess {n}", lambda _: "always the same"], ids=["different", "same"])
@pytest.mark.parametrize("users", [USERS, SLOW], ids=["quick", "slow"])
def test_concurrent_guesses_are_checked_no_more_often_than_sequential_ones(
    users: dict[str, dict[str, Any]], guess: Callable[[int], str]
) -> None:
    async def case(world: World) -> None:
        found = await statuses([login(world, "root", guess(number)) for number in range(300)])
        assert found == {401: FREE_GUESSES, 429: 300 - FREE_GUESSES}

    in_world(case, users=users, access_clock=StoppedClock())


def test_the_right_password_within_a_burst_is_not_accepted_while_the_name_is_locked() -> None:
    async def case(world: World) -> None:
        wrong = [login(world, "root", f"guess {number}") for number in range(150)]
        while not any(one.done() and one.result().status == 429 for one in wrong):
            await asyncio.wait(wrong, return_when=asyncio.FIRST_COMPLETED)
            wrong.sort(key=lambda one: one.done())
        right = login(world, "root", "secret")
        more = [login(world, "root", f"another {number}") for number in range(149)]
        reply = await right
        assert (reply.status, reply.code) == (429, "locked_out")
        assert int(reply.headers["Retry-After"]) >= 1
        assert await statuses([*wrong, *more]) == {401: FREE_GUESSES, 429: 299 - FREE_GUESSES}

    in_world(case, users=SLOW, access_clock=StoppedClock())


def test_concurrent_requests_of_one_user_are_checked_once() -> None:
    async def case(world: World) -> None:
        assert await statuses([login(world, "root", "secret") for _ in range(100)]) == {200: 100}

    in_world(case, users=SLOW)


def test_a_login_from_elsewhere_does_not_wait_for_a_guesser() -> None:
    """Addresses take turns, so the other login does not wait for all guesses."""

    async def case(world: World) -> None:
        queue, held = world.access._hashes, Held(world.access._hashes)
        busy = [held.put(f"busy-{number}", "192.0.2.3") for number in range(HASH_THREADS)]
        await until(lambda: len(held.began) == HASH_THREADS)
        guesses = [login(world, f"name-{number}", "guess", "192.0.2.1") for number in range(FREE_GUESSES_PER_ADDRESS)]
        await until(lambda: queue.waiting == FREE_GUESSES_PER_ADDRESS)
        other = login(world, "root", "secret", "192.0.2.2")
        await until(lambda: queue.waiting == FREE_GUESSES_PER_ADDRESS + 1)
        held.release_held()
        assert (await other).status == 200
        assert not all(one.done() for one in guesses)
        assert await statuses(guesses) == {401: FREE_GUESSES_PER_ADDRESS}
        await asyncio.gather(*busy)

    in_world(case, users=SLOW, options=PROXIED)


def test_a_full_hash_queue_refuses_immediately() -> None:
    async def case(world: World) -> None:
        guesses = [login(world, "root", "guess", f"198.51.{n // 200}.{n % 200}") for n in range(400)]
        first = (await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED))[0]
        assert world.access._hashes.waiting <= MAX_WAITING_HASHES
        found = await asyncio.gather(*guesses)
        refused = [reply for reply in found if reply.status == 429]
        assert first
        assert len(refused) >= 400 - MAX_WAITING_HASHES - HASH_THREADS - sum(reply.status == 401 for reply in found)
        assert {reply.status for reply in found} == {401, 429}
        assert {reply.code for reply in refused} == {"rate_limited"}
        assert all(int(reply.headers["Retry-After"]) >= 1 for reply in refused)

    in_world(case, users=SLOW, options=PROXIED)


def test_a_guesser_does_not_lock_out_verified_users_of_its_address() -> None:
    clock = StoppedClock()

    async def case(world: World) -> None:
        assert (await login(world, "root", "secret")).status == 200
        clock.us += 3_600 * SECOND_US  # the password is no longer cached; the verified name is
        for number in range(40):
            status = (await login(world, f"name-{number}", "guess")).status
            assert status == (401 if number < FREE_GUESSES_PER_ADDRESS else 429)
        assert (await login(world, "bob", "secret")).status == 429  # never verified from this address
        assert (await login(world, "root", "secret")).status == 200
        for number in range(FREE_GUESSES):
            assert (await login(world, "root", f"guess {number}")).status == 401
        assert (await login(world, "root", "secret")).status == 429  # guesses at a verified name count as usual
        assert (await login(world, "root", "secret", "192.0.2.9")).status == 200

    in_world(case, users=USERS, access_clock=clock, options=PROXIED)


def test_an_admin_unlocks_a_user() -> None:
    async def case(world: World) -> None:
        for number in range(FREE_GUESSES):
            assert (await login(world, "bob", f"guess {number}")).status == 401
        for number in range(FREE_GUESSES_PER_ADDRESS):
            await login(world, f"name-{number}", "guess")
        assert (await login(world, "bob", "secret")).status == 429
        admin = {"Authorization": basic("root", "secret"), "X-Forwarded-For": "192.0.2.7"}
        path = f"{V1}/users/bob/unlock"
        assert (await world.call("POST", f"{path}?dry_run=true", headers=admin)).json == {
            "dry_run": True,
            "name": "bob",
            "node": "node-a",
        }
        assert (await login(world, "bob", "secret")).status == 429
        assert (await world.call("POST", path, headers=admin)).json == {"name": "bob", "node": "node-a"}
        assert (await login(world, "bob", "secret")).status == 200
        bob = {"Authorization": basic("bob", "secret")}
        assert (await world.call("POST", path, headers=bob)).status == 403
        unknown = await world.call("POST", f"{V1}/users/eve/unlock", headers=admin)
        assert (unknown.status, 'user "eve" not found' in unknown.json["detail"]) == (404, True)
        lines = (await world.get("/audit", headers=admin))["items"]
        unlocks = [line for line in lines if line["action"] == "unlock user"]
        assert [(line["actor"], line["subject"], line["origin"]) for line in unlocks] == [("root", "bob", "192.0.2.7")]

    in_world(case, users=USERS, access_clock=StoppedClock(), options=PROXIED)


# --- lockout


def locked(lockout: Lockout, name: str, address: str, now_us: int) -> float | None:
    """Return how long a guess has to wait, or None if it is allowed. Does not count the guess."""
    try:
        lockout.reserve(name, address, now_us)
    except LockedOut as error:
        return error.retry_after_s
    lockout.cancel_reservation(name, address)
    return None


def fail(lockout: Lockout, name: str, address: str, now_us: int) -> None:
    lockout.reserve(name, address, now_us)
    lockout.failed(name, address, now_us)


def test_the_lock_grows_with_each_wrong_guess() -> None:
    lockout = Lockout()
    for _ in range(FREE_GUESSES):
        fail(lockout, "ana", "1.2.3.4", 0)
    first_s = locked(lockout, "ana", "1.2.3.4", 0)
    assert locked(lockout, "ana", "5.6.7.8", 0) is None  # she can log in from another address
    assert locked(lockout, "bob", "1.2.3.4", 0) is None
    fail(lockout, "ana", "1.2.3.4", 2 * SECOND_US)
    second_s = locked(lockout, "ana", "1.2.3.4", 2 * SECOND_US)
    assert first_s is not None
    assert second_s is not None
    assert second_s > first_s
    assert locked(lockout, "ana", "1.2.3.4", -1) is None  # the clock goes back
    for guess in range(FREE_GUESSES_PER_ADDRESS):
        fail(lockout, f"user-{guess}", "6.6.6.6", 3 * SECOND_US)
    assert locked(lockout, "anybody", "6.6.6.6", 3 * SECOND_US) is not None
    assert locked(lockout, "anybody", "6.6.6.6", 3_600 * SECOND_US) is None


def test_pending_guesses_count() -> None:
    lockout = Lockout()
    for _ in range(FREE_GUESSES):
        lockout.reserve("ana", "1.2.3.4", 0)
    assert locked(lockout, "ana", "1.2.3.4", 600 * SECOND_US) is not None  # even after a long time
    lockout.cancel_reservation("ana", "1.2.3.4")
    assert locked(lockout, "ana", "1.2.3.4", 0) is None
    lockout.failed("ana", "1.2.3.4", 0)
    lockout.succeeded("ana", "1.2.3.4", 0)  # forgets the wrong guess, but not the pending ones
    for _ in range(FREE_GUESSES - 2):
        assert locked(lockout, "ana", "1.2.3.4", 0) is None
        lockout.reserve("ana", "1.2.3.4", 0)
    assert locked(lockout, "ana", "1.2.3.4", 0) is not None


def test_an_unlocked_name_bypasses_address_locks_for_a_while() -> None:
    lockout = Lockout()
    for guess in range(FREE_GUESSES_PER_ADDRESS):
        fail(lockout, f"user-{guess}", "1.2.3.4", 0)
    lockout.unlock("ana", 0)
    assert locked(lockout, "ana", "1.2.3.4", 0) is None
    assert locked(lockout, "bob", "1.2.3.4", 0) is not None
    for guess in range(FREE_GUESSES):
        fail(lockout, "ana", "1.2.3.4", UNLOCKED_US - guess)
    assert locked(lockout, "ana", "1.2.3.4", UNLOCKED_US) is not None


def test_a_guess_counts_if_the_client_disconnects() -> None:
    async def main() -> None:
        access = Access(StoppedClock(), users=read_users(SLOW))
        for number in range(FREE_GUESSES):
            gone = asyncio.create_task(access.principal(basic("root", f"guess {number}"), "::1"))
            await asyncio.sleep(0)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
        with pytest.raises(LockedOut):
            await access.principal(basic("root", "secret"), "::1")
        with pytest.raises(Unauthenticated):  # behind the five pending ones
            await access.principal(basic("root", "guess"), "::2")

    asyncio.run(main())


# --- the queue


def test_addresses_take_turns_and_known_names_come_first() -> None:
    async def main() -> None:
        queue = HashQueue(threads=1)
        held = Held(queue)
        tasks = [held.put(f"a{n}", "a") for n in range(4)]
        tasks += [held.put(f"b{n}", "b") for n in range(2)]
        tasks += [held.put("c", "c"), held.put("known", "d", known=True)]
        await until(lambda: queue.waiting >= 7)
        held.release_held()
        assert await asyncio.gather(*tasks) == ["a0", "a1", "a2", "a3", "b0", "b1", "c", "known"]
        assert held.began == ["a0", "known", "a1", "b0", "c", "a2", "b1", "a3"]
        assert await queue.run(lambda: "free again", address="e") == "free again"

    asyncio.run(main())


def test_a_full_queue_replaces_the_last_login_of_the_busiest_address_by_a_new_address() -> None:
    async def main() -> None:
        queue = HashQueue(threads=1, limit=4)
        held = Held(queue)
        tasks = [held.put(f"a{n}", "a") for n in range(4)] + [held.put("b", "b")]
        await until(lambda: queue.waiting >= 4)
        with pytest.raises(TooManyRequests):
            await queue.run(str, address="a")
        newcomers = [held.put(name, name) for name in ("c", "d")]
        await asyncio.sleep(0)
        assert queue.waiting == 4
        with pytest.raises(TooManyRequests):
            await queue.run(str, address="e")  # now each of the others has one slot
        held.release_held()
        found = await asyncio.gather(*tasks, *newcomers, return_exceptions=True)
        assert [one if isinstance(one, str) else type(one) for one in found] == [
            *("a0", "a1", TooManyRequests, TooManyRequests, "b"),
            *("c", "d"),
        ]

    asyncio.run(main())


def test_waiting_logins_per_address_are_bounded_and_canceled_ones_are_freed() -> None:
    async def main() -> None:
        queue = HashQueue(threads=1)
        held = Held(queue)
        tasks = [held.put(f"a{n}", "a") for n in range(MAX_WAITING_PER_ADDRESS + 1)]
        await until(lambda: queue.waiting >= MAX_WAITING_PER_ADDRESS)
        with pytest.raises(TooManyRequests):
            await queue.run(str, address="a")
        for task in tasks[1:]:
            task.cancel()
        held.release_held()
        await asyncio.wait(tasks)
        assert held.began == ["a0"]
        assert await queue.run(lambda: "free again", address="a") == "free again"

    asyncio.run(main())
