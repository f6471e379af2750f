"""Schedules other than cron, with window, exclusions and jitter, and the detection of dialects."""

import pickle
import re
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule
from chronos.core.calendar import from_us, to_us
from chronos.core.schedule.cron import CronRule
from chronos.core.schedule.interval import EveryRule
from chronos.core.schedule.iso8601 import Period, PeriodRule
from chronos.core.schedule.once import DelayRule, OnceRule
from chronos.core.schedule.timezones import get_zone

T0 = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
INSTANTS = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0 9 * * 1-5", CronRule),
        ("*/5 0 9 * * 1-5", CronRule),
        ("H H * * *", CronRule),
        ("H,*/5 * * * *", CronRule),
        ("@daily", CronRule),
        ("@every 1h30m", EveryRule),
        ("P3W", PeriodRule),
        ("PT90S", PeriodRule),
        ("R/2026-01-31T09:00:00/P1M", PeriodRule),
        ("R5/PT6H", PeriodRule),
        ("2027-01-01T00:00:00Z", OnceRule),
        ("2027-01-01T00:00:00.5+02:00", OnceRule),
        ("every weekday at 9am in New York", CronRule),
        ("in 2 hours", DelayRule),
    ],
)
def test_the_dialect_is_detected_by_shape(text: str, kind: type) -> None:
    assert isinstance(parse_schedule(text).rule, kind)


@pytest.mark.parametrize(
    "text", ["0 9 * *", "0 9 * * * * * *", "1 2", "60 * * * *", "@noon", "R5/x/P1D", "2027-02-30T00:00Z"]
)
def test_an_error_is_reported_in_the_detected_dialect(text: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert "not understood" not in str(caught.value)


def test_an_anchored_interval_never_drifts() -> None:
    schedule = parse_schedule("@every 7m", start=T0)
    assert schedule.next_after(T0 - HOUR) == T0
    assert schedule.next_after(T0) == T0 + timedelta(minutes=7)
    assert schedule.next_after(T0 + timedelta(days=365, seconds=1)) == T0 + timedelta(minutes=7 * 75086)


@given(period_us=st.integers(1, 10**12), start=INSTANTS, after=INSTANTS)
def test_instants_of_an_interval_are_multiples_of_the_period(period_us: int, start: datetime, after: datetime) -> None:
    rule = EveryRule(period_us, to_us(start))
    next_us = rule.next_us(to_us(after))
    assert next_us is not None
    assert next_us > to_us(after)
    assert (next_us - to_us(start)) % period_us == 0
    assert next_us - period_us <= to_us(after) or next_us == to_us(start)


@given(
    months=st.integers(0, 30), days=st.integers(0, 40), hours=st.integers(0, 50), start=INSTANTS, after=INSTANTS,
    zone=st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]),
)  # fmt: skip
def test_occurrences_of_a_period_do_not_depend_on_the_starting_point(
    months: int, days: int, hours: int, start: datetime, after: datetime, zone: str
) -> None:
    if not months + days + hours:
        return
    text = f"R/{start.isoformat()}/P{months}M{days}DT{hours}H"
    schedule = parse_schedule(text, timezone=zone)
    assert schedule.next_after(start - HOUR) == start
    instants = list(islice(schedule.between(after, after + timedelta(days=366 * 20)), 6))
    for previous, instant in zip([after, *instants], instants, strict=False):
        assert previous < instant
        assert schedule.next_after(instant - timedelta(microseconds=1)) == instant
        assert schedule.next_after(previous + (instant - previous) / 2) == instant


def test_a_repeating_interval_ends_after_its_count() -> None:
    schedule = parse_schedule("R3/2026-01-31T09:00:00/P1M", timezone="Europe/Paris")
    runs = list(schedule.between(T0 - timedelta(days=900), T0 + timedelta(days=900)))
    assert [t.isoformat() for t in runs] == [
        "2026-01-31T08:00:00+00:00",
        "2026-02-28T08:00:00+00:00",
        "2026-03-31T07:00:00+00:00",
    ]


def test_anchor_sets_a_start_only_where_one_is_missing() -> None:
    unanchored = parse_schedule("P1M", timezone="UTC")
    assert not unanchored.anchored
    assert unanchored.next_after(T0) == datetime(2026, 12, 15, 12, tzinfo=UTC)
    fixed = unanchored.anchor(to_us(T0))
    assert fixed.anchored
    assert fixed == parse_schedule("P1M", start=T0)
    assert fixed.anchor(0) is fixed
    assert parse_schedule("@daily").anchored


def test_a_delay_is_counted_from_the_start() -> None:
    delay = parse_schedule("in 2 hours", start=T0)
    assert delay.next_after(T0) == T0 + 2 * HOUR
    assert delay.next_after(T0 + 2 * HOUR) is None
    assert parse_schedule("in 2 hours").next_after(T0) == T0 + 2 * HOUR


def test_the_window_includes_both_ends() -> None:
    schedule = parse_schedule("@hourly", start=T0, end="2026-11-15T15:00:00Z")
    assert list(schedule.between(T0 - 9 * HOUR, T0 + 9 * HOUR)) == [T0 + n * HOUR for n in range(4)]
    assert schedule.next_after(T0 + 3 * HOUR) is None
    with pytest.raises(InvalidSchedule, match="ends before it starts"):
        parse_schedule("@hourly", start=T0, end=T0 - HOUR)
    with pytest.raises(InvalidSchedule, match="needs a time zone"):
        parse_schedule("@hourly", start=datetime(2026, 1, 1))
    with pytest.raises(InvalidSchedule, match="not a date and time"):
        parse_schedule("@hourly", end="soon")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_instants_outside_the_calendar_are_rejected(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="not a valid date and time"):
        parse_schedule(text)
    with pytest.raises(InvalidSchedule):
        parse_schedule("@daily", start=text)


EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
BEFORE_YEAR_1, AFTER_YEAR_9999 = datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=WEST)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize(
    "text",
    [
        *(
            "* * * * *",
            "0 9 * * 1-5",
            "0 0 1 * *",
            "@every 1us",
            "@every 100h",
            "tomorrow at noon",
            "0001-01-01T12:00Z",
        ),
        *("P1D", "P1M", "P999999999Y", "R/0001-01-01T00:00:00Z/P1D", "R/0001-01-01T00:00:00Z/P1M"),
        *("R/9999-12-31T23:00:00Z/P1D", "R/2026-01-01T00:00:00Z/PT0.000001S", "9999-12-31T12:00Z"),
    ],
)
def test_the_search_stops_at_both_ends_of_the_calendar(text: str, zone: str) -> None:
    schedule = parse_schedule(text, timezone=zone)
    for instant in (BEFORE_YEAR_1, datetime.min.replace(tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)):
        next_run = schedule.next_after(instant)
        assert next_run is None or next_run > instant
        assert next(schedule.between(instant, AFTER_YEAR_9999), None) == next_run
    assert schedule.next_after(AFTER_YEAR_9999) is None
    assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_a_period_from_the_first_instant_works_west_of_utc() -> None:
    schedule = parse_schedule("R/0001-01-01T00:00:00Z/P1D", timezone="America/New_York")
    assert schedule.next_after(T0) == datetime(
        2026, 11, 16, 0, 3, 58, tzinfo=UTC
    )  # 19:03:58 by the zone's first offset, local mean time
    monthly = parse_schedule("R/0001-01-01T00:00:00Z/P1M", timezone="America/New_York")
    assert monthly.next_after(T0) == datetime(2026, 12, 1, 0, 3, 58, tzinfo=UTC)


@pytest.mark.parametrize("option", ["start", "end"])
def test_a_window_outside_the_calendar_is_rejected(option: str) -> None:
    for instant in (BEFORE_YEAR_1, AFTER_YEAR_9999):
        with pytest.raises(InvalidSchedule, match="not a date and time"):
            parse_schedule("@daily", **{option: instant})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timezone": 5}, "timezone must be the name of a time zone, got int"),
        ({"timezone": ZoneInfo("UTC")}, "got ZoneInfo"),
        ({"timezone": ""}, "unknown time zone ''"),
        ({"start": date(2026, 1, 1)}, "start must be a datetime with a time zone, or text, got date"),
        ({"end": 5}, "end must be"),
        ({"jitter": 30}, "jitter must be a timedelta or a duration"),
        ({"jitter": "9" * 5_000 + "s"}, "jitter has 5001 characters, allowed 256"),
        ({"start": "9" * 5_000}, "start has 5000 characters"),
        ({"timezone": "9" * 5_000}, "timezone has 5000 characters"),
        ({"jitter": timedelta(seconds=-1)}, "jitter is"),
        ({"jitter": timedelta.max}, "allowed 0 to 100 years"),
        ({"exclude": "2026-12-25"}, "exclude must be a list of texts, got str"),
        ({"exclude": None}, "exclude must be"),
        ({"exclude": [5]}, "exclusion is not a date"),
        ({"exclude": ["2026-12-25"] * 1_001}, "allowed 1000"),
        ({"key": None}, "key must be text, got NoneType"),
        ({"dialect": None}, "dialect is None"),
        ({"dst": "off"}, "dst policy is 'off'"),
    ],
)
def test_an_error_names_the_invalid_argument(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchedule, match=re.escape(message)):
        parse_schedule("@hourly", **options)


@pytest.mark.parametrize("wrong", [None, 5, b"@daily", {"@daily"}, [5]])
def test_an_expression_that_is_not_text_is_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidSchedule, match="must be text"):
        parse_schedule(wrong)


@pytest.mark.parametrize("offset", ["+01:60", "-00:75", "+24:00", "+1:00"])
def test_impossible_offsets_are_rejected(offset: str) -> None:
    for text in (f"2026-01-31T09:00:00{offset}", f"R5/2026-01-31T09:00:00{offset}/P1M", "2026-01-31T24:00:00Z"):
        with pytest.raises(InvalidSchedule):
            parse_schedule(text)


@pytest.mark.parametrize(("text", "us"), [("PT0.0000001S", 1), ("PT1.0000006S", 1_000_001), ("PT0.000000001H", 4)])
def test_periods_are_rounded_like_durations(text: str, us: int) -> None:
    assert parse_schedule(text).rule == PeriodRule(Period(us=us), get_zone("UTC"))


def test_exclusions_remove_runs() -> None:
    schedule = parse_schedule(
        "0 9 * * *", timezone="Europe/Paris", exclude=["2026-12-25", "2026-12-30/2027-01-02", "* * * * 0,6"]
    )
    start = datetime(2026, 12, 21, tzinfo=UTC)
    days = [t.date() for t in schedule.between(start, start + timedelta(days=15))]
    december = [date(2026, 12, d) for d in (21, 22, 23, 24, 28, 29)]
    assert days == [*december, date(2027, 1, 4)]


def test_an_excluded_cron_of_five_fields_covers_whole_minutes() -> None:
    schedule = parse_schedule("*/20 * * * * *", exclude=["1-59 * * * *"])
    runs = list(islice(schedule.between(T0, T0 + 3 * HOUR), 4))
    assert [(t.hour, t.minute, t.second) for t in runs] == [
        (12, 0, 20),
        (12, 0, 40),
        (13, 0, 0),
        (13, 0, 20),
    ]


@pytest.mark.parametrize("exclude", [["* * * * *"], ["0 * * * *"], ["0-29 * * * *", "30-59 * * * *"]])
def test_excluding_every_run_is_rejected(exclude: list[str]) -> None:
    with pytest.raises(InvalidSchedule, match="leave no run"):
        parse_schedule("0 9 * * *", exclude=exclude)


@pytest.mark.parametrize(
    "bad", ["2026-02-30", "2026-12-25/2026-12-24", "christmas", "", "* * *", "9" * 300, "² * * * *", "٣ * * * *"]
)
def test_invalid_exclusions_are_rejected(bad: str) -> None:
    with pytest.raises(InvalidSchedule, match="exclusion"):
        parse_schedule("@daily", exclude=[bad])


def test_jitter_is_bounded_and_deterministic() -> None:
    schedule = parse_schedule("@hourly", jitter="10m", key="nightly")
    spread = [schedule.due_us(to_us(t)) - to_us(t) for t in schedule.between(T0, T0 + 200 * HOUR)]
    assert all(0 <= us <= 600_000_000 for us in spread)
    assert len(set(spread)) > 190
    assert max(spread) - min(spread) > 500_000_000
    again = parse_schedule("@hourly", jitter=timedelta(minutes=10), key="nightly")
    assert again == schedule
    assert again.due_us(to_us(T0)) == schedule.due_us(to_us(T0))
    assert parse_schedule("@hourly", jitter="10m", key="other").due_us(to_us(T0)) != schedule.due_us(to_us(T0))
    assert parse_schedule("@hourly", key="nightly") == parse_schedule("@hourly")


@given(INSTANTS)
def test_microseconds_round_trip(instant: datetime) -> None:
    assert from_us(to_us(instant)) == instant


def test_naive_datetimes_are_rejected() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        parse_schedule("@daily").next_after(datetime(2026, 1, 1))


def test_schedules_and_their_errors_can_be_pickled() -> None:
    schedule = parse_schedule("0 9 * * 1-5", timezone="Europe/Paris", exclude=["2026-12-25"])
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule("0 25 * * *")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.field, copy.position) == (str(caught.value), "hour", 2)
