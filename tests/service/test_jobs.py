"""Saving jobs, changing their state, and their next runs."""

import pytest

from chronos.core.calendar import SECOND_US, rfc3339
from chronos.core.config import Overlap
from chronos.core.execution import Cause, Execution, Span, Status
from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.core.schedule.occurrences import walk
from chronos.core.schedule_change import resolve_instants
from chronos.errors import ChronosError, Conflict, Invalid, NotFound
from chronos.service.serializers import Draft, InvalidJob, id_text
from chronos.store.contract import ExecutionFilter, JobFilter
from tests.support.service_world import HOUR_US, START_US, World, in_world, shape

ANA = Actor(name="ana")


async def hours(world: World, name: str = "job", count: int = 4) -> list[float]:
    """Return the next runs of a job, in hours after the start."""
    return [(us - START_US) / HOUR_US for us in await world.jobs.next_runs(name, count)]


def test_a_new_job_starts_at_its_first_instant() -> None:
    async def case(world: World) -> None:
        saved = await world.save(actor=ANA)
        assert (saved.version, saved.created, saved.changed, saved.state) == (1, True, True, JobState.ACTIVE)
        assert saved.next_us == START_US + HOUR_US
        job = await world.jobs.get("job")
        assert (job.id, job.next_us) == (saved.job_id, saved.next_us)
        assert await world.jobs.get(id_text(job.id)) == job
        assert await world.jobs.get(job.id.hex()) == job
        assert [one.author for one in await world.jobs.versions("job")] == ["ana"]

    in_world(case)


def test_an_interval_is_anchored_when_it_is_saved_and_keeps_its_anchor() -> None:
    async def case(world: World) -> None:
        await world.save(schedule={"every": "1h"})
        world.tick(90 * 60 * SECOND_US)
        again = await world.save(schedule={"every": "1h"})
        assert (again.changed, again.version) == (False, 1)
        assert again.next_us == START_US + HOUR_US  # not admitted yet
        described = await world.save(schedule={"every": "1h"}, description="new")
        assert (described.changed, described.version, described.diff) == (True, 2, None)
        job = await world.jobs.get("job")
        assert job.spec.schedule is not None
        assert job.spec.schedule.start_us == START_US
        assert job.next_us == START_US + HOUR_US

    in_world(case)


def test_counted_repetitions_start_immediately() -> None:
    async def case(world: World) -> None:
        saved = await world.save(schedule="R3/PT1H")
        assert saved.next_us == START_US
        assert await hours(world, count=10) == [0, 1, 2]

    in_world(case)


def test_create_only_and_stale_versions_are_conflicts() -> None:
    async def case(world: World) -> None:
        await world.save()
        with pytest.raises(Conflict, match="exists already"):
            await world.save(create_only=True)
        await world.save(description="two", expect=1)
        with pytest.raises(Conflict, match="you have version 1, the current one is 2"):
            await world.save(description="three", expect=1)
        with pytest.raises(Conflict, match="was deleted"):
            await world.save("other", expect=1)

    in_world(case)


def test_a_dry_run_writes_nothing() -> None:
    async def case(world: World) -> None:
        planned = await world.save(dry_run=True)
        assert (planned.created, planned.version) == (True, 1)
        with pytest.raises(NotFound):
            await world.jobs.get("job")
        await world.save()
        planned = await world.save(schedule="30 * * * *", dry_run=True)
        assert planned.diff is not None
        assert planned.diff.added.first_us[0] == START_US + HOUR_US // 2
        assert planned.diff.cancelled.count == 720
        assert (await world.jobs.get("job")).version == 1

    in_world(case)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ("immediate", [0.5, 1.5, 2.5, 3.5]),
        ("graceful", [1, 1.5, 2.5, 3.5]),
        ({"policy": "windowed", "count": 2}, [1, 2, 2.5, 3.5]),
        ({"policy": "windowed", "duration": "3h"}, [1, 2, 3, 3.5]),
    ],
)
def test_a_new_schedule_takes_over(update: object, expected: list[float]) -> None:
    async def case(world: World) -> None:
        await world.save()
        saved = await world.save(schedule="30 * * * *", update=update)
        assert (saved.version, saved.changed) == (2, True)
        assert saved.diff is not None
        assert await hours(world) == expected
        again = await world.save(schedule="30 * * * *", update=update)
        assert (again.changed, again.version) == (False, 2)
        ran = []
        for _ in expected:
            admitted = await world.admit()
            await world.settle(admitted)
            ran.append((world.clock.us - START_US) / HOUR_US)
        assert ran == expected

    in_world(case)


def test_a_schedule_can_be_replaced_before_it_took_over() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.save(schedule="30 * * * *", update={"policy": "windowed", "count": 3})
        await world.save(schedule="45 * * * *", update={"policy": "windowed", "count": 5})
        assert await hours(world, count=8) == [1, 2, 3, 3.5, 4.5, 4.75, 5.75, 6.75]
        other = await world.save(schedule="45 * * * *", update={"policy": "windowed", "count": 5}, description="x")
        assert other.changed
        assert await hours(world, count=8) == [1, 2, 3, 3.5, 4.5, 4.75, 5.75, 6.75]
        for _ in range(6):
            await world.settle(await world.admit())
        await world.save(schedule="45 * * * *", description="y")
        assert (await world.jobs.get("job")).spec.outgoing is None

    in_world(case)


def test_a_past_instant_is_rejected() -> None:
    async def case(world: World) -> None:
        late = rfc3339(START_US - 20 * SECOND_US)
        saved = await world.save(schedule={"at": late})
        assert saved.next_us == START_US - 20 * SECOND_US
        with pytest.raises(InvalidJob, match="is in the past") as caught:
            await world.save("old", schedule={"at": rfc3339(START_US - 31 * SECOND_US)})
        assert caught.value.problems[0].pointer == "/schedule/at"
        patient = await world.save("old", schedule={"at": rfc3339(START_US - HOUR_US)}, recovery={"after": "2h"})
        assert patient.next_us == START_US - HOUR_US
        await world.save("other")
        moved = await world.save("other", schedule={"at": late})
        assert moved.next_us == START_US - 20 * SECOND_US

    in_world(case)


def test_a_done_one_time_job_is_active_again_with_a_new_time() -> None:
    async def case(world: World) -> None:
        await world.save(schedule={"in": "1h"})
        await world.settle(await world.admit())
        assert (await world.jobs.get("job")).state is JobState.DONE
        world.tick(HOUR_US)
        described = await world.save(schedule={"in": "1h"}, description="x")
        assert (described.state, described.next_us) == (JobState.DONE, None)
        assert (await world.switch("enable", "job")).state is JobState.DONE
        again = await world.save(schedule={"in": "2h"})
        assert (again.state, again.next_us) == (JobState.ACTIVE, START_US + 4 * HOUR_US)

    in_world(case)


def test_pausing_and_resuming() -> None:
    async def case(world: World) -> None:
        await world.save()
        paused = await world.switch("pause", "job", reason="too loud", actor=ANA)
        assert (paused.state, paused.note) == (JobState.PAUSED, "too loud")
        assert await world.jobs.next_runs("job", 1) == (START_US + HOUR_US,)
        assert (await world.save(enabled=True)).state is JobState.PAUSED
        world.tick(3 * HOUR_US + 1)
        resumed = await world.switch("resume", "job", actor=ANA)
        assert (resumed.state, resumed.next_us) == (JobState.ACTIVE, START_US + 4 * HOUR_US)
        stored = await world.jobs.get("job")
        assert (stored.state, stored.next_us, stored.note) == (JobState.ACTIVE, START_US + 4 * HOUR_US, "")
        page = await world.runs.list(ExecutionFilter(job=stored.id))
        [span] = page.items
        assert isinstance(span, Span)
        assert (span.status, span.count) == (Status.SKIPPED, 3)
        assert await world.switch("resume", "job") == stored

    in_world(case)


def test_disabling_and_enabling() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.switch("disable", "job", reason="off")
        with pytest.raises(Conflict, match="enable it first"):
            await world.switch("pause", "job")
        world.tick(5 * HOUR_US)
        enabled = await world.switch("enable", "job")
        assert (enabled.state, enabled.next_us) == (JobState.ACTIVE, START_US + 6 * HOUR_US)
        off = await world.save(enabled=False)
        assert (off.state, off.changed, off.version) == (JobState.DISABLED, True, 1)
        assert off.diff is not None
        assert (off.diff.added.count, off.diff.cancelled.count) == (0, 720)
        assert not (await world.save(enabled=False)).changed
        assert (await world.jobs.get("job")).state is JobState.DISABLED
        on = await world.save(enabled=True, description="new")
        assert (on.state, on.next_us) == (JobState.ACTIVE, START_US + 6 * HOUR_US)
        assert (await world.save("born", enabled=False)).state is JobState.DISABLED

    in_world(case)


def test_an_immediate_job_is_saved_and_runs_once() -> None:
    async def case(world: World) -> None:
        saved = await world.save(schedule=None, payload={"a": 1})
        assert (saved.state, saved.next_us) == (JobState.DONE, None)
        assert not (await world.save(schedule=None, payload={"a": 1})).changed
        await world.save(schedule=None, payload={"a": 2})
        [run] = (await world.runs.list()).items
        assert isinstance(run, Execution)
        assert (run.job, run.cause, run.status) == (saved.job_id, Cause.MANUAL, Status.READY)
        assert (await world.save(schedule="now", payload={"a": 3})).state is JobState.DONE
        assert len((await world.runs.list()).items) == 2
        assert (await world.save("hand", schedule="manual")).state is JobState.ACTIVE
        assert len((await world.runs.list()).items) == 2

    in_world(case)


def test_a_job_that_ran_once_can_become_a_manual_one() -> None:
    async def case(world: World) -> None:
        await world.save(schedule=None)
        back = await world.save(schedule="manual")
        assert (back.state, back.changed, back.version) == (JobState.ACTIVE, True, 1)
        await world.save("other", schedule=None)
        changed = await world.save("other", schedule="manual", description="new")
        assert (changed.state, changed.version) == (JobState.ACTIVE, 2)
        assert len((await world.runs.list()).items) == 2

    in_world(case)


def test_a_job_that_runs_now_and_follows_another_stays_active() -> None:
    async def case(world: World) -> None:
        await world.save("first", schedule="manual")
        assert (await world.save("then", schedule="now", after=["first"])).state is JobState.ACTIVE

    in_world(case)


def test_similar_names_are_suggested() -> None:
    async def case(world: World) -> None:
        await world.save("nightly-etl")
        with pytest.raises(NotFound, match="did you mean 'nightly-etl'"):
            await world.jobs.get("nightly-elt")
        with pytest.raises(NotFound):
            await world.jobs.get("0" * 32)

    in_world(case)


def test_a_deleted_job_can_be_created_again() -> None:
    async def case(world: World) -> None:
        first = await world.save()
        with pytest.raises(Conflict):
            await world.jobs.delete("job", expect=7)
        await world.jobs.delete("job", expect=1)
        second = await world.save()
        assert second.created
        assert second.job_id != first.job_id
        many = [world.jobs.read(shape(f"job-{n}")) for n in range(20)]
        await world.saver.save([world.jobs.read(shape(description="x")), *many])
        assert (await world.jobs.get("job")).version == 2

    in_world(case)


def test_versions_can_be_compared_and_rolled_back() -> None:
    async def case(world: World) -> None:
        await world.save(schedule="0 * * * *", tags={"a": "1"})
        await world.save(schedule="30 * * * *", tags={"a": "2"}, owner="x")
        version_diff = await world.jobs.diff("job", 1, 2)
        assert {(one.pointer, one.old, one.new) for one in version_diff.fields} == {
            ("/schedule", "0 * * * *", "30 * * * *"),
            ("/tags/a", "1", "2"),
            ("/owner", None, "x"),
        }
        assert (version_diff.runs.added.count, version_diff.runs.cancelled.count) == (720, 720)
        back = await world.jobs.rollback("job", 1)
        assert back.version == 3
        job = await world.jobs.get("job")
        assert job.spec == (await world.jobs.version("job", 1)).spec
        with pytest.raises(NotFound, match='version 9 of "job" not found'):
            await world.jobs.rollback("job", 9)
        assert [one.version for one in await world.jobs.versions("job")] == [3, 2, 1]

    in_world(case)


def test_upstream_jobs_must_exist_without_cycles() -> None:
    async def case(world: World) -> None:
        with pytest.raises(InvalidJob, match='job "a" not found') as caught:
            await world.save("b", schedule=None, after=["a"])
        assert caught.value.problems[0].pointer == "/after/0/job"
        read = world.jobs.read
        await world.saver.save([read(shape("b", schedule=None, after=["a"])), read(shape("a"))])
        await world.save("c", schedule=None, after=[{"job": "b", "on": "failure"}])
        with pytest.raises(InvalidJob, match="a → b → c → a"):
            await world.save("a", after=["c"])
        assert (await world.runs.list()).items == []

    in_world(case)


def test_bulk_saves_use_few_commands_and_fail_independently() -> None:
    async def case(world: World) -> None:
        drafts = [world.jobs.read(shape(f"job-{n:04}")) for n in range(1200)]
        saved = await world.saver.save(drafts)
        assert all(one.created for one in saved)
        again = await world.saver.save(drafts)
        assert not any(one.changed for one in again)
        bad = world.jobs.read(shape("bad", schedule=rfc3339(START_US - HOUR_US)))
        late = world.jobs.read(shape("late", schedule=None, after=["good"]))
        good = world.jobs.read(shape("good"))
        results = await world.saver.save_each([bad, late, good])
        assert [isinstance(one, ChronosError) for one in results] == [True, False, False]

    in_world(case)


def test_apply_saves_and_prunes_the_jobs_of_an_owner() -> None:
    async def case(world: World) -> None:
        def drafts(*names: str, **fields: object) -> list[Draft]:
            return [world.jobs.read(shape(name, **fields)) for name in names]

        await world.save("theirs", owner="other")
        plan = await world.saver.apply(drafts("a", "b", "c"), owner="repo", prune=True)
        assert [one.name for one in plan.created] == ["a", "b", "c"]
        new = [*drafts("a"), *drafts("b", schedule="@daily")]
        planned = await world.saver.apply(new, owner="repo", prune=True, dry_run=True)
        assert (await world.jobs.get("c")).version == 1
        done = await world.saver.apply(new, owner="repo", prune=True)
        for one in (planned, done):
            assert [saved.name for saved in one.unchanged] == ["a"]
            assert [(saved.name, saved.diff is not None) for saved in one.changed] == [("b", True)]
            assert [job.name for job in one.pruned] == ["c"]
        page = await world.jobs.list(JobFilter(namespace="default"))
        assert [job.name for job in page.items] == ["a", "b", "theirs"]
        with pytest.raises(Invalid, match="exceed the limit"):
            await world.saver.apply(drafts("a") * 10_001, owner="repo")

    in_world(case)


def test_a_lost_race_is_planned_again() -> None:
    async def case(world: World) -> None:
        await world.save()
        draft = world.jobs.read(shape(description="mine"))
        read = world.store.job_named
        raced: list[str] = []

        async def slow(namespace: str, name: str) -> object:
            found = await read(namespace, name)
            if not raced:
                raced.append(name)
                await world.save(tags={"theirs": ""})
            return found

        world.store.job_named = slow  # type: ignore[method-assign, assignment]
        [saved] = await world.saver.save([draft])
        assert (saved.version, saved.changed) == (3, True)

    in_world(case)


def test_a_preview_has_words_and_warnings() -> None:
    async def case(world: World) -> None:
        seen = world.jobs.preview({"cron": "30 2 * * *", "timezone": "Europe/Paris"}, count=3)
        assert seen.words == "Daily at 02:30, Europe/Paris"
        assert len(seen.next_us) == 3
        assert [one.kind for one in seen.oddities] == ["moved", "once"]
        with pytest.raises(InvalidJob, match="hour"):
            world.jobs.preview("0 25 * * *")
        with pytest.raises(InvalidJob, match="no schedule"):
            world.jobs.preview("now")

    in_world(case)


def test_the_gate_is_derived_from_the_settings() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow", concurrency={"limit": 3}, queue="eu", python={"name": "f"})
        job = await world.jobs.get("job")
        assert (await world.jobs.effective_settings(job)).overlap is Overlap.ALLOW
        assert list((await world.store.lanes()).values()) == ['{"queue":"eu","functions":["f"]}']

    in_world(case)


def test_next_runs_follow_the_schedule_in_force() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.save(schedule="30 * * * *", update={"policy": "windowed", "count": 2})
        job = await world.jobs.get("job")
        instants = resolve_instants(job.spec, job.name)
        assert instants is not None
        until_us = START_US + 4 * HOUR_US
        found = [(us - START_US) / HOUR_US for us in walk(instants, instants.next_us(START_US), until_us)]
        assert found == [1, 2, 2.5, 3.5]

    in_world(case)
