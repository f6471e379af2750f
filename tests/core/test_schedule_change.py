"""Schedule changes: the diff against set arithmetic, and the takeover by policy."""

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


def walk_all(instants: Instants | None, after_us: int, until_us: int) -> list[int]:
    instants_us: list[int] = []
    at_us = None if instants is None else instants.next_us(after_us)
    while instants is not None and at_us is not None and at_us <= until_us:
        instants_us.append(at_us)
        at_us = instants.next_us(at_us)
    return instants_us


def hours(*from_now: float) -> tuple[int, ...]:
    return tuple(NOW + round(h * 60) * MINUTE_US for h in from_now)


# --- diff


def test_the_diff_has_added_cancelled_and_kept_runs() -> None:
    difference = diff(HOURLY, HALF, NOW, NOW + 2 * HOUR_US)
    assert difference == ScheduleDiff(
        added=ComingRuns(first_us=(NOW + 20 * MINUTE_US, NOW + 80 * MINUTE_US), count=2),
        cancelled=ComingRuns(),
        kept=ComingRuns(first_us=(TEN, TEN + HOUR_US), count=2),
        until_us=NOW + 2 * HOUR_US,
        whole=True,
    )
    assert diff(HALF, HOURLY, NOW, NOW + 2 * HOUR_US).cancelled == difference.added


def test_the_diff_is_bounded() -> None:
    difference = diff(HALF, None, NOW, NOW + 100 * DAY_US, listed=3, compared=1_000)
    assert (len(difference.cancelled.first_us), difference.cancelled.count, difference.whole) == (3, 1_000, False)
    assert len(walk_all(HALF, NOW, difference.until_us)) == 1_000


TEXTS = ["*/20 * * * *", "0 */2 * * *", "15 9 * * 1-5", "@every 25m", "PT40M", "R6/PT1H", "2026-03-02T12:00:00Z"]
SCHEDULES = st.none() | st.builds(
    lambda text, zone: parse_schedule(text, timezone=zone).anchor(NOW - 7 * HOUR_US),
    st.sampled_from(TEXTS),
    st.sampled_from(["UTC", "Asia/Kolkata"]),
)


@given(SCHEDULES, SCHEDULES, st.integers(0, DAY_US), st.integers(0, 9), st.integers(1, 60))
def test_the_diff_equals_set_arithmetic(
    old: Schedule | None, new: Schedule | None, length: int, listed: int, compared: int
) -> None:
    difference = diff(old, new, NOW, NOW + length, listed=listed, compared=compared)
    a, b = (set(walk_all(schedule, NOW, difference.until_us)) for schedule in (old, new))
    for part, expected in [(difference.added, b - a), (difference.cancelled, a - b), (difference.kept, a & b)]:
        assert part.count == len(expected)
        assert part.first_us == tuple(sorted(expected)[:listed])
    assert difference.added.count + difference.cancelled.count + difference.kept.count <= compared
    assert difference.whole == (difference.until_us == NOW + length)


# --- takeover

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
        (
            WINDOWED,
            {"duration_us": 30 * MINUTE_US},
            hours(5 / 6, 4 / 3, 11 / 6),
        ),  # the old schedule has no instant at 09:30
        (WINDOWED, {"duration_us": 3 * HOUR_US, "count": 1}, hours(5 / 6, 4 / 3, 11 / 6)),
    ],
)
def test_each_policy_takes_over_at_its_time(
    policy: UpdatePolicy, window: dict[str, int], coming: tuple[int, ...]
) -> None:
    takeover = plan_takeover(policy, old=HOURLY, new=HALF, next_us=TEN, now_us=NOW, **window)
    assert takeover.instants is not None
    assert tuple(walk_all(takeover.instants, NOW, NOW + DAY_US)[:3]) == coming
    assert takeover.next_us == coming[0]


def test_a_graceful_update_does_not_store_the_old_schedule() -> None:
    takeover = plan_takeover(GRACEFUL, old=HOURLY, new=parse_schedule("45 * * * *"), next_us=TEN, now_us=NOW)
    assert (takeover.next_us, takeover.until_us, takeover.needs_old) == (TEN, TEN, False)
    longer = plan_takeover(WINDOWED, old=HOURLY, new=HALF, next_us=TEN, now_us=NOW, count=3)
    assert longer.needs_old


@pytest.mark.parametrize("policy", UpdatePolicy)
def test_an_update_keeps_due_instants_that_are_not_recorded(policy: UpdatePolicy) -> None:
    nine = NOW - 10 * MINUTE_US
    minutely = parse_schedule("* * * * *")
    takeover = plan_takeover(policy, old=HOURLY, new=minutely, next_us=nine, now_us=NOW)
    assert takeover.next_us == nine
    assert takeover.instants is not None
    first = takeover.instants.next_us(nine)
    assert first is not None
    assert first > NOW
    assert takeover.needs_old  # the new schedule alone would continue at 09:01


def test_a_missing_start_becomes_the_time_of_the_takeover() -> None:
    every = parse_schedule("@every 20m")
    assert plan_takeover(IMMEDIATE, old=HOURLY, new=every, next_us=TEN, now_us=NOW).next_us == NOW + 20 * MINUTE_US
    takeover = plan_takeover(GRACEFUL, old=HOURLY, new=every, next_us=TEN, now_us=NOW)
    assert takeover.instants is not None
    assert walk_all(takeover.instants, NOW, TEN + HOUR_US)[:2] == [TEN, TEN + 20 * MINUTE_US]
    assert takeover.schedule is not None
    assert takeover.schedule.anchored


@pytest.mark.parametrize("done_us", [None, NOW - HOUR_US])
def test_a_counted_interval_that_starts_with_the_last_old_instant_does_not_count_it_twice(done_us: int | None) -> None:
    counted = parse_schedule("R3/PT6H")
    takeover = plan_takeover(GRACEFUL, old=HOURLY, new=counted, next_us=TEN, now_us=NOW, done_us=done_us)
    assert takeover.instants is not None
    assert walk_all(takeover.instants, NOW, NOW + DAY_US) == [TEN, TEN + 6 * HOUR_US, TEN + 12 * HOUR_US]
    assert takeover.instants.count_us(NOW, NOW + DAY_US) == 3


def test_a_job_may_gain_or_lose_its_schedule() -> None:
    gained = plan_takeover(GRACEFUL, old=None, new=HALF, next_us=None, now_us=NOW)
    assert (gained.next_us, gained.until_us) == (NOW + 20 * MINUTE_US, None)
    assert plan_takeover(IMMEDIATE, old=HOURLY, new=None, next_us=TEN, now_us=NOW).next_us is None
    lost = plan_takeover(GRACEFUL, old=HOURLY, new=None, next_us=TEN, now_us=NOW)
    assert (lost.next_us, lost.needs_old) == (TEN, False)
    assert lost.instants is not None
    assert walk_all(lost.instants, NOW, NOW + DAY_US) == [TEN]


def test_a_recorded_instant_does_not_come_again() -> None:
    takeover = plan_takeover(IMMEDIATE, old=HOURLY, new=HALF, next_us=TEN, now_us=NOW, done_us=NOW + HOUR_US)
    assert takeover.next_us == NOW + 80 * MINUTE_US


def test_the_planner_follows_a_handover() -> None:
    new = parse_schedule("*/30 * * * *", jitter=timedelta(minutes=5), key="report")
    takeover = plan_takeover(WINDOWED, old=HOURLY, new=new, next_us=TEN, now_us=NOW, count=2)
    assert isinstance(takeover.instants, Handover)
    assert takeover.instants.due_us(TEN) == TEN
    assert takeover.instants.due_us(TEN + 90 * MINUTE_US) == new.due_us(TEN + 90 * MINUTE_US)
    assert takeover.instants.jitter_us == 5 * MINUTE_US
    due = plan(
        job=ids.job_id("default", "report", 1),
        state=JobState.ACTIVE,
        instants=takeover.instants,
        effective=resolve_settings(),
        next_us=takeover.next_us,
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
    takeover = plan_takeover(
        policy, old=old, new=new, next_us=next_us, now_us=NOW, count=count, duration_us=duration_us
    )
    horizon = NOW + 2 * DAY_US
    overdue = [] if next_us is None else [next_us, *walk_all(old, next_us, NOW)]
    until_us = NOW if takeover.until_us is None else takeover.until_us
    expected = [t for t in overdue if t <= NOW]
    expected += walk_all(old, NOW, min(until_us, horizon)) if takeover.until_us is not None else []
    expected += [t for t in walk_all(takeover.schedule, NOW, horizon) if t > until_us]
    coming = (
        [] if takeover.next_us is None else [takeover.next_us, *walk_all(takeover.instants, takeover.next_us, horizon)]
    )
    assert coming == expected
    if coming and takeover.instants is not None and coming[0] <= horizon:
        counted = takeover.instants.count_us(coming[0], horizon)
        assert counted is None or counted + 1 == len(coming)
        assert count_instants(takeover.instants, coming[0], horizon, 10_000).count == len(coming)
    if policy is UpdatePolicy.IMMEDIATE and not [t for t in overdue if t <= NOW]:
        assert takeover.until_us is None
