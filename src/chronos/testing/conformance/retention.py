"""Retention: what a trim removes, what it keeps, and that it works in bounded steps."""

from collections.abc import Sequence
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import Cause, DeadLetter, Execution, Span, Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.job import JobState, UpstreamJob
from chronos.store.commands import Claimed, DeleteJob, OutputRow, Recover, RunOnSave, RunRow, Trim, WriteOutput
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture

DAY = 86_400 * SECOND_US
HOUR = 3_600 * SECOND_US
YEAR = 365 * DAY


async def case_history_of_jobs_that_seldom_run_is_trimmed(fixture: StoreFixture) -> None:
    counted = await fixture.save("counted", overlap=Overlap.ALLOW, keep_count=5)
    aged = await fixture.save("aged", overlap=Overlap.ALLOW, keep_age_us=2 * DAY)
    kept = await fixture.save("kept", overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one("counted") for _ in range(20)]
    await fixture.store.apply(WriteOutput(rows=(OutputRow(runs[0].id, "task", 1, 0, "text"),)))
    await fixture.settle(*runs, await fixture.admit_one("aged"), await fixture.admit_one("kept"))
    assert await _trim(fixture) == 15
    assert [one.id for one in await _history(fixture, counted.id)] == sorted(
        (run.id for run in runs[15:]), reverse=True
    )
    assert await fixture.store.output(runs[0].id) == []
    assert (len(await _history(fixture, aged.id)), len(await _history(fixture, kept.id))) == (1, 1)
    fixture.tick(3 * DAY)
    assert await _trim(fixture) == 1
    assert (len(await _history(fixture, aged.id)), len(await _history(fixture, counted.id))) == (0, 5)
    fixture.tick(100 * DAY)
    assert await _trim(fixture) >= 6
    assert (await fixture.store.list_executions(ExecutionFilter(), limit=9)).items == []


async def case_history_age_counts_from_the_end_of_an_execution(fixture: StoreFixture) -> None:
    """The age of its instants does not matter: they were backfilled or recovered late."""
    backfilled = await fixture.save("backfilled", overlap=Overlap.ALLOW, keep_age_us=10 * DAY)
    late = await fixture.save("late", overlap=Overlap.ALLOW, keep_age_us=10 * DAY, next_us=fixture.now_us - 200 * DAY)
    instants = [fixture.now_us - 200 * DAY + n * SECOND_US for n in range(70)]
    await fixture.backfill(backfilled.id, *instants)
    rows = tuple(RunRow(scheduled_execution_id(late.id, at_us), Cause.RECOVERY, at_us, at_us) for at_us in instants)
    gap = Recover(
        job=late.id,
        version=1,
        expect_us=instants[0],
        next_us=fixture.now_us + YEAR,
        runs=rows,
        spans=(),
        now_us=fixture.now_us,
    )
    await fixture.store.apply(gap)
    await fixture.settle(*await fixture.claim(200))
    for wait_us in (SECOND_US, HOUR, 9 * DAY):
        fixture.tick(wait_us)
        assert await _trim(fixture) == 0
        await fixture.store.maintain(fixture.now_us)
    assert (len(await _history(fixture, backfilled.id)), len(await _history(fixture, late.id))) == (70, 70)
    fixture.tick(2 * DAY)
    assert await _trim(fixture) == 140


async def case_finished_one_time_jobs_are_deleted_with_their_history(fixture: StoreFixture) -> None:
    options: dict[str, Any] = {"kind": "http", "keep_age_us": 2 * DAY, "next_us": fixture.now_us + SECOND_US}
    once = await fixture.save("once", tags={"team": "a"}, **options)
    await fixture.save("other", **options)
    await fixture.save("owned", owner="set", **options)
    await fixture.save("function", **options | {"kind": "python"})
    await fixture.save("follower", after=(UpstreamJob(job="other"),), **options)
    await fixture.save("busy", **options)
    young = (await fixture.save("young", **options)).id
    await fixture.settle(*await fixture.admit_next("once", "owned", "function", "follower", "young", last=True))
    await fixture.admit_next("busy", last=True)
    assert (await fixture.store.counts()).jobs == {JobState.ACTIVE: 1, JobState.DONE: 6}
    fixture.tick(DAY)
    assert await _trim(fixture) == 0, "a job is kept as long as its history"
    fixture.tick(DAY + HOUR)
    await fixture.settle(await _trigger_and_claim(fixture, young))
    assert await _trim(fixture) == 5 + 1, "five histories and one job"
    names = [job.name for job in (await fixture.store.list_jobs(JobFilter(), limit=9)).items]
    assert names == ["busy", "follower", "function", "other", "owned", "young"]
    assert (await fixture.store.counts()).jobs == {JobState.ACTIVE: 1, JobState.DONE: 5}
    assert (await fixture.store.list_jobs(JobFilter(tag=("team", "a")), limit=9)).items == []
    assert await _name(fixture, once.id) is None
    assert (await fixture.save("once", next_us=fixture.now_us + SECOND_US)).id != once.id
    assert len(await _history(fixture, young)) == 1
    fixture.tick(YEAR)
    await _trim(fixture)
    names = [job.name for job in (await fixture.store.list_jobs(JobFilter(), limit=9)).items]
    assert names == ["busy", "follower", "function", "once", "other", "owned"]


async def case_a_job_that_ran_on_save_is_deleted_with_its_history(fixture: StoreFixture) -> None:
    options: dict[str, Any] = {"kind": "http", "next_us": None, "state": JobState.DONE, "keep_age_us": 2 * DAY}
    once = (await fixture.save("once", run=RunOnSave(), **options)).id
    [run] = await fixture.claim()
    await fixture.settle(run)
    fixture.tick(DAY)
    assert await _trim(fixture) == 0
    again = await _trigger_and_claim(fixture, once)
    assert again.job == once, "the job can be triggered until then"
    await fixture.settle(again)
    fixture.tick(DAY + HOUR)
    assert await _trim(fixture) == 1, "the first run"
    fixture.tick(DAY)
    assert await _trim(fixture) == 1 + 1, "the second run, and the job"
    assert (await fixture.store.counts()).jobs == {}


async def case_a_finished_job_without_history_is_kept_for_its_retention(fixture: StoreFixture) -> None:
    """It has no history; its retention counts from its creation or last change."""
    await fixture.save("never", kind="http", next_us=None, state=JobState.DONE, keep_age_us=2 * DAY)
    await fixture.save("once", kind="http", next_us=fixture.now_us + SECOND_US, keep_age_us=2 * DAY, keep_count=0)
    await fixture.settle(*await fixture.admit_next("once", last=True))
    assert await _trim(fixture) == 1
    fixture.tick(DAY)
    await fixture.save(
        "never", kind="http", next_us=None, state=JobState.DONE, keep_age_us=2 * DAY, description="changed"
    )
    fixture.tick(DAY + HOUR)
    assert await _trim(fixture) == 1
    assert [job.name for job in (await fixture.store.list_jobs(JobFilter(), limit=9)).items] == ["never"]
    fixture.tick(DAY)
    assert await _trim(fixture) == 1
    assert (await fixture.store.counts()).jobs == {}


async def case_a_trim_never_exceeds_its_limit(fixture: StoreFixture) -> None:
    """With many jobs, and with much history of one job, everything is trimmed in the end."""
    names = [f"job-{n:03}" for n in range(230)]
    for name in names:
        await fixture.save(name, overlap=Overlap.ALLOW, keep_count=1, next_us=fixture.now_us + SECOND_US)
    for _ in range(3):
        await fixture.settle(*await fixture.admit_next(*names))
    for _ in range(50):
        await fixture.settle(await fixture.admit_one("job-100"))
    trims = [await fixture.store.apply(Trim(now_us=fixture.now_us, limit=7)) for _ in range(120)]
    assert (sum(trims), max(trims)) == (2 * len(names) + 50, 7)
    assert len((await fixture.store.list_executions(ExecutionFilter(), limit=500)).items) == len(names)


async def case_the_sweep_repeats(fixture: StoreFixture) -> None:
    """The sweep repeats after a pause, even if the clock was wrong by weeks."""
    saved = await fixture.save(overlap=Overlap.ALLOW, keep_count=1)
    for wait_us in (0, 2 * HOUR):
        fixture.tick(wait_us)
        await fixture.settle(*[await fixture.admit_one() for _ in range(3)])
        assert await _trim(fixture) > 0
        assert len(await _history(fixture, saved.id)) == 1
    await fixture.store.apply(Trim(now_us=fixture.now_us + 50 * DAY, limit=100))
    await fixture.settle(*[await fixture.admit_one() for _ in range(3)])
    assert await _trim(fixture) == 3


async def case_dead_letters_are_trimmed_by_age(fixture: StoreFixture) -> None:
    short = await fixture.save("short", overlap=Overlap.ALLOW, keep_count=0, keep_age_us=DAY)
    long = await fixture.save("long", overlap=Overlap.ALLOW, keep_age_us=YEAR)
    gone = await fixture.save("gone", overlap=Overlap.ALLOW, keep_count=0)
    runs = [await fixture.admit_one(name) for name in ("short", "long", "gone")]
    await fixture.settle(*runs, status=Status.FAILED, dead_letter=True)
    assert await _trim(fixture, keep_deleted_us=30 * DAY) == 2, "the history of the jobs that keep none"
    await fixture.store.apply(DeleteJob(job=gone.id, now_us=fixture.tick()))
    fixture.tick(20 * DAY)
    await _trim(fixture, keep_deleted_us=30 * DAY)
    assert {letter.job for letter in await _dead_letters(fixture)} == {short.id, long.id, gone.id}
    assert await _name(fixture, gone.id) == "gone", "the dead letter still shows the name"
    fixture.tick(15 * DAY)
    await _trim(fixture, keep_deleted_us=30 * DAY)
    assert {letter.job for letter in await _dead_letters(fixture)} == {long.id}
    fixture.tick(YEAR)
    await _trim(fixture, keep_deleted_us=30 * DAY)
    assert await _dead_letters(fixture) == []


async def case_names_and_versions_of_deleted_jobs_are_finally_removed(fixture: StoreFixture) -> None:
    saved = await fixture.save("gone", overlap=Overlap.ALLOW)
    await fixture.save("gone", overlap=Overlap.ALLOW, description="changed")
    first, running = await fixture.admit_one("gone"), await fixture.admit_one("gone")
    await fixture.settle(first)
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick()))
    await _trim(fixture)
    assert [version.version for version in await fixture.store.versions(saved.id, limit=9)] == [2, 1]
    fixture.tick(2 * YEAR)
    for _ in range(3):
        fixture.tick(10 * DAY)
        await _trim(fixture)
    assert await _history(fixture, saved.id) == [await fixture.execution(running.id)], "a running execution is kept"
    assert await _name(fixture, saved.id) == "gone"
    again = await fixture.save("gone", overlap=Overlap.ALLOW, next_us=fixture.now_us + SECOND_US)
    assert again.id != saved.id, "an execution still runs under that id"
    await fixture.store.apply(DeleteJob(job=again.id, now_us=fixture.tick()))
    await fixture.settle(running)
    for _ in range(100):
        fixture.tick(10 * DAY)
        await _trim(fixture)
    for job in (saved.id, again.id):
        assert await fixture.store.versions(job, limit=9) == []
        assert await _name(fixture, job) is None
        assert await _history(fixture, job) == []
    recreated = await fixture.save("gone", overlap=Overlap.ALLOW, next_us=fixture.now_us + SECOND_US)
    await fixture.settle(await fixture.admit_one("gone"))
    assert [version.version for version in await fixture.store.versions(recreated.id, limit=9)] == [1]
    await fixture.store.apply(DeleteJob(job=recreated.id, now_us=fixture.tick()))
    assert (await fixture.save("gone")).id not in (recreated.id, saved.id)


async def case_unused_keys_are_removed_and_limit_again_when_reused(fixture: StoreFixture) -> None:
    job = await fixture.save(overlap=Overlap.ALLOW, keyed=True)
    for _ in range(2):
        held, waits = await fixture.trigger(job.id, key="k"), await fixture.trigger(job.id, key="k")
        assert (held.status, waits.status) == (Status.READY, Status.QUEUED)
        fixture.tick(2 * HOUR)
        assert await _trim(fixture) == 0, "the key is in use"
        await fixture.settle(*await fixture.claim())
        await fixture.wake()
        await fixture.settle(*await fixture.claim())
        fixture.tick(2 * HOUR)
        await _trim(fixture)


async def _trim(fixture: StoreFixture, **options: int) -> int:
    """Trim until nothing is left to trim. Returns the number of removed rows."""
    total = 0
    while removed := await fixture.store.apply(Trim(now_us=fixture.now_us, limit=1_000, **options)):
        total += removed
    return total


async def _history(fixture: StoreFixture, job: bytes) -> Sequence[Execution | Span]:
    return (await fixture.store.list_executions(ExecutionFilter(job=job), limit=100)).items


async def _dead_letters(fixture: StoreFixture) -> Sequence[DeadLetter]:
    return (await fixture.store.list_dead_letters(namespace=None, limit=9)).items


async def _name(fixture: StoreFixture, job: bytes) -> str | None:
    full_name = (await fixture.store.names_of([job])).get(job)
    return None if full_name is None else full_name.name


async def _trigger_and_claim(fixture: StoreFixture, job: bytes) -> Claimed:
    await fixture.trigger(job)
    [claimed] = await fixture.claim()
    return claimed
