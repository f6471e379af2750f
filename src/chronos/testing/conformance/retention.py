"""Retention: what goes though nothing happens to it any more, what stays, and that it goes a little at a time."""

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
    await w.store.apply(WriteOutput(rows=(OutputRow(runs[0].id, "task", 1, 0, "said"),)))
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


async def case_history_is_kept_from_its_end_on(w: StoreFixture) -> None:
    """However long ago its instants are: what was asked for late, or recovered late."""
    asked = await w.save("asked", overlap=Overlap.ALLOW, keep_age_us=10 * DAY)
    late = await w.save("late", overlap=Overlap.ALLOW, keep_age_us=10 * DAY, next_us=w.now - 200 * DAY)
    instants = [w.now - 200 * DAY + n * SECOND for n in range(70)]
    await w.backfill(asked.id, *instants)
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
    assert (len(await _history(w, asked.id)), len(await _history(w, late.id))) == (70, 70)
    w.tick(2 * DAY)
    assert await _trim(w) == 140


async def case_jobs_that_are_done_go_with_their_history(w: StoreFixture) -> None:
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
    assert await _trim(w) == 0, "it is kept as long as its history"
    w.tick(DAY + HOUR)
    await w.settle(await _triggered(w, young))
    assert await _trim(w) == 5 + 1, "their history, and the one that is all over"
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


async def case_a_job_that_ran_at_once_goes_with_its_history(w: StoreFixture) -> None:
    options: dict[str, Any] = {"kind": "http", "next_us": None, "state": JobState.DONE, "keep_age_us": 2 * DAY}
    once = (await w.save("once", run=RunOnSave(), **options)).id
    [run] = await w.claim()
    await w.settle(run)
    w.tick(DAY)
    assert await _trim(w) == 0
    again = await _triggered(w, once)
    assert again.job == once, "it can be triggered until then"
    await w.settle(again)
    w.tick(DAY + HOUR)
    assert await _trim(w) == 1, "the first run"
    w.tick(DAY)
    assert await _trim(w) == 1 + 1, "the second one, and the job"
    assert (await w.store.counts()).jobs == {}


async def case_a_job_that_is_done_stays_as_long_as_one_may_look_at_it(w: StoreFixture) -> None:
    """Though nothing of it is on record, and though it was only just made or changed."""
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


async def case_a_trim_is_never_more_than_its_limit(w: StoreFixture) -> None:
    """However many jobs there are, and however much of one: all of it goes in the end, and then nothing more."""
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


async def case_the_round_comes_by_again(w: StoreFixture) -> None:
    """Not at once, which would cost for nothing; but even after a clock that was wrong by years."""
    saved = await w.save(overlap=Overlap.ALLOW, keep_count=1)
    for wait_us in (0, 2 * HOUR):
        w.tick(wait_us)
        await w.settle(*[await w.admit_one() for _ in range(3)])
        assert await _trim(w) > 0
        assert len(await _history(w, saved.id)) == 1
    await w.store.apply(Trim(now_us=w.now + 50 * DAY, limit=100))
    await w.settle(*[await w.admit_one() for _ in range(3)])
    assert await _trim(w) == 3


async def case_dead_letters_go_by_age(w: StoreFixture) -> None:
    short = await w.save("short", overlap=Overlap.ALLOW, keep_count=0, keep_age_us=DAY)
    long = await w.save("long", overlap=Overlap.ALLOW, keep_age_us=YEAR)
    gone = await w.save("gone", overlap=Overlap.ALLOW, keep_count=0)
    runs = [await w.admit_one(name) for name in ("short", "long", "gone")]
    await w.settle(*runs, status=Status.FAILED, dead_letter=True)
    assert await _trim(w, keep_deleted_us=30 * DAY) == 2, "the history of those that keep none"
    await w.store.apply(DeleteJob(job=gone.id, now_us=w.tick()))
    w.tick(20 * DAY)
    await _trim(w, keep_deleted_us=30 * DAY)
    assert {letter.job for letter in await _letters(w)} == {short.id, long.id, gone.id}
    assert await _name(w, gone.id) == "gone", "for those who look at the dead letter"
    w.tick(15 * DAY)
    await _trim(w, keep_deleted_us=30 * DAY)
    assert {letter.job for letter in await _letters(w)} == {long.id}
    w.tick(YEAR)
    await _trim(w, keep_deleted_us=30 * DAY)
    assert await _letters(w) == []


async def case_what_is_known_of_deleted_jobs_goes_at_last(w: StoreFixture) -> None:
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
    assert await _history(w, saved.id) == [await w.execution(running.id)], "what runs is no history yet"
    assert await _name(w, saved.id) == "gone"
    again = await w.save("gone", overlap=Overlap.ALLOW, next_us=w.now + SECOND)
    assert again.id != saved.id, "something still runs under that id"
    await w.store.apply(DeleteJob(job=again.id, now_us=w.tick()))
    await w.settle(running)
    for _ in range(100):
        w.tick(10 * DAY)
        await _trim(w)
    for job in (saved.id, again.id):
        assert await w.store.versions(job, limit=9) == []
        assert await _name(w, job) is None
        assert await _history(w, job) == []
    anew = await w.save("gone", overlap=Overlap.ALLOW, next_us=w.now + SECOND)
    await w.settle(await w.admit_one("gone"))
    assert [version.version for version in await w.store.versions(anew.id, limit=9)] == [1]
    await w.store.apply(DeleteJob(job=anew.id, now_us=w.tick()))
    assert (await w.save("gone")).id not in (anew.id, saved.id)


async def case_keys_that_nobody_uses_are_forgotten_and_limit_the_next(w: StoreFixture) -> None:
    job = await w.save(overlap=Overlap.ALLOW, keyed=True)
    for _ in range(2):
        held, waits = await w.trigger(job.id, key="k"), await w.trigger(job.id, key="k")
        assert (held.status, waits.status) == (Status.READY, Status.QUEUED)
        w.tick(2 * HOUR)
        assert await _trim(w) == 0, "it is in use"
        await w.settle(*await w.claim())
        await w.wake()
        await w.settle(*await w.claim())
        w.tick(2 * HOUR)
        await _trim(w)


async def _trim(w: StoreFixture, **options: int) -> int:
    """Trim until nothing goes any more."""
    total = 0
    while went := await w.store.apply(Trim(now_us=w.now, limit=1_000, **options)):
        total += went
    return total


async def _history(w: StoreFixture, job: bytes) -> Sequence[Execution | Span]:
    return (await w.store.list_executions(ExecutionFilter(job=job), limit=100)).items


async def _letters(w: StoreFixture) -> Sequence[DeadLetter]:
    return (await w.store.list_dead_letters(namespace=None, limit=9)).items


async def _name(w: StoreFixture, job: bytes) -> str | None:
    found = (await w.store.names_of([job])).get(job)
    return None if found is None else found.name


async def _triggered(w: StoreFixture, job: bytes) -> Claimed:
    await w.trigger(job)
    [claimed] = await w.claim()
    return claimed
