"""Parsing schedules: equal ones are shared between jobs, unless they depend on the job's name."""

import pytest

from chronos.core.job import JobSpec, ScheduleSpec
from chronos.core.schedule_change import resolve_instants


def resolve(name: str, text: str, **options: object) -> object:
    return resolve_instants(JobSpec(schedule=ScheduleSpec(text=text, **options)), name)  # type: ignore[arg-type]


def test_jobs_with_equal_schedules_share_one_object() -> None:
    assert resolve("a", "*/5 0-3 1,15 * *") is resolve("b", "*/5 0-3 1,15 * *")
    assert resolve("a", "0 9 * * *", timezone="Europe/Paris") is resolve("b", "0 9 * * *", timezone="Europe/Paris")
    assert resolve("a", "0 9 * * *", timezone="Europe/Paris") != resolve("b", "0 9 * * *", timezone="Europe/Rome")


@pytest.mark.parametrize(("text", "jitter_us"), [("H H * * *", 0), ("0 9 * * *", 60_000_000)])
def test_a_schedule_that_depends_on_the_name_is_not_shared(text: str, jitter_us: int) -> None:
    assert resolve("a", text, jitter_us=jitter_us) != resolve("b", text, jitter_us=jitter_us)
