"""POSIX cron expressions: valid ones, invalid ones, and the days that match."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos.core.calendar import from_us, to_us
from chronos.core.schedule.cron import Cron
from chronos.declarative import FieldParseError, InvalidCronExpressionError
from chronos.declarative.posix_cron import FIELDS, parse_cron_expression, to_schedule_spec
from chronos.errors import InvalidSchedule


@pytest.mark.parametrize(
    "text",
    [
        "0 0 * * *",
        "15 3 * * 1-5",
        "0,30 * * * *",
        "0 12 14 2 *",
        "  0\t0  *\t* *  ",
        "00 007 1-31 01-12 0-6",
        "5,5,5 * * * *",
        "0-59 0-23 1-31 1-12 0-6",
        "1-1 * * * *",
        "0 0 30 2 *",
    ],
)
def test_valid_expressions_are_accepted(text: str) -> None:
    assert isinstance(parse_cron_expression(text), Cron)


RULES = {
    1: ["", "   ", "* * * *", "* * * * * *", "0 0 * *", "\n", "* * * *\n*"],
    2: ["*/15 * * * *", "0-30/5 * * * *", "0 */2 * * *", "5/15 * * * *"],
    3: ["0 0 * jan *", "0 0 * * mon", "0 0 * * sunday", "0 0 * * SUN", "0 0 * JAN-MAR *"],
    4: ["@daily", "@hourly", "@yearly", "@reboot", "@every 1m"],
    5: ["0 0 ? * *", "0 0 L * *", "0 0 15W * *", "0 0 LW * *", "0 0 * * 5#2", "0 0 * * 5L", "H * * * *"],
    6: ["0 0 * * 7", "0 0 * * 5-7", "0 0 * * 0,7"],
    7: ["30-10 * * * *", "* 22-2 * * *", "* * * 11-2 *", "* * * * 5-1"],
    8: [
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "0-60 * * * *",
        "9" * 99 + " * * * *",
    ],
    9: [
        "1e1 * * * *",
        "0x1 * * * *",
        "+1 * * * *",
        "-1 * * * *",
        "1.0 * * * *",
        "1_0 * * * *",
        "\u0661 * * * *",
        "² * * * *",
    ],
    10: [
        "*,1 * * * *",
        ",1 * * * *",
        "1, * * * *",
        "1,,2 * * * *",
        "1-2-3 * * * *",
        "1- * * * *",
        "** * * * *",
        "0 0 * * *;",
    ],
}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in RULES.items() for text in texts])
def test_invalid_expressions_are_rejected(rule: int, text: str) -> None:
    with pytest.raises(InvalidCronExpressionError) as caught:
        parse_cron_expression(text)
    error = caught.value
    field, reason = error.details["field"], error.details["reason"]
    assert str(error) == f'Invalid cron expression "{text}": {field} field {reason}'
    assert error.details["expression"] == text
    cause = error.details["cause"]
    if field == "expression":
        assert isinstance(cause, InvalidSchedule)
        assert rule in (1, 4, 9)
    else:
        assert isinstance(cause, FieldParseError)
        assert cause.details["fieldName"] == field in FIELDS
        assert cause.details["fieldValue"] in text
        assert isinstance(cause.details["cause"], InvalidSchedule)


def test_the_length_of_an_expression_is_bounded() -> None:
    with pytest.raises(InvalidCronExpressionError, match="has 5008 characters, allowed 4096"):
        parse_cron_expression("0" * 5_000 + " * * * *")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 * * *", set(range(1, 32))),
        ("0 0 * * 1", {4, 11, 18, 25}),
        ("0 0 15 * *", {15}),
        ("0 0 1,15 * 1", {1, 15, 4, 11, 18, 25}),
        ("0 0 1-31 * 1", set(range(1, 32))),
        ("0 0 13 * 0-6", set(range(1, 32))),
    ],
)
def test_either_day_field_is_enough_where_both_are_restricted(text: str, days: set[int]) -> None:
    schedule = to_schedule_spec(text, parse_cron_expression(text), "UTC").parse("a")
    begin = datetime(2027, 1, 1, tzinfo=UTC)  # a Friday
    occurrences = schedule.between(begin - timedelta(seconds=1), begin + timedelta(days=30, hours=23))
    assert {at.day for at in occurrences} == days


def elements(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    return st.one_of(
        number.map(str),
        st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}"),
    )


def fields_of(low: int, high: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.lists(elements(low, high), min_size=1, max_size=80).map(",".join))


@given(st.tuples(fields_of(0, 59), fields_of(0, 23), fields_of(1, 31), fields_of(1, 12), fields_of(0, 6)))
def test_a_long_expression_means_the_same_to_the_engine(fields: tuple[str, ...]) -> None:
    text = " ".join(fields)
    cron = parse_cron_expression(text)
    spec = to_schedule_spec(text, cron, "UTC")
    assert len(spec.text) <= 256
    schedule = spec.parse("a")
    at_us = to_us(datetime(2027, 1, 1, tzinfo=UTC))
    for _ in range(5):
        next_us = schedule.next_us(at_us)
        if next_us is None:
            assert cron.never_matches()
            return
        assert cron.matches_wall(next_us // 1_000_000), from_us(next_us)
        at_us = next_us
