"""UiAccounts: the users and tokens of the server as accounts of the web UI."""

import base64

from aiohttp import web

from chronos.api import Access, ApiOptions, Denials, Permission, Principal, SessionStore, hash_token
from chronos.api.auth.client_address import Proxies, to_address_group
from chronos.api.auth.permissions import NO_PRINCIPAL
from chronos.api.errors import Forbidden, LockedOut, TooManyRequests, Unauthenticated
from chronos.api.middleware import refuse_cross_site
from chronos.errors import NotFound
from chronos.ui import Account, SignInRefused
from chronos.ui.accounts import Refused, Visitor
from chronos.ui.pages.sign_in import SESSION_COOKIE


class UiAccounts:
    """Authenticates browsers by session cookie, or like the API by an Authorization header."""

    def __init__(self, access: Access, sessions: SessionStore, denials: Denials, options: ApiOptions) -> None:
        self._access, self._sessions, self._denials = access, sessions, denials
        self._proxies, self._hosts = Proxies(options.trusted_proxies), options.hosts

    @property
    def is_open(self) -> bool:
        """Whether the server has no authentication."""
        return self._access.open

    async def find_visitor(self, request: web.Request, *, is_active: bool) -> Visitor:
        """Return the account of a request; see ``chronos.ui.Accounts``."""
        header = request.headers.get("Authorization")
        if self._access.open or header is not None:
            principal = await self._authenticate(header, request)
            return Visitor(account=None if principal is NO_PRINCIPAL else _to_account(principal))
        cookie = request.cookies.get(SESSION_COOKIE)
        if not cookie:
            return Visitor(account=None)
        found, renewed = await self._sessions.find(cookie, is_active=is_active)
        return Visitor(account=None if found is None else _to_account(found, has_session=True), renewed_cookie=renewed)

    async def sign_in(self, request: web.Request, *, name: str, password: str, token: str) -> str:
        """Check the credentials and start a session; see ``chronos.ui.Accounts``."""
        token = token.strip()
        header = f"Bearer {token}" if token else f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"
        try:
            principal = await self._authenticate(header, request, name=name)
            token_hash = hash_token(token) if token else ""
            return await self._sessions.start(principal, token_hash, origin=self._address(request))
        except NotFound as error:
            raise SignInRefused(str(error)) from None

    async def sign_out(self, request: web.Request, *, everywhere: bool) -> None:
        """End the session of a request; see ``chronos.ui.Accounts``."""
        cookie = request.cookies.get(SESSION_COOKIE)
        if not cookie:
            return
        origin = self._address(request)
        found, _ = await self._sessions.find(cookie, is_active=False)
        if everywhere and found is not None:
            await self._sessions.end_all(found.name, origin=origin)
        await self._sessions.end(cookie, origin=origin)

    def refuse_cross_site(self, request: web.Request) -> None:
        """Raise ``Refused`` for a request of another site's page."""
        try:
            refuse_cross_site(request, is_unauthenticated=self._access.open, hosts=self._hosts)
        except Forbidden as error:
            raise Refused(str(error)) from None

    def name_client(self, request: web.Request) -> str:
        """Return the address of the client, as limits count it."""
        return to_address_group(self._address(request))

    def _address(self, request: web.Request) -> str:
        return self._proxies.client(request.remote or "", request.headers)

    async def _authenticate(self, header: str | None, request: web.Request, *, name: str = "") -> Principal:
        """Authenticate credentials as the API does. Wrong ones are recorded as a failed login."""
        address = self._address(request)
        group = to_address_group(address)
        try:
            return await self._access.principal(header, group)
        except (Unauthenticated, TooManyRequests) as error:
            scheme = (header or "").partition(" ")[0].lower()
            shown = name or ("(token)" if scheme == "bearer" else "(unknown)")
            self._denials.failed_login(shown, scheme, error, address=address, counts_as=group)
            raise self._explain_refusal(error, scheme, name, group) from None

    def _explain_refusal(self, error: Exception, scheme: str, name: str, group: str) -> SignInRefused:
        if isinstance(error, LockedOut | TooManyRequests):
            return SignInRefused("Too many attempts", f"Try again in {max(1, round(error.retry_after_s))}s.")
        if scheme == "bearer":
            return SignInRefused("Unknown or expired token", "Use another one, or ask an admin for a new one.")
        left = self._access.count_attempts_left(name, group)
        hint = f"{left} attempt{'s' * (left != 1)} left before a lockout." if left else "The next attempt has to wait."
        return SignInRefused("Incorrect username or password", hint)


def _to_account(principal: Principal, *, has_session: bool = False) -> Account:
    return Account(
        name=principal.name,
        sees=principal.sees,
        sees_everything=principal.may(Permission.VIEW),
        administers=lambda namespace: principal.may(Permission.ADMINISTER, namespace),
        has_session=has_session,
    )
