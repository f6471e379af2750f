"""Fixed intervals: the rule, which counts from an anchor and so never drifts, and Go's duration text."""

import re
from dataclasses import dataclass

from chronos.core.calendar import LAST_US
from chronos.errors import InvalidSchedule

SHORTEST_JOB_INTERVAL_US = 100_000  # the limit of a job; a schedule as a value may be shorter

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_DAY_NS = 24 * _UNIT_NS["h"]
_LONGEST_NS = (1 << 63) - 1
_PART = re.compile(r"([0-9]*)(\.?)([0-9]*)([^0-9.+\-]*)")


@dataclass(frozen=True, slots=True)
class EveryRule:
    """The instants start + k · period, k = 0, 1, …; without a start, counted from the instant passed to ``next_us``."""

    period_us: int
    start_us: int | None = None

    def next_us(self, after_us: int) -> int | None:
        """Return the first occurrence strictly after ``after_us``."""
        if self.start_us is None:
            next_us = after_us + self.period_us
        elif after_us < self.start_us:
            next_us = self.start_us
        else:
            next_us = after_us + self.period_us - (after_us - self.start_us) % self.period_us
        return next_us if next_us <= LAST_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Count the occurrences with after < t <= until; None without a start."""
        if self.start_us is None:
            return None
        return count_steps(self.start_us, self.period_us, after_us, until_us)


def count_steps(start_us: int, period_us: int, after_us: int, until_us: int, limit: int | None = None) -> int:
    """Count the instants start + k · period, 0 <= k < ``limit``, with after < t <= until."""

    def count_until(us: int) -> int:
        count = max(0, (min(us, LAST_US) - start_us) // period_us + 1)
        return count if limit is None else min(count, limit)

    return max(0, count_until(until_us) - count_until(after_us))


def parse_go_duration(text: str, *, expression: str | None = None, at: int = 0, days: bool = False) -> int:
    """Return the microseconds of a positive Go duration (``1h30m``, ``1.5s``), rounded, but never to zero.

    ``expression`` and ``at`` are the surrounding text and the position in it, for the error. With ``days``, ``d`` is
    24 hours, a unit that Go does not have. Raises ``InvalidSchedule``.
    """
    source = text if expression is None else expression

    def fault(reason: str, hint: str | None = None) -> InvalidSchedule:
        return InvalidSchedule(source, reason, subject="duration", position=at, length=len(text), hint=hint or _HINT)

    body = text[1:] if text[:1] in ("+", "-") else text
    if not body:
        raise fault("is empty")
    nanoseconds = 0
    position = 0
    if body == "0":
        raise fault("is zero, expected a positive duration")
    while position < len(body):
        match = _PART.match(body, position)
        if match is None or match.end() == position:
            raise fault(f'has "{body[position:]}", expected a number and a unit')
        digits, _, fraction, unit = match.groups()
        if not digits and not fraction:
            raise fault(f'has "{body[position:]}", expected a number and a unit')
        scale = _DAY_NS if days and unit == "d" else _UNIT_NS.get(unit)
        if scale is None:
            raise fault(f'has the unit "{unit}", expected h, m, s, ms, us or ns' if unit else "ends without a unit")
        nanoseconds += int(digits or 0) * scale + int(fraction or 0) * scale // 10 ** len(fraction)
        if nanoseconds > _LONGEST_NS:
            raise fault("is longer than 292 years", "use a shorter duration")
        position = match.end()
    if nanoseconds == 0:
        raise fault("is zero, expected a positive duration")
    if text[0] == "-":
        raise fault("is negative, expected a positive duration")
    return max(1, (nanoseconds + 500) // 1000)


_HINT = 'write it like "1h30m", "90s" or "1.5h"'
