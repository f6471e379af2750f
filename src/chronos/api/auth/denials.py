"""Records failed logins and denied requests: as a metric, a log line and an audit entry.

Password guessing must not fill the log or the store, so denials are aggregated. Those of one name and address are
written one second after the first, then at most once per minute, with a count. The number of entries is limited; beyond
the limit all names share one entry per minute.
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
from chronos.observe.log_line import line_logger
from chronos.store.commands import AuditLine, WriteAudit
from chronos.store.contract import Store

FAILED_LOGIN, DENIED = "failed login", "denied"
#: The reason label of the metric, and the text for people.
REASONS = {
    "password": "wrong username or password",
    "token": "unknown or expired token",
    "malformed": "unreadable credentials",
    "locked_out": "locked out",
    "busy": "too many logins at once",
    "forbidden": "permission denied",
}
_FIRST_FLUSH_S = 1.0  # from the first denial to its entry
_FLUSH_INTERVAL_US = 60 * SECOND_US  # between two entries of one name and address
_MAX_BURST = 60  # entries that can be written at once
_REFILL_INTERVAL_US = 60 * SECOND_US  # per additional entry
_MAX_COUNTS = 1_000
_MAX_UNWRITTEN = 100  # lines kept while the store is unavailable
_CLOSE_TIMEOUT_S = 2.0  # for writing the last lines
_MAX_TEXT = 200  # characters of text from a client
_OTHERS = "(others)"

log = line_logger("chronos.api")


@dataclass(slots=True)
class _DenialCount:
    """The denials of one name and address since its last entry."""

    reasons: Counter[str] = field(default_factory=Counter)
    address: str = ""
    what: str = ""  # the last denied request and the reason
    reported_us: int | None = None


class Denials:
    """Aggregates denials and records them. ``on_refusal`` is called with the reason of each."""

    def __init__(self, store: Store, clock: Clock, on_refusal: Callable[[str], None]) -> None:
        self._store, self._clock, self._on_refusal = store, clock, on_refusal
        self._counts: dict[tuple[str, str, str], _DenialCount] = {}
        self._unwritten: list[AuditLine] = []
        self._budget = float(_MAX_BURST)
        self._filled_us = clock.now_us()
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._closed = False

    def failed_login(self, name: str, scheme: str, error: ChronosError, *, address: str, counts_as: str) -> None:
        """Record refused credentials. ``scheme`` is the first word of the Authorization header."""
        match error:
            case LockedOut():
                reason = "locked_out"
            case TooManyRequests():
                reason = "busy"
            case _:
                reason = {"basic": "password", "bearer": "token"}.get(scheme, "malformed")
        self._record(FAILED_LOGIN, reason, name, address, counts_as)

    def denied(self, name: str, what: str, *, address: str, counts_as: str) -> None:
        """Record a request that a known principal may not make."""
        self._record(DENIED, "forbidden", name, address, counts_as, what)

    async def close(self) -> None:
        """Record the denials that are not written yet."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._flushing is not None:
            await self._flushing
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._flush(flush_all=True)
        except TimeoutError:
            log.warning("denials are missing from the audit log", count=len(self._unwritten))

    def _record(self, action: str, reason: str, name: str, address: str, counts_as: str, what: str = "") -> None:
        self._on_refusal(reason)
        key = action, _to_printable(name), counts_as
        if key not in self._counts and len(self._counts) >= _MAX_COUNTS:
            key = action, _OTHERS, ""
        record = self._counts.setdefault(key, _DenialCount())
        record.reasons[reason] += 1
        record.address, record.what = address if key[2] else "", _to_printable(what)
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_FIRST_FLUSH_S, self._start_flush)

    def _start_flush(self) -> None:
        self._timer = None
        self._flushing = asyncio.create_task(self._flush())

    async def _flush(self, *, flush_all: bool = False) -> None:
        """Write the due denials, and schedule the next flush if some are left."""
        now_us = self._clock.now_us()
        lines = self._take_due_lines(now_us, flush_all=flush_all)
        for line in lines:
            origin = {"address": line.actor.origin} if line.actor.origin else {}
            name = line.subject if line.action == FAILED_LOGIN else line.actor.name
            log.warning(line.action, name=name, **origin, reason=line.detail)
        self._unwritten = [*self._unwritten, *lines][-_MAX_UNWRITTEN:]
        if self._unwritten:
            writing, self._unwritten = self._unwritten, []
            try:
                await self._store.apply(WriteAudit(lines=tuple(writing), now_us=now_us))
            except ChronosError:
                self._unwritten = [*writing, *self._unwritten][-_MAX_UNWRITTEN:]
        if (self._unwritten or self._counts) and not self._closed and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FIRST_FLUSH_S, self._start_flush)

    def _take_due_lines(self, now_us: int, *, flush_all: bool) -> list[AuditLine]:
        """Return the lines that may be written now, and reset their counts."""
        self._budget = min(_MAX_BURST, self._budget + max(0, now_us - self._filled_us) / _REFILL_INTERVAL_US)
        self._filled_us = now_us
        due = [key for key, record in self._counts.items() if flush_all or _is_due(record, now_us)]
        lines: list[AuditLine] = []
        for key in due:
            if not self._counts[key].reasons:
                del self._counts[key]
            elif key[1] != _OTHERS and self._budget < 1:
                self._merge_into_others(key)
            elif key[1] != _OTHERS:
                self._budget -= 1
                lines.append(self._take_line(key, now_us))
        shared = [(action, _OTHERS, "") for action in (FAILED_LOGIN, DENIED)]
        for key in shared:
            record = self._counts.get(key)
            if record is not None and record.reasons and (flush_all or _is_due(record, now_us)):
                lines.append(self._take_line(key, now_us))
        return lines

    def _take_line(self, key: tuple[str, str, str], now_us: int) -> AuditLine:
        record = self._counts[key]
        line = _to_audit_line(key, record)
        record.reasons, record.reported_us = Counter(), now_us
        return line

    def _merge_into_others(self, key: tuple[str, str, str]) -> None:
        record = self._counts.pop(key)
        others = self._counts.setdefault((key[0], _OTHERS, ""), _DenialCount())
        others.reasons.update(record.reasons)
        others.what = record.what


def _is_due(record: _DenialCount, now_us: int) -> bool:
    return record.reported_us is None or not 0 <= now_us - record.reported_us < _FLUSH_INTERVAL_US


def _to_audit_line(key: tuple[str, str, str], record: _DenialCount) -> AuditLine:
    action, name, _ = key
    count = record.reasons.total()
    if action == DENIED:
        times = f" ({count} times)" if count > 1 else ""
        request, _, why = record.what.partition(": ")
        return AuditLine(Actor(name=name, origin=record.address), action, request, detail=why + times)
    reasons = [f"{REASONS[reason]}: {number}" for reason, number in sorted(record.reasons.items())]
    return AuditLine(Actor(name="anonymous", origin=record.address), action, name, detail=", ".join(reasons))


def _to_printable(text: str) -> str:
    """Return text from a client without unprintable characters."""
    return "".join(one if one.isprintable() else "?" for one in text[:_MAX_TEXT])
