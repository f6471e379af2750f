"""How much one client may ask for: submissions a second, and guesses at a password. Memory stays bounded.

Both keep the clients heard of last; who is forgotten begins anew, which costs a guesser more than it gains.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from chronos.api.errors import LockedOut, TooMany
from chronos.core.calendar import SECOND_US

MAX_CLIENTS = 10_000
_FREE_GUESSES = 5
_FIRST_LOCK_S = 1.0
_LONGEST_LOCK_S = 300.0
_FORGIVEN_AFTER_US = 900 * SECOND_US

V = TypeVar("V")


class Recent(Generic[V]):
    """A bounded map: when it is full, what was not touched longest goes."""

    def __init__(self, most: int = MAX_CLIENTS) -> None:
        self._most = most
        self._held: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """What is held under a key."""
        value = self._held.get(key)
        if value is not None:
            self._held.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> None:
        """Hold something."""
        self._held[key] = value
        self._held.move_to_end(key)
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        """Forget one."""
        self._held.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_us: int


class Rate:
    """A bucket a client, which fills at ``per_s`` and holds what comes in a second (at least one). None: no limit."""

    def __init__(self, per_s: float | None) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s or 0.0)
        self._buckets: Recent[_Bucket] = Recent()

    @property
    def is_limited(self) -> bool:
        return self._per_s is not None

    def take(self, client: str, now_us: int) -> None:
        """Raise ``TooMany`` when the client's bucket is empty."""
        if self._per_s is None:
            return
        bucket = self._buckets.get(client) or _Bucket(self._most, now_us)
        passed_s = max(0, now_us - bucket.filled_us) / SECOND_US
        bucket.tokens = min(self._most, bucket.tokens + passed_s * self._per_s)
        bucket.filled_us = now_us
        self._buckets.put(client, bucket)
        if bucket.tokens < 1:
            wait_s = (1 - bucket.tokens) / self._per_s if self._per_s else 60.0
            raise TooMany(f"a client may submit {self._per_s:g} times a second; try again later", wait_s)
        bucket.tokens -= 1


@dataclass(slots=True)
class _Guesses:
    count: int
    last_us: int


class Lockout:
    """Who guesses waits, longer each time: a name from an address, and (after more tries) the address as a whole."""

    def __init__(self) -> None:
        self._guesses: Recent[_Guesses] = Recent()

    def check(self, name: str, address: str, now_us: int) -> None:
        """Raise ``LockedOut`` while this name, from this address, has to wait."""
        for key, free in _keys(name, address):
            guesses = self._guesses.get(key)
            if guesses is None or guesses.count < free:
                continue
            passed_us = now_us - guesses.last_us
            if passed_us < 0 or passed_us > _FORGIVEN_AFTER_US:
                self._guesses.drop(key)
                continue
            lock_s = min(_LONGEST_LOCK_S, _FIRST_LOCK_S * 2.0 ** min(guesses.count - free, 16))
            left_s = lock_s - passed_us / SECOND_US
            if left_s > 0:
                raise LockedOut("too many wrong passwords or tokens came from there; wait, then try again", left_s)

    def failed(self, name: str, address: str, now_us: int) -> None:
        """A wrong guess."""
        for key, _ in _keys(name, address):
            guesses = self._guesses.get(key) or _Guesses(0, now_us)
            guesses.count, guesses.last_us = guesses.count + 1, now_us
            self._guesses.put(key, guesses)

    def succeeded(self, name: str, address: str) -> None:
        """The right one. The address stays under suspicion: one's own password must not pay for guessing others'."""
        self._guesses.drop((address, name))


def _keys(name: str, address: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    return ((address, name), _FREE_GUESSES), ((address,), 4 * _FREE_GUESSES)
