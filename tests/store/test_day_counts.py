"""Counts per day: nothing is lost, whatever the zone, and a month reads back as it was written."""

from hypothesis import given
from hypothesis import strategies as st

from chronos.core.calendar import SECOND_US
from chronos.core.execution import Status
from chronos.core.ids import id_floor
from chronos.core.schedule.timezones import get_zone
from chronos.store.day_counts import DayCount, EndedRun, add_days, count_days, read_month, split_months, write_month

TIMES = st.integers(1_000_000_000, 2_000_000_000).map(lambda seconds: seconds * SECOND_US)
ENDED = [status for status in Status if status.final]
ZONES = st.sampled_from(["UTC", "Europe/Paris", "Asia/Kathmandu", "America/New_York", "Pacific/Apia"])


@st.composite
def runs(draw: st.DrawFn) -> EndedRun:
    at_us = draw(TIMES)
    span = draw(st.booleans())
    until_us = at_us + draw(st.integers(0, 100 * 86_400)) * SECOND_US if span else None
    count = draw(st.integers(1, 10_000)) if span else 1
    status = int(draw(st.sampled_from(ENDED)))
    return EndedRun(id_floor(at_us), status, at_us, at_us, at_us + 5_000, draw(st.integers(1, 3)), until_us, count)


@given(st.lists(runs(), max_size=8), ZONES)
def test_every_run_counts_once_on_one_day(ended: list[EndedRun], zone: str) -> None:
    days = count_days(ended, get_zone(zone))
    total = sum(sum(count[:7]) for count in days.values())
    assert total == sum(run.instants for run in ended)
    assert sum(count.worked_ms for count in days.values()) == 5 * sum(run.until_us is None for run in ended)
    stored: dict[int, DayCount] = {}
    for month, own in split_months(days).items():
        stored |= read_month(month, write_month(own))
    assert stored == days


@given(st.lists(runs(), max_size=5), st.lists(runs(), max_size=5), ZONES)
def test_counting_in_parts_equals_counting_at_once(first: list[EndedRun], second: list[EndedRun], zone: str) -> None:
    clock = get_zone(zone)
    parts = add_days(count_days(first, clock), count_days(second, clock))
    assert parts == dict(sorted(count_days([*first, *second], clock).items()))
