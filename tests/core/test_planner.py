"""The planner: late and missed instants, by recovery strategy and within bounds."""

from datetime import datetime, timedelta

import msgspec
import pytest

from chronos.core import ids
from chronos.core.calendar import SECOND_US, to_us
from chronos.core.config import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    EffectiveSettings,
    Recovery,
    RecoveryStrategy,
    Settings,
    resolve_settings,
)
from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.core.planner import (
    MAX_PREVIEW,
    Bounds,
    CoveredSpan,
    DuePlan,
    Firing,
    Gap,
    NothingDue,
    Plan,
    activate_schedule,
    build_firing,
    plan,
    preview,
    resume_job,
)
from chronos.core.reasons import ReasonCode
from chronos.core.schedule.occurrences import Instants
from chronos.core.schedule.parser import parse_schedule
from chronos.core.schedule.schedule import Schedule

JOB = ids.job_id("default", "report", 1)


def at(text: str) -> int:
    return to_us(datetime.fromisoformat(text + "+00:00"))


NINE = at("2026-03-02T09:00:00")
MINUTELY = parse_schedule("* * * * *")


def settings(strategy: RecoveryStrategy = RecoveryStrategy.LAST, **rest: int) -> EffectiveSettings:
    return resolve_settings(Settings(recovery=Recovery(strategy=strategy, **rest)))


def decide(
    now_us: int,
    effective: EffectiveSettings | None = None,
    *,
    instants: Instants = MINUTELY,
    next_us: int | None = NINE,
    state: JobState = JobState.ACTIVE,
    bounds: Bounds | None = None,
) -> Plan:
    return plan(
        job=JOB,
        state=state,
        instants=instants,
        effective=effective or settings(),
        next_us=next_us,
        now_us=now_us,
        bounds=bounds or Bounds(),
    )


def gap(now_us: int, effective: EffectiveSettings, **rest: object) -> Gap:
    planned = decide(now_us, effective, **rest)  # type: ignore[arg-type]
    assert isinstance(planned, Gap)
    return planned


# --- nothing, late, missed


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.DISABLED, JobState.DONE])
def test_only_an_active_job_has_instants(state: JobState) -> None:
    assert decide(NINE + DAY_US, state=state) == NothingDue(wake_us=None)


def test_nothing_is_due_before_its_instant_even_when_the_clock_went_back() -> None:
    assert decide(NINE - 1) == NothingDue(wake_us=NINE)
    assert decide(NINE - DAY_US) == NothingDue(wake_us=NINE)
    assert decide(NINE, next_us=None) == NothingDue(wake_us=None)


def test_an_instant_on_time_is_admitted_and_the_cursor_moves_on() -> None:
    run = Firing(id=ids.scheduled_execution_id(JOB, NINE), scheduled_us=NINE, due_us=NINE, next_us=NINE + MINUTE_US)
    assert decide(NINE) == DuePlan(firings=(run,), wake_us=NINE + MINUTE_US)
    assert build_firing(JOB, MINUTELY, NINE) == run


def test_instants_are_missed_when_the_oldest_exceeds_recovery_after() -> None:
    effective = settings(after_us=3 * MINUTE_US)
    late = decide(NINE + 3 * MINUTE_US, effective)
    assert isinstance(late, DuePlan)
    assert [run.scheduled_us for run in late.firings] == [NINE + k * MINUTE_US for k in range(4)]
    assert [run.next_us for run in late.firings] == [NINE + k * MINUTE_US for k in range(1, 5)]
    missed = decide(NINE + 3 * MINUTE_US + 1, effective)
    assert isinstance(missed, Gap)
    assert [run.scheduled_us for run in missed.firings] == [NINE + 3 * MINUTE_US]


def test_late_instants_come_in_bounded_portions() -> None:
    planned = decide(NINE + 9 * MINUTE_US, settings(after_us=HOUR_US), bounds=Bounds(runs=4))
    assert isinstance(planned, DuePlan)
    assert len(planned.firings) == 4
    assert planned.wake_us == NINE + 4 * MINUTE_US


def test_a_run_waits_for_its_jitter_and_later_runs_wait_for_it() -> None:
    jittery = parse_schedule("* * * * *", jitter=timedelta(minutes=10), key="report")
    due_us = jittery.due_us(NINE)
    assert due_us > NINE
    assert decide(due_us - 1, instants=jittery) == NothingDue(wake_us=due_us)
    planned = decide(due_us, instants=jittery)
    assert isinstance(planned, DuePlan)
    assert planned.firings[0].id == ids.scheduled_execution_id(JOB, NINE)
    assert all(run.due_us <= due_us for run in planned.firings)
    assert planned.wake_us is not None
    assert planned.wake_us > due_us


NOW = NINE + 10 * MINUTE_US + 31 * SECOND_US  # 09:00 … 09:10 are missed: eleven instants


@pytest.mark.parametrize(
    ("effective", "missed", "run", "words"),
    [
        (settings(RecoveryStrategy.LAST), 10, [10], "runs only the last"),
        (settings(RecoveryStrategy.ALL), 0, list(range(11)), ""),
        (settings(RecoveryStrategy.SKIP), 11, [], "does not run"),
        (settings(RecoveryStrategy.BOUNDED), 0, list(range(11)), ""),
        (settings(RecoveryStrategy.BOUNDED, max_count=3), 8, [8, 9, 10], "at most 3 missed runs"),
        (settings(RecoveryStrategy.BOUNDED, max_count=0), 11, [], "at most 0"),
        (settings(RecoveryStrategy.BOUNDED, max_age_us=90 * SECOND_US), 10, [10], "none older than 1m 30s"),
        (settings(RecoveryStrategy.BOUNDED, max_count=1, max_age_us=5 * MINUTE_US), 10, [10], "none older than 5m."),
        (settings(RecoveryStrategy.BOUNDED, max_age_us=30 * SECOND_US), 11, [], "none older than 30s."),
        (settings(RecoveryStrategy.COMPRESSED), 10, [10], "the run of 2026-03-02 09:10:00 UTC covers all missed ones"),
    ],
)
def test_each_strategy_splits_a_gap_into_a_span_and_runs(
    effective: EffectiveSettings, missed: int, run: list[int], words: str
) -> None:
    planned = gap(NOW, effective)
    assert [firing.scheduled_us for firing in planned.firings] == [NINE + k * MINUTE_US for k in run]
    assert planned.next_us == planned.wake_us == NINE + 11 * MINUTE_US
    assert planned.expect_us == NINE
    assert [span.count for span in planned.spans] == [missed] * bool(missed)
    for span in planned.spans:
        assert (span.from_us, span.to_us) == (NINE, NINE + (missed - 1) * MINUTE_US)
        assert (span.status, span.recorded_us) == (Status.MISSED, NOW)
        assert span.id == ids.span_id(JOB, NINE, Status.MISSED)
        assert words in span.reason.message
        compressed = effective.recovery is RecoveryStrategy.COMPRESSED
        assert span.reason.code is (ReasonCode.MISSED if compressed else ReasonCode.OUTSIDE_RECOVERY)
    assert gap(NOW, effective) == planned


def test_a_compressed_run_covers_the_missed_instants() -> None:
    [run] = gap(NOW, settings(RecoveryStrategy.COMPRESSED)).firings
    assert run.covers == CoveredSpan(from_us=NINE, to_us=NINE + 10 * MINUTE_US, count=11)
    assert msgspec.json.encode(run.covers) == b'{"from_us":%d,"to_us":%d,"count":11}' % (NINE, NINE + 10 * MINUTE_US)
    daily = parse_schedule("0 9 * * *")
    planned = gap(NOW, settings(RecoveryStrategy.COMPRESSED), instants=daily)
    assert planned.spans == ()
    assert planned.firings[0].covers == CoveredSpan(from_us=NINE, to_us=NINE, count=1)


def test_a_cursor_outside_its_schedule_is_still_an_instant() -> None:
    planned = decide(NINE + 7, instants=parse_schedule("30 10 * * *"))
    assert isinstance(planned, DuePlan)
    assert [(run.scheduled_us, run.next_us) for run in planned.firings] == [(NINE, at("2026-03-02T10:30:00"))]


def test_a_schedule_that_ends_leaves_no_cursor() -> None:
    planned = gap(NOW, settings(RecoveryStrategy.LAST), instants=parse_schedule("2026-03-02T09:00:00Z"))
    assert (len(planned.firings), planned.next_us, planned.wake_us) == (1, None, None)


class CountingSchedule:
    """A schedule that counts the calls to it."""

    def __init__(self, schedule: Schedule, *, countable: bool = True) -> None:
        self._schedule = schedule
        self._countable = countable
        self.calls = 0

    @property
    def jitter_us(self) -> int:
        return self._schedule.jitter_us

    def next_us(self, after_us: int) -> int | None:
        self.calls += 1
        return self._schedule.next_us(after_us)

    def count_us(self, after_us: int, until_us: int) -> int | None:
        self.calls += 1
        return self._schedule.count_us(after_us, until_us) if self._countable else None

    def due_us(self, scheduled_us: int) -> int:
        return self._schedule.due_us(scheduled_us)


YEARS = 5 * 365 * DAY_US
EVERY_SECOND = parse_schedule("* * * * * *", timezone="Europe/Berlin")


@pytest.mark.parametrize("strategy", RecoveryStrategy)
def test_years_of_every_second_cost_little_and_are_counted_exactly(strategy: RecoveryStrategy) -> None:
    schedule = CountingSchedule(EVERY_SECOND)
    planned = gap(NINE + YEARS, settings(strategy), instants=schedule)
    assert schedule.calls < 1_500
    if strategy is RecoveryStrategy.ALL:
        assert len(planned.firings) == 500
        assert planned.next_us == NINE + 500 * SECOND_US
    else:
        assert sum(span.count for span in planned.spans) + len(planned.firings) == YEARS // SECOND_US + 1
        assert planned.next_us == NINE + YEARS + SECOND_US


@pytest.mark.parametrize("strategy", [RecoveryStrategy.LAST, RecoveryStrategy.SKIP, RecoveryStrategy.BOUNDED])
def test_uncountable_instants_are_walked_over_several_plans(strategy: RecoveryStrategy) -> None:
    bounds = Bounds(steps=300)
    effective = settings(strategy, max_count=100, max_age_us=600 * SECOND_US)
    now_us, cursor = NINE + 1_000 * SECOND_US, NINE
    total, plans = 0, 0
    while cursor <= now_us:
        schedule = CountingSchedule(EVERY_SECOND, countable=False)
        planned = gap(now_us, effective, instants=schedule, next_us=cursor, bounds=bounds)
        assert schedule.calls < 5_000
        assert planned.next_us is not None
        assert planned.next_us > cursor
        cursor = planned.next_us
        total += sum(span.count for span in planned.spans) + len(planned.firings)
        plans += 1
    assert total == 1_001
    assert plans <= 6
    assert len(planned.firings) == {RecoveryStrategy.LAST: 1, RecoveryStrategy.SKIP: 0}.get(strategy, 100)


@pytest.mark.parametrize("strategy", [RecoveryStrategy.LAST, RecoveryStrategy.SKIP, RecoveryStrategy.BOUNDED])
def test_a_gap_that_needs_too_many_steps_is_one_span_that_says_at_least(strategy: RecoveryStrategy) -> None:
    schedule = CountingSchedule(EVERY_SECOND, countable=False)
    planned = gap(NINE + YEARS, settings(strategy), instants=schedule, bounds=Bounds(steps=300))
    assert schedule.calls < 10_000
    [span] = planned.spans
    assert (span.from_us, span.count, planned.next_us) == (NINE, 300, NINE + YEARS + SECOND_US)
    assert "at least 300" in span.reason.message
    expected = {RecoveryStrategy.LAST: 1, RecoveryStrategy.SKIP: 0}.get(strategy, 100)
    runs = [NINE + YEARS - k * SECOND_US for k in reversed(range(expected))]
    assert [run.scheduled_us for run in planned.firings] == runs
    assert span.to_us == NINE + YEARS - expected * SECOND_US


def test_a_compressed_run_covers_uncountable_instants() -> None:
    schedule = CountingSchedule(EVERY_SECOND, countable=False)
    planned = gap(NINE + DAY_US, settings(RecoveryStrategy.COMPRESSED), instants=schedule, bounds=Bounds(steps=100))
    assert planned.firings[0].covers == CoveredSpan(from_us=NINE, to_us=NINE + DAY_US, count=101, exact=False)
    assert planned.next_us == NINE + DAY_US + SECOND_US
    assert "at least 100" in planned.spans[0].reason.message


# --- activation, resumption, preview


@pytest.mark.parametrize(
    ("text", "start", "first"),
    [
        ("0 9 * * *", None, "2026-03-03T09:00:00"),  # strictly after now
        ("@every 1h", None, "2026-03-02T10:00:00"),  # anchored now
        ("@every 1h", "2026-03-02T08:20:00Z", "2026-03-02T09:20:00"),
        ("@every 1h", "2026-03-05T00:00:00Z", "2026-03-05T00:00:00"),
        ("P1M", None, "2026-04-02T09:00:00"),
        ("R5/PT6H", None, "2026-03-02T09:00:00"),  # the start is the first of the five
        ("R5/2026-03-02T09:00:00Z/PT6H", None, "2026-03-02T15:00:00"),
        ("R0/PT6H", None, None),
        ("in 2 hours", None, "2026-03-02T11:00:00"),
        ("2026-03-02T09:30:00Z", None, "2026-03-02T09:30:00"),
        ("2026-03-02T09:00:00Z", None, "2026-03-02T09:00:00"),
        ("2026-03-02T08:59:40Z", None, "2026-03-02T08:59:40"),  # late, and still runs
        ("2026-03-02T08:59:29Z", None, None),
    ],
)
def test_activation_sets_the_first_cursor(text: str, start: str | None, first: str | None) -> None:
    activation = activate_schedule(parse_schedule(text, start=start), NINE, late_us=30 * SECOND_US)
    assert activation.next_us == (None if first is None else at(first))
    assert activation.schedule.anchored


def test_a_counted_interval_has_as_many_instants_as_it_says() -> None:
    activation = activate_schedule(parse_schedule("R5/PT6H"), NINE)
    assert preview(activation.schedule, NINE - 1, 9) == tuple(NINE + k * 6 * HOUR_US for k in range(5))


@pytest.mark.parametrize("text", ["0 9 * * *", "@every 1h", "R5/PT6H", "2026-03-02T09:30:00Z"])
def test_a_recorded_instant_does_not_come_again(text: str) -> None:
    schedule = activate_schedule(parse_schedule(text), NINE).schedule
    done_us = at("2026-03-04T12:00:00")  # the clock went back since
    first_us = activate_schedule(schedule, NINE, done_us=done_us, late_us=DAY_US).next_us
    assert first_us is None or first_us > done_us


def test_resuming_records_the_skipped_instants_and_continues_after_now() -> None:
    planned = resume_job(job=JOB, instants=MINUTELY, next_us=NINE, now_us=NOW)
    [span] = planned.spans
    assert (span.status, span.reason.code, span.count) == (Status.SKIPPED, ReasonCode.PAUSED, 11)
    assert (span.from_us, span.to_us, planned.next_us) == (NINE, NINE + 10 * MINUTE_US, NINE + 11 * MINUTE_US)
    assert span.id == ids.span_id(JOB, NINE, Status.SKIPPED)


@pytest.mark.parametrize("next_us", [None, NOW + 1])
def test_resuming_before_the_next_instant_changes_nothing(next_us: int | None) -> None:
    planned = resume_job(job=JOB, instants=MINUTELY, next_us=next_us, now_us=NOW)
    assert (planned.spans, planned.next_us) == ((), next_us)


def test_resuming_after_years_is_one_bounded_step() -> None:
    schedule = CountingSchedule(EVERY_SECOND, countable=False)
    planned = resume_job(job=JOB, instants=schedule, next_us=NINE, now_us=NINE + YEARS, bounds=Bounds(steps=100))
    [span] = planned.spans
    assert schedule.calls < 200
    assert (span.to_us, span.count, planned.next_us) == (NINE + YEARS, 100, NINE + YEARS + SECOND_US)
    assert "at least 100" in span.reason.message


def test_a_preview_shows_the_instants_of_a_schedule_saved_now() -> None:
    assert preview(parse_schedule("@every 1h"), NINE, 2) == (NINE + HOUR_US, NINE + 2 * HOUR_US)
    assert preview(parse_schedule("R2/PT6H"), NINE, 9) == (NINE, NINE + 6 * HOUR_US)
    assert len(preview(EVERY_SECOND, NINE, 10**9)) == MAX_PREVIEW
