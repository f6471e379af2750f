"""Authenticates requests by password or API token::

request ──► open: anonymous · Basic: a password · Bearer: a token  ──► Principal
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chronos.api.auth.hash_queue import HashQueue
from chronos.api.auth.lockout import Lockout
from chronos.api.auth.passwords import check_hash, hash_password, is_password_right
from chronos.api.auth.permissions import ANONYMOUS_ADMIN, NO_PRINCIPAL, Principal, read_grant
from chronos.api.auth.token_store import TokenStore
from chronos.api.errors import Unauthenticated
from chronos.api.rate_limits import RecentlyUsedMap
from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.errors import Invalid

MAX_CREDENTIALS = 4_096  # characters of an Authorization header
_PASSWORD_CACHE_US = 60 * SECOND_US  # how long a verified password is not hashed again
_HASH_HINT = "create one with chronos config hash-password"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the configuration: its principal and the hash of its password."""

    principal: Principal
    password_hash: str


def read_users(entries: Mapping[str, Any]) -> dict[str, User]:
    """Read the users of the configuration: name → {password_hash, role, namespaces?}. Raises ``Invalid``."""
    users: dict[str, User] = {}
    for name, entry in entries.items():
        if not isinstance(entry, Mapping) or not isinstance(entry.get("password_hash"), str):
            raise Invalid(f"auth.users.{name} needs a password_hash; {_HASH_HINT}")
        if unknown := set(entry) - {"password_hash", "role", "namespaces"}:
            raise Invalid(
                f"auth.users.{name} has the unknown setting {min(unknown)}; use password_hash, role and namespaces"
            )
        try:
            check_hash(entry["password_hash"])
        except Invalid as error:
            raise Invalid(f"auth.users.{name}.password_hash {error}; {_HASH_HINT}") from None
        users[name] = User(read_grant(name, entry), entry["password_hash"])
    return users


class Access:
    """Authenticates requests. Without users and tokens it is ``open``: everyone is an anonymous admin."""

    def __init__(
        self, clock: Clock, *, users: Mapping[str, User] | None = None, tokens: TokenStore | None = None
    ) -> None:
        self._clock = clock
        self.users = dict(users or {})
        self.tokens = tokens
        self.open = users is None and tokens is None
        self._decoys = [user.password_hash for user in self.users.values()]  # unknown names are checked against these
        self._lockout = Lockout()
        self._salt = secrets.token_bytes(32)
        self._verified_us: RecentlyUsedMap[int] = RecentlyUsedMap(1_000)  # of a password, by its keyed hash
        self._hashes = HashQueue()
        self._checks: dict[tuple[str, bytes], asyncio.Task[bool]] = {}  # password checks in progress

    async def principal(self, header: str | None, address: str) -> Principal:
        """Authenticate an Authorization header. Returns NO_PRINCIPAL without one. Raises Unauthenticated, LockedOut."""
        if self.open:
            return ANONYMOUS_ADMIN
        if header is None:
            return NO_PRINCIPAL
        if len(header) > MAX_CREDENTIALS:
            raise Unauthenticated(f"the Authorization header is too long, allowed {MAX_CREDENTIALS} characters")
        scheme, _, rest = header.partition(" ")
        match scheme.lower():
            case "bearer":
                return await self._authenticate_token(rest.strip(), address)
            case "basic":
                return await self._authenticate_password(rest.strip(), address)
            case _:
                raise Unauthenticated("unknown authentication scheme; use Basic or Bearer")

    async def _authenticate_token(self, token: str, address: str) -> Principal:
        """Authenticate a token. A valid token never waits, whatever wrong ones its address sent: 256 bits cannot be
        guessed.
        """
        now_us = self._clock.now_us()
        entry = None if self.tokens is None else await self.tokens.find(token, now_us)
        if entry is None:
            self._lockout.reserve("", address, now_us)
            self._lockout.failed("", address, now_us)
            raise Unauthenticated("unknown or expired token; use another one, or ask an admin for a new one")
        return read_grant(f"token:{entry.name}", {"role": entry.role, "namespaces": entry.namespaces})

    async def _authenticate_password(self, credentials: str, address: str) -> Principal:
        name, password = _read_basic(credentials)
        if not await self._is_password_right(name, password, address):
            raise Unauthenticated("incorrect username or password")
        return self.users[name].principal

    async def _is_password_right(self, name: str, password: str | None, address: str) -> bool:
        """Verify the password of a user. Raises ``LockedOut``, and ``TooManyRequests`` if too many checks wait.

        The same password of the same name and address is checked once for all concurrent requests. If it is wrong, each
        of them counts as a wrong guess.
        """
        now_us = self._clock.now_us()
        if password is None:
            return self._count_wrong_guess(name, address, now_us)
        key = hmac.digest(self._salt, f"{name}\0{password}".encode(), hashlib.sha256)
        if (check := self._checks.get((address, key))) is not None:
            return await asyncio.shield(check) or self._count_wrong_guess(name, address, self._clock.now_us())
        self._lockout.reserve(name, address, now_us)
        verified_us = self._verified_us.get(key)
        if name in self.users and verified_us is not None and 0 <= now_us - verified_us < _PASSWORD_CACHE_US:
            self._lockout.succeeded(name, address, now_us)
            return True
        check = asyncio.create_task(self._check(name, password, address, key))
        self._checks[address, key] = check
        check.add_done_callback(lambda _: self._checks.pop((address, key)))
        return await asyncio.shield(check)  # the guess counts even if the client disconnects

    async def _check(self, name: str, password: str, address: str, key: bytes) -> bool:
        """Check a reserved guess and record the result."""
        user, now_us = self.users.get(name), self._clock.now_us()
        known = self._lockout.was_verified(name, address, now_us)
        try:
            is_right = await self._hashes.run(lambda: self._matches(name, user, password), address=address, known=known)
        except BaseException:
            self._lockout.cancel_reservation(name, address)
            raise
        now_us = self._clock.now_us()
        if user is None or not is_right:
            self._lockout.failed(name, address, now_us)
            return False
        self._verified_us.put(key, now_us)
        self._lockout.succeeded(name, address, now_us)
        return True

    def _count_wrong_guess(self, name: str, address: str, now_us: int) -> bool:
        """Count a wrong guess without a check. Raises ``LockedOut``."""
        self._lockout.reserve(name, address, now_us)
        self._lockout.failed(name, address, now_us)
        return False

    def _matches(self, name: str, user: User | None, password: str) -> bool:
        """Verify a password against the hash of a user, or of a decoy. Slow."""
        if user is not None:
            return is_password_right(user.password_hash, password)
        if not self._decoys:
            self._decoys.append(hash_password(secrets.token_hex()))
        return is_password_right(self._decoy(name), password)

    def _decoy(self, name: str) -> str:
        """Return some user's hash, always the same for a name, so that an unknown name takes as long as a known one."""
        number = int.from_bytes(hmac.digest(self._salt, name.encode(), hashlib.sha256))
        return self._decoys[number % len(self._decoys)]

    def count_attempts_left(self, name: str, address: str) -> int:
        """Return how many wrong passwords a user may send from an address before it has to wait."""
        return self._lockout.count_left(name, address)

    def unlock(self, name: str) -> None:
        """Let a locked-out user log in again, from any address. Applies to this node."""
        self._lockout.unlock(name, self._clock.now_us())


def _read_basic(credentials: str) -> tuple[str, str | None]:
    """Read name and password, or None instead of a password if the colon is missing. Raises ``Unauthenticated``."""
    try:
        name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:  # neither base64 nor UTF-8
        raise Unauthenticated("invalid Basic credentials; send base64 of name:password in UTF-8") from None
    return name, password if colon else None


def read_claimed_name(header: str) -> tuple[str, str]:
    """Return the name that an Authorization header claims, right or wrong, and its scheme."""
    scheme, _, rest = header[:MAX_CREDENTIALS].partition(" ")
    if scheme.lower() != "basic":
        return ("(token)" if scheme.lower() == "bearer" else "(unknown)"), scheme.lower()
    try:
        return _read_basic(rest.strip())[0], "basic"
    except Unauthenticated:
        return "(unknown)", "unreadable"
