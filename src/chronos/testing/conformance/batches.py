"""Batches: in one transaction, each row and each command succeeds or fails on its own."""

import asyncio
from dataclasses import replace
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import CancelRequest, Cause, Span, Status
from chronos.core.ids import job_id, key_gate_id, scheduled_execution_id, span_id
from chronos.core.job import Job, UpstreamJob
from chronos.core.node import Actor
from chronos.core.reasons import Reason, ReasonCode
from chronos.errors import Conflict
from chronos.store.commands import NEW, Admit, AdmitRow, Admitted, DeleteJob, Recover, RunRow, SaveJobs
from chronos.store.contract import JobFilter
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture, admit_row, raises

KEY = key_gate_id("default", "tenant")


async def _admit(fixture: StoreFixture, *rows: AdmitRow, request: bytes | None = None) -> list[Admitted]:
    return await fixture.store.apply(
        Admit(
            rows=rows,
            node=fixture.node,
            now_us=max(fixture.now_us, T0_US + SECOND_US),
            request=request or fixture.new_request_id(),
        )
    )


async def _build_locked_row(fixture: StoreFixture, name: str, **changes: Any) -> AdmitRow:
    job = await fixture.job(name)
    assert job.next_us is not None
    return admit_row(job, job.next_us, job.next_us + SECOND_US, needs_gate_lock=True)._replace(**changes)


def _build_recover(job: Job, *, missed: int = 0, runs: int = 1, **options: Any) -> Recover:
    """Build a gap: ``missed`` instants that do not run, then ``runs`` that do."""
    begin = job.next_us
    assert begin is not None
    first = begin + missed * SECOND_US
    span = Span(
        id=span_id(job.id, begin, int(Status.MISSED)),
        job=job.id,
        status=Status.MISSED,
        from_us=begin,
        to_us=first - SECOND_US,
        count=missed,
        reason=Reason.of(ReasonCode.OUTSIDE_RECOVERY),
        recorded_us=T0_US + 100 * SECOND_US,
    )
    key, limit = options.pop("key", None), options.pop("key_limit", 0)
    instants = [first + n * SECOND_US for n in range(runs)]
    return Recover(
        job=job.id,
        version=job.version,
        expect_us=begin,
        next_us=first + runs * SECOND_US,
        runs=tuple(
            RunRow(scheduled_execution_id(job.id, at), Cause.RECOVERY, at, at, None, key, limit) for at in instants
        ),
        spans=(span,) if missed else (),
        now_us=T0_US + 100 * SECOND_US,
        **options,
    )


async def _recover(fixture: StoreFixture, *gaps: Recover) -> list[list[Status]]:
    results = await asyncio.gather(*(fixture.store.apply(gap) for gap in gaps))
    for gap, admitted in zip(gaps, results, strict=True):
        assert {run.job for run in admitted} <= {gap.job}
    return [[run.status for run in admitted] for admitted in results]


async def case_rows_under_locks_of_one_command_are_independent(fixture: StoreFixture) -> None:
    """The jobs have a ready, running, queued or no execution; one row is stale."""
    names = ("empty", "ready", "running", "queued", "stale")
    for name in names:
        await fixture.save(name, overlap=Overlap.REPLACE)
    await fixture.save("follower", after=(UpstreamJob(job="ready"),))
    [ready] = await fixture.admit_next("ready", needs_gate_lock=True, claim=False)
    [running] = await fixture.admit_next("running", needs_gate_lock=True)
    [before_queued] = await fixture.admit_next("queued", needs_gate_lock=True)
    [queued] = await fixture.admit_next("queued", needs_gate_lock=True)
    stale = await _build_locked_row(fixture, "stale", version=7)
    rows = [await _build_locked_row(fixture, name) for name in names[:-1]]
    statuses = {run.job: run.status for run in await _admit(fixture, *rows, stale)}
    assert [statuses.get(row.job) for row in (*rows, stale)] == [
        *(Status.RUNNING, Status.RUNNING, Status.QUEUED, Status.QUEUED, None)
    ]
    assert [await fixture.status(run.id) for run in (ready, queued)] == [Status.CANCELED] * 2
    assert [(await fixture.execution(run.id)).cancel for run in (running, before_queued)] == [
        CancelRequest.REPLACED
    ] * 2
    assert [item.execution for item in await fixture.store.outbox(limit=10)] == [ready.id]
    assert (await fixture.job("stale")).next_us == T0_US + SECOND_US
    assert [(await fixture.job(name)).next_us for name in names[:4]] == [T0_US + s * SECOND_US for s in (2, 3, 3, 4)]


async def case_rows_under_locks_of_one_job_are_admitted_in_order(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.REPLACE)
    await fixture.save("claimed", overlap=Overlap.REPLACE)
    for name, claim, expected in (
        ("job", False, [Status.CANCELED, Status.CANCELED, Status.READY]),
        ("claimed", True, [Status.RUNNING, Status.CANCELED, Status.QUEUED]),
    ):
        job = await fixture.job(name)
        rows = [
            admit_row(job, T0_US + s * SECOND_US, T0_US + (s + 1) * SECOND_US, claim=claim, needs_gate_lock=True)
            for s in range(1, 4)
        ]
        assert len(await _admit(fixture, *rows)) == 3
        assert [await fixture.status(row.id) for row in rows] == expected
        assert ((await fixture.execution(rows[0].id)).cancel is CancelRequest.REPLACED) is claim
        assert (await fixture.job(name)).next_us == T0_US + 4 * SECOND_US


async def case_rows_under_locks_share_a_key(fixture: StoreFixture) -> None:
    names = [f"job-{n}" for n in range(4)]
    for name in names:
        await fixture.save(name, overlap=Overlap.ALLOW, keyed=True)
    rows = [await _build_locked_row(fixture, name, key=KEY, key_limit=2) for name in names]
    admitted = await _admit(fixture, *rows)
    assert sorted(one.status for one in admitted) == [Status.QUEUED, Status.QUEUED, Status.RUNNING, Status.RUNNING]
    await fixture.settle(*(one for one in admitted if one.status is Status.RUNNING))
    await fixture.wake()
    assert len(await fixture.claim()) == 2


async def case_repeated_rows_under_locks_change_nothing(fixture: StoreFixture) -> None:
    names = [f"job-{n}" for n in range(3)]
    for name in names:
        await fixture.save(name, overlap=Overlap.REPLACE)
    rows = [await _build_locked_row(fixture, name) for name in names]
    request = fixture.new_request_id()
    first = await _admit(fixture, *rows, request=request)
    assert len(first) == 3
    assert await _admit(fixture, *rows, request=request) == []
    assert [(await fixture.execution(one.id)).cancel for one in first] == [CancelRequest.NO] * 3
    back = [
        await fixture.save(name, overlap=Overlap.REPLACE, description="back", next_us=T0_US + SECOND_US)
        for name in names
    ]
    assert (
        await _admit(fixture, *(row._replace(version=saved.version) for row, saved in zip(rows, back, strict=True)))
        == []
    )
    assert [(await fixture.job(name)).next_us for name in names] == [T0_US + 2 * SECOND_US] * 3
    assert [(await fixture.execution(one.id)).cancel for one in first] == [CancelRequest.NO] * 3


async def case_concurrent_gaps_are_recovered_independently(fixture: StoreFixture) -> None:
    for name in ("fine", "stale", "missed", "full", "whole"):
        await fixture.save(name, overlap=Overlap.QUEUE, queue_max=1)
    await fixture.save("replacing", overlap=Overlap.REPLACE)
    [waiting] = await fixture.admit_next("replacing", needs_gate_lock=True, claim=False)
    jobs = {name: await fixture.job(name) for name in ("fine", "stale", "missed", "full", "whole", "replacing")}
    gaps = [
        _build_recover(jobs["fine"], missed=2),
        replace(_build_recover(jobs["stale"]), version=7),
        _build_recover(jobs["missed"], missed=3, runs=0),
        _build_recover(jobs["full"], runs=4),
        _build_recover(jobs["whole"], missed=1, runs=4, all_or_nothing=True),
        _build_recover(jobs["replacing"], runs=3),
    ]
    assert await _recover(fixture, *gaps) == [
        [Status.READY],
        [],
        [],
        [Status.READY, Status.QUEUED],
        [],
        [Status.READY, Status.READY, Status.READY],
    ]
    cursors = [((await fixture.job(name)).next_us or 0) - T0_US for name in jobs]
    assert cursors == [s * SECOND_US for s in (4, 1, 4, 3, 1, 5)]
    statuses = [await fixture.status(run.id) for run in gaps[-1].runs]
    assert statuses == [Status.CANCELED, Status.CANCELED, Status.READY]
    assert await fixture.status(waiting.id) is Status.CANCELED
    assert await _recover(fixture, *gaps) == [[], [], [], [], [], []]


async def case_concurrent_gaps_share_a_key(fixture: StoreFixture) -> None:
    """A rejected whole gap does not count against the key."""
    gaps = []
    for name, runs, whole in (("a", 1, False), ("b", 3, True), ("c", 1, False), ("d", 1, False)):
        await fixture.save(name, overlap=Overlap.ALLOW, keyed=True, queue_max=1)
        gaps.append(_build_recover(await fixture.job(name), runs=runs, all_or_nothing=whole, key=KEY, key_limit=2))
    statuses = await _recover(fixture, *gaps)
    assert statuses[1] == []
    assert sorted(status for gap_statuses in statuses for status in gap_statuses) == [
        Status.READY,
        Status.READY,
        Status.QUEUED,
    ]
    claimed = await fixture.claim()
    assert len(claimed) == 2
    await fixture.settle(*claimed)
    await fixture.wake()
    assert len(await fixture.claim()) == 1


_CONCURRENT_COMMANDS = 30


async def case_concurrent_creates_each_get_their_own_result(fixture: StoreFixture) -> None:
    commands = [
        SaveJobs(
            rows=(
                fixture.build_job_row(f"a{n}", expect=NEW, tags={"n": str(n)}),
                fixture.build_job_row(f"b{n}", expect=NEW),
            ),
            now_us=fixture.now_us + n,
            actor=Actor(name=f"user-{n}", origin="here"),
        )
        for n in range(_CONCURRENT_COMMANDS)
    ]
    results = await asyncio.gather(*(fixture.store.apply(command) for command in commands))
    for n, saved in enumerate(results):
        assert [(s.id, s.version, s.created, s.incarnation) for s in saved] == [
            (job_id("default", f"{letter}{n}", 1), 1, True, 1) for letter in "ab"
        ]
        job = await fixture.job(f"a{n}")
        assert (job.created_us, job.spec.tags) == (fixture.now_us + n, {"n": str(n)})
        [version] = await fixture.store.versions(job.id, limit=5)
        assert version.author == f"user-{n}"
    audited = await fixture.store.audit(namespace="default", limit=1000)
    assert {(e.actor, e.subject, e.at_us) for e in audited.items} == {
        (f"user-{n}", f"{letter}{n}", fixture.now_us + n) for n in range(_CONCURRENT_COMMANDS) for letter in "ab"
    }
    assert (await fixture.store.counts()).jobs == {0: 2 * _CONCURRENT_COMMANDS}


async def case_among_concurrent_creates_only_conflicting_ones_are_rejected(fixture: StoreFixture) -> None:
    await fixture.save("taken")
    names = [f"job-{n}" for n in range(10)]
    names[3] = "taken"
    names[7] = names[8] = "twice"
    commands = [SaveJobs(rows=(fixture.build_job_row(name, expect=NEW),), now_us=fixture.now_us) for name in names]
    results = await asyncio.gather(*(fixture.store.apply(command) for command in commands), return_exceptions=True)
    rejected = [name for name, result in zip(names, results, strict=True) if isinstance(result, Conflict)]
    assert sorted(rejected) == ["taken", "twice"]
    assert sum(isinstance(result, list) and result[0].created for result in results) == 8
    assert len((await fixture.store.list_jobs(JobFilter(), limit=100)).items) == 9


async def case_an_idempotency_key_creates_a_job_once(fixture: StoreFixture) -> None:
    def create(key: str | None, **options: str) -> SaveJobs:
        return SaveJobs(
            rows=(fixture.build_job_row("job", expect=NEW, **options),), now_us=fixture.tick(), idempotency=key
        )

    [first] = await fixture.store.apply(create("k"))
    assert (first.created, first.version) == (True, 1)
    [again] = await fixture.store.apply(create("k"))
    assert (again.id, again.version, again.created, again.changed) == (first.id, 1, False, False)
    for key in ("other", None):
        with raises(Conflict, "exists already"):
            await fixture.store.apply(create(key))
    [elsewhere] = await fixture.store.apply(create("k", namespace="elsewhere"))
    assert elsewhere.created
    await fixture.store.apply(DeleteJob(job=first.id, now_us=fixture.tick()))
    assert [saved.id for saved in await fixture.store.apply(create("k"))] == [first.id]
    assert await fixture.store.job_named("default", "job") is None
    audited = await fixture.store.audit(namespace="default", limit=10)
    assert [entry.action for entry in audited.items] == ["delete", "create"]


async def case_one_of_many_creates_with_the_same_idempotency_key_wins(fixture: StoreFixture) -> None:
    command = SaveJobs(rows=(fixture.build_job_row("job", expect=NEW),), now_us=fixture.now_us, idempotency="k")
    others = [SaveJobs(rows=(fixture.build_job_row(f"job-{n}", expect=NEW),), now_us=fixture.now_us) for n in range(5)]
    sent = [command, *others, command, command]
    results = await asyncio.gather(*(fixture.store.apply(each) for each in sent))
    same = [saved for each, [saved] in zip(sent, results, strict=True) if each is command]
    assert {saved.id for saved in same} == {job_id("default", "job", 1)}
    assert sum(saved.created for saved in same) == 1
    assert len((await fixture.store.list_jobs(JobFilter(), limit=100)).items) == 6


async def case_upstream_and_downstream_jobs_are_created_concurrently(fixture: StoreFixture) -> None:
    rows = [
        fixture.build_job_row("up", expect=NEW),
        fixture.build_job_row("down", expect=NEW, after=(UpstreamJob(job="up"),)),
        fixture.build_job_row("else", expect=NEW),
    ]
    await asyncio.gather(*(fixture.store.apply(SaveJobs(rows=(row,), now_us=fixture.now_us)) for row in rows))
    assert [job for job, _ in await fixture.store.followers("default", "up")] == [job_id("default", "down", 1)]


async def case_a_reused_name_gets_the_next_incarnation(fixture: StoreFixture) -> None:
    first = await fixture.save("job")
    await fixture.store.apply(DeleteJob(job=first.id, now_us=fixture.tick()))
    again = await fixture.save("job")
    assert (first.incarnation, again.incarnation) == (1, 2)


async def case_tags_are_those_of_the_last_version(fixture: StoreFixture) -> None:
    await fixture.save("one", tags={"team": "a", "app": "x"})
    await fixture.save("two", tags={"team": "a"})
    assert await _list_tagged_names(fixture, "team", "a") == ["one", "two"]
    saved = await fixture.save("one", tags={"team": "b"})
    assert await _list_tagged_names(fixture, "team", "a") == ["two"]
    assert await _list_tagged_names(fixture, "team", "b") == ["one"]
    assert await _list_tagged_names(fixture, "app", None) == []
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick()))
    assert await _list_tagged_names(fixture, "team", None) == ["two"]
    await fixture.save("one")
    assert await _list_tagged_names(fixture, "team", None) == ["two"]


async def _list_tagged_names(fixture: StoreFixture, key: str, value: str | None) -> list[str]:
    return [job.name for job in (await fixture.store.list_jobs(JobFilter(tag=(key, value)), limit=10)).items]
