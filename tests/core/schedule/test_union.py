"""Unions: all instants of all members, each once, in order."""

from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule
from chronos.core.calendar import SECOND_US, to_us
from chronos.core.job import ScheduleSpec
from chronos.core.planner import activate_schedule
from chronos.core.schedule.dst import find_oddities
from chronos.core.schedule.occurrences import count_instants
from chronos.core.schedule_change import diff

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
NOW_US = to_us(NEW_YEAR)
HOUR_US = 3600 * SECOND_US

MEMBERS = st.sampled_from(
    [
        *("0 9 * * *", "*/15 * * * *", "0 */6 * * MON-FRI", "30 2 * * *", "0 0 9 1 1 ? 2027", "@every 7h", "P1D"),
        *("2027-01-01T09:00:00Z", "every 2 days at 10:30", "every 3 to 5 hours", "Mondays at 17:30 in Tokyo"),
        *("daily at 9am until 2027-01-03", "@hourly"),
    ]
)


@settings(max_examples=100)
@given(st.lists(MEMBERS, min_size=1, max_size=5), st.sampled_from(["UTC", "Europe/Paris"]))
def test_a_union_has_the_instants_of_its_members(texts: list[str], timezone: str) -> None:
    options = {"timezone": timezone, "start": "2027-01-01T00:05:00Z", "key": "k"}
    until = datetime(2027, 1, 9, tzinfo=UTC)
    union = parse_schedule(texts, **options)
    expected = {t for text in texts for t in parse_schedule(text, **options).between(NEW_YEAR, until)}
    assert list(union.between(NEW_YEAR, until)) == sorted(expected)
    if expected:
        first_us = to_us(min(expected))
        assert count_instants(union, first_us, to_us(until), 10_000).count == len(expected)


def test_one_expression_is_not_a_union() -> None:
    assert parse_schedule(["@daily"]) == parse_schedule(("@daily",)) == parse_schedule("@daily")


def test_text_and_list_are_the_same() -> None:
    listed = parse_schedule(["0 9 * * *", "Mondays at 17:30"], timezone="Europe/Paris")
    assert listed.text == "0 9 * * *; also Mondays at 17:30"
    assert parse_schedule("0 9 * * *;also  Mondays at 17:30", timezone="Europe/Paris") == listed
    assert parse_schedule(listed.text, dialect="auto", timezone="Europe/Paris") == listed


def test_a_stored_union_is_read_in_its_own_dialect() -> None:
    spec = ScheduleSpec(text="0 0 12 ? * 2; also 0 0 12 ? * 3", dialect="quartz")
    assert spec.parse("job").describe() == "Mondays at 12:00, UTC; also Tuesdays at 12:00, UTC"
    with pytest.raises(InvalidSchedule):
        parse_schedule(spec.text, dialect="quartz")


def test_intervals_of_a_union_are_anchored_when_it_is_activated() -> None:
    union = parse_schedule(["0 9 * * *", "@every 5h"])
    assert not union.anchored
    activated = activate_schedule(union, NOW_US)
    assert activated.schedule.anchored
    assert activated.schedule.anchor_us == NOW_US
    hours = [t.hour for t in islice(activated.schedule.between(NEW_YEAR, datetime(2027, 1, 2, tzinfo=UTC)), 5)]
    assert hours == [5, 9, 10, 15, 20]
    stored = ScheduleSpec(text=union.text, start_us=NOW_US).parse("job")
    coming = diff(activated.schedule, stored, NOW_US, NOW_US + 48 * HOUR_US)
    assert (coming.added.count, coming.cancelled.count, coming.kept.count) == (0, 0, 11)


def test_counted_periods_of_a_union_start_at_once() -> None:
    activated = activate_schedule(parse_schedule(["R3/PT5H", "0 9 * * *"]), NOW_US)
    assert activated.next_us == NOW_US


def test_a_shared_instant_is_due_at_the_earliest_time() -> None:
    jittered = parse_schedule(["0 9 * * *", "0 */9 * * *"], jitter="1h", key="a")
    nine_us = NOW_US + 9 * HOUR_US
    assert nine_us <= jittered.due_us(nine_us) <= nine_us + HOUR_US
    mixed = parse_schedule("0 9 * * *, with jitter up to 1 hour; also @hourly".replace("0 9 * * *", "daily at 9am"))
    assert mixed.jitter_us == HOUR_US
    assert mixed.due_us(nine_us) == nine_us


def test_clock_changes_of_every_member_are_found() -> None:
    union = parse_schedule(["30 2 * * *", "45 2 * * *"], timezone="Europe/Paris")
    spring = to_us(datetime(2027, 3, 1, tzinfo=UTC))
    found = find_oddities(union, spring, spring + 40 * 24 * HOUR_US)
    assert [oddity.message[:5] for oddity in found] == ["02:30", "02:45"]


def test_errors_name_the_expression() -> None:
    with pytest.raises(InvalidSchedule) as listed:
        parse_schedule(["@daily", "0 25 * * *"])
    assert (listed.value.expression, listed.value.position) == ("0 25 * * *", 2)
    assert str(listed.value).startswith('expression 2 of 2: cron field "hour" is 25')
    with pytest.raises(InvalidSchedule) as joined:
        parse_schedule("@daily;  also 0 25 * * *")
    assert (joined.value.expression, joined.value.position) == ("@daily;  also 0 25 * * *", 16)


@pytest.mark.parametrize(
    ("expressions", "says"),
    [
        ([], "has 0 expressions, allowed 1 to 100"),
        (["@daily"] * 101, "has 101 expressions, allowed 1 to 100"),
        ("; also ".join(["@daily"] * 101), "has 101 expressions"),
        (["@daily", 5], "expression 2 of 2: schedule must be text"),
        (["@daily", ["@hourly"]], "expression 2 of 2: schedule must be text"),
        (["@daily; also @hourly"], "make each expression an item"),
        (["@daily", ""], "expression 2 of 2: schedule is empty"),
        ("@daily; also", "which is not understood|not a known macro"),
        ("x" * 300 + ";", "has 301 characters, allowed 256"),
        (";" * 50_000, "characters, allowed"),
    ],
)
def test_wrong_lists_are_rejected(expressions: object, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        parse_schedule(expressions)  # type: ignore[arg-type]


def test_a_large_union_is_quick() -> None:
    texts = [f"{n % 60} {n % 24} * * *" for n in range(100)]
    union = parse_schedule(texts, exclude=[f"2027-{m:02}-01" for m in range(1, 13)])
    assert union.next_after(NEW_YEAR) == datetime(2027, 1, 2, tzinfo=UTC)
    assert len(list(union.between(datetime(2027, 1, 2, tzinfo=UTC), datetime(2027, 1, 3, tzinfo=UTC)))) == 100
