"""The face against a model of its specification: a page of arithmetic that knows neither jobs nor stores."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.declarative_app import FRIDAY, MINUTE, Bed, simulate

pytestmark = pytest.mark.usefixtures("calm")
HALF_A_SECOND = timedelta(milliseconds=500)  # nobody starts or stops in the very instant in which something is due


@dataclass(frozen=True, kw_only=True)
class Case:
    """One task, and a scheduler that lives twice."""

    minutes: frozenset[int]
    delay_s: int
    takes_s: int
    fails: tuple[bool, ...]
    first_life: timedelta
    pause: timedelta
    second_life: timedelta

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
    first_life=st.integers(1, 60).map(lambda minutes: minutes * MINUTE - HALF_A_SECOND),
    pause=st.integers(0, 180).map(lambda minutes: minutes * MINUTE),
    second_life=st.integers(1, 60).map(lambda minutes: minutes * MINUTE - HALF_A_SECOND),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases)
def test_calls_are_made_when_the_specification_says(case: Case) -> None:
    async def scenario(bed: Bed) -> None:
        task = bed.task(cron=case.cron, delay=timedelta(seconds=case.delay_s), fails=case.fails, takes_s=case.takes_s)
        lives = []
        for life, pause in ((case.first_life, case.pause), (case.second_life, timedelta(0))):
            begun = bed.now()
            await bed.lasting([task], life)
            lives.append((begun, begun + life))
            await bed.until(bed.now() + pause)
        assert [at for _, at in bed.calls] == expected(case, lives)

    with TemporaryDirectory() as folder:
        simulate(scenario, f"sqlite:///{folder}/tasks.db", start=FRIDAY + HALF_A_SECOND / 2)


def expected(case: Case, lives: Sequence[tuple[datetime, datetime]]) -> list[datetime]:
    """After each call the next one follows from its start, its end and how it ended; it waits for a life to be in."""
    calls: list[datetime] = []
    fails = list(case.fails)
    due: datetime | None = None  # of a task that has run
    for begun, ends in lives:
        first = begun if begun.minute in case.minutes else following(case, begun)
        at = first if due is None else max(due, begun)
        while at < ends:
            calls.append(at)
            over = at + timedelta(seconds=case.takes_s)
            due = max(over, following(case, at))
            if fails and fails.pop(0):
                due = min(due, over + timedelta(seconds=case.delay_s))
            at = due
    return calls


def following(case: Case, after: datetime) -> datetime:
    """The first minute that matches, after an instant."""
    at = after.replace(second=0, microsecond=0, tzinfo=UTC) + MINUTE
    while at.minute not in case.minutes:
        at += MINUTE
    return at
