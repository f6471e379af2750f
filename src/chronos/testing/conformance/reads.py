"""Reads: due jobs, lists and their pages, counts, retention."""

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Execution, Status
from chronos.core.job import JobState
from chronos.store.commands import DeleteJob, SaveJobs, Trim
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.testing.conformance.fixture import SECOND, T0, StoreFixture, ended_attempt

DAY = 86_400 * SECOND
MS = 1_000


async def case_due_jobs_are_listed_earliest_first(w: StoreFixture) -> None:
    ids = {}
    for name, seconds in (("c", 30), ("a", 10), ("b", 20)):
        ids[name] = (await w.save(name, next_us=T0 + seconds * SECOND)).id
    await w.save("never", next_us=None)
    due = await w.store.due(T0 + 20 * SECOND, 10)
    assert [(d.job, d.next_us, d.version) for d in due] == [
        (ids["a"], T0 + 10 * SECOND, 1),
        (ids["b"], T0 + 20 * SECOND, 1),
    ]
    assert [d.job for d in await w.store.due(T0 + 60 * SECOND, 1)] == [ids["a"]]
    assert await w.store.next_due_us() == T0 + 10 * SECOND


async def _save_many_jobs(w: StoreFixture, count: int) -> list[str]:
    await w.start_node()
    names = [f"job-{i:03}" for i in range(count)]
    rows = tuple(w.row(name, tags={"n": str(i % 3)}, owner="x" if i % 2 else None) for i, name in enumerate(names))
    await w.store.apply(SaveJobs(rows=rows, now_us=w.now))
    return names


async def case_job_pages_are_complete_and_in_order(w: StoreFixture) -> None:
    names = await _save_many_jobs(w, 25)
    await w.save("zzz", namespace="another")
    seen: list[str] = []
    cursor = None
    while True:
        page = await w.store.list_jobs(JobFilter(namespace="default"), limit=10, cursor=cursor)
        seen += [job.name for job in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == names
    everything = await w.store.list_jobs(JobFilter(), limit=100)
    assert [job.name for job in everything.items] == ["zzz", *names]


async def case_jobs_are_filtered(w: StoreFixture) -> None:
    names = await _save_many_jobs(w, 12)
    await w.save("Other_One", description="x")
    await w.set_state((await w.job("job-004")).id, JobState.PAUSED)

    async def listed(**where: object) -> list[str]:
        page = await w.store.list_jobs(JobFilter(namespace="default", **where), limit=50)  # type: ignore[arg-type]
        return [job.name for job in page.items]

    assert await listed(prefix="job-01") == ["job-010", "job-011"]
    assert await listed(prefix="Other") == ["Other_One"]
    assert await listed(contains="b-00") == names[:10]
    assert await listed(contains="ther_o") == ["Other_One"]
    assert await listed(contains="_") == ["Other_One"]
    assert await listed(contains="%") == []
    assert await listed(contains='"') == []
    assert await listed(contains="1") == ["job-001", "job-010", "job-011"]
    assert await listed(tag=("n", "2")) == [name for i, name in enumerate(names) if i % 3 == 2]
    assert await listed(tag=("n", None)) == names
    assert await listed(tag=("m", None)) == []
    assert await listed(state=JobState.PAUSED) == ["job-004"]
    assert await listed(state=JobState.PAUSED, prefix="job-00") == ["job-004"]
    assert await listed(state=JobState.PAUSED, prefix="job-01") == []
    assert await listed(state=JobState.PAUSED, tag=("n", "1")) == ["job-004"]
    assert await listed(state=JobState.PAUSED, tag=("n", "2")) == []
    assert await listed(state=JobState.PAUSED, contains="b-0") == ["job-004"]
    assert await listed(state=JobState.PAUSED, owner="x") == []
    assert await listed(state=JobState.DISABLED, tag=("n", None)) == []
    assert await listed(owner="x", tag=("n", "1"), state=JobState.ACTIVE) == ["job-001", "job-007"]
    assert await listed(owner="y") == []
    assert await listed(owner="x", prefix="job-00") == ["job-001", "job-003", "job-005", "job-007", "job-009"]


async def case_pages_of_every_kind_are_complete_and_in_order(w: StoreFixture) -> None:
    await w.start_node()
    names = [(namespace, f"job-{i:02}") for namespace in ("a", "b") for i in range(9)]
    for state in (JobState.PAUSED, JobState.DISABLED, JobState.DONE):
        rows = tuple(
            w.row(f"{name}-{int(state)}", namespace=namespace, state=state, tags={"t": name[-1]}, owner="x")
            for namespace, name in names
        )
        await w.store.apply(SaveJobs(rows=rows, now_us=w.now))
        for where in (
            JobFilter(state=state),
            JobFilter(state=state, owner="x"),
            JobFilter(state=state, tag=("t", None)),
        ):
            seen: list[tuple[str, str]] = []
            cursor = None
            while cursor is not None or not seen:
                page = await w.store.list_jobs(where, limit=4, cursor=cursor)
                seen += [(job.namespace, job.name) for job in page.items]
                cursor = page.cursor
            assert seen == [(namespace, f"{name}-{int(state)}") for namespace, name in names]
    for job in (await w.store.list_jobs(JobFilter(state=JobState.PAUSED, namespace="a"), limit=9)).items:
        await w.set_state(job.id, JobState.ACTIVE)
    [first, *_] = (await w.store.list_jobs(JobFilter(state=JobState.PAUSED), limit=99)).items
    assert (first.namespace, first.name) == ("b", "job-00-1")
    await w.store.apply(DeleteJob(job=first.id, now_us=w.now))
    left = (await w.store.list_jobs(JobFilter(state=JobState.PAUSED), limit=99)).items
    assert [(job.namespace, job.name) for job in left] == [("b", f"job-{i:02}-1") for i in range(1, 9)]


async def case_tags_follow_the_version(w: StoreFixture) -> None:
    await w.save("job", tags={"team": "a", "env": "prod"})
    await w.save("job", tags={"team": "b"})
    assert (await w.store.list_jobs(JobFilter(tag=("team", "a")), limit=5)).items == []
    assert (await w.store.list_jobs(JobFilter(tag=("env", None)), limit=5)).items == []
    [job] = (await w.store.list_jobs(JobFilter(tag=("team", "b")), limit=5)).items
    assert job.version == 2


async def case_open_and_ended_executions_are_listed_newest_first(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    await w.save("other", overlap=Overlap.ALLOW)
    runs = [await w.admit_one() for _ in range(6)]
    await w.admit_one("other")
    await w.settle(runs[0], runs[2], runs[4])
    await w.settle(runs[3], status=Status.FAILED)
    seen: list[bytes] = []
    cursor = None
    while True:
        page = await w.store.list_executions(ExecutionFilter(job=saved.id), limit=4, cursor=cursor)
        seen += [item.id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [run.id for run in reversed(runs)]
    troubled = await w.store.list_executions(ExecutionFilter(troubled=True), limit=9)
    assert [item.id for item in troubled.items] == [runs[3].id]
    running = await w.store.list_executions(ExecutionFilter(job=saved.id, status=Status.RUNNING), limit=9)
    assert [item.id for item in running.items] == [runs[5].id, runs[1].id]
    assert len((await w.store.list_executions(ExecutionFilter(), limit=99)).items) == 7
    assert await w.store.execution(bytes(16)) is None


async def case_depths_and_counts_are_reported(w: StoreFixture) -> None:
    saved = await w.save("a", overlap=Overlap.ALLOW, limit=1)
    await w.admit_one("a")
    await w.admit_one("a")
    await w.save("b", lane="elsewhere")
    await w.admit_next("b", claim=False)
    lanes = {key: number for number, key in (await w.store.lanes()).items()}
    depths = {depth.lane: depth for depth in await w.store.depths()}
    assert depths[lanes["default"]][1:] == (0, 1, 1, 0)
    assert depths[lanes["elsewhere"]][1:] == (1, 0, 0, 0)
    await w.set_state(saved.id, JobState.DISABLED)
    counts = await w.store.counts()
    assert counts.jobs == {JobState.ACTIVE: 1, JobState.DISABLED: 1}
    assert counts.open == {Status.READY: 1, Status.QUEUED: 1, Status.RUNNING: 1}


async def case_history_is_trimmed_to_what_jobs_keep(w: StoreFixture) -> None:
    saved = await w.save("busy", overlap=Overlap.ALLOW, keep_count=10)
    kept = await w.save("quiet", overlap=Overlap.ALLOW, keep_count=10)
    for i in range(80):
        run = await w.admit_one("busy")
        row = ended_attempt(run, 1, AttemptStatus.SUCCEEDED)
        await w.settle(run, attempts=(row,) if i == 0 else ())
        if i == 0:
            first = run
    quiet = await w.admit_one("quiet")
    await w.settle(quiet)
    assert await w.store.apply(Trim(now_us=w.now, limit=50)) == 50
    assert await w.store.apply(Trim(now_us=w.now, limit=50)) == 20
    assert await w.store.apply(Trim(now_us=w.now, limit=50)) == 0
    page = await w.store.list_executions(ExecutionFilter(job=saved.id), limit=99)
    assert len(page.items) == 10
    assert await w.store.execution(first.id) is None
    assert len((await w.store.list_executions(ExecutionFilter(job=kept.id), limit=99)).items) == 1


async def case_history_is_trimmed_by_age(w: StoreFixture) -> None:
    saved = await w.save("busy", overlap=Overlap.ALLOW, keep_age_us=2 * DAY, keep_count=1000)
    for _ in range(70):
        await w.settle(await w.admit_one("busy"))
    assert await w.store.apply(Trim(now_us=w.now, limit=500)) == 0
    await w.save(
        "busy", overlap=Overlap.ALLOW, keep_age_us=2 * DAY, keep_count=1000, next_us=w.now + 3 * DAY, description="x"
    )
    for _ in range(70):
        await w.settle(await w.admit_one("busy"))
    assert await w.store.apply(Trim(now_us=w.now, limit=500)) == 70
    assert len((await w.store.list_executions(ExecutionFilter(job=saved.id), limit=200)).items) == 70


async def case_the_audit_log_is_trimmed_by_age(w: StoreFixture) -> None:
    for n in range(5):
        await w.save(f"old-{n}")
        w.tick(DAY)
    await w.save("new")
    w.now += 397 * DAY  # now old-2 is 400 days old
    assert await w.store.apply(Trim(now_us=w.now, limit=1)) == 1
    assert await w.store.apply(Trim(now_us=w.now, limit=9)) == 1
    assert await w.store.apply(Trim(now_us=w.now, limit=9)) == 0
    lines = (await w.store.audit(namespace="default", limit=9)).items
    assert [line.subject for line in lines] == ["new", "old-4", "old-3", "old-2"]


async def _list_instants(w: StoreFixture, job: bytes, limit: int) -> list[int]:
    """Return the instants of a job's executions in the order of its pages."""
    seen: list[int] = []
    cursor = None
    while True:
        page = await w.store.list_executions(ExecutionFilter(job=job), limit=limit, cursor=cursor)
        seen += [item.scheduled_us for item in page.items if isinstance(item, Execution)]
        cursor = page.cursor
        if cursor is None:
            return seen


async def case_runs_of_one_millisecond_are_listed_by_their_instants(w: StoreFixture) -> None:
    """Backfills within one millisecond are ordered by instant; later triggers are the newest."""
    job = (await w.save(overlap=Overlap.QUEUE)).id
    instants_us = [T0 - (40 - i) * SECOND for i in range(40)]
    w.now = T0 + MS // 2
    for first, last in ((0, 7), (7, 8), (8, 40)):
        await w.backfill(job, *instants_us[first:last])
        w.tick(3)
    triggered_us = []
    for _ in range(20):
        triggered_us.append(w.tick(1))
        await w.trigger(job)
    [claimed] = await w.claim()
    await w.settle(claimed)  # history and open executions form one list
    newest_first = [*reversed(triggered_us), *reversed(instants_us)]
    for limit in (1, 7, 100):
        assert await _list_instants(w, job, limit) == newest_first


async def case_attempts_are_in_the_order_of_their_numbers(w: StoreFixture) -> None:
    """The clock went back between two attempts."""
    await w.save()
    run = await w.admit_one()
    attempts = [
        ended_attempt(run, number, AttemptStatus.FAILED, task)._replace(started_us=T0 + at_us, finished_us=T0 + at_us)
        for number, at_us, task in ((1, 90, "b"), (2, 50, "b"), (3, 95, "b"), (1, 20, "c"), (10, 60, "b"), (1, 92, "a"))
    ]
    await w.settle(run, attempts=tuple(attempts))
    view = await w.store.execution(run.id)
    assert view is not None
    assert [(a.task, a.number) for a in view.attempts] == [
        *(("c", 1), ("b", 1), ("b", 2), ("a", 1)),
        *(("b", 3), ("b", 10)),
    ]
