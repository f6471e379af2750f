"""Lockout: delays password guessing, longer after each wrong guess, per name and address and per address.

::

    reserve ──► the password is checked ──► succeeded | failed | cancel_reservation

A guess counts before it is checked, so concurrent guesses cannot outrun the count; a right one is returned. When the
free guesses are used up, the next guess is allowed after the previous check and the delay.

An attacker must not lock out everyone behind the same address: a name that was verified from there recently, or that
was unlocked, bypasses the lock of the address. Counts are kept per node, and bounded. A dropped client starts again,
which costs an attacker more than it gains.
"""

import math
from dataclasses import dataclass

from chronos.api.errors import LockedOut
from chronos.api.rate_limits import RecentlyUsedMap
from chronos.core.calendar import DAY_S, SECOND_US

FREE_GUESSES = 5
FREE_GUESSES_PER_ADDRESS = 4 * FREE_GUESSES
UNLOCKED_US = 900 * SECOND_US  # how long an unlocked name bypasses address locks
_FIRST_LOCK_S = 1.0
_MAX_LOCK_S = 300.0
_FORGET_AFTER_US = 900 * SECOND_US
_RECENT_US = 7 * DAY_S * SECOND_US
_MAX_NAME = 200  # characters that are compared

_Key = tuple[str, ...]


@dataclass(slots=True)
class _FailedGuesses:
    count: int
    last_us: int
    pending: int = 0  # of the count: being checked


class Lockout:
    """Counts guesses of passwords and tokens by name and address."""

    def __init__(self) -> None:
        self._guesses: RecentlyUsedMap[_FailedGuesses] = RecentlyUsedMap()
        self._verified_us: RecentlyUsedMap[int] = RecentlyUsedMap()  # when a name was last verified from an address
        self._unlocked_us: RecentlyUsedMap[int] = RecentlyUsedMap()

    def reserve(self, name: str, address: str, now_us: int) -> None:
        """Count a guess before it is checked. Raises ``LockedOut`` while it is not allowed."""
        name = name[:_MAX_NAME]
        self._check((address, name), FREE_GUESSES, now_us)
        if not self._bypasses_address_lock(name, address, now_us):
            self._check((address,), FREE_GUESSES_PER_ADDRESS, now_us)
        for key in _keys(name, address):
            guesses = self._guesses.get(key) or _FailedGuesses(0, now_us)
            guesses.count, guesses.pending, guesses.last_us = guesses.count + 1, guesses.pending + 1, now_us
            self._guesses.put(key, guesses)

    def failed(self, name: str, address: str, now_us: int) -> None:
        """Record that the guess was wrong."""
        for key in _keys(name, address):
            guesses = self._guesses.get(key) or _FailedGuesses(1, now_us, 1)
            guesses.pending, guesses.last_us = max(0, guesses.pending - 1), now_us
            self._guesses.put(key, guesses)

    def succeeded(self, name: str, address: str, now_us: int) -> None:
        """Record that the guess was right. Resets the count of the name; the address gets back this one guess only."""
        self._return_guess(name, address)
        own = self._guesses.get((address, name[:_MAX_NAME]))
        if own is not None:
            own.count = own.pending
        self._verified_us.put((address, name[:_MAX_NAME]), now_us)

    def cancel_reservation(self, name: str, address: str) -> None:
        """Return a guess that was not checked."""
        self._return_guess(name, address)

    def was_verified(self, name: str, address: str, now_us: int) -> bool:
        """Return whether a name was verified from an address recently."""
        verified_us = self._verified_us.get((address, name[:_MAX_NAME]))
        return verified_us is not None and 0 <= now_us - verified_us < _RECENT_US

    def count_left(self, name: str, address: str) -> int:
        """Return how many wrong guesses a name has left at an address before it has to wait."""
        guesses = self._guesses.get((address, name[:_MAX_NAME]))
        return FREE_GUESSES if guesses is None else max(0, FREE_GUESSES - guesses.count)

    def unlock(self, name: str, now_us: int) -> None:
        """Forget all guesses for a name, and let it bypass address locks for ``UNLOCKED_US``."""
        name = name[:_MAX_NAME]
        self._guesses.drop_where(lambda key: isinstance(key, tuple) and key[1:] == (name,))
        self._unlocked_us.put(name, now_us)

    def _bypasses_address_lock(self, name: str, address: str, now_us: int) -> bool:
        """Return whether the lock of an address does not apply to a name."""
        unlocked_us = self._unlocked_us.get(name)
        if unlocked_us is not None and 0 <= now_us - unlocked_us < UNLOCKED_US:
            return True
        return self.was_verified(name, address, now_us)

    def _check(self, key: _Key, free: int, now_us: int) -> None:
        guesses = self._guesses.get(key)
        if guesses is None or guesses.count < free:
            return
        elapsed_us = now_us - guesses.last_us
        if not guesses.pending and (elapsed_us < 0 or elapsed_us > _FORGET_AFTER_US):
            self._guesses.drop(key)
            return
        lock_s = min(_MAX_LOCK_S, _FIRST_LOCK_S * 2.0 ** min(guesses.count - free, 16))
        left_s = lock_s - elapsed_us / SECOND_US
        if guesses.pending or left_s > 0:
            what = "concurrent logins" if guesses.pending == guesses.count else "wrong passwords or tokens"
            wait_s = max(_FIRST_LOCK_S, left_s)
            raise LockedOut(f"too many {what} from this address; try again in {math.ceil(wait_s)}s", wait_s)

    def _return_guess(self, name: str, address: str) -> None:
        for key in _keys(name, address):
            guesses = self._guesses.get(key)
            if guesses is not None:
                guesses.count, guesses.pending = max(0, guesses.count - 1), max(0, guesses.pending - 1)
                if not guesses.count:
                    self._guesses.drop(key)


def _keys(name: str, address: str) -> tuple[_Key, _Key]:
    return (address, name[:_MAX_NAME]), (address,)
