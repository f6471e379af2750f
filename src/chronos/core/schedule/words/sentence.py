"""What a sentence has said so far, clause by clause, and the error of one that cannot be read."""

from dataclasses import dataclass, field

from chronos.core.schedule.iso8601 import Period

CALENDAR_UNITS = {
    Period(days=1): "day",
    Period(days=7): "week",
    Period(months=1): "month",
    Period(months=3): "quarter",
    Period(months=12): "year",
}  # what one unit of the calendar is called
RESTRICTIONS = (
    *("times", "window", "second", "minute", "hour", "days", "weekdays", "months", "either", "both", "real"),
)  # what makes an interval keep to the clock or the calendar


class Unclear(Exception):
    """The tokens from ``index`` on, ``count`` of them, cannot be read; ``reason`` when more is known than that."""

    def __init__(self, index: int, reason: str = "", hint: str = "", count: int = 1) -> None:
        super().__init__(reason)
        self.index, self.reason, self.hint, self.count = index, reason, hint, count


@dataclass(frozen=True, slots=True)
class Field:
    """The values of seconds, minutes or hours; ``starred`` when they were said as "every"."""

    mask: int
    starred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Days of a month, as the masks of ``Cron``; plain weekdays are kept apart from them."""

    days: int = 0
    last: int = 0
    nearest: int = 0
    nth: int = 0

    def __or__(self, other: "Days") -> "Days":
        return Days(
            days=self.days | other.days,
            last=self.last | other.last,
            nearest=self.nearest | other.nearest,
            nth=self.nth | other.nth,
        )

    def __bool__(self) -> bool:
        return bool(self.days or self.last or self.nearest or self.nth)


@dataclass(slots=True)
class Sentence:
    """Notes of one reading. ``positions`` has the token at which each thing was first said."""

    positions: dict[str, int] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    topic: str = ""  # what the sentence is about at the moment
    amount: Period | None = None
    calendar_unit: str = (
        ""  # of CALENDAR_UNITS, when the amount is said as just one of it: "every day", not "every 24 hours"
    )
    interval_kind: str = ""  # "intervals" or "calendar" when the sentence insists on an interval of that kind
    by_clock: bool = False
    count: int | None = None
    times: list[int] = field(default_factory=list)
    window: tuple[int, int, bool] | None = None  # first and last second of the day, whether the last is in
    fields: dict[str, Field] = field(default_factory=dict)
    weekdays: int = 0
    months: int = 0
    open_days: Days = field(default_factory=Days)  # not yet followed by an "of"
    day_groups: list[tuple[Days, int | None]] = field(default_factory=list)  # with their months, None for all
    delay: Period | None = None
    needs_time: bool = False  # "tomorrow" alone is no time
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
        """The error of a thing that was understood, yet cannot be."""
        return Unclear(self.positions.get(part, 0), reason, hint)

    def check_only(self, part: str, name: str, *, besides: tuple[str, ...] = ()) -> None:
        """Refuse whatever else was said about when it runs."""
        for other in (*RESTRICTIONS, "amount", "count", "anchor", "once", "date", "cron", "delay"):
            if other in self.positions and other != part and other not in besides:
                raise self.error(other, f"cannot be said together with {name}")

    def mark_once(self, part: str, index: int) -> None:
        """Remember where a thing was said that can be said one time only."""
        if part in self.positions:
            raise Unclear(index, f"says its {_NAMES.get(part, part)} twice", _SPLIT_HINT)
        self.mark(part, index)

    def mark(self, part: str, index: int) -> None:
        """Remember where a thing was said first; more of it must follow at once.

        "Monday at 9 and Tuesday at 10" is two schedules: together they would also run on Monday at 10.
        """
        topic = _TOPICS.get(part)
        if topic is not None and topic != self.topic:
            if topic in self.topics:
                raise Unclear(index, f"comes back to its {topic} after saying something else", _SPLIT_HINT)
            self.topics.add(topic)
            self.topic = topic
        self.positions.setdefault(part, index)


_SPLIT_HINT = "say what belongs together in one place, and use one schedule for each time that differs"
_TOPICS = {
    "amount": "interval",
    **dict.fromkeys(("times", "window", "second", "minute", "hour"), "times"),
    **dict.fromkeys(("days", "weekdays"), "days"),
    "months": "months",
}
_NAMES = {
    "amount": "interval",
    "delay": "delay",
    "window": "hours",
    "anchor": "first occurrence",
    "cron": "cron expression",
}
