"""API tokens: 256 bits, shown once, kept as hashes: those of the configuration, and those that are made at run time.

The latter are kept in the store, so that all servers on it know them. A token that was found is believed for a second
without being looked for again: so long may one that is revoked elsewhere still be of use. A token is drawn at random,
so a plain SHA-256 of it is as good as a slow hash, and finding it costs little.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from chronos.api.rate_limits import RecentClients
from chronos.core.calendar import SECOND_US
from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.errors import Conflict, Invalid, NotFound
from chronos.service.serializers.identifiers import find_name_fault
from chronos.store.commands import SYSTEM, CreateToken, RevokeToken
from chronos.store.contract import Store

PREFIX = "chr_"
ROLES = ("viewer", "operator", "admin")
TOKEN_CACHE_US = SECOND_US
_MAX_CACHED = 1_000
_HASH = re.compile(r"[0-9A-Fa-f]{64}", re.ASCII)


def hash_token(token: str) -> str:
    """What is kept of its text; a header can hold any bytes, and those that are no text come as surrogates."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def new_token() -> str:
    """A token that nobody has had."""
    return PREFIX + secrets.token_urlsafe(32)


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token as the configuration has it, under its name."""

    token_hash: str
    role: str = "viewer"
    namespaces: list[str] | dict[str, str] | None = None


def read_tokens(entries: Mapping[str, Any]) -> list[ApiToken]:
    """Tokens as the configuration has them: name → {token_hash, role, namespaces?}. Raises ``Invalid``."""
    tokens = [_read_entry(name, entry) for name, entry in entries.items()]
    if len({token.token_hash for token in tokens}) < len(tokens):
        raise Invalid("auth.tokens: a token_hash stands under two names; give each a token of its own")
    return tokens


class TokenStore:
    """The tokens that are known: fixed ones of the configuration, and those of the store."""

    def __init__(self, store: Store, fixed: Iterable[ApiToken] = ()) -> None:
        self._store = store
        self._fixed = {token.token_hash: token for token in fixed}
        self._cache: RecentClients[tuple[ApiToken, int]] = RecentClients(_MAX_CACHED)  # and when they were looked for

    async def find(self, token: str, now_us: int) -> ApiToken | None:
        """The entry of a token that is in force."""
        key = hash_token(token)
        token_ = self._fixed.get(key) or await self._find_stored(key, now_us)
        expired = token_ is not None and token_.expires_us is not None and token_.expires_us <= now_us
        return None if expired else token_

    async def entries(self) -> list[ApiToken]:
        """All of them, by name."""
        return sorted((*self._fixed.values(), *await self._store.tokens()), key=lambda token: token.name)

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
        """Make a token: its text, which is not kept, and its entry. ``Conflict`` when the name is taken."""
        self.check_not_configured(name)
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
        """Forget a token; whoever uses it is nobody from now on. ``NotFound``, or ``Conflict`` for a fixed one."""
        try:
            await self._store.apply(RevokeToken(name=name, now_us=now_us, actor=actor))
        except NotFound:
            self.check_not_configured(name)
            raise
        self._cache.clear()

    def check_not_configured(self, name: str) -> None:
        """Raise ``Conflict`` when a name is one of the configuration's."""
        if any(token.name == name for token in self._fixed.values()):
            raise Conflict(f'the token "{name}" stands in the configuration (auth.tokens); change it there')

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
