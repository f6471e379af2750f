"""Accounts: who looks at a page, as the pages need to know it. ``chronos.server`` connects them to users and tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from chronos.errors import ChronosError


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user or token that looks at pages, and what it may see."""

    name: str
    sees: Callable[[str], bool]  # of a namespace
    sees_everything: bool
    administers: Callable[[str | None], bool]  # of a namespace; None: all namespaces
    has_session: bool = False  # True: it signed in, and can sign out


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The account of a request, and the value of a session cookie that should be renewed."""

    account: Account | None  # None: not signed in
    renewed_cookie: str | None = None


class Refused(ChronosError):
    """The account may not see this page, or the request came from a page of another site."""


class SignInRefused(ChronosError):
    """The credentials are wrong, or too many wrong ones were sent. ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Accounts(Protocol):
    """Authenticates the requests of browsers."""

    @property
    def is_open(self) -> bool:
        """Whether the server has no authentication, so that no user signs in."""

    async def find_visitor(self, request: web.Request, *, is_active: bool) -> Visitor:
        """Return the account of a request, by its session cookie or its Authorization header.

        ``is_active`` tells that a person asked for the page: it extends an idle session.
        """

    async def sign_in(self, request: web.Request, *, name: str, password: str, token: str) -> str:
        """Check a password, or a token if there is one. Returns the cookie of a new session.

        Raises ``SignInRefused``.
        """

    async def sign_out(self, request: web.Request, *, everywhere: bool) -> None:
        """End the session of a request; with ``everywhere``, all sessions of its account."""

    def refuse_cross_site(self, request: web.Request) -> None:
        """Raise ``Refused`` for a request that a page of another site sends."""

    def name_client(self, request: web.Request) -> str:
        """Return the address of the client, as limits count it."""
