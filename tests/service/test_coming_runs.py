"""The diff of the coming runs, also while an earlier change of the schedule is under way."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from chronos.core.calendar import to_us
from chronos.core.config import NOTHING_SET, UpdatePolicy
from chronos.core.ids import job_id
from chronos.core.job import Job
from chronos.core.schedule.occurrences import walk
from chronos.core.schedule_change import find_next_run_us, resolve_instants
from chronos.service.save_plan import DIFF_WINDOW_US, PlanCache, plan_save
from chronos.service.serializers import Draft, read_job, write_job
from chronos.testing.clock import START
from tests.support.service_world import HOUR_US, World, in_world

NOW_US = to_us(START)
TEXTS = st.sampled_from(["0 9 * * *", "0 10 * * *", "30 */6 * * *", "@every 7h", "0 9 * * 1-5"])


def draft(schedule: str, policy: UpdatePolicy | None, **update: Any) -> Draft:
    fields = {"name": "job", "schedule": schedule, "wait": {"for": "1s"}, "update": {"policy": "windowed", **update}}
    return structs.replace(read_job(fields, checks={"wait": lambda _: None}), update_policy=policy)


def save(one: Draft, existing: Job | None, now_us: int) -> tuple[Job, Any]:
    """Save a draft without a store; returns the job and the diff."""
    plan = plan_save(one, existing, cache=PlanCache(NOTHING_SET), now_us=now_us)
    if plan.row is None:
        assert existing is not None
        return existing, plan.diff
    job = Job(
        id=job_id("default", "job", 1),
        namespace="default",
        name="job",
        incarnation=1,
        version=1 if existing is None else existing.version + 1,
        state=plan.state,
        spec=plan.row.spec,
        next_us=plan.next_us,
        created_us=now_us,
        updated_us=now_us,
    )
    return job, plan.diff


def coming(job: Job, now_us: int) -> list[int]:
    """The runs as the engine makes them: from the cursor on."""
    instants = resolve_instants(job.spec, job.name)
    if instants is None:
        return []
    until_us = now_us + DIFF_WINDOW_US
    return [us for us in walk(instants, job.next_us, until_us) if us > now_us]


def run_until(job: Job, now_us: int) -> Job:
    """Move the cursor as the engine does."""
    instants, next_us = resolve_instants(job.spec, job.name), job.next_us
    while instants is not None and next_us is not None and next_us <= now_us:
        next_us = instants.next_us(next_us)
    return replace(job, next_us=next_us)


CHANGES = st.tuples(
    TEXTS,
    st.sampled_from([None, *UpdatePolicy]),
    st.sampled_from([{"count": 1}, {"count": 3}, {"duration": "26h"}]),
    st.integers(0, 40),  # hours since the change before
)


@given(first=TEXTS, changes=st.lists(CHANGES, min_size=1, max_size=6))
def test_the_diff_is_what_runs(first: str, changes: list[tuple[str, UpdatePolicy | None, dict[str, Any], int]]) -> None:
    now_us = NOW_US
    job, _ = save(draft(first, None, count=1), None, now_us)
    for text, policy, update, hours in changes:
        now_us += hours * HOUR_US
        job = run_until(job, now_us)
        before = coming(job, now_us)
        job, changed = save(draft(text, policy, **update), job, now_us)
        after = coming(job, now_us)
        if changed is None:
            assert before == after
            continue
        assert changed.whole
        counts = changed.added.count, changed.cancelled.count, changed.kept.count
        kept = set(before) & set(after)
        assert counts == (len(after) - len(kept), len(before) - len(kept), len(kept))
        assert set(changed.cancelled.first_us) <= set(before) - kept
        assert set(changed.added.first_us) <= set(after) - kept


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_instant_that_a_graceful_change_kept_is_canceled_by_an_immediate_one(dry_run: bool) -> None:
    async def case(world: World) -> None:
        await world.save(schedule="0 9 * * *")
        gentle = await world.save(schedule="0 10 * * *", update="graceful")
        assert gentle.diff is not None
        assert gentle.diff.kept.first_us == (NOW_US + 9 * HOUR_US,)
        saved = await world.save(schedule="0 11 * * *", update="immediate", dry_run=dry_run)
        assert saved.diff is not None
        assert saved.diff.cancelled.first_us[:2] == (NOW_US + 9 * HOUR_US, NOW_US + 10 * HOUR_US)
        assert saved.diff.added.first_us[:2] == (NOW_US + 11 * HOUR_US, NOW_US + 35 * HOUR_US)

    in_world(case)


def test_versions_are_compared_as_they_run() -> None:
    async def case(world: World) -> None:
        await world.save(schedule="0 9 * * *")
        await world.save(schedule="0 10 * * *", update="graceful")
        changed = await world.jobs.diff("job", 1, 2)
        assert changed.runs.kept.first_us == (NOW_US + 9 * HOUR_US,)
        assert changed.runs.added.first_us[0] == NOW_US + 10 * HOUR_US

    in_world(case)


def test_the_next_run_of_a_paused_job_is_what_resuming_would_run() -> None:
    async def case(world: World) -> None:
        await world.save(schedule="0 * * * *")
        job = await world.switch("pause", "job")
        assert find_next_run_us(job, world.clock.us) == NOW_US + HOUR_US
        world.clock.us += 5 * HOUR_US // 2
        held = write_job(job, now_us=world.clock.us)
        assert (held["next_run_at"], held["held"]) == ("2027-01-01T03:00:00Z", True)
        assert await world.jobs.next_runs("job", 2) == (NOW_US + 3 * HOUR_US, NOW_US + 4 * HOUR_US)
        resumed = await world.switch("resume", "job")
        assert find_next_run_us(resumed, world.clock.us) == resumed.next_us == NOW_US + 3 * HOUR_US
        disabled = await world.switch("disable", "job")
        assert write_job(disabled, now_us=world.clock.us)["next_run_at"] is None
        await world.save("manual", schedule="manual")
        assert "held" not in write_job(await world.switch("pause", "manual"), now_us=world.clock.us)

    in_world(case)
