"""The trace of refusals: failed logins and denied requests as a metric, a log line and an entry of the audit log.

Guessing must not fill the log or the store, so refusals are gathered: what one name did from one address is told a
second after it began, and then at most once a minute, with a count. There is a budget for these entries; beyond it all
names share one entry a minute.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from chronos.api.errors import LockedOut, TooManyRequests
from chronos.clock import Clock
from chronos.core.calendar import SECOND_US
from chronos.core.node import Actor
from chronos.errors import ChronosError
from chronos.observe.log_setup import line_logger
from chronos.store.commands import AuditLine, WriteAudit
from chronos.store.contract import Store

FAILED_LOGIN, DENIED = "failed login", "denied"
#: What the metric tells apart, and what a person is told.
REASONS = {
    "password": "wrong name or password",
    "token": "unknown or expired token",
    "malformed": "unreadable credentials",
    "locked_out": "refused by the lock-out",
    "busy": "too many logins at once",
    "forbidden": "not allowed",
}
_BEGIN_S = 1.0  # how long refusals are gathered before they are told
_EVERY_US = 60 * SECOND_US  # how often those of one name and address are told
_BUDGET = 60  # entries that can be told at once
_REFILL_US = 60 * SECOND_US  # for one entry more
_MOST_PAIRS = 1_000
_MOST_UNWRITTEN = 100  # lines that are kept while the store cannot be reached
_PATIENCE_S = 2.0  # how long the last lines may take to be written
_LONGEST = 200  # characters of what a client has sent
_OTHERS = "(others)"

log = line_logger("chronos.api")


@dataclass(slots=True)
class _DenialCount:
    """What one name did from one address since it was last told."""

    reasons: Counter[str] = field(default_factory=Counter)
    address: str = ""
    what: str = ""  # the last request that was denied, and why
    told_us: int | None = None


class Denials:
    """Gathers refusals and tells of them. ``count`` hears the reason of each."""

    def __init__(self, store: Store, clock: Clock, count: Callable[[str], None]) -> None:
        self._store, self._clock, self._count = store, clock, count
        self._pairs: dict[tuple[str, str, str], _DenialCount] = {}
        self._unwritten: list[AuditLine] = []
        self._budget = float(_BUDGET)
        self._filled_us = clock.now_us()
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._closed = False

    def failed_login(self, name: str, scheme: str, error: ChronosError, *, address: str, counts_as: str) -> None:
        """Credentials were refused; ``scheme`` is the first word of the header."""
        match error:
            case LockedOut():
                reason = "locked_out"
            case TooManyRequests():
                reason = "busy"
            case _:
                reason = {"basic": "password", "bearer": "token"}.get(scheme, "malformed")
        self._note(FAILED_LOGIN, reason, name, address, counts_as)

    def denied(self, name: str, what: str, *, address: str, counts_as: str) -> None:
        """A known client asked for something that it may not do."""
        self._note(DENIED, "forbidden", name, address, counts_as, what)

    async def close(self) -> None:
        """Tell what is still untold."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._telling is not None:
            await self._telling
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._tell(everything=True)
        except TimeoutError:
            log.warning("refusals are missing from the audit log", count=len(self._unwritten))

    def _note(self, action: str, reason: str, name: str, address: str, counts_as: str, what: str = "") -> None:
        self._count(reason)
        key = action, _plain(name), counts_as
        if key not in self._pairs and len(self._pairs) >= _MOST_PAIRS:
            key = action, _OTHERS, ""
        found = self._pairs.setdefault(key, _DenialCount())
        found.reasons[reason] += 1
        found.address, found.what = address if key[2] else "", _plain(what)
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_BEGIN_S, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._telling = asyncio.create_task(self._tell())

    async def _tell(self, *, everything: bool = False) -> None:
        """Tell what is due, and look again while something is not."""
        now_us = self._clock.now_us()
        lines = self._due(now_us, everything=everything)
        for line in lines:
            origin = {"address": line.actor.origin} if line.actor.origin else {}
            name = line.subject if line.action == FAILED_LOGIN else line.actor.name
            log.warning(line.action, name=name, **origin, reason=line.detail)
        self._unwritten = [*self._unwritten, *lines][-_MOST_UNWRITTEN:]
        if self._unwritten:
            writing, self._unwritten = self._unwritten, []
            try:
                await self._store.apply(WriteAudit(lines=tuple(writing), now_us=now_us))
            except ChronosError:
                self._unwritten = [*writing, *self._unwritten][-_MOST_UNWRITTEN:]
        if (self._unwritten or self._pairs) and not self._closed and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_BEGIN_S, self._begin)

    def _due(self, now_us: int, *, everything: bool) -> list[AuditLine]:
        """The lines that may be written now; what they told is no longer gathered."""
        self._budget = min(_BUDGET, self._budget + max(0, now_us - self._filled_us) / _REFILL_US)
        self._filled_us = now_us
        due = [key for key, found in self._pairs.items() if everything or _is_due(found, now_us)]
        lines: list[AuditLine] = []
        for key in due:
            if not self._pairs[key].reasons:
                del self._pairs[key]
            elif key[1] != _OTHERS and self._budget < 1:
                self._leave_to_others(key)
            elif key[1] != _OTHERS:
                self._budget -= 1
                lines.append(self._told(key, now_us))
        shared = [(action, _OTHERS, "") for action in (FAILED_LOGIN, DENIED)]
        for key in shared:
            found = self._pairs.get(key)
            if found is not None and found.reasons and (everything or _is_due(found, now_us)):
                lines.append(self._told(key, now_us))
        return lines

    def _told(self, key: tuple[str, str, str], now_us: int) -> AuditLine:
        found = self._pairs[key]
        line = _line(key, found)
        found.reasons, found.told_us = Counter(), now_us
        return line

    def _leave_to_others(self, key: tuple[str, str, str]) -> None:
        found = self._pairs.pop(key)
        others = self._pairs.setdefault((key[0], _OTHERS, ""), _DenialCount())
        others.reasons.update(found.reasons)
        others.what = found.what


def _is_due(found: _DenialCount, now_us: int) -> bool:
    return found.told_us is None or not 0 <= now_us - found.told_us < _EVERY_US


def _line(key: tuple[str, str, str], found: _DenialCount) -> AuditLine:
    action, name, _ = key
    count = found.reasons.total()
    if action == DENIED:
        times = f" ({count} times)" if count > 1 else ""
        request, _, why = found.what.partition(": ")
        return AuditLine(Actor(name=name, origin=found.address), action, request, detail=why + times)
    said = [f"{REASONS[reason]}: {number}" for reason, number in sorted(found.reasons.items())]
    return AuditLine(Actor(name="anonymous", origin=found.address), action, name, detail=", ".join(said))


def _plain(text: str) -> str:
    """Text that a client has sent, fit for a line."""
    return "".join(one if one.isprintable() else "?" for one in text[:_LONGEST])
