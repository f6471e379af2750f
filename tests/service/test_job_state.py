"""Concurrent state changes and saves of one job: no change is undone, and related changes are atomic."""

import asyncio
from typing import Any

import pytest

from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.errors import Conflict, QueueFull, StoreUnavailable
from chronos.service.save_jobs import SavedJob
from chronos.store.commands import Command, SaveJobs, SetJobState
from chronos.store.contract import ExecutionFilter
from tests.support.service_world import HOUR_US, START_US, World, in_world, shape

ANA = Actor(name="ana")


class Between:
    """Makes a change once, between another change's plan and its write."""

    def __init__(self, world: World, kind: type[Command[Any]], happens: Any) -> None:
        self.sent: list[Command[Any]] = []
        self._apply, self._kind, self._happens = world.store.apply, kind, happens
        world.store.apply = self  # type: ignore[method-assign]

    async def __call__(self, command: Command[Any]) -> Any:
        if isinstance(command, self._kind) and self._happens is not None:
            happens, self._happens = self._happens, None
            await happens()
        self.sent.append(command)
        return await self._apply(command)


async def actions(world: World) -> list[str]:
    return sorted(line.action for line in (await world.store.audit(namespace="default", limit=99)).items)


async def spans(world: World) -> list[int]:
    page = await world.runs.list(ExecutionFilter(job=(await world.jobs.get("job")).id))
    return [one.count for one in page.items if isinstance(one, Span)]


def test_two_concurrent_resumes_are_one_change() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.switch("pause", "job")
        world.tick(3 * HOUR_US + 1)
        one, other = await asyncio.gather(world.switch("resume", "job"), world.switch("resume", "job"))
        assert one == other == await world.jobs.get("job")
        assert await spans(world) == [3]
        assert await actions(world) == ["create", "pause", "resume"]

    in_world(case)


def test_a_faster_resume_wins() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.switch("pause", "job")
        world.tick(3 * HOUR_US + 1)

        async def later() -> None:
            world.tick(2 * HOUR_US)
            await world.switch("resume", "job")

        Between(world, SetJobState, later)
        job = await world.switch("resume", "job")
        assert (job.state, job.next_us) == (JobState.ACTIVE, START_US + 6 * HOUR_US)
        assert job == await world.jobs.get("job")
        assert await spans(world) == [5]

    in_world(case)


def test_a_job_resumed_and_paused_again_stays_paused() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.switch("pause", "job")
        world.tick(3 * HOUR_US + 1)

        async def again() -> None:
            await world.switch("resume", "job")
            world.tick(2 * HOUR_US)
            await world.switch("pause", "job")

        Between(world, SetJobState, again)
        with pytest.raises(Conflict, match="was resumed and paused again"):
            await world.switch("resume", "job")
        world.tick(HOUR_US)
        await world.switch("resume", "job")
        assert sorted(await spans(world)) == [3, 3]

    in_world(case)


def test_a_concurrently_disabled_job_is_not_paused() -> None:
    async def case(world: World) -> None:
        await world.save()
        Between(world, SetJobState, lambda: world.switch("disable", "job", reason="off"))
        with pytest.raises(Conflict, match="it was active and is now disabled"):
            await world.switch("pause", "job")
        job = await world.jobs.get("job")
        assert (job.state, job.note, job.next_us) == (JobState.DISABLED, "off", None)

    in_world(case)


@pytest.mark.parametrize("expect", [None, 1])
def test_saving_does_not_undo_a_pause(expect: int | None) -> None:
    async def case(world: World) -> None:
        await world.save()
        Between(world, SaveJobs, lambda: world.switch("pause", "job", reason="holiday"))
        saved = await world.save(description="new", expect=expect)
        job = await world.jobs.get("job")
        assert (saved.state, saved.version) == (JobState.PAUSED, 2)
        assert (job.state, job.note, job.version) == (JobState.PAUSED, "holiday", 2)

    in_world(case)


def test_a_changed_version_is_still_a_conflict() -> None:
    async def case(world: World) -> None:
        await world.save()
        Between(world, SaveJobs, lambda: world.save(description="theirs"))
        with pytest.raises(Conflict, match="you have version 1, the current one is 2"):
            await world.save(description="mine", expect=1)
        assert (await world.jobs.get("job")).spec.description == "theirs"

    in_world(case)


def test_applied_state_changes_are_one_command_and_audited() -> None:
    async def case(world: World) -> None:
        read = world.jobs.read
        await world.saver.apply([read(shape("a")), read(shape("b", enabled=False)), read(shape("c"))], owner="repo")
        new = [read(shape("a", enabled=False)), read(shape("b", enabled=True)), read(shape("c")), read(shape("d"))]
        world.tick(HOUR_US)
        planned = await world.saver.apply(new, owner="repo", dry_run=True)
        assert [(await world.jobs.get(name)).state for name in "ab"] == [JobState.ACTIVE, JobState.DISABLED]

        async def fail() -> None:
            raise StoreUnavailable("the store is away")

        between = Between(world, Command, fail)
        with pytest.raises(StoreUnavailable):
            await world.saver.apply(new, owner="repo", actor=ANA)
        assert [(await world.jobs.get(name)).state for name in "ab"] == [JobState.ACTIVE, JobState.DISABLED]
        done = await world.saver.apply(new, owner="repo", actor=ANA)
        assert [type(command) for command in between.sent] == [SaveJobs]
        for plan in (planned, done):
            assert [one.name for one in plan.created] == ["d"]
            assert [one.name for one in plan.unchanged] == ["c"]
            assert [(one.name, one.version, one.state, one.next_us) for one in plan.changed] == [
                ("a", 1, JobState.DISABLED, None),
                ("b", 1, JobState.ACTIVE, START_US + 2 * HOUR_US),
            ]
            diffs = [one.diff for one in plan.changed if one.diff is not None]
            assert [(diff.added.count > 0, diff.cancelled.count > 0) for diff in diffs] == [
                (False, True),
                (True, False),
            ]
        for one in done.changed:
            job = await world.jobs.get(one.name)
            assert (job.state, job.next_us, job.version) == (one.state, one.next_us, 1)
        assert {"disable", "enable"} <= set(await actions(world))
        again = await world.saver.apply(new, owner="repo")
        assert len(again.unchanged) == 4

    in_world(case)


def test_an_apply_is_planned_again_after_a_concurrent_state_change() -> None:
    async def case(world: World) -> None:
        read = world.jobs.read
        await world.saver.apply([read(shape("job"))], owner="repo")
        Between(world, SaveJobs, lambda: world.switch("disable", "job", reason="theirs"))
        plan = await world.saver.apply([read(shape("job", enabled=False)), read(shape("b"))], owner="repo")
        assert [one.name for one in plan.unchanged] == ["job"]
        assert (await world.jobs.get("job")).note == "theirs"

    in_world(case)


def test_enabling_a_job_whose_only_instant_passed_makes_it_done() -> None:
    async def case(world: World) -> None:
        await world.save(schedule={"in": "1h"}, enabled=False)
        world.tick(2 * HOUR_US)
        saved = await world.save(schedule={"in": "1h"}, enabled=True)
        assert (saved.state, saved.next_us, saved.version) == (JobState.DONE, None, 1)
        assert (await world.jobs.get("job")).state is JobState.DONE

    in_world(case)


def test_a_job_that_ran_once_stays_done_when_disabled_and_enabled() -> None:
    async def case(world: World) -> None:
        await world.save(schedule=None)
        for change in ("disable", "enable", "enable"):
            assert (await world.switch(change, "job")).state is JobState.DONE
            assert (await world.jobs.get("job")).state is JobState.DONE
        assert await actions(world) == ["create", "trigger"]
        off = await world.save(schedule="manual", enabled=False)
        assert off.state is JobState.DISABLED
        assert (await world.switch("enable", "job")).state is JobState.ACTIVE

    in_world(case)


def test_an_immediate_job_and_its_run_are_one_command() -> None:
    async def case(world: World) -> None:
        async def fail() -> None:
            raise StoreUnavailable("the store is away")

        between = Between(world, Command, fail)
        with pytest.raises(StoreUnavailable):
            await world.save(schedule="now", actor=ANA)
        assert (await world.runs.list()).items == []
        saved = await world.save(schedule="now", actor=ANA)
        assert [type(command) for command in between.sent] == [SaveJobs]
        [run] = (await world.runs.list()).items
        assert isinstance(run, Execution)
        assert (run.job, run.cause, run.status) == (saved.job_id, Cause.MANUAL, Status.READY)
        assert await actions(world) == ["create", "trigger"]
        off = await world.save(schedule="now", enabled=False)
        on = await world.save(schedule="now", enabled=True)
        assert (off.state, on.state, on.version) == (JobState.DONE, JobState.DONE, 1)
        assert len((await world.runs.list()).items) == 1
        await world.save("off", schedule="now", enabled=False)
        assert len((await world.runs.list()).items) == 1

    in_world(case)


def test_a_job_beyond_the_queue_limit_does_not_affect_others() -> None:
    async def case(world: World) -> None:
        full = shape("full", schedule="now", overlap="queue", queue_max=1)
        await world.saver.save([world.jobs.read(full)])
        await world.saver.save([world.jobs.read({**full, "description": "second"})])
        drafts = [world.jobs.read(one) for one in (shape("a"), {**full, "description": "third"}, shape("b"))]
        with pytest.raises(QueueFull, match='"full" cannot run now, because its queue is full'):
            await world.saver.save(drafts)
        first, second, third = await world.saver.save_each(drafts)
        assert isinstance(second, QueueFull)
        assert isinstance(first, SavedJob)
        assert isinstance(third, SavedJob)
        assert (await world.jobs.get("full")).version == 2

    in_world(case)
