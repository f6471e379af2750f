"""Exclusions: they remove exactly the covered runs, have one normal form, and cost little time."""

import time
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule
from chronos.core.schedule.exclusions import NO_EXCLUSIONS, DateRange, parse_exclusions
from tests.core.schedule.test_cron import CHANGES
from tests.support import brute_force_cron as brute

MAX_CPU_S = 0.02  # of this thread; a few milliseconds, with room for a slow machine
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
CLOCKS = st.sampled_from(["*/7 *", "0 *", "*/10 1-3", "30-59 1", "* 1", "0-29 0,2", "15 */2", "* 22-23"])
DAYS = st.sampled_from(["* * *", "* * 0", "1-15 * *", "* */2 *", "L * *", "1W * *", "* * 6#1", "13 * 5", "*/2 * 0-3"])
CRONS = st.builds("{} {}".format, CLOCKS, DAYS)


@settings(max_examples=200)
@given(
    rule=st.sampled_from(["*/5 * * * *", "*/20 1,2 * * *", "10 * * * *", "0 */3 * * *"]),
    change=st.sampled_from(CHANGES),
    literal=st.booleans(),
    crons=st.lists(CRONS, min_size=1, max_size=4),
    days=st.lists(st.integers(-3, 3), max_size=2),
)
def test_only_runs_that_no_exclusion_covers_are_left(
    rule: str, change: tuple[str, str], literal: bool, crons: list[str], days: list[int]
) -> None:
    zone, at = change
    begin = datetime.fromisoformat(at) - timedelta(days=2)
    end = begin + timedelta(days=4)
    dates = [(begin + timedelta(days=n)).date() for n in days]
    matchers = [brute.matcher(cron) for cron in crons]

    def covered(run: datetime) -> bool:
        wall = run.astimezone(brute.zone(zone)).replace(tzinfo=None)
        return wall.date() in dates or any(matches(wall) for matches in matchers)

    dst = "literal" if literal or not brute.is_wildcard(rule) else "robust"
    plain = parse_schedule(rule, timezone=zone, dst=dst)
    expected = [run for run in plain.between(begin, end) if not covered(run)]
    try:
        schedule = parse_schedule(rule, timezone=zone, dst=dst, exclude=[*crons, *map(str, dates)])
    except InvalidSchedule:
        assert expected == []
        return
    assert list(schedule.between(begin, end)) == expected


def test_a_run_moved_by_a_gap_is_excluded_by_its_nominal_time() -> None:
    spring = datetime(2027, 3, 28, tzinfo=UTC)
    options = {"timezone": "Europe/Paris"}
    not_on_sundays = parse_schedule("30 2 * * *", exclude=["30 2 * * 0"], **options)
    assert not_on_sundays.next_after(spring) == datetime(2027, 3, 29, 0, 30, tzinfo=UTC)
    # 03:00 is a run of its own, so it remains.
    without_two = parse_schedule("0,30 2,3 * * *", exclude=["* 2 * * *"], **options)
    assert without_two.next_after(spring) == datetime(2027, 3, 28, 1, tzinfo=UTC)


def test_the_second_pass_of_a_repeated_hour_is_not_skipped_with_the_first() -> None:
    schedule = parse_schedule("*/15 * * * *", timezone="America/New_York", exclude=["30-59 1 * * *"])
    begin = datetime(2026, 11, 1, 5, tzinfo=UTC)
    runs = [run.strftime("%H:%M") for run in schedule.between(begin, begin + timedelta(hours=2))]
    assert runs == ["05:15", "06:00", "06:15", "07:00"]


def test_an_interval_without_a_start_is_counted_from_the_callers_instant() -> None:
    schedule = parse_schedule("@every 20s", exclude=["* 1-9 * * * *"])
    assert schedule.next_after(NEW_YEAR + timedelta(seconds=50)) == NEW_YEAR + timedelta(minutes=10, seconds=10)
    delay = parse_schedule("in 2 hours", exclude=["1970-01-01"])
    assert delay.next_after(NEW_YEAR) == NEW_YEAR + timedelta(hours=2)
    assert delay.next_after(datetime(1970, 1, 1, 5, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("texts", "dates", "crons"),
    [
        (["2026-12-26", "2026-12-24", "2026-12-25"], 1, 0),
        (["2026-12-24/2026-12-30", "2026-12-26", "2027-01-01"], 2, 0),
        (["0-29 * * * *", "30-59 * * * *"], 0, 1),
        (["0 9 * 1 *", "0 9 * 2 *", "0 9 * 3 *"], 0, 1),
        (["0 9 * * 1#1", "0 9 * * 2#5", "0 9 * * 5L"], 0, 1),
        (["0 9 L * *", "0 9 15W * *"], 0, 2),
    ],
)
def test_equal_exclusions_have_one_normal_form(texts: list[str], dates: int, crons: int) -> None:
    exclusions = parse_exclusions(texts)
    assert (len(exclusions.dates), len(exclusions.crons)) == (dates, crons)
    assert exclusions == parse_exclusions(reversed(texts)) or crons > 1
    assert not NO_EXCLUSIONS


def test_adjacent_dates_are_one_range() -> None:
    first = date(2026, 12, 24).toordinal() - date(1970, 1, 1).toordinal()
    assert parse_exclusions(["2026-12-24", "2026-12-25/2026-12-26"]).dates == (DateRange(first, first + 2),)


@pytest.mark.parametrize(
    ("expression", "exclude"),
    [
        ("@daily", ["0001-01-01/9999-12-31"]),  # its first run is instant 0, which is falsy
        ("0 9 * * *", ["0 9 * * *"]),
        ("* * * * *", ["0-29 * * * *", "30-59 * * * *"]),
        ("* * * * * *", ["0-29 * * * * *", "30-59 * * * * *"]),
        ("0 0 * * *", [f"0 0 * * {day}#{nth}" for day in range(7) for nth in range(1, 6)]),
        ("P1D", ["* * * * 0-3", "* * * * 4-6"]),
        ("2027-01-01", ["2027-01-01"]),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_exclusions_that_leave_no_run_are_rejected_quickly(expression: str, exclude: list[str], zone: str) -> None:
    parse_schedule("@daily", timezone=zone)
    times = []
    for _ in range(3):  # garbage collection may slow down one of them
        started_s = time.thread_time()
        with pytest.raises(InvalidSchedule, match="leave no run"):
            parse_schedule(expression, timezone=zone, exclude=exclude)
        times.append(time.thread_time() - started_s)
    assert min(times) < MAX_CPU_S * 2


def test_a_window_without_a_run_is_accepted_with_exclusions() -> None:
    window = {"start": "2026-01-01", "end": "2026-12-31"}
    assert parse_schedule("0 0 29 2 *", **window).next_after(NEW_YEAR) is None
    assert parse_schedule("0 0 29 2 *", exclude=["2026-05-05"], **window).next_after(NEW_YEAR) is None


@pytest.mark.parametrize(
    ("expression", "exclude", "expected"),
    [
        ("@daily", [str(date(2026, 1, 1) + timedelta(days=n)) for n in range(1_000)], "2028-09-27"),
        ("*/5 * * * *", ["*/5 * * 1-11 *"], "2026-12-01"),
        ("* * * * *", ["0-58 * * * *", "* * 1-28,30,31 * *", "* * 29 1,3-12 *"], "2028-02-29T00:59"),
        ("@every 1us", ["* * * * 0-5"], "2026-01-03"),
        ("PT1S", ["0-58 * * * * *", "59 0-58 * * * *"], "2026-01-01T00:59:59"),
    ],
)
def test_many_excluded_runs_are_skipped_quickly(expression: str, exclude: list[str], expected: str) -> None:
    schedule = parse_schedule(expression, exclude=exclude, start="2026-01-01")
    times = []
    for _ in range(3):
        started_s = time.thread_time()
        next_run = schedule.next_after(NEW_YEAR - timedelta(days=1))
        times.append(time.thread_time() - started_s)
    assert next_run == datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert min(times) < MAX_CPU_S


def test_a_schedule_does_not_end_at_a_long_exclusion() -> None:
    schedule = parse_schedule("*/5 * * * *", exclude=["*/5 * * 3-11 *", "*/5 * 1-30 12 *"], start="2026-01-01")
    assert sum(1 for _ in islice(schedule.between(NEW_YEAR, NEW_YEAR + timedelta(days=400)), 30_000)) > 17_000
    assert schedule.next_after(datetime(2026, 3, 1, tzinfo=UTC)) == datetime(2026, 12, 31, tzinfo=UTC)
