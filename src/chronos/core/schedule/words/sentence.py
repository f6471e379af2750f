"""The parts of a sentence, collected clause by clause, and the error for a sentence that cannot be read."""

from dataclasses import dataclass, field

from chronos.core.schedule.iso8601 import Period

CALENDAR_UNITS = {
    Period(days=1): "day",
    Period(days=7): "week",
    Period(months=1): "month",
    Period(months=3): "quarter",
    Period(months=12): "year",
}  # the names of single calendar units
RESTRICTIONS = (
    *("times", "window", "second", "minute", "hour", "days", "weekdays", "months", "years", "either", "both", "real"),
)  # parts that make an interval follow the clock or the calendar


class Unclear(Exception):
    """The error for ``count`` tokens from ``index`` on that cannot be read, with a ``reason`` if it is known."""

    def __init__(self, index: int, reason: str = "", hint: str = "", count: int = 1) -> None:
        super().__init__(reason)
        self.index, self.reason, self.hint, self.count = index, reason, hint, count


@dataclass(frozen=True, slots=True)
class Field:
    """The values of seconds, minutes or hours; ``starred`` if the sentence says "every"."""

    mask: int
    starred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Days of a month as the masks of ``Cron``; plain weekdays are kept separately."""

    days: int = 0
    last: int = 0
    nearest: int = 0
    nearest_last: int = 0
    nth: int = 0

    @property
    def has_month_days(self) -> bool:
        """Whether days of the month are among them, rather than weekdays only."""
        return bool(self.days or self.last or self.nearest or self.nearest_last)

    def __or__(self, other: "Days") -> "Days":
        return Days(
            days=self.days | other.days,
            last=self.last | other.last,
            nearest=self.nearest | other.nearest,
            nearest_last=self.nearest_last | other.nearest_last,
            nth=self.nth | other.nth,
        )

    def __bool__(self) -> bool:
        return bool(self.has_month_days or self.nth)


@dataclass(slots=True)
class Sentence:
    """The parts of one sentence. ``positions`` has the index of the token at which each part begins."""

    positions: dict[str, int] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    topic: str = ""  # of the current clause
    amount: Period | None = None
    longest: Period | None = None  # of a random interval, whose shortest is the amount
    calendar_unit: str = ""  # of CALENDAR_UNITS, for "every day", not for "every 24 hours"
    interval_kind: str = ""  # "intervals" or "calendar", if the sentence demands such an interval
    by_clock: bool = False
    count: int | None = None
    times: list[int] = field(default_factory=list)
    window: tuple[int, int, bool] | None = None  # first and last second of the day, whether the last is included
    fields: dict[str, Field] = field(default_factory=dict)
    weekdays: int = 0
    months: int = 0
    years: int = 0  # as in ``Cron``
    open_days: Days = field(default_factory=Days)  # not yet closed by an "of"
    day_groups: list[tuple[Days, int | None]] = field(default_factory=list)  # with their months; None for all
    delay: Period | None = None
    needs_time: bool = False  # for "tomorrow", which is incomplete without a time
    date: str = ""
    cron: str = ""
    zone: str | None = None
    start: str = ""
    end: str = ""
    anchor: str = ""
    jitter_us: int = 0
    exclude: list[str] = field(default_factory=list)
    excluded_weekdays: int = 0
    excluded_months: int = 0
    literal: bool = False

    def error(self, part: str, reason: str, hint: str = "") -> Unclear:
        """Return the error for a part that was understood but is not possible."""
        return Unclear(self.positions.get(part, 0), reason, hint)

    def check_only(self, part: str, name: str, *, besides: tuple[str, ...] = ()) -> None:
        """Reject every other part that says when the schedule runs."""
        for other in (*RESTRICTIONS, "amount", "count", "anchor", "once", "date", "cron", "delay"):
            if other in self.positions and other != part and other not in besides:
                raise self.error(other, f"has a part that cannot be combined with {name}")

    def mark_once(self, part: str, index: int) -> None:
        """Record the position of a part that may occur only once."""
        if part in self.positions:
            raise Unclear(index, f"gives its {_NAMES.get(part, part)} twice", _SPLIT_HINT)
        self.mark(part, index)

    def mark(self, part: str, index: int) -> None:
        """Record the first position of a part. All clauses of one topic must be adjacent.

        "Monday at 9 and Tuesday at 10" is two schedules: together they would also run on Monday at 10.
        """
        topic = _TOPICS.get(part)
        if topic is not None and topic != self.topic:
            if topic in self.topics:
                raise Unclear(index, f"gives its {topic} in two places", _SPLIT_HINT)
            self.topics.add(topic)
            self.topic = topic
        self.positions.setdefault(part, index)


_SPLIT_HINT = "put what belongs together in one place, and use one schedule for each time that differs"
_TOPICS = {
    "amount": "interval",
    **dict.fromkeys(("times", "window", "second", "minute", "hour"), "times"),
    **dict.fromkeys(("days", "weekdays"), "days"),
    "months": "months",
    "years": "years",
}
_NAMES = {
    "amount": "interval",
    "delay": "delay",
    "window": "hours",
    "anchor": "first occurrence",
    "cron": "cron expression",
}
