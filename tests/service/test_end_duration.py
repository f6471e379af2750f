"""An ``end`` that is a duration: it counts from the start, or from the save that sets it, and stays."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos import Chronos, Invalid
from chronos.core.calendar import SECOND_US
from chronos.core.config import NOTHING_SET
from chronos.core.job import Job, JobState
from chronos.service.save_plan import PlanCache, plan_save
from chronos.service.schedule_preview import preview_schedule
from chronos.service.serializers import Draft, InvalidJob, read_job

NOW_US = 1_800_000_000_000_000
MINUTE_US, HOUR_US = 60 * SECOND_US, 3_600 * SECOND_US
HOUR = timedelta(hours=1)


def draft(schedule: Any, **fields: Any) -> Draft:
    return read_job(
        {"name": "j", "schedule": schedule, "wait": {"for": "1s"}, **fields}, checks={"wait": lambda _: None}
    )


def save(draft: Draft, existing: Job | None, now_us: int) -> Job:
    row = plan_save(draft, existing, cache=PlanCache(NOTHING_SET), now_us=now_us).row
    if row is None:
        assert existing is not None
        return existing
    return Job(
        id=bytes(16),
        namespace="default",
        name="j",
        incarnation=0,
        version=1 if existing is None else existing.version + 1,
        spec=row.spec,
        state=row.state or JobState.ACTIVE,
        next_us=row.next_us,
        created_us=now_us,
        updated_us=now_us,
    )


@given(
    schedule=st.sampled_from(["0 9 * * *", "@every 5m", "R5/PT10M", "every 2 hours", ["0 9 * * *", "@every 7m"]]),
    hours=st.integers(1, 1_000),
    later_us=st.integers(0, 10_000 * HOUR_US),
    policy=st.sampled_from(["immediate", "graceful"]),
)
def test_saving_again_later_changes_nothing(schedule: Any, hours: int, later_us: int, policy: str) -> None:
    written = draft(schedule, end=f"{hours}h", update=policy)
    first = save(written, None, NOW_US)
    assert first.spec.schedule is not None
    assert first.spec.schedule.start_us == NOW_US
    assert first.spec.schedule.end_us == NOW_US + hours * HOUR_US
    assert save(written, first, NOW_US + later_us) is first
    other = save(draft(schedule, end=f"{hours + 1}h", update=policy), first, NOW_US + MINUTE_US)
    assert other.version == 2
    again = draft(schedule, end=f"{hours + 1}h", update=policy)
    assert save(again, other, NOW_US + MINUTE_US + later_us) is other


def test_a_counted_schedule_keeps_its_first_run() -> None:
    job = save(draft("R3/PT1H", end="2h"), None, NOW_US)
    assert job.next_us == NOW_US


def test_it_counts_from_a_given_start() -> None:
    job = save(draft("@daily", start="2027-06-01T00:00:00Z", end="36h"), None, NOW_US)
    assert job.spec.schedule is not None
    assert (job.spec.schedule.end_us or 0) - (job.spec.schedule.start_us or 0) == 36 * HOUR_US


@pytest.mark.parametrize("end", ["0s", "0", "40000d", "soon", "8", "2027-13-01"])
def test_a_wrong_end_is_refused(end: str) -> None:
    with pytest.raises(InvalidJob, match="end"):
        draft("@daily", end=end)


def test_a_preview_ends_with_it() -> None:
    preview = preview_schedule({"every": "1h", "end": "150m"}, now_us=NOW_US, count=10)
    assert [us - NOW_US for us in preview.next_us] == [HOUR_US, 2 * HOUR_US]


def test_an_app_takes_text_timedeltas_and_seconds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    for version in (1, 1):
        app = Chronos(url)
        for name, end in (("text", "8h"), ("timedelta", 8 * HOUR), ("seconds", 8 * 3600)):
            info = app.job(name=name, cron="0 9 * * *", end=end)(lambda: None).info()
            assert (info.start, info.version) != (None, 0)
            assert info.end is not None
            assert info.start is not None
            assert (info.end - info.start, info.version) == (8 * HOUR, version)
        app.stop()
    app = Chronos(url)
    info = app.get("text").update(end=2 * HOUR)
    assert info.end is not None
    assert timedelta() < info.end - datetime.now(UTC) <= 2 * HOUR
    with pytest.raises(Invalid, match="end"):
        app.get("text").update(end=-1)
    app.stop()
