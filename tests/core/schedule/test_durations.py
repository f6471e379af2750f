"""Durations for people: at most two units, or every unit of an exact one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos.core.schedule.durations import format_duration
from chronos.service.serializers.object_reader import read_duration_us

MS, SECOND, MINUTE, HOUR, DAY = 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0s"),
        (999, "<1ms"),
        (412 * MS + 900, "412ms"),
        (SECOND, "1s"),
        (2 * SECOND + 199 * MS, "2.1s"),
        (48 * SECOND + 999 * MS, "48s"),
        (60 * SECOND, "1m"),
        (5 * MINUTE + 58 * SECOND + 700 * MS, "5m 58s"),
        (2 * HOUR + 10 * MINUTE + 59 * SECOND, "2h 10m"),
        (2 * HOUR + 59 * SECOND, "2h"),
        (23 * DAY + 4 * HOUR, "23d 4h"),
        (400 * DAY, "400d"),
    ],
)
def test_duration_for_people(us: int, text: str) -> None:
    assert format_duration(us) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0s"), (1_500, "1ms 500us"), (90 * SECOND, "1m 30s"), (HOUR + 1, "1h 1us"), (DAY + 61 * SECOND, "1d 1m 1s")],
)
def test_exact_duration_has_every_unit(us: int, text: str) -> None:
    assert format_duration(us, exact=True) == text


@given(st.integers(0, 10**15))
def test_exact_duration_without_blanks_is_a_duration_of_the_api(us: int) -> None:
    assert read_duration_us(format_duration(us, exact=True).replace(" ", "")) == us
