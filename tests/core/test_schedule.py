"""Schedules other than cron, what surrounds a rule (window, exclusions, jitter), and telling dialects apart."""

import pickle
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule
from chronos.core.calendar import from_us, to_us
from chronos.core.cron import CronRule
from chronos.core.every import EveryRule
from chronos.core.iso8601 import PeriodRule
from chronos.core.once import LaterRule, OnceRule

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
        ("in 2 hours", LaterRule),
    ],
)
def test_the_dialect_is_told_by_its_shape(text: str, kind: type) -> None:
    assert isinstance(parse_schedule(text).rule, kind)


@pytest.mark.parametrize(
    "text", ["0 9 * *", "0 9 * * * * *", "1 2", "60 * * * *", "@noon", "R5/x/P1D", "2027-02-30T00:00Z"]
)
def test_a_slip_is_reported_in_its_own_dialect(text: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert "not understood" not in str(caught.value)


def test_every_is_anchored_and_never_drifts() -> None:
    schedule = parse_schedule("@every 7m", start=T0)
    assert schedule.next_after(T0 - HOUR) == T0
    assert schedule.next_after(T0) == T0 + timedelta(minutes=7)
    assert schedule.next_after(T0 + timedelta(days=365, seconds=1)) == T0 + timedelta(minutes=7 * 75086)


@given(period_us=st.integers(1, 10**12), start=INSTANTS, after=INSTANTS)
def test_every_answers_are_multiples_of_the_period(period_us: int, start: datetime, after: datetime) -> None:
    rule = EveryRule(period_us, to_us(start))
    found = rule.next_us(to_us(after))
    assert found is not None
    assert found > to_us(after)
    assert (found - to_us(start)) % period_us == 0
    assert found - period_us <= to_us(after) or found == to_us(start)


@given(
    months=st.integers(0, 30), days=st.integers(0, 40), hours=st.integers(0, 50), start=INSTANTS, after=INSTANTS,
    zone=st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]),
)  # fmt: skip
def test_iso_periods_answer_alike_from_anywhere(
    months: int, days: int, hours: int, start: datetime, after: datetime, zone: str
) -> None:
    if not months + days + hours:
        return
    text = f"R/{start.isoformat()}/P{months}M{days}DT{hours}H"
    schedule = parse_schedule(text, timezone=zone)
    assert schedule.next_after(start - HOUR) == start
    found = list(islice(schedule.between(after, after + timedelta(days=366 * 20)), 6))
    for previous, instant in zip([after, *found], found, strict=False):
        assert previous < instant
        assert schedule.next_after(instant - timedelta(microseconds=1)) == instant
        assert schedule.next_after(previous + (instant - previous) / 2) == instant


def test_a_count_is_all_there_is() -> None:
    schedule = parse_schedule("R3/2026-01-31T09:00:00/P1M", timezone="Europe/Paris")
    found = list(schedule.between(T0 - timedelta(days=900), T0 + timedelta(days=900)))
    assert [t.isoformat() for t in found] == [
        "2026-01-31T08:00:00+00:00",
        "2026-02-28T08:00:00+00:00",
        "2026-03-31T07:00:00+00:00",
    ]


def test_anchoring() -> None:
    loose = parse_schedule("P1M", timezone="UTC")
    assert not loose.anchored
    assert loose.next_after(T0) == datetime(2026, 12, 15, 12, tzinfo=UTC)
    fixed = loose.anchor(to_us(T0))
    assert fixed.anchored
    assert fixed == parse_schedule("P1M", start=T0)
    assert fixed.anchor(0) is fixed
    assert parse_schedule("@daily").anchored


def test_later_rules_count_from_the_start() -> None:
    soon = parse_schedule("in 2 hours", start=T0)
    assert soon.next_after(T0) == T0 + 2 * HOUR
    assert soon.next_after(T0 + 2 * HOUR) is None
    assert parse_schedule("in 2 hours").next_after(T0) == T0 + 2 * HOUR


def test_the_window_includes_both_ends() -> None:
    schedule = parse_schedule("@hourly", start=T0, end="2026-11-15T15:00:00Z")
    assert list(schedule.between(T0 - 9 * HOUR, T0 + 9 * HOUR)) == [T0 + n * HOUR for n in range(4)]
    assert schedule.next_after(T0 + 3 * HOUR) is None
    with pytest.raises(InvalidSchedule, match="ends before it starts"):
        parse_schedule("@hourly", start=T0, end=T0 - HOUR)
    with pytest.raises(InvalidSchedule, match="needs a time zone"):
        parse_schedule("@hourly", start=datetime(2026, 1, 1))
    with pytest.raises(InvalidSchedule, match="no date and time"):
        parse_schedule("@hourly", end="soon")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_instants_outside_the_calendar_are_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="calendar"):
        parse_schedule(text)
    with pytest.raises(InvalidSchedule):
        parse_schedule("@daily", start=text)


def test_exclusions() -> None:
    schedule = parse_schedule(
        "0 9 * * *", timezone="Europe/Paris", exclude=["2026-12-25", "2026-12-30/2027-01-02", "* * * * 0,6"]
    )
    start = datetime(2026, 12, 21, tzinfo=UTC)
    days = [t.date() for t in schedule.between(start, start + timedelta(days=15))]
    december = [date(2026, 12, d) for d in (21, 22, 23, 24, 28, 29)]
    assert days == [*december, date(2027, 1, 4)]


def test_an_excluded_cron_of_five_fields_takes_whole_minutes() -> None:
    schedule = parse_schedule("*/20 * * * * *", exclude=["1-59 * * * *"])
    found = list(islice(schedule.between(T0, T0 + 3 * HOUR), 4))
    assert [(t.hour, t.minute, t.second) for t in found] == [
        (12, 0, 20),
        (12, 0, 40),
        (13, 0, 0),
        (13, 0, 20),
    ]


@pytest.mark.parametrize("exclude", [["* * * * *"], ["0 * * * *"], ["0-29 * * * *", "30-59 * * * *"]])
def test_excluding_everything_is_refused(exclude: list[str]) -> None:
    with pytest.raises(InvalidSchedule, match="leave nothing over"):
        parse_schedule("0 9 * * *", exclude=exclude)


@pytest.mark.parametrize(
    "bad", ["2026-02-30", "2026-12-25/2026-12-24", "christmas", "", "* * *", "9" * 300, "² * * * *", "٣ * * * *"]
)
def test_bad_exclusions(bad: str) -> None:
    with pytest.raises(InvalidSchedule, match="exclusion"):
        parse_schedule("@daily", exclude=[bad])


def test_jitter_is_bounded_and_the_same_everywhere() -> None:
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


def test_naive_datetimes_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        parse_schedule("@daily").next_after(datetime(2026, 1, 1))


def test_schedules_and_their_errors_cross_processes() -> None:
    schedule = parse_schedule("0 9 * * 1-5", timezone="Europe/Paris", exclude=["2026-12-25"])
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule("0 25 * * *")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.field, copy.position) == (str(caught.value), "hour", 2)
