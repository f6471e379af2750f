"""The planner against plain walking: every instant is recorded once, in order, never early, in bounded work."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from hypothesis import example, given
from hypothesis import strategies as st

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
from chronos.core.execution import Span
from chronos.core.job import JobState
from chronos.core.planner import Bounds, CoveredSpan, DuePlan, Firing, Gap, NothingDue, Plan, activate_schedule, plan
from chronos.core.schedule.occurrences import Instants, count_instants, last_us, nth_last_instant_us, nth_us
from chronos.core.schedule.parser import parse_schedule
from chronos.core.schedule.schedule import Schedule

JOB = ids.job_id("default", "report", 1)


def at(text: str) -> int:
    return to_us(datetime.fromisoformat(text + "+00:00"))


def settings(strategy: RecoveryStrategy, **rest: int) -> EffectiveSettings:
    return resolve_settings(Settings(recovery=Recovery(strategy=strategy, **rest)))


def decide(now_us: int, effective: EffectiveSettings, instants: Instants, next_us: int | None, bounds: Bounds) -> Plan:
    return plan(
        job=JOB,
        state=JobState.ACTIVE,
        instants=instants,
        effective=effective,
        next_us=next_us,
        now_us=now_us,
        bounds=bounds,
    )


def walk_all(schedule: Instants, after_us: int, until_us: int) -> list[int]:
    instants_us = []
    at_us = schedule.next_us(after_us)
    while at_us is not None and at_us <= until_us:
        instants_us.append(at_us)
        at_us = schedule.next_us(at_us)
    return instants_us


CRONS = [
    "* * * * *",
    "*/15 * * * *",
    "30 1-3 * * *",
    "0-59/20 0-5 * * *",
    "0 9 * * 1-5",
    "15 2 L * *",
    "*/7 */5 1,15 * 2",
    "0 0-3 * * MON#2",
    "10,40 0,1,2,3 28-31 * *",
    "0 */6 LW * *",
    "17 2 15W 3,10,11 *",
]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia"]
BEGIN = at("2025-10-20T00:00:00")


@st.composite
def schedules(draw: st.DrawFn, *, exclusions: bool = True) -> Schedule:
    text = draw(
        st.sampled_from(
            [*CRONS, "@every 17m", "@every 1h30m", "P1D", "P1M", "P3DT7H", "PT45M", "R7/PT45M", "R3/P1D", "in 3 hours"]
        )
    )
    return parse_schedule(
        text,
        timezone=draw(st.sampled_from(ZONES)),
        dst=draw(st.sampled_from(["robust", "literal"])),
        end=draw(st.sampled_from([None, "2025-11-03T00:00:00Z"])),
        exclude=draw(st.sampled_from([(), ("2025-10-26",), ("*/2 2 * * *",)])) if exclusions else (),
    ).anchor(BEGIN + draw(st.integers(0, 3 * DAY_US)))


MOMENTS = st.integers(BEGIN, BEGIN + 25 * DAY_US)


@given(schedules(), MOMENTS, MOMENTS)
@example(parse_schedule("30 1-3 * * *", timezone="Europe/Berlin"), BEGIN, BEGIN + 25 * DAY_US)
def test_counting_equals_walking(schedule: Schedule, a: int, b: int) -> None:
    a, b = sorted((a, b))
    expected = walk_all(schedule, a, b)
    counted = schedule.count_us(a, b)
    if counted is None:
        assert schedule.exclude or "D" in schedule.text or "P1M" in schedule.text
    else:
        assert counted == len(expected)
    if expected:
        assert last_us(schedule, expected[0], b) == expected[-1]
        assert count_instants(schedule, expected[0], b, len(expected)).count == len(expected)
        middle = len(expected) // 2
        assert nth_us(schedule, expected[0], middle, b) == expected[middle]
        assert nth_last_instant_us(schedule, expected[0], b, min(middle + 1, 50)) == expected[-min(middle + 1, 50)]


@given(
    st.sampled_from(CRONS),
    st.sampled_from(ZONES),
    st.sampled_from(["robust", "literal"]),
    st.integers(at("2005-01-01T00:00:00"), at("2035-01-01T00:00:00")),
    st.integers(0, 40 * DAY_US),
)
def test_cron_counts_through_daylight_saving_changes(text: str, zone: str, dst: str, a: int, length: int) -> None:
    schedule = parse_schedule(text, timezone=zone, dst=dst)
    assert schedule.count_us(a, a + length) == len(walk_all(schedule, a, a + length))


@dataclass
class Records:
    """A minimal store: the records of one job, and its cursor."""

    schedule: Instants
    next_us: int | None
    ran: list[int] = field(default_factory=list)
    recorded: list[int] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)

    def apply(self, planned: Plan, now_us: int, room: int) -> None:
        """Record a plan as the engine would; only ``room`` of its runs fit."""
        match planned:
            case NothingDue():
                pass
            case DuePlan(firings=firings):
                for run in firings[:room]:
                    self._run(run, now_us)
            case Gap(spans=spans, firings=firings):
                assert planned.expect_us == self.next_us
                for span in spans:
                    self._span(span)
                for run in firings[:room]:
                    self._run(run, now_us)
                self.next_us = firings[room].scheduled_us if room < len(firings) else planned.next_us

    def _run(self, run: Firing, now_us: int) -> None:
        assert run.scheduled_us <= run.due_us <= now_us
        assert run.id == ids.scheduled_execution_id(JOB, run.scheduled_us)
        self._see(run.id)
        self.ran.append(run.scheduled_us)
        self.recorded.append(run.scheduled_us)
        self.next_us = run.next_us

    def _span(self, span: Span) -> None:
        self._see(span.id)
        inside = [span.from_us, *walk_all(self.schedule, span.from_us, span.to_us)]
        assert inside[-1] == span.to_us
        at_least = "at least" in span.reason.message
        assert span.count <= len(inside) if at_least else span.count == len(inside)
        self.spans.append(span)
        self.recorded += inside

    def _see(self, record: bytes) -> None:
        assert record not in self.seen
        self.seen.add(record)


@given(
    schedules(),
    st.sampled_from(RecoveryStrategy),
    st.sampled_from([0, 30 * SECOND_US, 2 * HOUR_US]),
    st.tuples(st.integers(0, 30), st.sampled_from([0, HOUR_US, DAY_US, 40 * DAY_US])),
    st.sampled_from([0, 0, SECOND_US, 40 * MINUTE_US]),
    st.builds(Bounds, runs=st.integers(1, 40), steps=st.integers(1, 300), portions=st.integers(0, 50)),
    st.lists(st.tuples(st.integers(0, DAY_US) | st.integers(0, 12 * DAY_US), st.integers(0, 50)), max_size=8),
)
def test_every_instant_is_recorded_once_in_order_and_never_early(
    schedule: Schedule,
    strategy: RecoveryStrategy,
    after_us: int,
    limits: tuple[int, int],
    jitter_us: int,
    bounds: Bounds,
    steps: list[tuple[int, int]],
) -> None:
    effective = settings(strategy, max_count=limits[0], max_age_us=limits[1], after_us=after_us)
    schedule = replace(schedule, jitter_us=jitter_us, key="report")
    records = Records(schedule, activate_schedule(schedule, BEGIN).next_us)
    now_us = BEGIN

    def plan_once(room: int) -> Plan:
        planned = decide(now_us, effective, schedule, records.next_us, bounds)
        if isinstance(planned, DuePlan | Gap):
            assert len(planned.firings) <= bounds.runs
            assert len(planned.spans if isinstance(planned, Gap) else ()) <= 1
        records.apply(planned, now_us, room)
        return planned

    for step_us, room in steps:
        now_us += step_us
        plan_once(room)
    now_us += MINUTE_US
    plans = 0
    while not isinstance(planned := plan_once(1_000), NothingDue):
        plans += 1
        assert plans < 40_000
    # Converged: the records are a prefix of the schedule, and the next instant is not due yet.
    expected = walk_all(schedule, BEGIN, now_us)
    assert records.recorded == expected[: len(records.recorded)]
    rest = expected[len(records.recorded) :]
    assert records.next_us == (rest[0] if rest else schedule.next_us(max(now_us, BEGIN)))
    assert not rest or schedule.due_us(rest[0]) > now_us
    assert planned.wake_us == (None if records.next_us is None else schedule.due_us(records.next_us))
    if strategy is RecoveryStrategy.ALL:
        assert records.ran == records.recorded


@given(schedules(), st.integers(1, 25 * DAY_US), st.sampled_from(RecoveryStrategy))
def test_one_plan_of_a_gap_follows_its_strategy(schedule: Schedule, length: int, strategy: RecoveryStrategy) -> None:
    first_us = activate_schedule(schedule, BEGIN).next_us
    now_us = BEGIN + length
    if first_us is None or now_us - first_us <= 30 * SECOND_US:
        return
    effective = settings(strategy, max_count=5, max_age_us=2 * DAY_US)
    everything = walk_all(schedule, BEGIN, now_us)
    expected: dict[RecoveryStrategy, Callable[[], list[int]]] = {
        RecoveryStrategy.ALL: lambda: everything,
        RecoveryStrategy.SKIP: list,
        RecoveryStrategy.LAST: lambda: everything[-1:],
        RecoveryStrategy.COMPRESSED: lambda: everything[-1:],
        RecoveryStrategy.BOUNDED: lambda: [t for t in everything[-5:] if now_us - t <= 2 * DAY_US],
    }
    planned = decide(now_us, effective, schedule, first_us, Bounds(runs=10**6, steps=10**6))
    assert isinstance(planned, Gap)
    assert [run.scheduled_us for run in planned.firings] == expected[strategy]()
    if strategy is RecoveryStrategy.COMPRESSED:
        assert planned.firings[0].covers == CoveredSpan(from_us=first_us, to_us=everything[-1], count=len(everything))
