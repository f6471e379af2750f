"""Sessions in the store: found by their cookie, and ended with their user, password or token."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from chronos.api import Access, SessionStore, TokenStore, hash_token, read_users
from chronos.api.auth.session_store import MAX_SESSIONS
from chronos.assembly import make_test_store
from chronos.clock import SystemClock
from chronos.store.contract import Store
from tests.support.api_server import BCRYPT, SECRET

Scenario = Callable[[SessionStore, Access, Store], Awaitable[None]]


def _run(scenario: Scenario) -> None:
    async def with_store() -> None:
        store, clock = make_test_store(), SystemClock()
        await store.open()
        users = read_users({"ana": {"password_hash": SECRET, "role": "admin"}})
        access = Access(clock, users=users, tokens=TokenStore(store))
        try:
            await scenario(SessionStore(store, clock, access), access, store)
        finally:
            await store.close()

    asyncio.run(with_store())


async def _start(sessions: SessionStore, access: Access) -> str:
    return await sessions.start(access.users["ana"].principal, "", origin="127.0.0.1")


def test_a_session_has_the_rights_of_its_user_at_each_request() -> None:
    async def scenario(sessions: SessionStore, access: Access, store: Store) -> None:
        cookie = await _start(sessions, access)
        assert await sessions.find(cookie, is_active=True) == (access.users["ana"].principal, None)
        access.users |= read_users({"ana": {"password_hash": SECRET, "role": "viewer"}})
        assert await sessions.find(cookie, is_active=True) == (access.users["ana"].principal, None)

    _run(scenario)


@pytest.mark.parametrize("change", ["removed", "password"])
def test_a_session_ends_with_its_user_or_password(change: str) -> None:
    async def scenario(sessions: SessionStore, access: Access, store: Store) -> None:
        cookie = await _start(sessions, access)
        if change == "removed":
            del access.users["ana"]
        else:
            access.users |= read_users({"ana": {"password_hash": BCRYPT, "role": "admin"}})
        assert await sessions.find(cookie, is_active=True) == (None, None)

    _run(scenario)


def test_a_cookie_with_another_time_or_mac_is_refused() -> None:
    async def scenario(sessions: SessionStore, access: Access, store: Store) -> None:
        text, seen, mac = (await _start(sessions, access)).split(".")
        for forged in (f"{text}.{int(seen) + 60}.{mac}", f"{text}.{seen}.{'0' * 64}", f"{text}.{seen}.{mac}.x"):
            found = await sessions.find(forged, is_active=True)
            assert found[0] is None or forged.endswith(".x")

    _run(scenario)


def test_an_account_has_a_bounded_number_of_sessions() -> None:
    async def scenario(sessions: SessionStore, access: Access, store: Store) -> None:
        cookies = [await _start(sessions, access) for _ in range(MAX_SESSIONS + 2)]
        assert len(await store.tokens()) == MAX_SESSIONS
        found = [(await sessions.find(cookie, is_active=False))[0] is not None for cookie in cookies]
        assert found == [False] * 2 + [True] * MAX_SESSIONS

    _run(scenario)


def test_all_sessions_of_an_account_end_at_once() -> None:
    async def scenario(sessions: SessionStore, access: Access, store: Store) -> None:
        cookies = [await _start(sessions, access) for _ in range(3)]
        assert await sessions.end_all("ana", origin="") == 3
        assert [await sessions.find(cookie, is_active=False) for cookie in cookies] == [(None, None)] * 3
        await sessions.end(cookies[0], origin="")  # ended already

    _run(scenario)


def test_a_session_of_a_token_needs_that_token() -> None:
    async def scenario(sessions: SessionStore, access: Access, store: Store) -> None:
        assert access.tokens is not None
        text, _ = await access.tokens.add("ci", role="viewer", namespaces=None, now_us=1)
        principal = await access.principal(f"Bearer {text}", "")
        cookie = await sessions.start(principal, hash_token(text), origin="")
        found, _ = await sessions.find(cookie, is_active=False)
        assert found == principal
        assert await sessions.find(cookie.rpartition(".")[0], is_active=False) == (None, None)
        await access.tokens.remove("ci", now_us=2)
        assert await sessions.find(cookie, is_active=False) == (None, None)

    _run(scenario)
