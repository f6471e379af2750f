"""DelayHistory: how late runs started and how long commits took, per minute of the last hours, on this node.

Values are counted in classes that grow by a tenth, so a percentile is exact to a tenth. Nothing is stored.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from chronos.clock import Clock

MINUTE_US = 60_000_000
KEPT_MINUTES = 6 * 60
_GROWTH = math.log(1.1)
_SMALLEST_S = 0.000_1


@dataclass(slots=True)
class _Minute:
    """Counts of one minute, by class."""

    start_us: int
    delays: dict[int, int] = field(default_factory=dict)
    commits: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayMinutes:
    """The delays of some consecutive minutes. Percentiles are None if nothing happened."""

    start_us: int
    minutes: int
    started: int  # runs that started
    delay_p50_s: float | None
    delay_p99_s: float | None
    commits: int
    commit_p50_s: float | None
    commit_p99_s: float | None


class DelayHistory:
    """Counts delays. Safe from the event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minutes: deque[_Minute] = deque(maxlen=KEPT_MINUTES)

    def add_delay(self, delay_s: float) -> None:
        """Count the delay of a run that started."""
        counts = self._current().delays
        key = _to_class(delay_s)
        counts[key] = counts.get(key, 0) + 1

    def add_commit(self, took_s: float) -> None:
        """Count the duration of a commit."""
        counts = self._current().commits
        key = _to_class(took_s)
        counts[key] = counts.get(key, 0) + 1

    def recent(self, minutes: int = 5) -> DelayMinutes:
        """Return the last minutes, including the current one, as one."""
        now_us = self._clock.now_us()
        since_us = now_us // MINUTE_US * MINUTE_US - (minutes - 1) * MINUTE_US
        return _merge([minute for minute in self._minutes if minute.start_us >= since_us], since_us, minutes)

    def series(self, minutes: int = KEPT_MINUTES, *, step: int = 5) -> list[DelayMinutes]:
        """Return the last minutes in groups of ``step``, oldest first, without groups in which nothing happened."""
        groups: dict[int, list[_Minute]] = {}
        width_us = step * MINUTE_US
        first_us = self._clock.now_us() - minutes * MINUTE_US
        for minute in self._minutes:
            if minute.start_us >= first_us:
                groups.setdefault(minute.start_us // width_us * width_us, []).append(minute)
        return [_merge(group, start_us, step) for start_us, group in sorted(groups.items())]

    def _current(self) -> _Minute:
        start_us = self._clock.now_us() // MINUTE_US * MINUTE_US
        if not self._minutes or self._minutes[-1].start_us != start_us:
            self._minutes.append(_Minute(start_us))
        return self._minutes[-1]


def _to_class(seconds: float) -> int:
    return 0 if seconds <= _SMALLEST_S else math.ceil(math.log(seconds / _SMALLEST_S) / _GROWTH)


def _merge(minutes: Sequence[_Minute], start_us: int, count: int) -> DelayMinutes:
    delays, commits = _sum([minute.delays for minute in minutes]), _sum([minute.commits for minute in minutes])
    return DelayMinutes(
        start_us=start_us,
        minutes=count,
        started=sum(delays.values()),
        delay_p50_s=_percentile(delays, 50),
        delay_p99_s=_percentile(delays, 99),
        commits=sum(commits.values()),
        commit_p50_s=_percentile(commits, 50),
        commit_p99_s=_percentile(commits, 99),
    )


def _sum(parts: Sequence[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for part in parts:
        for key, count in part.items():
            total[key] = total.get(key, 0) + count
    return total


def _percentile(counts: dict[int, int], percent: int) -> float | None:
    """Return the upper end of the class that holds the percentile."""
    wanted = math.ceil(sum(counts.values()) * percent / 100)
    for key in sorted(counts):
        wanted -= counts[key]
        if wanted <= 0:
            return _SMALLEST_S * math.exp(key * _GROWTH)
    return None
