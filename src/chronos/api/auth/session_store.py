"""SessionStore: the sessions of people who signed in with a browser, kept in the store beside the API tokens.

::

    cookie   TEXT.SEEN.MAC[.TOKEN]     256 random bits · last request of a person, in seconds · keyed hash of both
    store    name session.FINGERPRINT.RANDOM, hash of TEXT, author, expiry

A session ends when the person signs out, when it expires, when no request extended it for ``IDLE_US``, and as soon as
its user or token is removed or changed: the fingerprint of the password hash or token must still match. Rights are
those of the user at each request. A session is not an API token: its hash has a prefix that no header can carry.
"""

import hashlib
import hmac
import secrets

from chronos.api.auth.authentication import Access
from chronos.api.auth.permissions import Principal, read_grant
from chronos.api.auth.token_store import SESSION_PREFIX
from chronos.api.rate_limits import RecentlyUsedMap
from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.errors import NotFound
from chronos.store.commands import CreateToken, RevokeToken
from chronos.store.contract import Store

IDLE_US = 12 * 3600 * SECOND_US
LIFETIME_US = 7 * 86_400 * SECOND_US
MAX_SESSIONS = 10  # per account; signing in once more ends the oldest
_RENEW_S = 60  # how old the last request in a cookie may be before the cookie is sent again
_CACHE_US = SECOND_US
_HASH_PREFIX = b"chronos session\0"
_TOKEN_AUTHOR = "token:"


class SessionStore:
    """Starts, finds and ends sessions."""

    def __init__(self, store: Store, clock: Clock, access: Access) -> None:
        self._store, self._clock, self._access = store, clock, access
        self._cache: RecentlyUsedMap[tuple[ApiToken | None, int]] = RecentlyUsedMap(1_000)

    async def start(self, principal: Principal, token_hash: str, *, origin: str) -> str:
        """Start a session and return its cookie. ``token_hash`` is empty for a user with a password."""
        now_us = self._clock.now_us()
        secret = await self._find_secret(principal.name, token_hash)
        if secret is None:
            raise NotFound(f'the account "{principal.name}" was removed')
        await self._remove_old(principal.name, now_us)
        text = secrets.token_urlsafe(32)
        entry = ApiToken(
            name=f"{SESSION_PREFIX}{_fingerprint(secret)}.{secrets.token_hex(8)}",
            token_hash=_hash_session(text),
            namespaces=[],  # no rights of its own
            expires_us=now_us + LIFETIME_US,
        )
        await self._store.apply(
            CreateToken(token=entry, now_us=now_us, actor=Actor(name=principal.name, origin=origin))
        )
        return _write_cookie(text, now_us // SECOND_US, secret, token_hash)

    async def find(self, cookie: str, *, is_active: bool) -> tuple[Principal | None, str | None]:
        """Return the principal of a cookie, and the cookie to send instead, if any.

        ``is_active``: the request was made by a person, so it extends the session.
        """
        found = await self._find(cookie)
        if found is None:
            return None, None
        principal, secret = found
        text, seen_s, _, token_hash = _read_cookie(cookie)
        now_s = self._clock.now_us() // SECOND_US
        if is_active and now_s - seen_s >= _RENEW_S:
            return principal, _write_cookie(text, now_s, secret, token_hash)
        return principal, None

    async def end(self, cookie: str, *, origin: str) -> None:
        """End the session of a cookie, if it exists."""
        text = _read_cookie(cookie)[0]
        entry = await self._store.token(_hash_session(text))
        if entry is not None:
            await self._revoke(entry, origin)
        self._cache.drop(_hash_session(text))

    async def end_all(self, name: str, *, origin: str) -> int:
        """End all sessions of an account; returns how many."""
        own = await self._list(name)
        for entry in own:
            await self._revoke(entry, origin)
            self._cache.drop(entry.token_hash)
        return len(own)

    # --- helpers

    async def _find(self, cookie: str) -> tuple[Principal, str] | None:
        now_us = self._clock.now_us()
        text, seen_s, mac, token_hash = _read_cookie(cookie)
        if not text or now_us - seen_s * SECOND_US > IDLE_US:
            return None
        entry = await self._find_entry(_hash_session(text), now_us)
        if entry is None or entry.expires_us is None or entry.expires_us <= now_us:
            return None
        secret = await self._find_secret(entry.author, token_hash)
        if secret is None or not entry.name.startswith(f"{SESSION_PREFIX}{_fingerprint(secret)}."):
            return None
        if not hmac.compare_digest(mac, _sign(text, seen_s, secret)):
            return None
        principal = await self._find_principal(entry.author, token_hash)
        return None if principal is None else (principal, secret)

    async def _find_entry(self, key: str, now_us: int) -> ApiToken | None:
        cached = self._cache.get(key)
        if cached is not None and 0 <= now_us - cached[1] < _CACHE_US:
            return cached[0]
        entry = await self._store.token(key)
        self._cache.put(key, (entry, now_us))
        return entry

    async def _find_secret(self, author: str, token_hash: str) -> str | None:
        """Return what must not change while a session lasts: the hash of the password or of the token."""
        if not author.startswith(_TOKEN_AUTHOR):
            user = self._access.users.get(author)
            return None if user is None else user.password_hash
        return token_hash if await self._find_principal(author, token_hash) is not None else None

    async def _find_principal(self, author: str, token_hash: str) -> Principal | None:
        if not author.startswith(_TOKEN_AUTHOR):
            user = self._access.users.get(author)
            return None if user is None else user.principal
        tokens = self._access.tokens
        entry = None if tokens is None else await tokens.find_hash(token_hash, self._clock.now_us())
        if entry is None or f"{_TOKEN_AUTHOR}{entry.name}" != author:
            return None
        return read_grant(author, {"role": entry.role, "namespaces": entry.namespaces})

    async def _list(self, name: str) -> list[ApiToken]:
        return [one for one in await self._store.tokens() if one.name.startswith(SESSION_PREFIX) and one.author == name]

    async def _remove_old(self, name: str, now_us: int) -> None:
        """End the expired sessions of an account, and its oldest ones beyond the limit."""
        own = sorted(await self._list(name), key=lambda one: one.created_us or 0, reverse=True)
        for index, entry in enumerate(own):
            if index >= MAX_SESSIONS - 1 or (entry.expires_us or 0) <= now_us:
                await self._revoke(entry, "")

    async def _revoke(self, entry: ApiToken, origin: str) -> None:
        actor = Actor(name=entry.author, origin=origin)
        try:
            await self._store.apply(RevokeToken(name=entry.name, now_us=self._clock.now_us(), actor=actor))
        except NotFound:
            return  # ended at the same time elsewhere


def _hash_session(text: str) -> str:
    return hashlib.sha256(_HASH_PREFIX + text.encode(errors="surrogatepass")).hexdigest()


def _fingerprint(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def _sign(text: str, seen_s: int, secret: str) -> str:
    return hmac.new(secret.encode(), f"{text}.{seen_s}".encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def _write_cookie(text: str, seen_s: int, secret: str, token_hash: str) -> str:
    parts = [text, str(seen_s), _sign(text, seen_s, secret)]
    return ".".join([*parts, token_hash] if token_hash else parts)


def _read_cookie(cookie: str) -> tuple[str, int, str, str]:
    """Return the parts of a cookie; empty ones if it is not a cookie of a session."""
    parts = cookie[:1_024].split(".")
    if len(parts) not in (3, 4) or not (parts[1].isascii() and parts[1].isdigit() and len(parts[1]) < 13):
        return "", 0, "", ""
    if not all(part.isascii() for part in parts):
        return "", 0, "", ""
    return parts[0], int(parts[1]), parts[2], parts[3] if len(parts) == 4 else ""
