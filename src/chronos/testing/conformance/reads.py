"""Reads: due jobs, lists and their pages, counts, retention."""

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, Execution, Status
from chronos.core.job import JobState
from chronos.store.commands import DeleteJob, SaveJobs, Trim
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture, ended_attempt

DAY = 86_400 * SECOND_US
MS = 1_000


async def case_due_jobs_are_listed_earliest_first(fixture: StoreFixture) -> None:
    ids = {}
    for name, seconds in (("c", 30), ("a", 10), ("b", 20)):
        ids[name] = (await fixture.save(name, next_us=T0_US + seconds * SECOND_US)).id
    await fixture.save("never", next_us=None)
    due = await fixture.store.due(T0_US + 20 * SECOND_US, 10)
    assert [(d.job, d.next_us, d.version) for d in due] == [
        (ids["a"], T0_US + 10 * SECOND_US, 1),
        (ids["b"], T0_US + 20 * SECOND_US, 1),
    ]
    assert [d.job for d in await fixture.store.due(T0_US + 60 * SECOND_US, 1)] == [ids["a"]]
    assert await fixture.store.next_due_us() == T0_US + 10 * SECOND_US


async def _save_many_jobs(fixture: StoreFixture, count: int) -> list[str]:
    await fixture.start_node()
    names = [f"job-{i:03}" for i in range(count)]
    rows = tuple(
        fixture.build_job_row(name, tags={"n": str(i % 3)}, owner="x" if i % 2 else None)
        for i, name in enumerate(names)
    )
    await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
    return names


async def case_job_pages_are_complete_and_in_order(fixture: StoreFixture) -> None:
    names = await _save_many_jobs(fixture, 25)
    await fixture.save("zzz", namespace="another")
    seen: list[str] = []
    cursor = None
    while True:
        page = await fixture.store.list_jobs(JobFilter(namespace="default"), limit=10, cursor=cursor)
        seen += [job.name for job in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == names
    everything = await fixture.store.list_jobs(JobFilter(), limit=100)
    assert [job.name for job in everything.items] == ["zzz", *names]


async def case_jobs_are_filtered(fixture: StoreFixture) -> None:
    names = await _save_many_jobs(fixture, 12)
    await fixture.save("Other_One", description="x")
    await fixture.set_state((await fixture.job("job-004")).id, JobState.PAUSED)

    async def listed(**where: object) -> list[str]:
        page = await fixture.store.list_jobs(JobFilter(namespace="default", **where), limit=50)  # type: ignore[arg-type]
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


async def case_pages_of_every_kind_are_complete_and_in_order(fixture: StoreFixture) -> None:
    await fixture.start_node()
    names = [(namespace, f"job-{i:02}") for namespace in ("a", "b") for i in range(9)]
    for state in (JobState.PAUSED, JobState.DISABLED, JobState.DONE):
        rows = tuple(
            fixture.build_job_row(
                f"{name}-{int(state)}", namespace=namespace, state=state, tags={"t": name[-1]}, owner="x"
            )
            for namespace, name in names
        )
        await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
        for where in (
            JobFilter(state=state),
            JobFilter(state=state, owner="x"),
            JobFilter(state=state, tag=("t", None)),
        ):
            seen: list[tuple[str, str]] = []
            cursor = None
            while cursor is not None or not seen:
                page = await fixture.store.list_jobs(where, limit=4, cursor=cursor)
                seen += [(job.namespace, job.name) for job in page.items]
                cursor = page.cursor
            assert seen == [(namespace, f"{name}-{int(state)}") for namespace, name in names]
    for job in (await fixture.store.list_jobs(JobFilter(state=JobState.PAUSED, namespace="a"), limit=9)).items:
        await fixture.set_state(job.id, JobState.ACTIVE)
    [first, *_] = (await fixture.store.list_jobs(JobFilter(state=JobState.PAUSED), limit=99)).items
    assert (first.namespace, first.name) == ("b", "job-00-1")
    await fixture.store.apply(DeleteJob(job=first.id, now_us=fixture.now_us))
    left = (await fixture.store.list_jobs(JobFilter(state=JobState.PAUSED), limit=99)).items
    assert [(job.namespace, job.name) for job in left] == [("b", f"job-{i:02}-1") for i in range(1, 9)]


async def case_tags_follow_the_version(fixture: StoreFixture) -> None:
    await fixture.save("job", tags={"team": "a", "env": "prod"})
    await fixture.save("job", tags={"team": "b"})
    assert (await fixture.store.list_jobs(JobFilter(tag=("team", "a")), limit=5)).items == []
    assert (await fixture.store.list_jobs(JobFilter(tag=("env", None)), limit=5)).items == []
    [job] = (await fixture.store.list_jobs(JobFilter(tag=("team", "b")), limit=5)).items
    assert job.version == 2


async def case_open_and_ended_executions_are_listed_newest_first(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    await fixture.save("other", overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one() for _ in range(6)]
    await fixture.admit_one("other")
    await fixture.settle(runs[0], runs[2], runs[4])
    await fixture.settle(runs[3], status=Status.FAILED)
    seen: list[bytes] = []
    cursor = None
    while True:
        page = await fixture.store.list_executions(ExecutionFilter(job=saved.id), limit=4, cursor=cursor)
        seen += [item.id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [run.id for run in reversed(runs)]
    troubled = await fixture.store.list_executions(ExecutionFilter(troubled=True), limit=9)
    assert [item.id for item in troubled.items] == [runs[3].id]
    running = await fixture.store.list_executions(ExecutionFilter(job=saved.id, status=Status.RUNNING), limit=9)
    assert [item.id for item in running.items] == [runs[5].id, runs[1].id]
    assert len((await fixture.store.list_executions(ExecutionFilter(), limit=99)).items) == 7
    ready = await fixture.admit_one(claim=False)
    for started, open_runs in ((True, [runs[5], runs[1]]), (False, [ready])):
        listed = await fixture.store.list_executions(ExecutionFilter(job=saved.id, started=started), limit=9)
        assert [item.id for item in listed.items] == [run.id for run in open_runs]
    assert await fixture.store.execution(bytes(16)) is None


async def case_depths_and_counts_are_reported(fixture: StoreFixture) -> None:
    saved = await fixture.save("a", overlap=Overlap.ALLOW, limit=1)
    await fixture.admit_one("a")
    await fixture.admit_one("a")
    await fixture.save("b", lane="elsewhere")
    await fixture.admit_next("b", claim=False)
    lanes = {key: number for number, key in (await fixture.store.lanes()).items()}
    depths = {depth.lane: depth for depth in await fixture.store.depths()}
    assert depths[lanes["default"]][1:] == (0, 1, 1, 0)
    assert depths[lanes["elsewhere"]][1:] == (1, 0, 0, 0)
    await fixture.set_state(saved.id, JobState.DISABLED)
    counts = await fixture.store.counts()
    assert counts.jobs == {JobState.ACTIVE: 1, JobState.DISABLED: 1}
    assert counts.open == {Status.READY: 1, Status.QUEUED: 1, Status.RUNNING: 1}


async def case_history_is_trimmed_to_what_jobs_keep(fixture: StoreFixture) -> None:
    saved = await fixture.save("busy", overlap=Overlap.ALLOW, keep_count=10)
    kept = await fixture.save("quiet", overlap=Overlap.ALLOW, keep_count=10)
    for i in range(80):
        run = await fixture.admit_one("busy")
        row = ended_attempt(run, 1, AttemptStatus.SUCCEEDED)
        await fixture.settle(run, attempts=(row,) if i == 0 else ())
        if i == 0:
            first = run
    quiet = await fixture.admit_one("quiet")
    await fixture.settle(quiet)
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=50)) == 50
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=50)) == 20
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=50)) == 0
    page = await fixture.store.list_executions(ExecutionFilter(job=saved.id), limit=99)
    assert len(page.items) == 10
    assert await fixture.store.execution(first.id) is None
    assert len((await fixture.store.list_executions(ExecutionFilter(job=kept.id), limit=99)).items) == 1


async def case_history_is_trimmed_by_age(fixture: StoreFixture) -> None:
    saved = await fixture.save("busy", overlap=Overlap.ALLOW, keep_age_us=2 * DAY, keep_count=1000)
    for _ in range(70):
        await fixture.settle(await fixture.admit_one("busy"))
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=500)) == 0
    await fixture.save(
        "busy",
        overlap=Overlap.ALLOW,
        keep_age_us=2 * DAY,
        keep_count=1000,
        next_us=fixture.now_us + 3 * DAY,
        description="x",
    )
    for _ in range(70):
        await fixture.settle(await fixture.admit_one("busy"))
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=500)) == 70
    assert len((await fixture.store.list_executions(ExecutionFilter(job=saved.id), limit=200)).items) == 70


async def case_the_audit_log_is_trimmed_by_age(fixture: StoreFixture) -> None:
    for n in range(5):
        await fixture.save(f"old-{n}")
        fixture.tick(DAY)
    await fixture.save("new")
    fixture.now_us += 397 * DAY  # now old-2 is 400 days old
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=1)) == 1
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=9)) == 1
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=9)) == 0
    lines = (await fixture.store.audit(namespace="default", limit=9)).items
    assert [line.subject for line in lines] == ["new", "old-4", "old-3", "old-2"]


async def _list_instants(fixture: StoreFixture, job: bytes, limit: int) -> list[int]:
    """Return the instants of a job's executions in the order of its pages."""
    seen: list[int] = []
    cursor = None
    while True:
        page = await fixture.store.list_executions(ExecutionFilter(job=job), limit=limit, cursor=cursor)
        seen += [item.scheduled_us for item in page.items if isinstance(item, Execution)]
        cursor = page.cursor
        if cursor is None:
            return seen


async def case_runs_of_one_millisecond_are_listed_by_their_instants(fixture: StoreFixture) -> None:
    """Backfills within one millisecond are ordered by instant; later triggers are the newest."""
    job = (await fixture.save(overlap=Overlap.QUEUE)).id
    instants_us = [T0_US - (40 - i) * SECOND_US for i in range(40)]
    fixture.now_us = T0_US + MS // 2
    for first, last in ((0, 7), (7, 8), (8, 40)):
        await fixture.backfill(job, *instants_us[first:last])
        fixture.tick(3)
    triggered_us = []
    for _ in range(20):
        triggered_us.append(fixture.tick(1))
        await fixture.trigger(job)
    [claimed] = await fixture.claim()
    await fixture.settle(claimed)  # history and open executions form one list
    newest_first = [*reversed(triggered_us), *reversed(instants_us)]
    for limit in (1, 7, 100):
        assert await _list_instants(fixture, job, limit) == newest_first


async def case_attempts_are_in_the_order_of_their_numbers(fixture: StoreFixture) -> None:
    """The clock went back between two attempts."""
    await fixture.save()
    run = await fixture.admit_one()
    attempts = [
        ended_attempt(run, number, AttemptStatus.FAILED, task)._replace(
            started_us=T0_US + at_us, finished_us=T0_US + at_us
        )
        for number, at_us, task in ((1, 90, "b"), (2, 50, "b"), (3, 95, "b"), (1, 20, "c"), (10, 60, "b"), (1, 92, "a"))
    ]
    await fixture.settle(run, attempts=tuple(attempts))
    view = await fixture.store.execution(run.id)
    assert view is not None
    assert [(a.task, a.number) for a in view.attempts] == [
        *(("c", 1), ("b", 1), ("b", 2), ("a", 1)),
        *(("b", 3), ("b", 10)),
    ]
