"""The declarative scheduler against a model of its specification, which knows neither jobs nor stores."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.declarative_app import FRIDAY, MINUTE, SchedulerHost, simulate

pytestmark = pytest.mark.usefixtures("rare_housekeeping")
HALF_A_SECOND = timedelta(milliseconds=500)  # so that no start or stop falls on a due instant


@dataclass(frozen=True, kw_only=True)
class Case:
    """One task, and a scheduler that runs twice."""

    minutes: frozenset[int]
    delay_s: int
    takes_s: int
    fails: tuple[bool, ...]
    first_run: timedelta
    pause: timedelta
    second_run: timedelta

    @property
    def cron(self) -> str:
        return f"{','.join(str(minute) for minute in sorted(self.minutes))} * * * *"


cases = st.builds(
    Case,
    minutes=st.one_of(
        st.just(frozenset(range(60))),
        st.frozensets(st.integers(0, 59), min_size=1, max_size=4),
        st.sampled_from([frozenset({0, 15, 30, 45}), frozenset({0, 1}), frozenset({5})]),
    ),
    delay_s=st.sampled_from([0, 7, 30, 60, 90, 300, 3_600]),
    takes_s=st.sampled_from([0, 5, 59, 60, 61, 200, 1_000]),
    fails=st.lists(st.booleans(), max_size=8).map(tuple),
    first_run=st.integers(1, 60).map(lambda minutes: minutes * MINUTE - HALF_A_SECOND),
    pause=st.integers(0, 180).map(lambda minutes: minutes * MINUTE),
    second_run=st.integers(1, 60).map(lambda minutes: minutes * MINUTE - HALF_A_SECOND),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases)
def test_calls_happen_when_the_specification_says(case: Case) -> None:
    async def scenario(host: SchedulerHost) -> None:
        task = host.task(cron=case.cron, delay=timedelta(seconds=case.delay_s), fails=case.fails, takes_s=case.takes_s)
        periods = []
        for duration, pause in ((case.first_run, case.pause), (case.second_run, timedelta(0))):
            started = host.now()
            await host.run_for([task], duration)
            periods.append((started, started + duration))
            await host.sleep_until(host.now() + pause)
        assert [at for _, at in host.calls] == expect_calls(case, periods)

    with TemporaryDirectory() as folder:
        simulate(scenario, f"sqlite:///{folder}/tasks.db", start=FRIDAY + HALF_A_SECOND / 2)


def expect_calls(case: Case, periods: Sequence[tuple[datetime, datetime]]) -> list[datetime]:
    """The next call follows from the start, end and outcome of the last one, and waits for a running scheduler."""
    calls: list[datetime] = []
    fails = list(case.fails)
    due: datetime | None = None  # of a task that has run
    for started, ends in periods:
        first = started if started.minute in case.minutes else find_next(case, started)
        at = first if due is None else max(due, started)
        while at < ends:
            calls.append(at)
            ended = at + timedelta(seconds=case.takes_s)
            due = max(ended, find_next(case, at))
            if fails and fails.pop(0):
                due = min(due, ended + timedelta(seconds=case.delay_s))
            at = due
    return calls


def find_next(case: Case, after: datetime) -> datetime:
    """The first matching minute after an instant."""
    at = after.replace(second=0, microsecond=0, tzinfo=UTC) + MINUTE
    while at.minute not in case.minutes:
        at += MINUTE
    return at
