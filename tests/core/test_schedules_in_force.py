"""Schedules in force: one that is the same for all jobs is made once, one that depends on the name for each."""

import pytest

from chronos.core.job import JobSpec, ScheduleSpec
from chronos.core.schedule_change import resolve_instants


def of(name: str, text: str, **options: object) -> object:
    return resolve_instants(JobSpec(schedule=ScheduleSpec(text=text, **options)), name)  # type: ignore[arg-type]


def test_jobs_that_say_the_same_share_their_schedule() -> None:
    assert of("a", "*/5 0-3 1,15 * *") is of("b", "*/5 0-3 1,15 * *")
    assert of("a", "0 9 * * *", timezone="Europe/Paris") is of("b", "0 9 * * *", timezone="Europe/Paris")
    assert of("a", "0 9 * * *", timezone="Europe/Paris") != of("b", "0 9 * * *", timezone="Europe/Rome")


@pytest.mark.parametrize(("text", "jitter_us"), [("H H * * *", 0), ("0 9 * * *", 60_000_000)])
def test_what_depends_on_the_name_is_made_for_each(text: str, jitter_us: int) -> None:
    assert of("a", text, jitter_us=jitter_us) != of("b", text, jitter_us=jitter_us)
