"""Who guesses waits, longer each time: a name from an address, and, after more tries, the address as a whole.

::

    reserve ──► the password is checked ──► succeeded | failed | given_up

A try counts before it is made, so that tries at the same time cannot outrun the count; a right one is given back. Once
the free tries are used up, the next is made when the one before has been checked and the wait is over.

A guesser must not lock out all who share its address: a name that was right from there lately, or that was unlocked,
passes the lock of the address. Everything is counted on this node, and bounded; a client that is forgotten begins
again, which costs a guesser more than it gains.
"""

from dataclasses import dataclass

from chronos.api.errors import LockedOut
from chronos.api.rate_limits import RecentClients
from chronos.core.calendar import DAY_S, SECOND_US

FREE_TRIES = 5
FREE_TRIES_OF_ADDRESS = 4 * FREE_TRIES
UNLOCKED_US = 900 * SECOND_US  # how long a name that was unlocked passes the locks of addresses
_FIRST_LOCK_S = 1.0
_LONGEST_LOCK_S = 300.0
_FORGIVEN_AFTER_US = 900 * SECOND_US
_LATELY_US = 7 * DAY_S * SECOND_US
_LONGEST_NAME = 200  # characters that are told apart

_Key = tuple[str, ...]


@dataclass(slots=True)
class _FailedGuesses:
    count: int
    last_us: int
    open: int = 0  # of the count, those that are being checked


class Lockout:
    """Counts tries at passwords and tokens by name and address."""

    def __init__(self) -> None:
        self._tries: RecentClients[_FailedGuesses] = RecentClients()
        self._right_us: RecentClients[int] = RecentClients()  # when a name was last right from an address
        self._unlocked_us: RecentClients[int] = RecentClients()

    def reserve(self, name: str, address: str, now_us: int) -> None:
        """Count a try that is about to be made. Raises ``LockedOut`` while it may not be."""
        name = name[:_LONGEST_NAME]
        self._check((address, name), FREE_TRIES, now_us)
        if not self._passes(name, address, now_us):
            self._check((address,), FREE_TRIES_OF_ADDRESS, now_us)
        for key in _keys(name, address):
            tries = self._tries.get(key) or _FailedGuesses(0, now_us)
            tries.count, tries.open, tries.last_us = tries.count + 1, tries.open + 1, now_us
            self._tries.put(key, tries)

    def failed(self, name: str, address: str, now_us: int) -> None:
        """The try was wrong."""
        for key in _keys(name, address):
            tries = self._tries.get(key) or _FailedGuesses(1, now_us, 1)
            tries.open, tries.last_us = max(0, tries.open - 1), now_us
            self._tries.put(key, tries)

    def succeeded(self, name: str, address: str, now_us: int) -> None:
        """The try was right: the name begins again. The address gets this one try back, and not those at others."""
        self._give_back(name, address)
        own = self._tries.get((address, name[:_LONGEST_NAME]))
        if own is not None:
            own.count = own.open
        self._right_us.put((address, name[:_LONGEST_NAME]), now_us)

    def cancel_reservation(self, name: str, address: str) -> None:
        """The try was not made."""
        self._give_back(name, address)

    def was_right(self, name: str, address: str, now_us: int) -> bool:
        """Whether a name was right from an address lately."""
        right_us = self._right_us.get((address, name[:_LONGEST_NAME]))
        return right_us is not None and 0 <= now_us - right_us < _LATELY_US

    def unlock(self, name: str, now_us: int) -> None:
        """Forget all tries at a name; for some time it also passes the locks of addresses."""
        name = name[:_LONGEST_NAME]
        self._tries.drop_where(lambda key: isinstance(key, tuple) and key[1:] == (name,))
        self._unlocked_us.put(name, now_us)

    def _passes(self, name: str, address: str, now_us: int) -> bool:
        """Whether the lock of an address does not hold for a name."""
        unlocked_us = self._unlocked_us.get(name)
        if unlocked_us is not None and 0 <= now_us - unlocked_us < UNLOCKED_US:
            return True
        return self.was_right(name, address, now_us)

    def _check(self, key: _Key, free: int, now_us: int) -> None:
        tries = self._tries.get(key)
        if tries is None or tries.count < free:
            return
        passed_us = now_us - tries.last_us
        if not tries.open and (passed_us < 0 or passed_us > _FORGIVEN_AFTER_US):
            self._tries.drop(key)
            return
        lock_s = min(_LONGEST_LOCK_S, _FIRST_LOCK_S * 2.0 ** min(tries.count - free, 16))
        left_s = lock_s - passed_us / SECOND_US
        if tries.open or left_s > 0:
            what = "logins are being checked" if tries.open == tries.count else "wrong passwords or tokens came"
            raise LockedOut(f"too many {what} from there; wait, then try again", max(_FIRST_LOCK_S, left_s))

    def _give_back(self, name: str, address: str) -> None:
        for key in _keys(name, address):
            tries = self._tries.get(key)
            if tries is not None:
                tries.count, tries.open = max(0, tries.count - 1), max(0, tries.open - 1)
                if not tries.count:
                    self._tries.drop(key)


def _keys(name: str, address: str) -> tuple[_Key, _Key]:
    return (address, name[:_LONGEST_NAME]), (address,)
