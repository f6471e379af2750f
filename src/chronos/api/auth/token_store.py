"""TokenStore: API tokens of the configuration, and those created at run time.

Tokens are 256 random bits, shown once and kept as hashes. Those created at run time are in the store, so that all
servers know them. A found token is cached for one second; for that long a token revoked on another server still works.
Tokens are random, so a plain SHA-256 is as safe as a slow hash, and fast.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from chronos.api.rate_limits import RecentlyUsedMap
from chronos.core.calendar import SECOND_US
from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.errors import Conflict, Invalid, NotFound
from chronos.service.serializers.identifiers import find_name_fault
from chronos.store.commands import SYSTEM, CreateToken, RevokeToken
from chronos.store.contract import Store

PREFIX = "chr_"
SESSION_PREFIX = "session."  # of the names of sessions, which are kept beside the tokens
ROLES = ("viewer", "operator", "admin")
TOKEN_CACHE_US = SECOND_US
_MAX_CACHED = 1_000
_HASH = re.compile(r"[0-9A-Fa-f]{64}", re.ASCII)


def hash_token(token: str) -> str:
    """Hash a token. A header can hold any bytes; invalid text arrives as surrogates."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def new_token() -> str:
    """Return a new random token."""
    return PREFIX + secrets.token_urlsafe(32)


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token of the configuration, under its name."""

    token_hash: str
    role: str = "viewer"
    namespaces: list[str] | dict[str, str] | None = None


def read_tokens(entries: Mapping[str, Any]) -> list[ApiToken]:
    """Read the tokens of the configuration: name → {token_hash, role, namespaces?}. Raises ``Invalid``."""
    tokens = [_read_entry(name, entry) for name, entry in entries.items()]
    if len({token.token_hash for token in tokens}) < len(tokens):
        raise Invalid("auth.tokens: two names have the same token_hash; create a separate token for each")
    return tokens


class TokenStore:
    """The tokens of the configuration (fixed) and of the store."""

    def __init__(self, store: Store, fixed: Iterable[ApiToken] = ()) -> None:
        self._store = store
        self._fixed = {token.token_hash: token for token in fixed}
        self._cache: RecentlyUsedMap[tuple[ApiToken, int]] = RecentlyUsedMap(_MAX_CACHED)  # with the time of the lookup

    async def find(self, token: str, now_us: int) -> ApiToken | None:
        """Return the entry of a valid token, or None."""
        return await self.find_hash(hash_token(token), now_us)

    async def find_hash(self, key: str, now_us: int) -> ApiToken | None:
        """Return the entry of a valid token by its hash, or None."""
        token_ = self._fixed.get(key) or await self._find_stored(key, now_us)
        expired = token_ is not None and token_.expires_us is not None and token_.expires_us <= now_us
        return None if expired else token_

    async def entries(self) -> list[ApiToken]:
        """Return all tokens, by name, without the sessions of browsers."""
        stored = [token for token in await self._store.tokens() if not token.name.startswith(SESSION_PREFIX)]
        return sorted((*self._fixed.values(), *stored), key=lambda token: token.name)

    async def add(
        self,
        name: str,
        *,
        role: str,
        namespaces: list[str] | dict[str, str] | None,
        now_us: int,
        expires_us: int | None = None,
        actor: Actor = SYSTEM,
    ) -> tuple[str, ApiToken]:
        """Create a token; returns its text, which is not stored, and its entry.

        Raises ``Conflict`` if the name is taken, and ``Invalid`` if it is the name of a session.
        """
        self.check_not_configured(name)
        if name.startswith(SESSION_PREFIX):
            raise Invalid(f'the names of sessions start with "{SESSION_PREFIX}"; choose another name for the token')
        text = new_token()
        entry = ApiToken(
            name=name,
            token_hash=hash_token(text),
            role=role,
            namespaces=namespaces,
            created_us=now_us,
            expires_us=expires_us,
            author=actor.name,
        )
        await self._store.apply(CreateToken(token=entry, now_us=now_us, actor=actor))
        return text, entry

    async def remove(self, name: str, *, now_us: int, actor: Actor = SYSTEM) -> None:
        """Delete a token, which stops working. Raises ``NotFound``, or ``Conflict`` for a fixed one."""
        try:
            await self._store.apply(RevokeToken(name=name, now_us=now_us, actor=actor))
        except NotFound:
            self.check_not_configured(name)
            raise
        self._cache.clear()

    def check_not_configured(self, name: str) -> None:
        """Raise ``Conflict`` if the name is a token of the configuration."""
        if any(token.name == name for token in self._fixed.values()):
            raise Conflict(f'the token "{name}" is defined in the configuration (auth.tokens); change it there')

    async def _find_stored(self, key: str, now_us: int) -> ApiToken | None:
        cached = self._cache.get(key)
        if cached is not None and 0 <= now_us - cached[1] < TOKEN_CACHE_US:
            return cached[0]
        token_ = await self._store.token(key)
        if token_ is None:
            self._cache.drop(key)
        else:
            self._cache.put(key, (token_, now_us))
        return token_


def _read_entry(name: str, raw: Any) -> ApiToken:
    if fault := find_name_fault(name):
        raise Invalid(f'auth.tokens: "{name[:64]}" {fault}')
    try:
        entry = msgspec.convert(raw, _Entry)
    except (msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"auth.tokens.{name}: {error}") from None
    if not _HASH.fullmatch(entry.token_hash) or entry.role not in ROLES:
        raise Invalid(f"auth.tokens.{name} needs a token_hash (SHA-256 in hex) and a role: {', '.join(ROLES)}")
    return ApiToken(name=name, token_hash=entry.token_hash.lower(), role=entry.role, namespaces=entry.namespaces)
