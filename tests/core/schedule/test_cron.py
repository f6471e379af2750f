"""Cron compared with a brute-force walk, its properties, its time limits, and its errors."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule
from chronos.errors import Invalid
from tests.support import brute_force_cron as brute

# One change of offset each: ordinary, half an hour, quarter-hour zone, two hours, at midnight, negative, a lost day.
CHANGES = [
    ("America/New_York", "2026-03-08T07:00Z"),
    ("America/New_York", "2026-11-01T06:00Z"),
    ("Europe/Dublin", "2026-03-29T01:00Z"),
    ("Europe/Dublin", "2026-10-25T01:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
    ("Pacific/Chatham", "2026-04-04T14:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00Z"),
    ("Antarctica/Troll", "2026-10-25T01:00Z"),
    ("Africa/Cairo", "2026-04-23T22:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00Z"),
    ("America/Sao_Paulo", "2018-02-18T02:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"),
    ("Asia/Kathmandu", "2026-02-28T18:15Z"),
    ("UTC", "2028-02-29T00:00Z"),
]


def _lists(item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(item, min_size=1, max_size=3).map(",".join)


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    step = st.integers(1, high)
    span = st.tuples(value, value).map(lambda ab: f"{min(ab)}-{max(ab)}")
    item = st.one_of(
        value.map(str),
        span,
        st.builds("{}/{}".format, span, step),
        st.builds("{}/{}".format, value, step),
        step.map("*/{}".format),
    )
    return st.one_of(st.just("*"), st.just("*"), _lists(item))


DAYS = st.one_of(
    _field(1, 31),
    st.just("?"),
    _lists(st.sampled_from(["L", "LW", "1W", "15W", "31W", "L-3", "L-30", "7", "10-12"])),
)
WEEKDAYS = st.one_of(
    _field(0, 6),
    st.just("?"),
    _lists(st.sampled_from(["1#1", "5#5", "0#2", "7#3", "5L", "0L", "7", "5-7", "2"])),
)
EXPRESSIONS = st.builds("{} {} {} {} {}".format, _field(0, 59), _field(0, 23), DAYS, _field(1, 12), WEEKDAYS)
#: Expressions that run around any date, so that they meet a change of offset.
BUSY = st.builds("{} {} * * *".format, _field(0, 59), _field(0, 23))
INSTANTS = st.datetimes(datetime(1950, 1, 1), datetime(2200, 1, 1)).map(lambda t: t.replace(tzinfo=UTC))
ZONES = st.sampled_from(sorted({name for name, _ in CHANGES}))


def _has_dates(expression: str) -> bool:
    try:
        parse_schedule(expression, dialect="standard")
    except InvalidSchedule as error:
        assert "never matches" in str(error)
        return False
    return True


@settings(max_examples=150)
@given(
    expression=st.one_of(BUSY, EXPRESSIONS.filter(_has_dates)),
    change=st.sampled_from(CHANGES),
    literal=st.booleans(),
    before=st.integers(0, 60 * 30),
)
def test_instants_equal_a_brute_force_walk(
    expression: str, change: tuple[str, str], literal: bool, before: int
) -> None:
    zone, at = change
    begin = datetime.fromisoformat(at) - timedelta(minutes=before)
    end = begin + timedelta(days=2)
    schedule = parse_schedule(expression, timezone=zone, dst="literal" if literal else "robust")
    expected = list(brute.walk(expression, zone, begin, end, literal=literal))
    assert list(schedule.between(begin, end)) == expected


@given(
    expression=EXPRESSIONS.filter(_has_dates),
    zone=ZONES,
    after=INSTANTS,
    dst=st.sampled_from(["robust", "literal"]),
)
def test_instants_increase_and_do_not_depend_on_the_starting_point(
    expression: str, zone: str, after: datetime, dst: str
) -> None:
    schedule = parse_schedule(expression, timezone=zone, dst=dst)
    end = after + timedelta(days=366 * 10)
    runs = list(islice(schedule.between(after, end), 20))
    assert all(a < b for a, b in zip([after, *runs], runs, strict=False))
    for previous, instant in zip([after, *runs], runs, strict=False):
        assert schedule.next_after(previous) == instant
        assert schedule.next_after(instant - timedelta(microseconds=1)) == instant
        assert schedule.next_after(previous + (instant - previous) / 2) == instant


@given(expression=EXPRESSIONS.filter(_has_dates), zone=ZONES)
def test_schedules_compare_and_hash_by_value(expression: str, zone: str) -> None:
    first, second = (parse_schedule(expression, timezone=zone) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first == parse_schedule(f"0 {expression}", timezone=zone, dialect="seconds")
    with pytest.raises(AttributeError):
        first.end_us = 5  # type: ignore[misc]


def test_seconds_do_not_change_the_policy() -> None:
    for text in ("0 30 2 * * *", "30 2 * * *"):
        schedule = parse_schedule(text, timezone="America/New_York")
        next_run = schedule.next_after(datetime(2026, 3, 8, tzinfo=UTC))
        assert next_run == datetime(2026, 3, 8, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("0 0 L * *", "2027-02-01", "2027-02-28"),
        ("0 0 L-3 * *", "2028-02-01", "2028-02-26"),
        ("0 0 15W * *", "2026-08-01", "2026-08-14"),
        ("0 0 1W * *", "2026-08-01", "2026-08-03"),
        ("0 0 31W * *", "2026-05-01", "2026-05-29"),
        ("0 0 LW * *", "2026-05-01", "2026-05-29"),
        ("0 0 * * MON#2", "2026-11-01", "2026-11-09"),
        ("0 0 * * 5L", "2026-11-01", "2026-11-27"),
        ("0 0 * * sunL", "2026-11-01", "2026-11-29"),
        ("0 0 ? * 7", "2026-11-02", "2026-11-08"),
        ("0 0 29 2 1#5", "2026-11-02", "2028-02-29"),
    ],
)
def test_extensions_of_other_schedulers(text: str, after: str, expected: str) -> None:
    next_run = parse_schedule(text).next_after(datetime.fromisoformat(f"{after}T00:00Z") - timedelta(seconds=1))
    assert next_run == datetime.fromisoformat(f"{expected}T00:00Z")


def test_hashed_fields_depend_only_on_the_key() -> None:
    schedules = {key: parse_schedule("H H * * *", key=key) for key in map(str, range(200))}
    repeated = parse_schedule("H H * * *", key="7")
    assert repeated == schedules["7"]
    assert parse_schedule("H * * * *", key="\udcff") == parse_schedule("H * * * *", key="\udcff")
    assert len(set(schedules.values())) > 150
    day = datetime(2026, 1, 1, tzinfo=UTC)
    for key in map(str, range(50)):
        every_20 = parse_schedule("H(10-29)/20 * * * *", key=key).next_after(day)
        assert every_20 is not None
        assert 10 <= every_20.minute <= 29
        monthly = list(parse_schedule("H H H * *", key=key).between(day, day + timedelta(days=364)))
        assert len(monthly) == 12  # never a day that is missing in some month


def test_a_zone_in_the_text_overrides_the_argument() -> None:
    schedule = parse_schedule("CRON_TZ=Asia/Tokyo 0 9 * * *", timezone="UTC")
    assert schedule == parse_schedule("0 9 * * *", timezone="Asia/Tokyo")
    assert parse_schedule("CRON_TZ=Asia/Tokyo @daily") == parse_schedule("@daily", timezone="Asia/Tokyo")
    for bad in (
        "CRON_TZ=",
        "CRON_TZ= 0 9 * * *",
        "CRON_TZ=Mars/Base 0 9 * * *",
        "CRON_TZ=Asia/Tokyo",
        "CRON_TZ=../UTC 0 9 * * *",
    ):
        with pytest.raises(InvalidSchedule):
            parse_schedule(bad)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30W 2 *", "0 0 L-30 2,4 *", "0 0 31 2-2 *"])
def test_dates_that_never_come_are_rejected_except_in_posix(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="never matches"):
        parse_schedule(text)
    if text == "0 0 30 2 *":
        schedule = parse_schedule(text, dialect="posix")
        assert schedule.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("text", "field", "position", "message"),
    [
        ("0 25 * * *", "hour", 2, 'cron field "hour" is 25, allowed 0–23\n    0 25 * * *\n      ^^'),
        ("0 9 * * monday", "weekday", 8, 'write "mon"'),
        ("*/0 * * * *", "minute", 0, "step of 0"),
        ("0 22-2 * * *", "hour", 2, 'write "22-23,0-2"'),
        ("0 0 * * sat-sun", "weekday", 8, "Sunday is 0"),
        ("0 0 1,,2 * *", "day", 4, "empty list item"),
        ("? * * * *", "minute", 0, 'write "\\*"'),
        ("0 0 * * L", "weekday", 8, "6L"),
        ("0 0 32W * *", "day", 4, "is 32, allowed 1–31"),
        ("0 0 * * 1#6", "weekday", 8, "allowed 1–5"),
        ("H(5-2) * * * *", "minute", 0, "backwards"),
    ],
)
def test_errors_have_the_field_position_and_reason(text: str, field: str, position: int, message: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text, dialect="standard")
    error = caught.value
    assert isinstance(error, Invalid)
    assert isinstance(error, ValueError)
    assert (error.expression, error.field, error.position) == (text, field, position)
    assert error.reason
    assert message.replace("\\", "") in str(error)


def test_an_error_after_a_zone_prefix_points_into_the_original_text() -> None:
    text = "CRON_TZ=Asia/Tokyo 0 25 * * *"
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert (caught.value.expression, caught.value.position) == (text, text.index("25"))


def test_an_error_in_a_translation_shows_the_words() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule("every feb 30")
    assert (caught.value.expression, caught.value.position) == ("every feb 30", None)
    assert "never matches" in str(caught.value)
    assert 'understood as "0 0 30 2 *"' in str(caught.value)


def test_errors_without_a_field_have_a_hint() -> None:
    for text, part in [
        ("* * * *", "has 4 fields, expected 5"),
        ("", "empty"),
        ("@dailyy", "is not a known macro"),
        ("@Daily", '"@daily"'),
        ("0 9 * * 1\u200b", "U+200B"),
        ("x" * 300, "has 300 characters, allowed 256"),
    ]:
        with pytest.raises(InvalidSchedule) as caught:
            parse_schedule(text, dialect="standard")
        assert part in str(caught.value)
    with pytest.raises(InvalidSchedule, match="did you mean 'Europe/Paris'"):
        parse_schedule("@daily", timezone="europe/paris")
    with pytest.raises(InvalidSchedule, match="allowed: auto, standard"):
        parse_schedule("@daily", dialect="cronexpr")


def _shortest_ms(run: Callable[[], object]) -> float:
    """Return the best CPU time of this thread in five runs, so that a busy machine does not matter."""
    times = []
    for _ in range(5):
        started_s = time.thread_time()
        run()
        times.append(time.thread_time() - started_s)
    return min(times) * 1000


@pytest.mark.parametrize(
    "text",
    ["0 0 29 2 1#5", "59 23 31 12 *", "0 0 29 2 *", "0 0 LW 2 *", "59 59 23 30W 2,12 *", "0 0 31 * 5#5"],
)
def test_the_search_takes_bounded_time(text: str) -> None:
    schedule = parse_schedule(text, timezone="America/New_York")
    for year in (1900, 2026, 2096, 2399, 9990):
        start = datetime(year, 3, 1, tzinfo=UTC)
        assert _shortest_ms(lambda start=start: schedule.next_after(start)) < 1  # type: ignore[misc]


@pytest.mark.parametrize("text", ["30 2 * * *", "*/20 * * * *", "0 0 29 2 *", "0 9 * * 1-5"])
def test_the_far_future_repeats_after_400_years(text: str) -> None:
    schedule = parse_schedule(text, timezone="America/New_York")
    cycle = timedelta(days=146_097)
    for start in (datetime(2450, 3, 1, tzinfo=UTC), datetime(2499, 12, 31, 23, 59, tzinfo=UTC)):
        near = list(islice(schedule.between(start, start + timedelta(days=9_000)), 2_000))
        far = list(islice(schedule.between(start + cycle, start + cycle + timedelta(days=9_000)), 2_000))
        assert [t + cycle for t in near] == far


def test_the_search_stops_at_the_end_of_the_calendar() -> None:
    for text in ("* * * * *", "0 0 29 2 *", "@every 1h", "P1M", "0 9 * * 1-5"):
        for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York", "UTC"):
            schedule = parse_schedule(text, timezone=zone)
            assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
            first_run = schedule.next_after(datetime.min.replace(tzinfo=UTC))
            assert first_run is not None or text == "P1M"  # the wall clock may still be in the year before year 1
