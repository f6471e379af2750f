"""Counts of runs per day of a job's own calendar, and their form in the store: one JSON text per month.

A day is a day on the clock of the schedule's zone. A run belongs to the day on which it was due or requested. The
instants of a span are spread evenly over its days.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import NamedTuple

import msgspec

from chronos.core.calendar import DAY_S, EPOCH_ORDINAL, SECOND_US
from chronos.core.execution import Status
from chronos.core.schedule.timezones import Zone


class DayCount(NamedTuple):
    """The runs of one day, by outcome."""

    succeeded: int = 0
    completed_with_errors: int = 0
    failed: int = 0
    stale: int = 0
    skipped: int = 0
    missed: int = 0
    canceled: int = 0
    retried: int = 0  # of the runs above, those with more than one attempt
    worked_ms: int = 0  # total duration of the runs above

    def plus(self, other: "DayCount") -> "DayCount":
        """Return the sum of two counts."""
        return DayCount(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def runs(self) -> int:
        """The number of runs that started and ended."""
        return self.succeeded + self.completed_with_errors + self.failed + self.stale + self.canceled


class EndedRun(NamedTuple):
    """The columns of history that count."""

    id: bytes
    status: int
    scheduled_us: int
    started_us: int | None
    finished_us: int
    attempt: int
    until_us: int | None  # of a span
    instants: int


Days = dict[int, DayCount]  # by day number, days since 1970

_FIELD_BY_STATUS = {
    int(status): DayCount._fields.index(name)
    for status, name in {
        Status.SUCCEEDED: "succeeded",
        Status.COMPLETED_WITH_ERRORS: "completed_with_errors",
        Status.FAILED: "failed",
        Status.STALE: "stale",
        Status.SKIPPED: "skipped",
        Status.MISSED: "missed",
        Status.CANCELED: "canceled",
    }.items()
}
_RETRIED, _WORKED = DayCount._fields.index("retried"), DayCount._fields.index("worked_ms")


def count_days(runs: Iterable[EndedRun], zone: Zone) -> Days:
    """Count runs by day."""
    counts: dict[int, list[int]] = {}
    for run in runs:
        field = _FIELD_BY_STATUS.get(run.status)
        if field is None:
            continue
        if run.until_us is not None:
            for day, part in _spread(run, zone).items():
                counts.setdefault(day, [0] * len(DayCount._fields))[field] += part
            continue
        row = counts.setdefault(to_day(int.from_bytes(run.id[:6]) * 1_000, zone), [0] * len(DayCount._fields))
        row[field] += run.instants
        if run.started_us is not None:
            row[_WORKED] += max(0, run.finished_us - run.started_us) // 1_000
            row[_RETRIED] += run.attempt > 1
    return {day: DayCount(*row) for day, row in counts.items()}


def add_days(first: Mapping[int, DayCount], second: Mapping[int, DayCount]) -> Days:
    """Return the sum of two sets of days."""
    return {day: first.get(day, DayCount()).plus(second.get(day, DayCount())) for day in sorted({*first, *second})}


def to_day(at_us: int, zone: Zone) -> int:
    """Return the day of an instant on the clock of a zone, as days since 1970."""
    seconds = at_us // SECOND_US
    return (seconds + zone.offset_at(seconds)) // DAY_S


def to_month(day: int) -> int:
    """Return the month of a day: twelve times the year, plus the month from 0."""
    when = date.fromordinal(day + EPOCH_ORDINAL)
    return when.year * 12 + when.month - 1


def write_month(days: Mapping[int, DayCount]) -> str:
    """Write days of one month as JSON: the day of the month, and its counts without the zeros at the end."""
    body = {}
    for day, count in sorted(days.items()):
        values = list(count)
        while values and values[-1] == 0:
            values.pop()
        body[str(date.fromordinal(day + EPOCH_ORDINAL).day)] = values
    return msgspec.json.encode(body).decode()


def read_month(month: int, text: str) -> Days:
    """Read the days of a month."""
    first = date(month // 12, month % 12 + 1, 1).toordinal() - EPOCH_ORDINAL
    return {first + int(day) - 1: DayCount(*values) for day, values in msgspec.json.decode(text).items()}


def split_months(days: Mapping[int, DayCount]) -> dict[int, Days]:
    """Return days by month."""
    months: dict[int, Days] = {}
    for day, count in days.items():
        months.setdefault(to_month(day), {})[day] = count
    return months


def _spread(run: EndedRun, zone: Zone) -> dict[int, int]:
    assert run.until_us is not None
    first, last = to_day(run.scheduled_us, zone), to_day(run.until_us, zone)
    days = max(1, last - first + 1)
    return {
        first + index: part
        for index in range(days)
        if (part := run.instants * (index + 1) // days - run.instants * index // days)
    }
