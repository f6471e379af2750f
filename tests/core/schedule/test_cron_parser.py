"""Positions of errors in cron expressions, with the field if the text has fields."""

import pytest

from chronos import InvalidSchedule, parse_schedule


@pytest.mark.parametrize(
    ("expression", "dialect", "field", "position"),
    [
        ("１ * * * *", "posix", "minute", 0),
        ("* 1–2 * * *", "posix", "hour", 3),
        ("* * ² * *", "standard", "day", 4),
        ("* * * 1\u200b *", "standard", "month", 7),
        ("* * * * * Ⅰ", "seconds", "weekday", 10),
        ("* １ * * *", "auto", "hour", 2),
        ("a 9 * * *", "auto", "minute", 0),
        ("+1 * * * *", "auto", "minute", 0),
        ("* 1.5 * * *", "auto", "hour", 2),
        ("＠daily", "standard", None, 0),
        ("* １ * *", "posix", None, 2),
    ],
)
def test_an_error_names_the_field_and_the_position(
    expression: str, dialect: str, field: str | None, position: int
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(expression, dialect=dialect)
    assert (caught.value.field, caught.value.position) == (field, position)
    assert caught.value.expression == expression
