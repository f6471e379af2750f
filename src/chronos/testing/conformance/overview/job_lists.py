"""Lists of jobs: by status, next run and last run, in both directions; counts and facets."""

from dataclasses import replace

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.job import JobState, JobStatus
from chronos.errors import Invalid
from chronos.store.commands import Suspend, SuspendRow
from chronos.store.contract import JobFilter
from chronos.store.overview import LATE_ADMISSION_US, LATE_START_US, Facet, JobSort
from chronos.testing.conformance.fixture import SECOND_US, StoreFixture, ended_attempt, raises

YEAR_US = 365 * 86_400 * SECOND_US


async def _make_one_of_each(fixture: StoreFixture) -> dict[JobStatus, list[str]]:
    """Save jobs with every status. Returns their names."""
    later = fixture.now_us + YEAR_US
    states = {"off": JobState.DISABLED, "over": JobState.DONE, "held": JobState.PAUSED}
    for name, state in states.items():
        await fixture.save(name, next_us=later, state=state)
    for name in ("fine", "broken", "stale", "works", "retries", "waits", "mended", "partly"):
        await fixture.save(name, overlap=Overlap.ALLOW, next_us=fixture.now_us + SECOND_US)
    await fixture.settle(*await fixture.admit_next("fine", last=True))
    outcomes = {"broken": Status.FAILED, "stale": Status.STALE, "partly": Status.COMPLETED_WITH_ERRORS}
    for name, status in outcomes.items():
        await fixture.settle(await fixture.admit_one(name), status=status)
    await fixture.settle(await fixture.admit_one("mended"), status=Status.FAILED)
    await fixture.settle(await fixture.admit_one("mended"))
    await fixture.admit_one("works")
    retried = await fixture.admit_one("retries")
    row = SuspendRow(retried.id, retried.token, later, (), 2, 0, None, (ended_attempt(retried, 1),))
    await fixture.store.apply(Suspend(rows=(row,), now_us=fixture.tick(1)))
    await fixture.admit_one("waits", claim=False)
    for name in ("fine", "broken", "stale", "works", "retries", "waits", "mended", "partly"):
        await fixture.save(name, overlap=Overlap.ALLOW, next_us=later, description="moved")
    fixture.tick(LATE_START_US + SECOND_US)
    await fixture.save("due", next_us=fixture.now_us - LATE_ADMISSION_US)
    await fixture.save("new", next_us=later)
    return {
        JobStatus.DISABLED: ["off"],
        JobStatus.DONE: ["over"],
        JobStatus.PAUSED: ["held"],
        JobStatus.LATE: ["due", "waits"],
        JobStatus.RETRYING: ["retries"],
        JobStatus.RUNNING: ["works"],
        JobStatus.FAILING: ["broken", "stale"],
        JobStatus.NO_RUNS_YET: ["new"],
        JobStatus.OK: ["fine", "mended", "partly"],
    }


async def _names(fixture: StoreFixture, where: JobFilter, sort: JobSort = JobSort.NAME) -> list[str]:
    return [job.name for job in (await fixture.store.list_jobs(where, limit=50, sort=sort)).items]


async def case_jobs_are_listed_and_counted_by_status(fixture: StoreFixture) -> None:
    expected = await _make_one_of_each(fixture)
    for namespace in ("default", None):
        for status, names in expected.items():
            where = JobFilter(namespace=namespace, status=status, now_us=fixture.now_us)
            assert await _names(fixture, where) == names, status
            prefixed = [name for name in names if name.startswith(names[0][:2])]
            assert await _names(fixture, replace(where, prefix=names[0][:2])) == prefixed
        counts = await fixture.store.count_jobs(namespace, fixture.now_us)
        assert counts.total == sum(len(names) for names in expected.values())
        assert counts.by_status == {status: len(expected[status]) for status in counts.by_status}
    assert (await fixture.store.count_jobs("other", fixture.now_us)).total == 0


async def case_a_batch_of_outcomes_decides_by_the_last_one(fixture: StoreFixture) -> None:
    await fixture.save("job", overlap=Overlap.ALLOW)
    first, second, third = [await fixture.admit_one() for _ in range(3)]
    job = await fixture.job()
    await fixture.settle(first, second, status=Status.FAILED)
    failed = (await fixture.store.job_activity([job.id], recent=9))[job.id]
    assert failed.failing_us is not None
    assert (failed.succeeded_us, [run.status for run in failed.recent]) == (None, [Status.FAILED] * 2)
    await fixture.settle(third, status=Status.CANCELED)
    assert (await fixture.store.job_activity([job.id], recent=0))[job.id].failing_us == failed.failing_us
    await fixture.settle(await fixture.admit_one())
    mended = (await fixture.store.job_activity([job.id], recent=2))[job.id]
    assert (mended.failing_us, len(mended.recent)) == (None, 2)
    assert mended.succeeded_us == mended.recent[0].finished_us
    await fixture.settle(await fixture.admit_one(), await fixture.admit_one())
    assert (await fixture.store.job_activity([job.id, bytes(16)], recent=60)).keys() == {job.id}


async def case_job_lists_can_be_read_in_both_directions(fixture: StoreFixture) -> None:
    names = [f"job-{number}" for number in range(7)]
    for number, name in enumerate(names):
        await fixture.save(name, next_us=fixture.now_us + (10 - number) * SECOND_US)
    for number in range(7):
        await fixture.settle(await fixture.admit_one(names[6 - number]))
    orders = {
        JobSort.NAME: names,
        JobSort.NEXT_RUN: [
            job.name
            for job in sorted(
                (await fixture.store.list_jobs(JobFilter(), limit=9)).items, key=lambda job: job.next_us or 0
            )
        ],
        JobSort.LAST_RUN: names,
    }
    for where in (JobFilter(), JobFilter(namespace="default")):
        for sort, expected in orders.items():
            pages: list[list[str]] = []
            cursor = None
            while cursor is not None or not pages:
                page = await fixture.store.list_jobs(where, limit=3, cursor=cursor, sort=sort)
                pages.append([job.name for job in page.items])
                assert page.complete
                if len(pages) > 1:
                    assert page.previous is not None
                    back = await fixture.store.list_jobs(where, limit=3, cursor=page.previous, sort=sort)
                    assert [job.name for job in back.items] == pages[-2], (sort, pages)
                    assert (back.previous is None) == (len(pages) == 2)
                cursor = page.cursor
            assert [name for page_names in pages for name in page_names] == expected, sort
    with raises(Invalid, "cursor"):
        await fixture.store.list_jobs(JobFilter(), limit=3, cursor=b"default\0x", sort=JobSort.NEXT_RUN)
    with raises(Invalid, "cursor"):
        await fixture.store.list_jobs(JobFilter(), limit=3, cursor=b"@1\02")


async def case_jobs_are_found_by_what_no_index_has(fixture: StoreFixture) -> None:
    await fixture.save("a", kind="http", tags={"team": "x", "tier": "1"}, lane="mail")
    await fixture.save("b", tags={"team": "x"}, next_us=fixture.now_us + YEAR_US)
    await fixture.save("c", kind="http", tags={"team": 'odd "%_'}, next_us=None)
    where = JobFilter(namespace="default", now_us=fixture.now_us)
    for sort in (JobSort.NAME, JobSort.NEXT_RUN):
        with_next = (lambda names: names) if sort is JobSort.NAME else (lambda names: [n for n in names if n != "c"])
        assert await _names(fixture, replace(where, target="http"), sort) == with_next(["a", "c"])
        assert await _names(fixture, replace(where, target="httpx"), sort) == []
        assert await _names(fixture, replace(where, zone="UTC"), sort) == with_next(["a", "b", "c"])
        assert await _names(fixture, replace(where, zone="Europe/Paris"), sort) == []
        assert await _names(fixture, replace(where, queue="mail"), sort) == ["a"]
        assert await _names(fixture, replace(where, queue="default"), sort) == with_next(["b", "c"])
        assert await _names(fixture, replace(where, more_tags=(("team", "x"), ("tier", None))), sort) == ["a"]
        assert await _names(fixture, replace(where, more_tags=(("team", 'odd "%_'),)), sort) == with_next(["c"])
        assert await _names(
            fixture, replace(where, tag=("team", "x"), next_before_us=fixture.now_us + 2 * SECOND_US), sort
        ) == ["a"]


async def case_facets_count_jobs(fixture: StoreFixture) -> None:
    await fixture.save("a", tags={"team": "x", "flag": ""}, owner="ana")
    await fixture.save("b", tags={"team": "x"}, owner="ben")
    await fixture.save("c", tags={"team": "y"}, owner="ben", namespace="other")
    store = fixture.store
    assert await store.tag_facets(None, limit=9) == [Facet("flag", 1), Facet("team=x", 2), Facet("team=y", 1)]
    assert await store.tag_facets("other", limit=9) == [Facet("team=y", 1)]
    assert await store.tag_facets(None, limit=1) == [Facet("flag", 1)]
    assert await store.owner_facets(None, limit=9) == [Facet("ana", 1), Facet("ben", 2)]
    assert await store.owner_facets("default", limit=9) == [Facet("ana", 1), Facet("ben", 1)]
