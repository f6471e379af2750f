"""Retention: what a trim removes, what it keeps, and that it works in bounded steps."""

from collections.abc import Sequence
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import Cause, DeadLetter, Execution, Span, Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.job import JobState, UpstreamJob
from chronos.store.commands import Claimed, DeleteJob, OutputRow, Recover, RunOnSave, RunRow, Trim, WriteOutput
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.testing.conformance.fixture import SECOND, StoreFixture

DAY = 86_400 * SECOND
HOUR = 3_600 * SECOND
YEAR = 365 * DAY


async def case_history_of_jobs_that_seldom_run_is_trimmed(w: StoreFixture) -> None:
    counted = await w.save("counted", overlap=Overlap.ALLOW, keep_count=5)
    aged = await w.save("aged", overlap=Overlap.ALLOW, keep_age_us=2 * DAY)
    kept = await w.save("kept", overlap=Overlap.ALLOW)
    runs = [await w.admit_one("counted") for _ in range(20)]
    await w.store.apply(WriteOutput(rows=(OutputRow(runs[0].id, "task", 1, 0, "text"),)))
    await w.settle(*runs, await w.admit_one("aged"), await w.admit_one("kept"))
    assert await _trim(w) == 15
    assert [one.id for one in await _history(w, counted.id)] == sorted((run.id for run in runs[15:]), reverse=True)
    assert await w.store.output(runs[0].id) == []
    assert (len(await _history(w, aged.id)), len(await _history(w, kept.id))) == (1, 1)
    w.tick(3 * DAY)
    assert await _trim(w) == 1
    assert (len(await _history(w, aged.id)), len(await _history(w, counted.id))) == (0, 5)
    w.tick(100 * DAY)
    assert await _trim(w) >= 6
    assert (await w.store.list_executions(ExecutionFilter(), limit=9)).items == []


async def case_history_age_counts_from_the_end_of_an_execution(w: StoreFixture) -> None:
    """The age of its instants does not matter: they were backfilled or recovered late."""
    backfilled = await w.save("backfilled", overlap=Overlap.ALLOW, keep_age_us=10 * DAY)
    late = await w.save("late", overlap=Overlap.ALLOW, keep_age_us=10 * DAY, next_us=w.now - 200 * DAY)
    instants = [w.now - 200 * DAY + n * SECOND for n in range(70)]
    await w.backfill(backfilled.id, *instants)
    rows = tuple(RunRow(scheduled_execution_id(late.id, at_us), Cause.RECOVERY, at_us, at_us) for at_us in instants)
    gap = Recover(
        job=late.id,
        version=1,
        expect_us=instants[0],
        next_us=w.now + YEAR,
        runs=rows,
        spans=(),
        now_us=w.now,
    )
    await w.store.apply(gap)
    await w.settle(*await w.claim(200))
    for wait_us in (SECOND, HOUR, 9 * DAY):
        w.tick(wait_us)
        assert await _trim(w) == 0
        await w.store.maintain(w.now)
    assert (len(await _history(w, backfilled.id)), len(await _history(w, late.id))) == (70, 70)
    w.tick(2 * DAY)
    assert await _trim(w) == 140


async def case_finished_one_time_jobs_are_deleted_with_their_history(w: StoreFixture) -> None:
    options: dict[str, Any] = {"kind": "http", "keep_age_us": 2 * DAY, "next_us": w.now + SECOND}
    once = await w.save("once", tags={"team": "a"}, **options)
    await w.save("other", **options)
    await w.save("owned", owner="set", **options)
    await w.save("function", **options | {"kind": "python"})
    await w.save("follower", after=(UpstreamJob(job="other"),), **options)
    await w.save("busy", **options)
    young = (await w.save("young", **options)).id
    await w.settle(*await w.admit_next("once", "owned", "function", "follower", "young", last=True))
    await w.admit_next("busy", last=True)
    assert (await w.store.counts()).jobs == {JobState.ACTIVE: 1, JobState.DONE: 6}
    w.tick(DAY)
    assert await _trim(w) == 0, "a job is kept as long as its history"
    w.tick(DAY + HOUR)
    await w.settle(await _trigger_and_claim(w, young))
    assert await _trim(w) == 5 + 1, "five histories and one job"
    names = [job.name for job in (await w.store.list_jobs(JobFilter(), limit=9)).items]
    assert names == ["busy", "follower", "function", "other", "owned", "young"]
    assert (await w.store.counts()).jobs == {JobState.ACTIVE: 1, JobState.DONE: 5}
    assert (await w.store.list_jobs(JobFilter(tag=("team", "a")), limit=9)).items == []
    assert await _name(w, once.id) is None
    assert (await w.save("once", next_us=w.now + SECOND)).id != once.id
    assert len(await _history(w, young)) == 1
    w.tick(YEAR)
    await _trim(w)
    names = [job.name for job in (await w.store.list_jobs(JobFilter(), limit=9)).items]
    assert names == ["busy", "follower", "function", "once", "other", "owned"]


async def case_a_job_that_ran_on_save_is_deleted_with_its_history(w: StoreFixture) -> None:
    options: dict[str, Any] = {"kind": "http", "next_us": None, "state": JobState.DONE, "keep_age_us": 2 * DAY}
    once = (await w.save("once", run=RunOnSave(), **options)).id
    [run] = await w.claim()
    await w.settle(run)
    w.tick(DAY)
    assert await _trim(w) == 0
    again = await _trigger_and_claim(w, once)
    assert again.job == once, "the job can be triggered until then"
    await w.settle(again)
    w.tick(DAY + HOUR)
    assert await _trim(w) == 1, "the first run"
    w.tick(DAY)
    assert await _trim(w) == 1 + 1, "the second run, and the job"
    assert (await w.store.counts()).jobs == {}


async def case_a_finished_job_without_history_is_kept_for_its_retention(w: StoreFixture) -> None:
    """It has no history; its retention counts from its creation or last change."""
    await w.save("never", kind="http", next_us=None, state=JobState.DONE, keep_age_us=2 * DAY)
    await w.save("once", kind="http", next_us=w.now + SECOND, keep_age_us=2 * DAY, keep_count=0)
    await w.settle(*await w.admit_next("once", last=True))
    assert await _trim(w) == 1
    w.tick(DAY)
    await w.save("never", kind="http", next_us=None, state=JobState.DONE, keep_age_us=2 * DAY, description="changed")
    w.tick(DAY + HOUR)
    assert await _trim(w) == 1
    assert [job.name for job in (await w.store.list_jobs(JobFilter(), limit=9)).items] == ["never"]
    w.tick(DAY)
    assert await _trim(w) == 1
    assert (await w.store.counts()).jobs == {}


async def case_a_trim_never_exceeds_its_limit(w: StoreFixture) -> None:
    """With many jobs, and with much history of one job, everything is trimmed in the end."""
    names = [f"job-{n:03}" for n in range(230)]
    for name in names:
        await w.save(name, overlap=Overlap.ALLOW, keep_count=1, next_us=w.now + SECOND)
    for _ in range(3):
        await w.settle(*await w.admit_next(*names))
    for _ in range(50):
        await w.settle(await w.admit_one("job-100"))
    trims = [await w.store.apply(Trim(now_us=w.now, limit=7)) for _ in range(120)]
    assert (sum(trims), max(trims)) == (2 * len(names) + 50, 7)
    assert len((await w.store.list_executions(ExecutionFilter(), limit=500)).items) == len(names)


async def case_the_sweep_repeats(w: StoreFixture) -> None:
    """The sweep repeats after a pause, even if the clock was wrong by weeks."""
    saved = await w.save(overlap=Overlap.ALLOW, keep_count=1)
    for wait_us in (0, 2 * HOUR):
        w.tick(wait_us)
        await w.settle(*[await w.admit_one() for _ in range(3)])
        assert await _trim(w) > 0
        assert len(await _history(w, saved.id)) == 1
    await w.store.apply(Trim(now_us=w.now + 50 * DAY, limit=100))
    await w.settle(*[await w.admit_one() for _ in range(3)])
    assert await _trim(w) == 3


async def case_dead_letters_are_trimmed_by_age(w: StoreFixture) -> None:
    short = await w.save("short", overlap=Overlap.ALLOW, keep_count=0, keep_age_us=DAY)
    long = await w.save("long", overlap=Overlap.ALLOW, keep_age_us=YEAR)
    gone = await w.save("gone", overlap=Overlap.ALLOW, keep_count=0)
    runs = [await w.admit_one(name) for name in ("short", "long", "gone")]
    await w.settle(*runs, status=Status.FAILED, dead_letter=True)
    assert await _trim(w, keep_deleted_us=30 * DAY) == 2, "the history of the jobs that keep none"
    await w.store.apply(DeleteJob(job=gone.id, now_us=w.tick()))
    w.tick(20 * DAY)
    await _trim(w, keep_deleted_us=30 * DAY)
    assert {letter.job for letter in await _dead_letters(w)} == {short.id, long.id, gone.id}
    assert await _name(w, gone.id) == "gone", "the dead letter still shows the name"
    w.tick(15 * DAY)
    await _trim(w, keep_deleted_us=30 * DAY)
    assert {letter.job for letter in await _dead_letters(w)} == {long.id}
    w.tick(YEAR)
    await _trim(w, keep_deleted_us=30 * DAY)
    assert await _dead_letters(w) == []


async def case_names_and_versions_of_deleted_jobs_are_finally_removed(w: StoreFixture) -> None:
    saved = await w.save("gone", overlap=Overlap.ALLOW)
    await w.save("gone", overlap=Overlap.ALLOW, description="changed")
    first, running = await w.admit_one("gone"), await w.admit_one("gone")
    await w.settle(first)
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick()))
    await _trim(w)
    assert [version.version for version in await w.store.versions(saved.id, limit=9)] == [2, 1]
    w.tick(2 * YEAR)
    for _ in range(3):
        w.tick(10 * DAY)
        await _trim(w)
    assert await _history(w, saved.id) == [await w.execution(running.id)], "a running execution is kept"
    assert await _name(w, saved.id) == "gone"
    again = await w.save("gone", overlap=Overlap.ALLOW, next_us=w.now + SECOND)
    assert again.id != saved.id, "an execution still runs under that id"
    await w.store.apply(DeleteJob(job=again.id, now_us=w.tick()))
    await w.settle(running)
    for _ in range(100):
        w.tick(10 * DAY)
        await _trim(w)
    for job in (saved.id, again.id):
        assert await w.store.versions(job, limit=9) == []
        assert await _name(w, job) is None
        assert await _history(w, job) == []
    recreated = await w.save("gone", overlap=Overlap.ALLOW, next_us=w.now + SECOND)
    await w.settle(await w.admit_one("gone"))
    assert [version.version for version in await w.store.versions(recreated.id, limit=9)] == [1]
    await w.store.apply(DeleteJob(job=recreated.id, now_us=w.tick()))
    assert (await w.save("gone")).id not in (recreated.id, saved.id)


async def case_unused_keys_are_removed_and_limit_again_when_reused(w: StoreFixture) -> None:
    job = await w.save(overlap=Overlap.ALLOW, keyed=True)
    for _ in range(2):
        held, waits = await w.trigger(job.id, key="k"), await w.trigger(job.id, key="k")
        assert (held.status, waits.status) == (Status.READY, Status.QUEUED)
        w.tick(2 * HOUR)
        assert await _trim(w) == 0, "the key is in use"
        await w.settle(*await w.claim())
        await w.wake()
        await w.settle(*await w.claim())
        w.tick(2 * HOUR)
        await _trim(w)


async def _trim(w: StoreFixture, **options: int) -> int:
    """Trim until nothing is left to trim. Returns the number of removed rows."""
    total = 0
    while removed := await w.store.apply(Trim(now_us=w.now, limit=1_000, **options)):
        total += removed
    return total


async def _history(w: StoreFixture, job: bytes) -> Sequence[Execution | Span]:
    return (await w.store.list_executions(ExecutionFilter(job=job), limit=100)).items


async def _dead_letters(w: StoreFixture) -> Sequence[DeadLetter]:
    return (await w.store.list_dead_letters(namespace=None, limit=9)).items


async def _name(w: StoreFixture, job: bytes) -> str | None:
    full_name = (await w.store.names_of([job])).get(job)
    return None if full_name is None else full_name.name


async def _trigger_and_claim(w: StoreFixture, job: bytes) -> Claimed:
    await w.trigger(job)
    [claimed] = await w.claim()
    return claimed
