"""Signing in and out, sessions, and what pages of other sites cannot do."""

import asyncio
from typing import Any

import pytest
from yarl import URL

from chronos.clock import SystemClock
from chronos.core.calendar import SECOND_US
from tests.support.ui_server import WITH_USERS, UiServer, serve_ui


def _cookie(ui: UiServer) -> str:
    return ui.client.cookie_jar.filter_cookies(URL(ui.root))["chronos_session"].value


class _ShiftedClock:
    """The clock of this machine, moved by hand."""

    def __init__(self) -> None:
        self._real, self.by_us = SystemClock(), 0

    def now_us(self) -> int:
        return self._real.now_us() + self.by_us

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_a_person_signs_in_and_out() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            asked = await ui.get("/runs?show=failed")
            assert asked.status == 303
            assert asked.headers["Location"] == "/login?next=%2Fruns%3Fshow%3Dfailed"
            assert b"Sign in to Chronos" in (await ui.get("/login")).body
            reply = await ui.sign_in("ana", next_path="/runs?show=failed")
            assert (reply.status, reply.headers["Location"]) == (303, "/runs?show=failed")
            sent = reply.headers["Set-Cookie"]
            assert "HttpOnly" in sent
            assert "SameSite=Lax" in sent
            assert "Secure" not in sent
            assert "Account: ana" in await ui.page("/jobs")
            old = _cookie(ui)
            assert (await ui.post("/logout", {"everywhere": ""})).status == 303
            assert (await ui.get("/jobs")).status == 303
            assert (await ui.get("/jobs", Cookie=f"chronos_session={old}")).status == 303

    asyncio.run(scenario())


def test_cookies_of_encrypted_connections_are_secure() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            fields = {"username": "ana", "password": "secret"}
            reply = await ui.post("/login", fields, X_Forwarded_Proto="https")
            assert "Secure" in reply.headers["Set-Cookie"]

    asyncio.run(scenario())


def test_wrong_passwords_are_counted_and_locked_out() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            reply = await ui.sign_in("ana", "wrong")
            assert reply.status == 401
            assert b"Incorrect username or password" in reply.body
            assert b"4 attempts left before a lockout." in reply.body
            for _ in range(4):
                await ui.sign_in("ana", "wrong")
            assert b"Too many attempts" in (await ui.sign_in("ana", "wrong")).body

    asyncio.run(scenario())


def test_a_token_signs_in_and_its_revocation_ends_the_session() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            made = await ui.call("POST", "/tokens", {"name": "ci", "role": "viewer"}, user="ana")
            reply = await ui.post("/login", {"token": made.json["token"]})
            assert reply.status == 303
            assert "Account: token:ci" in await ui.page("/jobs")
            assert (await ui.post("/login", {"token": "chr_wrong"})).status == 401
            await ui.call("DELETE", "/tokens/ci", user="ana")
            async with asyncio.timeout(10):
                while (await ui.get("/jobs")).status != 303:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)  # a token is cached for one second

    asyncio.run(scenario())


def test_signing_out_everywhere_ends_the_sessions_of_other_browsers() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            await ui.sign_in("ana")
            other = _cookie(ui)
            ui.client.cookie_jar.clear()
            await ui.sign_in("ana")
            assert (await ui.get("/jobs", Cookie=f"chronos_session={other}")).status == 200
            await ui.post("/logout", {"everywhere": "true"})
            ui.client.cookie_jar.clear()
            assert (await ui.get("/jobs", Cookie=f"chronos_session={other}")).status == 303

    asyncio.run(scenario())


def test_sessions_end_when_idle_and_after_their_lifetime() -> None:
    async def scenario() -> None:
        clock = _ShiftedClock()
        async with serve_ui(WITH_USERS, clock) as ui:
            await ui.sign_in("ana")
            hour_us = 3600 * SECOND_US
            for _ in range(2):
                clock.by_us += 11 * hour_us
                assert (await ui.get("/jobs")).status == 200  # extends the session
            clock.by_us += 11 * hour_us
            assert (await ui.get("/jobs?part=waiting")).status == 200  # a region does not
            clock.by_us += 2 * hour_us
            assert (await ui.get("/jobs")).status == 303
            await ui.sign_in("ana")
            for _ in range(16):
                clock.by_us += 11 * hour_us
                await ui.get("/jobs")
            assert (await ui.get("/jobs")).status == 303

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "cookie", ["", "x", "a.b.c", "a.1.c", f"{'x' * 5000}.1.c", "a.1.c.d", "é.1.c", "....", "a.99999999999.c"]
)
def test_forged_cookies_are_not_signed_in(cookie: str) -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            assert (await ui.get("/jobs", Cookie=f"chronos_session={cookie}")).status in (303, 400)

    asyncio.run(scenario())


def test_a_session_is_not_an_api_token_and_not_in_their_list() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            await ui.sign_in("ana")
            text = _cookie(ui).split(".")[0]
            assert (await ui.get("/api/v1/jobs", Authorization=f"Bearer {text}")).status == 401
            assert (await ui.get("/api/v1/jobs")).status == 401  # the API does not read the cookie
            assert (await ui.call("GET", "/tokens", user="ana")).json["items"] == []
            reply = await ui.call("POST", "/tokens", {"name": "session.x"}, user="ana")
            assert reply.status == 422

    asyncio.run(scenario())


def test_forms_of_other_sites_are_refused() -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            await ui.sign_in("ana")
            for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
                assert (await ui.post("/logout", {"everywhere": "true"}, **headers)).status == 403
                assert (await ui.post("/preferences", {"theme": "dark"}, **headers)).status == 403
            assert (await ui.get("/jobs")).status == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "path", ["https://evil.example", "//evil.example/x", "/\\evil.example", "javascript:alert(1)", "x"]
)
def test_signing_in_leads_only_to_own_pages(path: str) -> None:
    async def scenario() -> None:
        async with serve_ui(WITH_USERS) as ui:
            assert (await ui.sign_in("ana", next_path=path)).headers["Location"] == "/jobs"

    asyncio.run(scenario())


def test_preferences_are_kept_in_cookies() -> None:
    async def scenario() -> None:
        async with serve_ui() as ui:
            await ui.create("hello")
            await ui.post("/preferences", {"theme": "dark", "next": "/jobs"})
            assert '<html lang="en" data-theme="dark">' in await ui.page("/jobs")
            await ui.post("/preferences", {"zone": "Asia/Kathmandu"})
            assert "Times in Asia/Kathmandu (UTC+5:45)" in await ui.page("/jobs")
            reply = await ui.post("/preferences", {"zone": "Mars/Base"})
            assert reply.status == 400
            assert b"unknown time zone" in reply.body.lower()
            assert (await ui.post("/preferences", {"theme": "pink"})).status == 400

    asyncio.run(scenario())


def test_an_open_server_needs_no_session() -> None:
    async def scenario() -> None:
        async with serve_ui() as ui:
            assert (await ui.get("/login")).headers["Location"] == "/jobs"
            html = await ui.page("/jobs")
            assert "Sign out" not in html

    asyncio.run(scenario())
