"""The effect of known clock changes on schedules."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos import Schedule, parse_schedule
from chronos.core.calendar import from_us, rfc3339, to_us
from chronos.core.schedule.dst import Oddity, OddityKind, find_oddities

YEARS = {  # the year examined per zone
    "America/New_York": 2027,  # 02:00 to 03:00 is missing on 14 March, 01:00 to 02:00 happens twice on 7 November
    "Europe/Paris": 2027,  # 02:00 to 03:00 is missing on 28 March and happens twice on 31 October
    "Australia/Lord_Howe": 2027,  # half an hour: 01:30 to 02:00 twice on 4 April, 02:00 to 02:30 missing on 3 October
    "America/Scoresbysund": 2027,  # 23:00 to 24:00 is missing on 27 March: the gap ends on the next date
    "Africa/Cairo": 2027,  # 00:00 to 01:00 is missing on 30 April
    "Pacific/Apia": 2011,  # the whole of 30 December is missing
    "Asia/Tokyo": 2027,  # nothing changes
}

CASES = [
    ("30 2 * * *", "America/New_York", "robust", ["moved 2027-03-14T07:00:00Z"]),
    ("30 2 * * *", "America/New_York", "literal", ["skipped 2027-03-14T07:00:00Z"]),
    ("30 1 * * *", "America/New_York", "robust", ["once 2027-11-07T05:30:00Z"]),
    ("30 1 * * *", "America/New_York", "literal", ["twice 2027-11-07T05:30:00Z"]),
    ("30 2 * * *", "Europe/Paris", "robust", ["moved 2027-03-28T01:00:00Z", "once 2027-10-31T00:30:00Z"]),
    ("30 2 * * *", "Europe/Paris", "literal", ["skipped 2027-03-28T01:00:00Z", "twice 2027-10-31T00:30:00Z"]),
    ("0 30 2 * * *", "Europe/Paris", "robust", ["moved 2027-03-28T01:00:00Z", "once 2027-10-31T00:30:00Z"]),
    ("15 2 * * *", "Australia/Lord_Howe", "robust", ["moved 2027-10-02T15:30:00Z"]),
    ("15 2 * * *", "Australia/Lord_Howe", "literal", ["skipped 2027-10-02T15:30:00Z"]),
    ("45 1 * * *", "Australia/Lord_Howe", "robust", ["once 2027-04-03T14:45:00Z"]),
    ("45 1 * * *", "Australia/Lord_Howe", "literal", ["twice 2027-04-03T14:45:00Z"]),
    ("30 23 * * *", "America/Scoresbysund", "robust", ["moved 2027-03-28T01:00:00Z", "once 2027-10-31T00:30:00Z"]),
    ("@daily", "Africa/Cairo", "robust", ["moved 2027-04-29T22:00:00Z"]),
    ("30 2 * * *", "Pacific/Apia", "robust", ["skipped 2011-12-30T10:00:00Z"]),
    ("30 2 * * *", "Pacific/Apia", "literal", ["skipped 2011-12-30T10:00:00Z"]),
    ("30 2 * * *", "Asia/Tokyo", "robust", []),
    ("30 2 * * *", "UTC", "robust", []),
    # Not at an affected hour, or not on an affected day.
    ("0 9 * * *", "Europe/Paris", "robust", []),
    ("30 2 * * 1-5", "Europe/Paris", "robust", []),
    # Intervals keep their length ...
    ("*/15 * * * *", "America/New_York", "robust", []),
    ("*/15 * * * *", "America/New_York", "literal", []),
    ("@hourly", "America/New_York", "robust", []),
    ("@hourly", "Pacific/Apia", "robust", []),
    ("* * * * * *", "America/New_York", "robust", []),
    ("*/30 * * * *", "Australia/Lord_Howe", "robust", []),
    ("@every 1h", "America/New_York", "robust", []),
    ("R/2027-01-01T02:30:00/PT24H", "America/New_York", "robust", []),
    # ... unless the change is not a multiple of them, or they do not run around the clock.
    ("@hourly", "Australia/Lord_Howe", "robust", ["skipped 2027-10-02T15:30:00Z"]),
    ("0 */2 * * *", "Europe/Paris", "robust", ["skipped 2027-03-28T01:00:00Z", "twice 2027-10-31T00:00:00Z"]),
    ("*/10 2 * * *", "America/New_York", "robust", ["skipped 2027-03-14T07:00:00Z"]),
    ("*/10 1 * * *", "America/New_York", "robust", ["twice 2027-11-07T05:00:00Z"]),
    ("30 1-4 * * *", "America/New_York", "literal", ["skipped 2027-03-14T07:00:00Z", "twice 2027-11-07T05:30:00Z"]),
    ("0 * * * 0", "America/New_York", "literal", []),
    ("* * 2 * * *", "America/New_York", "robust", ["skipped 2027-03-14T07:00:00Z"]),
    # Every hour, but spelt as fixed times: the repeated hour runs once.
    ("0 0-23 * * *", "America/New_York", "robust", ["once 2027-11-07T05:00:00Z"]),
    ("0 0-23 * * *", "America/New_York", "literal", []),
    ("5,35 0-23 * * *", "America/New_York", "robust", ["moved 2027-03-14T07:00:00Z", "once 2027-11-07T05:05:00Z"]),
    # Calendar periods, and instants, move by the length of the gap.
    ("R/2027-01-01T02:30:00/P1D", "America/New_York", "robust", ["moved 2027-03-14T07:30:00Z"]),
    ("R/2027-01-14T02:30:00/P1M", "America/New_York", "robust", ["moved 2027-03-14T07:30:00Z"]),
    ("R/2027-01-15T02:30:00/P1M", "America/New_York", "robust", []),
    ("R/2027-01-01T01:30:00/P1D", "America/New_York", "literal", ["once 2027-11-07T05:30:00Z"]),
    ("R/2011-12-01T02:30:00/P1D", "Pacific/Apia", "robust", ["moved 2011-12-30T12:30:00Z"]),
    ("2027-03-14T02:30:00", "America/New_York", "robust", ["moved 2027-03-14T07:30:00Z"]),
    ("2027-11-07T01:30:00", "America/New_York", "robust", ["once 2027-11-07T05:30:00Z"]),
    ("on 2027-11-07 at 1:30am in New York", "America/New_York", "robust", ["once 2027-11-07T05:30:00Z"]),
    ("on 14 March 2027 at 2:30am", "America/New_York", "robust", ["moved 2027-03-14T07:30:00Z"]),
    ("2027-03-14T02:30:00Z", "America/New_York", "robust", []),
    ("2027-11-07T01:30:00-05:00", "America/New_York", "robust", []),
]  # fmt: skip


def find_in_year(schedule: Schedule, year: int) -> list[Oddity]:
    return find_oddities(schedule, to_us(datetime(year, 1, 1, tzinfo=UTC)), to_us(datetime(year + 1, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize(("expression", "zone", "dst", "expected"), CASES)
def test_oddities_of_known_clock_changes(expression: str, zone: str, dst: str, expected: list[str]) -> None:
    schedule = parse_schedule(expression, timezone=zone, dst=dst)
    oddities = find_in_year(schedule, YEARS.get(zone, 2027))
    assert [f"{oddity.kind} {rfc3339(oddity.at_us)}" for oddity in oddities] == expected
    for oddity in oddities:
        assert oddity.kind == "skipped" or schedule.next_us(oddity.at_us - 1) == oddity.at_us


@pytest.mark.parametrize(
    ("expression", "zone", "dst", "message"),
    [
        (
            "30 2 * * *",
            "Europe/Paris",
            "robust",
            "02:30 Europe/Paris does not exist on 2027-03-28; it will run at 03:00 +02:00",
        ),
        (
            "30 2 * * *",
            "Europe/Paris",
            "literal",
            "02:30 Europe/Paris does not exist on 2027-03-28; it will be skipped",
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "robust",
            "01:30 America/New_York happens twice on 2027-11-07; it will run once, the first time, at 01:30 -04:00",
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "literal",
            "01:30 America/New_York happens twice on 2027-11-07; "
            "it will run twice, at 01:30 -04:00 and again at 01:30 -05:00",
        ),
        (
            "0,30 2 * * *",
            "Europe/Paris",
            "robust",
            "02:00 and 02:30 Europe/Paris do not exist on 2027-03-28; they will run once, at 03:00 +02:00",
        ),
        (
            "0 2,3 * * *",
            "Europe/Paris",
            "robust",
            "02:00 Europe/Paris does not exist on 2027-03-28; it will run at 03:00 +02:00, one run with that of 03:00",
        ),
        (
            "*/10 2 * * *",
            "Europe/Paris",
            "robust",
            "02:00 to 02:50 Europe/Paris (6 runs) do not exist on 2027-03-28; "
            'they will be skipped, because a schedule whose minute or hour begins with "*" '
            "does not run skipped times later",
        ),
        (
            "*/10 1 * * *",
            "America/New_York",
            "literal",
            "01:00 to 01:50 America/New_York (6 runs) happen twice on 2027-11-07; "
            "they will run twice, from 01:00 -04:00 and again from 01:00 -05:00",
        ),
        (
            "30 2 * * *",
            "Pacific/Apia",
            "robust",
            "02:30 Pacific/Apia does not exist on 2011-12-30; "
            "it will be skipped, because times skipped by so large a change do not run later",
        ),
        (
            "30 23 * * *",
            "America/Scoresbysund",
            "robust",
            "23:30 America/Scoresbysund does not exist on 2027-03-27; it will run at 00:00 -01:00 on 2027-03-28",
        ),
        (
            "* * 2 * * *",
            "Europe/Paris",
            "literal",
            "02:00 to 02:59:59 Europe/Paris (3,600 runs) do not exist on 2027-03-28; they will be skipped",
        ),
        (
            "R/2027-01-01T02:30:00/P1D",
            "Europe/Paris",
            "robust",
            "02:30 Europe/Paris does not exist on 2027-03-28; it will run at 03:30 +02:00",
        ),
    ],
)
def test_message_of_an_oddity(expression: str, zone: str, dst: str, message: str) -> None:
    schedule = parse_schedule(expression, timezone=zone, dst=dst)
    assert find_in_year(schedule, YEARS[zone])[0].message == message


MINUTES = st.sampled_from(["0", "15", "*", "*/10", "*/20", "0,30", "10-40/15", "59"])
HOURS = st.sampled_from(["*", "*/2", "1", "2", "1,2", "2,3", "0-23", "0-23/2", "23", "0"])


@given(minute=MINUTES, hour=HOURS, zone=st.sampled_from(sorted(YEARS)))
def test_there_is_an_oddity_wherever_the_policies_differ(minute: str, hour: str, zone: str) -> None:
    robust, literal = (
        parse_schedule(f"{minute} {hour} * * *", timezone=zone, dst=dst) for dst in ("robust", "literal")
    )
    day = 86_400_000_000
    year = YEARS[zone]
    begin, end = (datetime(y, 1, 1, tzinfo=UTC) for y in (year, year + 1))
    for at, _, _ in robust.zone.transitions(int(begin.timestamp()), int(end.timestamp())):
        around = from_us(at * 1_000_000 - day), from_us(at * 1_000_000 + day)
        missing = set(literal.between(*around)) - set(robust.between(*around))
        added = set(robust.between(*around)) - set(literal.between(*around))
        oddities = find_oddities(robust, to_us(around[0]), to_us(around[1]))
        assert len(oddities) <= 1
        kinds = {oddity.kind for oddity in oddities}
        if added:
            assert kinds == {OddityKind.MOVED}
        if missing:
            assert kinds == {OddityKind.ONCE}
        assert bool(missing) == (OddityKind.ONCE in kinds)


def test_excluded_runs_and_runs_outside_the_window_have_no_oddity() -> None:
    def kinds(dst: str = "robust", **options: str) -> list[str]:
        exclude = [options.pop("exclude")] if "exclude" in options else []
        schedule = parse_schedule("30 2 * * *", timezone="Europe/Paris", dst=dst, exclude=exclude, **options)
        return [oddity.kind for oddity in find_in_year(schedule, 2027)]

    assert kinds(exclude="2027-03-28") == ["once"]
    assert kinds(exclude="2027-03-28", dst="literal") == ["twice"]
    assert kinds(exclude="2027-10-01/2027-10-31") == ["moved"]
    assert kinds(start="2027-05-01") == ["once"]
    assert kinds(start="2027-05-01", dst="literal") == ["twice"]
    assert kinds(end="2027-05-01") == ["moved"]
    assert kinds(end="2027-01-05", dst="literal") == []


def test_an_interval_without_a_start_has_no_oddity() -> None:
    daily = parse_schedule("P1D", timezone="Europe/Paris")
    assert find_in_year(daily, 2027) == []
    anchored = daily.anchor(to_us(datetime(2027, 1, 1, 1, 30, tzinfo=UTC)))
    assert [oddity.kind for oddity in find_in_year(anchored, 2027)] == ["moved", "once"]


def test_a_relative_time_moves_by_the_length_of_the_gap() -> None:
    eve = to_us(datetime(2027, 3, 27, 10, tzinfo=UTC))
    tomorrow = parse_schedule("tomorrow at 02:30", timezone="Europe/Paris").anchor(eve)
    (moved,) = find_in_year(tomorrow, 2027)
    assert moved.message == "02:30 Europe/Paris does not exist on 2027-03-28; it will run at 03:30 +02:00"
    assert find_in_year(parse_schedule("in 16 hours", timezone="Europe/Paris").anchor(eve), 2027) == []


def test_changes_at_the_edges_of_the_range() -> None:
    schedule = parse_schedule("30 1 * * *", timezone="America/New_York")
    change = to_us(datetime(2027, 11, 7, 6, tzinfo=UTC))
    hour, second = 3_600_000_000, 1_000_000
    assert len(find_oddities(schedule, change - 5 * hour, change)) == 1
    assert len(find_oddities(schedule, change - 5 * hour, change - second)) == 0
    # During the repeated hour, the oddity is still reported.
    assert len(find_oddities(schedule, change + hour - second, change + 2 * hour)) == 1
    assert len(find_oddities(schedule, change + hour, change + 2 * hour)) == 0


def test_many_years_of_every_second_take_little_time() -> None:
    schedule = parse_schedule("* * 1-3 * * *", timezone="America/New_York")
    oddities = find_oddities(schedule, to_us(datetime(2027, 1, 1, tzinfo=UTC)), to_us(datetime(2037, 1, 1, tzinfo=UTC)))
    assert len(oddities) <= 20
