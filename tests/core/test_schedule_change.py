"""Replacing a schedule: what changes, against set arithmetic; when the new one counts, by table and by walking."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos.core import ids
from chronos.core.calendar import to_us
from chronos.core.config import DAY_US, HOUR_US, MINUTE_US, UpdatePolicy, resolve_settings
from chronos.core.job import JobState
from chronos.core.planner import DuePlan, plan
from chronos.core.schedule.occurrences import Instants, count_instants
from chronos.core.schedule.parser import parse_schedule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule_change import ComingRuns, Handover, ScheduleDiff, diff, plan_takeover

NOW = to_us(datetime.fromisoformat("2026-03-02T09:10:00+00:00"))
HOURLY = parse_schedule("0 * * * *")
HALF = parse_schedule("*/30 * * * *")
TEN = NOW + 50 * MINUTE_US  # the old schedule's next instant


def brute(instants: Instants | None, after_us: int, until_us: int) -> list[int]:
    found: list[int] = []
    at_us = None if instants is None else instants.next_us(after_us)
    while instants is not None and at_us is not None and at_us <= until_us:
        found.append(at_us)
        at_us = instants.next_us(at_us)
    return found


def hours(*from_now: float) -> tuple[int, ...]:
    return tuple(NOW + round(h * 60) * MINUTE_US for h in from_now)


# --- what changes


def test_the_difference_of_two_schedules() -> None:
    found = diff(HOURLY, HALF, NOW, NOW + 2 * HOUR_US)
    assert found == ScheduleDiff(
        added=ComingRuns(first_us=(NOW + 20 * MINUTE_US, NOW + 80 * MINUTE_US), count=2),
        cancelled=ComingRuns(),
        kept=ComingRuns(first_us=(TEN, TEN + HOUR_US), count=2),
        until_us=NOW + 2 * HOUR_US,
        whole=True,
    )
    assert diff(HALF, HOURLY, NOW, NOW + 2 * HOUR_US).cancelled == found.added


def test_lists_and_work_are_bounded() -> None:
    found = diff(HALF, None, NOW, NOW + 100 * DAY_US, listed=3, compared=1_000)
    assert (len(found.cancelled.first_us), found.cancelled.count, found.whole) == (3, 1_000, False)
    assert len(brute(HALF, NOW, found.until_us)) == 1_000


TEXTS = ["*/20 * * * *", "0 */2 * * *", "15 9 * * 1-5", "@every 25m", "PT40M", "R6/PT1H", "2026-03-02T12:00:00Z"]
SCHEDULES = st.none() | st.builds(
    lambda text, zone: parse_schedule(text, timezone=zone).anchor(NOW - 7 * HOUR_US),
    st.sampled_from(TEXTS),
    st.sampled_from(["UTC", "Asia/Kolkata"]),
)


@given(SCHEDULES, SCHEDULES, st.integers(0, DAY_US), st.integers(0, 9), st.integers(1, 60))
def test_the_difference_equals_set_arithmetic(
    old: Schedule | None, new: Schedule | None, length: int, listed: int, compared: int
) -> None:
    found = diff(old, new, NOW, NOW + length, listed=listed, compared=compared)
    a, b = (set(brute(schedule, NOW, found.until_us)) for schedule in (old, new))
    for part, expected in [(found.added, b - a), (found.cancelled, a - b), (found.kept, a & b)]:
        assert part.count == len(expected)
        assert part.first_us == tuple(sorted(expected)[:listed])
    assert found.added.count + found.cancelled.count + found.kept.count <= compared
    assert found.whole == (found.until_us == NOW + length)


# --- from when it counts

IMMEDIATE, GRACEFUL, WINDOWED = UpdatePolicy


@pytest.mark.parametrize(
    ("policy", "window", "coming"),
    [
        (IMMEDIATE, {}, hours(1 / 3, 5 / 6, 4 / 3)),
        (GRACEFUL, {}, hours(5 / 6, 4 / 3, 11 / 6)),
        (WINDOWED, {}, hours(5 / 6, 4 / 3, 11 / 6)),
        (WINDOWED, {"count": 1}, hours(5 / 6, 4 / 3, 11 / 6)),
        (WINDOWED, {"count": 2}, hours(5 / 6, 11 / 6, 7 / 3)),
        (WINDOWED, {"count": 0}, hours(1 / 3, 5 / 6, 4 / 3)),
        (WINDOWED, {"duration_us": 2 * HOUR_US}, hours(5 / 6, 11 / 6, 7 / 3)),
        (WINDOWED, {"duration_us": 30 * MINUTE_US}, hours(5 / 6, 4 / 3, 11 / 6)),  # nothing at 09:30
        (WINDOWED, {"duration_us": 3 * HOUR_US, "count": 1}, hours(5 / 6, 4 / 3, 11 / 6)),
    ],
)
def test_each_policy_takes_over_when_it_says(
    policy: UpdatePolicy, window: dict[str, int], coming: tuple[int, ...]
) -> None:
    found = plan_takeover(policy, old=HOURLY, new=HALF, next_us=TEN, now_us=NOW, **window)
    assert found.instants is not None
    assert tuple(brute(found.instants, NOW, NOW + DAY_US)[:3]) == coming
    assert found.next_us == coming[0]


def test_a_graceful_update_needs_no_more_than_the_cursor() -> None:
    found = plan_takeover(GRACEFUL, old=HOURLY, new=parse_schedule("45 * * * *"), next_us=TEN, now_us=NOW)
    assert (found.next_us, found.until_us, found.needs_old) == (TEN, TEN, False)
    longer = plan_takeover(WINDOWED, old=HOURLY, new=HALF, next_us=TEN, now_us=NOW, count=3)
    assert longer.needs_old


@pytest.mark.parametrize("policy", UpdatePolicy)
def test_an_update_loses_nothing_that_is_due_and_not_on_record(policy: UpdatePolicy) -> None:
    nine = NOW - 10 * MINUTE_US
    minutely = parse_schedule("* * * * *")
    found = plan_takeover(policy, old=HOURLY, new=minutely, next_us=nine, now_us=NOW)
    assert found.next_us == nine
    assert found.instants is not None
    first = found.instants.next_us(nine)
    assert first is not None
    assert first > NOW
    assert found.needs_old  # the new one alone would go on at 09:01


def test_a_missing_start_becomes_the_moment_the_new_schedule_counts() -> None:
    every = parse_schedule("@every 20m")
    assert plan_takeover(IMMEDIATE, old=HOURLY, new=every, next_us=TEN, now_us=NOW).next_us == NOW + 20 * MINUTE_US
    found = plan_takeover(GRACEFUL, old=HOURLY, new=every, next_us=TEN, now_us=NOW)
    assert found.instants is not None
    assert brute(found.instants, NOW, TEN + HOUR_US)[:2] == [TEN, TEN + 20 * MINUTE_US]
    assert found.schedule is not None
    assert found.schedule.anchored


@pytest.mark.parametrize("done_us", [None, NOW - HOUR_US])
def test_a_counted_interval_that_starts_with_the_last_old_instant_does_not_count_it_twice(done_us: int | None) -> None:
    counted = parse_schedule("R3/PT6H")
    found = plan_takeover(GRACEFUL, old=HOURLY, new=counted, next_us=TEN, now_us=NOW, done_us=done_us)
    assert found.instants is not None
    assert brute(found.instants, NOW, NOW + DAY_US) == [TEN, TEN + 6 * HOUR_US, TEN + 12 * HOUR_US]
    assert found.instants.count_us(NOW, NOW + DAY_US) == 3


def test_a_job_may_gain_or_lose_its_schedule() -> None:
    gained = plan_takeover(GRACEFUL, old=None, new=HALF, next_us=None, now_us=NOW)
    assert (gained.next_us, gained.until_us) == (NOW + 20 * MINUTE_US, None)
    assert plan_takeover(IMMEDIATE, old=HOURLY, new=None, next_us=TEN, now_us=NOW).next_us is None
    lost = plan_takeover(GRACEFUL, old=HOURLY, new=None, next_us=TEN, now_us=NOW)
    assert (lost.next_us, lost.needs_old) == (TEN, False)
    assert lost.instants is not None
    assert brute(lost.instants, NOW, NOW + DAY_US) == [TEN]


def test_nothing_on_record_comes_up_again() -> None:
    found = plan_takeover(IMMEDIATE, old=HOURLY, new=HALF, next_us=TEN, now_us=NOW, done_us=NOW + HOUR_US)
    assert found.next_us == NOW + 80 * MINUTE_US


def test_a_planner_follows_a_handover() -> None:
    new = parse_schedule("*/30 * * * *", jitter=timedelta(minutes=5), key="report")
    found = plan_takeover(WINDOWED, old=HOURLY, new=new, next_us=TEN, now_us=NOW, count=2)
    assert isinstance(found.instants, Handover)
    assert found.instants.due_us(TEN) == TEN
    assert found.instants.due_us(TEN + 90 * MINUTE_US) == new.due_us(TEN + 90 * MINUTE_US)
    assert found.instants.jitter_us == 5 * MINUTE_US
    due = plan(
        job=ids.job_id("default", "report", 1),
        state=JobState.ACTIVE,
        instants=found.instants,
        effective=resolve_settings(),
        next_us=found.next_us,
        now_us=TEN,
    )
    assert isinstance(due, DuePlan)
    assert [(run.scheduled_us, run.next_us) for run in due.firings] == [(TEN, TEN + HOUR_US)]


@given(
    SCHEDULES,
    SCHEDULES,
    st.sampled_from(UpdatePolicy),
    st.none() | st.integers(0, 12),
    st.none() | st.integers(0, DAY_US),
    st.integers(-6 * HOUR_US, 12 * HOUR_US),
)
def test_after_a_takeover_each_instant_belongs_to_one_schedule(
    old: Schedule | None,
    new: Schedule | None,
    policy: UpdatePolicy,
    count: int | None,
    duration_us: int | None,
    cursor_after: int,
) -> None:
    next_us = None if old is None else old.next_us(NOW + min(cursor_after, 0))
    found = plan_takeover(policy, old=old, new=new, next_us=next_us, now_us=NOW, count=count, duration_us=duration_us)
    horizon = NOW + 2 * DAY_US
    overdue = [] if next_us is None else [next_us, *brute(old, next_us, NOW)]
    until_us = NOW if found.until_us is None else found.until_us
    expected = [t for t in overdue if t <= NOW]
    expected += brute(old, NOW, min(until_us, horizon)) if found.until_us is not None else []
    expected += [t for t in brute(found.schedule, NOW, horizon) if t > until_us]
    coming = [] if found.next_us is None else [found.next_us, *brute(found.instants, found.next_us, horizon)]
    assert coming == expected
    if coming and found.instants is not None and coming[0] <= horizon:
        counted = found.instants.count_us(coming[0], horizon)
        assert counted is None or counted + 1 == len(coming)
        assert count_instants(found.instants, coming[0], horizon, 10_000).count == len(coming)
    if policy is UpdatePolicy.IMMEDIATE and not [t for t in overdue if t <= NOW]:
        assert found.until_us is None
