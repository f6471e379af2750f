"""What only ``auto`` and ``quartz`` accept: habits from other schedulers. The strict dialects reject all of it."""

import re
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule

STRICT = ("standard", "seconds", "posix")
NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


def first(expression: str, count: int = 3, **options: Any) -> list[str]:
    schedule = parse_schedule(expression, **options)
    return [f"{t:%Y-%m-%d %H:%M}" for t in islice(schedule.between(NEW_YEAR, datetime.max.replace(tzinfo=UTC)), count)]


@pytest.mark.parametrize(
    ("written", "means"),
    [
        # Blanks and line ends around it.
        ("0 9 * * *\n", "0 9 * * *"),
        ("\r\n 0 9 * * * \t", "0 9 * * *"),
        ("@daily ", "@daily"),
        (" @every  5m\n", "@every 5m"),
        ("P1D ", "P1D"),
        ("\tR5/PT6H", "R5/PT6H"),
        ("every day at 9am\n", "0 9 * * *"),
        ("2027-01-01T09:00:00Z\n", "2027-01-01T09:00:00Z"),
        # Ranges that wrap around.
        ("0 9 * * MON-SUN", "0 9 * * 1-7"),
        ("0 9 * * FRI-MON", "0 9 * * 5,6,0,1"),
        ("0 9 * * SAT-SUN", "0 9 * * 6,0"),
        ("0 9 * * 7-2", "0 9 * * 0,1,2"),
        ("0 9 * * 6-1", "0 9 * * 6,0,1"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("50-10/5 * * * *", "50,55,0,5,10 * * * *"),
        ("0 0 30-2 * *", "0 0 30,31,1,2 * *"),
        ("0 0 1 nov-feb *", "0 0 1 11,12,1,2 *"),
        # Names, macros and letters in any case.
        ("0 9 * January Monday", "0 9 * 1 1"),
        ("0 9 * DECEMBER-feb tuesday,Thursday", "0 9 * 12,1,2 2,4"),
        ("0 9 * * Friday#2", "0 9 * * 5#2"),
        ("0 9 * * fridayl", "0 9 * * 5L"),
        ("@Daily", "@daily"),
        ("@EVERY 5m", "@every 5m"),
        ("0 0 l * *", "0 0 L * *"),
        ("0 0 l-3 * *", "0 0 L-3 * *"),
        ("0 0 15w,lw * *", "0 0 15W,LW * *"),
        ("0 0 L-0W * *", "0 0 LW * *"),
        # Units and zones.
        ("@every 5d", "@every 120h"),
        ("@every 1d12h", "@every 36h"),
        ("TZ=Asia/Tokyo 0 9 * * *", "CRON_TZ=Asia/Tokyo 0 9 * * *"),
        # The year.
        ("0 0 9 * * * *", "0 9 * * *"),
    ],
)
def test_auto_reads_habits_of_other_schedulers(written: str, means: str) -> None:
    assert parse_schedule(written) == parse_schedule(means)
    if "every day" not in written and not written.startswith(("P", "\tR", "2027")):
        for dialect in STRICT:
            with pytest.raises(InvalidSchedule):
                parse_schedule(written, dialect=dialect)


def test_a_blank_separates_date_and_time() -> None:
    assert parse_schedule("2030-01-01 18:33") == parse_schedule("2030-01-01T18:33:00")
    assert parse_schedule("2030-01-01 18:33:00+02:00") == parse_schedule("2030-01-01T18:33:00+02:00")
    assert parse_schedule("@daily", start="2030-01-01 18:33", end=" 2030-02-01 18:33\n", timezone="Asia/Tokyo") == (
        parse_schedule("@daily", start="2030-01-01T09:33:00Z", end="2030-02-01T09:33:00Z", timezone="Asia/Tokyo")
    )
    for text in ("R/2030-01-01 18:33/P1D", "R/2030-01-01T18:33Z\n/P1D", "R/\t2030-01-01/P1D"):
        with pytest.raises(InvalidSchedule):
            parse_schedule(text)
        with pytest.raises(InvalidSchedule):
            parse_schedule(text, dialect="iso8601")


def test_weekday_nearest_to_a_day_before_the_last() -> None:
    # 28 January and 25 February are a Thursday; 28 March, 30 - 3 in April and so on may be weekends.
    assert first("0 0 L-3W * *", 4) == ["2027-01-28 00:00", "2027-02-25 00:00", "2027-03-29 00:00", "2027-04-27 00:00"]
    # 31 - 1 = 30 January is a Saturday, 30 May - 1 a Sunday: within the month, to the nearest weekday.
    assert first("0 0 L-1W 1,5 *", 2) == ["2027-01-29 00:00", "2027-05-31 00:00"]


@pytest.mark.parametrize(
    ("expression", "runs"),
    [
        ("0 0 9 * * * 2030", ["2030-01-01 09:00", "2030-01-02 09:00", "2030-01-03 09:00"]),
        ("0 0 9 1 1 * 2028,2031-2032", ["2028-01-01 09:00", "2031-01-01 09:00", "2032-01-01 09:00"]),
        ("0 0 0 29 2 * 2027/1", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]),
        ("0 0 0 1 1 * 2098-2099", ["2098-01-01 00:00", "2099-01-01 00:00"]),
        ("0 0 0 1 1 * 2020", []),
        ("on 1 January at noon in 2029", ["2029-01-01 12:00"]),
    ],
)
def test_years(expression: str, runs: list[str]) -> None:
    assert first(expression) == runs
    schedule = parse_schedule(expression)
    far = datetime(9000, 1, 1, tzinfo=UTC)
    assert schedule.next_after(far) is None
    if runs:
        before = schedule.next_after(datetime(1, 1, 2, tzinfo=UTC))
        assert before is not None
        assert before.year >= 1970


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("0 0 9 * * * 1969", 'field "year" is 1969, allowed 1970–2099'),
        ("0 0 9 * * * 2030-2020", "goes backwards"),
        ("0 0 0 29 2 * 2027", "never matches"),
        ("0 0 0 31 4,6 * 2027-2040", "never matches"),
        ("0 9 * * * * * *", "has 8 fields, expected 5 or 6 or 7"),
        ("0 9 * * L5", 'write "5L"'),
        ("0 0 L-31W * *", "goes 31 days back"),
        ("@every 5m to 5m", "not longer at its end"),
        ("@every 5m to", 'has the unit "m to"'),
        ("@every 5d to 1w", 'has the unit "w"'),
        ("every 10 to 5 minutes", "not longer at its end"),
        ("every 1 to 2 months", "random interval of months"),
        ("every 5 to 10 minutes on Mondays", "cannot be combined with a random interval"),
        ("every 5 minutes to 1 hour by the clock", "follows neither the clock"),
        ("every 5 to 10 minutes, 5 times", "cannot be combined with a random interval"),
        ("every 36 hours at 10:30", "cannot be combined"),
        ("every 2 days at 10:30 on Mondays", "cannot be combined"),
        ("every 2 weeks on Monday and Friday", "cannot be combined"),
        ("every 2 weeks on Monday at 9am and noon", "cannot be combined"),
        ("every 2 weeks on the first Monday", "cannot be combined"),
        ("every 3 months on Monday", "cannot be combined"),
        ("every 2 weeks on Monday counted from 2027-01-01T00:00:00Z", "cannot be combined"),
    ],
)
def test_rejections_say_why(expression: str, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=re.escape(says)):
        parse_schedule(expression)


@pytest.mark.parametrize(
    ("expression", "means"),
    [
        ("0 0 12 ? * 2-6", "0 12 * * 1-5"),
        ("0 0 12 ? * MON-FRI", "0 12 * * 1-5"),
        ("0 0 12 ? * 1", "0 12 * * 0"),
        ("0 0 12 ? * 7", "0 12 * * 6"),
        ("0 0 12 ? * L", "0 12 * * 6"),
        ("0 0 12 ? * 6L", "0 12 * * 5L"),
        ("0 0 12 ? * 6#3", "0 12 * * 5#3"),
        ("0 0 12 ? * FRI-MON", "0 12 * * 5,6,0,1"),
        ("0 0 12 ? * 6-2", "0 12 * * 5,6,0,1"),
        ("0 0 12 ? * */2", "0 12 * * 0,2,4,6"),
        ("0 0 12 1 * ?", "0 12 1 * *"),
        ("0 0 12 * * *", "0 12 * * *"),
        ("0 0/5 14 * * ?", "0/5 14 * * *"),
        ("0 /5 14 * * ?", "0/5 14 * * *"),
        ("/20 3,/30 9 * * ?", "*/20 0,3,30 9 * * *"),
        ("0 0 12 /10 * ?", "0 12 1,11,21,31 * *"),
        ("0 0 12 ? /4 /3", "0 12 * 1,5,9 0,3,6"),
        ("0 0 12 1 1 ? /2", "0 0 12 1 1 * 1970/2"),
        ("0 15 10 L-2W * ?", "15 10 L-2W * *"),
        ("0 15 10 ? * 2-6 2027-2029", "0 15 10 * * 1-5 2027-2029"),
    ],
)
def test_quartz(expression: str, means: str) -> None:
    runs = first(expression, 20, dialect="quartz")
    assert runs == first(means, 20)
    assert first(parse_schedule(expression, dialect="quartz").describe(), 20) == runs


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("0 12 ? * 2-6", "has 5 fields, expected 6 or 7"),
        ("0 0 12 ? * 0", "is 0, allowed 1–7"),
        ("0 / 12 * * ?", 'has the step ""'),
        ("0 /0 12 * * ?", "has a step of 0"),
        ("0 /-5 12 * * ?", 'has the step "-5"'),
        ("0 0 12 1 * 2", "restricts both the day and the weekday"),
        ("0 0 12 */2 * MON", "restricts both the day and the weekday"),
        ("@daily", "has 1 field"),
        ("@every 5m", "has 2 fields"),
        ("every day", "has 2 fields"),
    ],
)
def test_quartz_rejects(expression: str, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        parse_schedule(expression, dialect="quartz")


def test_a_period_at_a_time_of_day_begins_at_the_first_such_time() -> None:
    morning = parse_schedule("every 2 days at 10:30", start="2027-01-01T08:00:00Z")
    evening = parse_schedule("every 2 days at 10:30", start="2027-01-01T20:00:00Z")
    exact = parse_schedule("every 2 days at 10:30", start="2027-01-01T10:30:00Z")
    later = datetime(2027, 1, 6, tzinfo=UTC)
    days = [[t.day for t in one.between(datetime(2026, 1, 1, tzinfo=UTC), later)] for one in (morning, evening, exact)]
    assert days == [[1, 3, 5], [2, 4], [1, 3, 5]]
    thrice = parse_schedule("every 2 days at 10:30, 3 times", start="2027-01-01T08:00:00Z")
    assert len(list(thrice.between(datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)))) == 3


@pytest.mark.parametrize("dialect", ["auto", "seconds"])
def test_only_quartz_has_steps_without_a_start(dialect: str) -> None:
    with pytest.raises(InvalidSchedule, match="a value is missing"):
        parse_schedule("0 /5 14 * * ?", dialect=dialect)


@pytest.mark.parametrize(
    ("words", "start", "days"),
    [
        ("every 3 weeks on Monday", "2027-01-01T08:00:00Z", ["Mon 04 00:00", "Mon 25 00:00"]),
        ("every 2 weeks on Friday at 09:00", "2027-01-01T08:00:00Z", ["Fri 01 09:00", "Fri 15 09:00"]),
        ("every 2 weeks on Friday at 09:00", "2027-01-01T09:00:00Z", ["Fri 01 09:00", "Fri 15 09:00"]),
        ("every 2 weeks on Friday at 09:00", "2027-01-01T09:00:01Z", ["Fri 08 09:00", "Fri 22 09:00"]),
        ("every other week on Sunday at noon", "2027-01-01T00:00:00Z", ["Sun 03 12:00", "Sun 17 12:00"]),
        ("every 2 weeks on Tuesday from 2027-01-06 at 9am", None, ["Tue 12 09:00", "Tue 26 09:00"]),
        ("every 2 weeks on Monday, 2 times", "2027-01-01T00:00:00Z", ["Mon 04 00:00", "Mon 18 00:00"]),
    ],
)
def test_weeks_begin_at_the_first_such_weekday(words: str, start: str | None, days: list[str]) -> None:
    schedule = parse_schedule(words, start=start)
    runs = schedule.between(datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC))
    assert [f"{t:%a %d %H:%M}" for t in islice(runs, 2)] == days
    assert parse_schedule(schedule.describe()) == schedule
    assert "on " in schedule.describe()


@given(
    st.integers(2, 60),
    st.integers(0, 6),
    st.none() | st.integers(0, 23),
    st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)),
    st.sampled_from(["UTC", "Europe/Paris", "Pacific/Auckland", "America/New_York"]),
)
def test_weeks_on_a_weekday(weeks: int, weekday: int, hour: int | None, start: datetime, zone: str) -> None:
    name = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")[weekday]
    at = "" if hour is None else f" at {hour:02d}:00"
    start = start.replace(tzinfo=UTC)
    schedule = parse_schedule(f"every {weeks} weeks on {name}{at}", start=start, timezone=zone)
    assert parse_schedule(schedule.describe()) == schedule
    runs = list(islice(schedule.between(start - timedelta(seconds=1), start + timedelta(weeks=200)), 3))
    walls = [run.astimezone(ZoneInfo(zone)) for run in runs]
    assert {f"{wall:%A}" for wall in walls} == {name}
    assert start <= runs[0] < start + timedelta(days=7, hours=2)
    assert {(b.date() - a.date()).days for a, b in pairwise(walls)} == {7 * weeks}


def test_a_period_keeps_its_time_through_clock_changes() -> None:
    # 02:30 does not exist on 28 March 2027 in Paris: that run is an hour later, the others are not.
    schedule = parse_schedule("every 2 days at 02:30", timezone="Europe/Paris", start="2027-03-26T00:00:00Z")
    runs = islice(schedule.between(datetime(2027, 3, 25, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)), 3)
    assert [f"{t:%d %H:%M}" for t in runs] == ["26 01:30", "28 01:30", "30 00:30"]
    in_the_gap = parse_schedule("every 2 days at 02:30", timezone="Europe/Paris", start="2027-03-28T00:00:00Z")
    runs = islice(in_the_gap.between(datetime(2027, 3, 25, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)), 2)
    assert [f"{t:%d %H:%M}" for t in runs] == ["28 01:30", "30 00:30"]


@given(
    st.integers(0, 59), st.integers(0, 23), st.integers(1, 12), st.integers(0, 6), st.integers(1, 12), st.integers(0, 6)
)
def test_wrapped_ranges_are_the_two_parts(a: int, b: int, m: int, w: int, n: int, v: int) -> None:
    def join(low: int, high: int, first_value: int, last_value: int) -> str:
        return f"{low}-{high}" if low <= high else f"{low}-{last_value},{first_value}-{high}"

    wrapped = parse_schedule(f"{a}-{b} {b}-{a % 24} * {m}-{n} {w}-{v}")
    written = parse_schedule(f"{join(a, b, 0, 59)} {join(b, a % 24, 0, 23)} * {join(m, n, 1, 12)} {join(w, v, 0, 6)}")
    assert wrapped == written
