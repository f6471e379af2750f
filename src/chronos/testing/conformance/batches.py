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
from chronos.testing.conformance.fixture import SECOND, T0, StoreFixture, admit_row, raises

KEY = key_gate_id("default", "tenant")


async def _admit(w: StoreFixture, *rows: AdmitRow, request: bytes | None = None) -> list[Admitted]:
    return await w.store.apply(
        Admit(rows=rows, node=w.node, now_us=max(w.now, T0 + SECOND), request=request or w.request())
    )


async def _build_locked_row(w: StoreFixture, name: str, **changes: Any) -> AdmitRow:
    job = await w.job(name)
    assert job.next_us is not None
    return admit_row(job, job.next_us, job.next_us + SECOND, needs_gate_lock=True)._replace(**changes)


def _build_recover(job: Job, *, missed: int = 0, runs: int = 1, **options: Any) -> Recover:
    """Build a gap: ``missed`` instants that do not run, then ``runs`` that do."""
    begin = job.next_us
    assert begin is not None
    first = begin + missed * SECOND
    span = Span(
        id=span_id(job.id, begin, int(Status.MISSED)),
        job=job.id,
        status=Status.MISSED,
        from_us=begin,
        to_us=first - SECOND,
        count=missed,
        reason=Reason.of(ReasonCode.OUTSIDE_RECOVERY),
        recorded_us=T0 + 100 * SECOND,
    )
    key, limit = options.pop("key", None), options.pop("key_limit", 0)
    instants = [first + n * SECOND for n in range(runs)]
    return Recover(
        job=job.id,
        version=job.version,
        expect_us=begin,
        next_us=first + runs * SECOND,
        runs=tuple(
            RunRow(scheduled_execution_id(job.id, at), Cause.RECOVERY, at, at, None, key, limit) for at in instants
        ),
        spans=(span,) if missed else (),
        now_us=T0 + 100 * SECOND,
        **options,
    )


async def _recover(w: StoreFixture, *gaps: Recover) -> list[list[Status]]:
    results = await asyncio.gather(*(w.store.apply(gap) for gap in gaps))
    for gap, admitted in zip(gaps, results, strict=True):
        assert {run.job for run in admitted} <= {gap.job}
    return [[run.status for run in admitted] for admitted in results]


async def case_rows_under_locks_of_one_command_are_independent(w: StoreFixture) -> None:
    """The jobs have a ready, running, queued or no execution; one row is stale."""
    names = ("empty", "ready", "running", "queued", "stale")
    for name in names:
        await w.save(name, overlap=Overlap.REPLACE)
    await w.save("follower", after=(UpstreamJob(job="ready"),))
    [ready] = await w.admit_next("ready", needs_gate_lock=True, claim=False)
    [running] = await w.admit_next("running", needs_gate_lock=True)
    [before_queued] = await w.admit_next("queued", needs_gate_lock=True)
    [queued] = await w.admit_next("queued", needs_gate_lock=True)
    stale = await _build_locked_row(w, "stale", version=7)
    rows = [await _build_locked_row(w, name) for name in names[:-1]]
    statuses = {run.job: run.status for run in await _admit(w, *rows, stale)}
    assert [statuses.get(row.job) for row in (*rows, stale)] == [
        *(Status.RUNNING, Status.RUNNING, Status.QUEUED, Status.QUEUED, None)
    ]
    assert [await w.status(run.id) for run in (ready, queued)] == [Status.CANCELED] * 2
    assert [(await w.execution(run.id)).cancel for run in (running, before_queued)] == [CancelRequest.REPLACED] * 2
    assert [item.execution for item in await w.store.outbox(limit=10)] == [ready.id]
    assert (await w.job("stale")).next_us == T0 + SECOND
    assert [(await w.job(name)).next_us for name in names[:4]] == [T0 + s * SECOND for s in (2, 3, 3, 4)]


async def case_rows_under_locks_of_one_job_are_admitted_in_order(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.REPLACE)
    await w.save("claimed", overlap=Overlap.REPLACE)
    for name, claim, expected in (
        ("job", False, [Status.CANCELED, Status.CANCELED, Status.READY]),
        ("claimed", True, [Status.RUNNING, Status.CANCELED, Status.QUEUED]),
    ):
        job = await w.job(name)
        rows = [
            admit_row(job, T0 + s * SECOND, T0 + (s + 1) * SECOND, claim=claim, needs_gate_lock=True)
            for s in range(1, 4)
        ]
        assert len(await _admit(w, *rows)) == 3
        assert [await w.status(row.id) for row in rows] == expected
        assert ((await w.execution(rows[0].id)).cancel is CancelRequest.REPLACED) is claim
        assert (await w.job(name)).next_us == T0 + 4 * SECOND


async def case_rows_under_locks_share_a_key(w: StoreFixture) -> None:
    names = [f"job-{n}" for n in range(4)]
    for name in names:
        await w.save(name, overlap=Overlap.ALLOW, keyed=True)
    rows = [await _build_locked_row(w, name, key=KEY, key_limit=2) for name in names]
    admitted = await _admit(w, *rows)
    assert sorted(one.status for one in admitted) == [Status.QUEUED, Status.QUEUED, Status.RUNNING, Status.RUNNING]
    await w.settle(*(one for one in admitted if one.status is Status.RUNNING))
    await w.wake()
    assert len(await w.claim()) == 2


async def case_repeated_rows_under_locks_change_nothing(w: StoreFixture) -> None:
    names = [f"job-{n}" for n in range(3)]
    for name in names:
        await w.save(name, overlap=Overlap.REPLACE)
    rows = [await _build_locked_row(w, name) for name in names]
    request = w.request()
    first = await _admit(w, *rows, request=request)
    assert len(first) == 3
    assert await _admit(w, *rows, request=request) == []
    assert [(await w.execution(one.id)).cancel for one in first] == [CancelRequest.NO] * 3
    back = [await w.save(name, overlap=Overlap.REPLACE, description="back", next_us=T0 + SECOND) for name in names]
    assert await _admit(w, *(row._replace(version=saved.version) for row, saved in zip(rows, back, strict=True))) == []
    assert [(await w.job(name)).next_us for name in names] == [T0 + 2 * SECOND] * 3
    assert [(await w.execution(one.id)).cancel for one in first] == [CancelRequest.NO] * 3


async def case_concurrent_gaps_are_recovered_independently(w: StoreFixture) -> None:
    for name in ("fine", "stale", "missed", "full", "whole"):
        await w.save(name, overlap=Overlap.QUEUE, queue_max=1)
    await w.save("replacing", overlap=Overlap.REPLACE)
    [waiting] = await w.admit_next("replacing", needs_gate_lock=True, claim=False)
    jobs = {name: await w.job(name) for name in ("fine", "stale", "missed", "full", "whole", "replacing")}
    gaps = [
        _build_recover(jobs["fine"], missed=2),
        replace(_build_recover(jobs["stale"]), version=7),
        _build_recover(jobs["missed"], missed=3, runs=0),
        _build_recover(jobs["full"], runs=4),
        _build_recover(jobs["whole"], missed=1, runs=4, all_or_nothing=True),
        _build_recover(jobs["replacing"], runs=3),
    ]
    assert await _recover(w, *gaps) == [
        [Status.READY],
        [],
        [],
        [Status.READY, Status.QUEUED],
        [],
        [Status.READY, Status.READY, Status.READY],
    ]
    cursors = [((await w.job(name)).next_us or 0) - T0 for name in jobs]
    assert cursors == [s * SECOND for s in (4, 1, 4, 3, 1, 5)]
    statuses = [await w.status(run.id) for run in gaps[-1].runs]
    assert statuses == [Status.CANCELED, Status.CANCELED, Status.READY]
    assert await w.status(waiting.id) is Status.CANCELED
    assert await _recover(w, *gaps) == [[], [], [], [], [], []]


async def case_concurrent_gaps_share_a_key(w: StoreFixture) -> None:
    """A rejected whole gap does not count against the key."""
    gaps = []
    for name, runs, whole in (("a", 1, False), ("b", 3, True), ("c", 1, False), ("d", 1, False)):
        await w.save(name, overlap=Overlap.ALLOW, keyed=True, queue_max=1)
        gaps.append(_build_recover(await w.job(name), runs=runs, all_or_nothing=whole, key=KEY, key_limit=2))
    statuses = await _recover(w, *gaps)
    assert statuses[1] == []
    assert sorted(status for gap_statuses in statuses for status in gap_statuses) == [
        Status.READY,
        Status.READY,
        Status.QUEUED,
    ]
    claimed = await w.claim()
    assert len(claimed) == 2
    await w.settle(*claimed)
    await w.wake()
    assert len(await w.claim()) == 1


_CONCURRENT_COMMANDS = 30


async def case_concurrent_creates_each_get_their_own_result(w: StoreFixture) -> None:
    commands = [
        SaveJobs(
            rows=(w.row(f"a{n}", expect=NEW, tags={"n": str(n)}), w.row(f"b{n}", expect=NEW)),
            now_us=w.now + n,
            actor=Actor(name=f"user-{n}", origin="here"),
        )
        for n in range(_CONCURRENT_COMMANDS)
    ]
    results = await asyncio.gather(*(w.store.apply(command) for command in commands))
    for n, saved in enumerate(results):
        assert [(s.id, s.version, s.created, s.incarnation) for s in saved] == [
            (job_id("default", f"{letter}{n}", 1), 1, True, 1) for letter in "ab"
        ]
        job = await w.job(f"a{n}")
        assert (job.created_us, job.spec.tags) == (w.now + n, {"n": str(n)})
        [version] = await w.store.versions(job.id, limit=5)
        assert version.author == f"user-{n}"
    audited = await w.store.audit(namespace="default", limit=1000)
    assert {(e.actor, e.subject, e.at_us) for e in audited.items} == {
        (f"user-{n}", f"{letter}{n}", w.now + n) for n in range(_CONCURRENT_COMMANDS) for letter in "ab"
    }
    assert (await w.store.counts()).jobs == {0: 2 * _CONCURRENT_COMMANDS}


async def case_among_concurrent_creates_only_conflicting_ones_are_rejected(w: StoreFixture) -> None:
    await w.save("taken")
    names = [f"job-{n}" for n in range(10)]
    names[3] = "taken"
    names[7] = names[8] = "twice"
    commands = [SaveJobs(rows=(w.row(name, expect=NEW),), now_us=w.now) for name in names]
    results = await asyncio.gather(*(w.store.apply(command) for command in commands), return_exceptions=True)
    rejected = [name for name, result in zip(names, results, strict=True) if isinstance(result, Conflict)]
    assert sorted(rejected) == ["taken", "twice"]
    assert sum(isinstance(result, list) and result[0].created for result in results) == 8
    assert len((await w.store.list_jobs(JobFilter(), limit=100)).items) == 9


async def case_an_idempotency_key_creates_a_job_once(w: StoreFixture) -> None:
    def create(key: str | None, **options: str) -> SaveJobs:
        return SaveJobs(rows=(w.row("job", expect=NEW, **options),), now_us=w.tick(), idempotency=key)

    [first] = await w.store.apply(create("k"))
    assert (first.created, first.version) == (True, 1)
    [again] = await w.store.apply(create("k"))
    assert (again.id, again.version, again.created, again.changed) == (first.id, 1, False, False)
    for key in ("other", None):
        with raises(Conflict, "exists already"):
            await w.store.apply(create(key))
    [elsewhere] = await w.store.apply(create("k", namespace="elsewhere"))
    assert elsewhere.created
    await w.store.apply(DeleteJob(job=first.id, now_us=w.tick()))
    assert [saved.id for saved in await w.store.apply(create("k"))] == [first.id]
    assert await w.store.job_named("default", "job") is None
    audited = await w.store.audit(namespace="default", limit=10)
    assert [entry.action for entry in audited.items] == ["delete", "create"]


async def case_one_of_many_creates_with_the_same_idempotency_key_wins(w: StoreFixture) -> None:
    command = SaveJobs(rows=(w.row("job", expect=NEW),), now_us=w.now, idempotency="k")
    others = [SaveJobs(rows=(w.row(f"job-{n}", expect=NEW),), now_us=w.now) for n in range(5)]
    sent = [command, *others, command, command]
    results = await asyncio.gather(*(w.store.apply(each) for each in sent))
    same = [saved for each, [saved] in zip(sent, results, strict=True) if each is command]
    assert {saved.id for saved in same} == {job_id("default", "job", 1)}
    assert sum(saved.created for saved in same) == 1
    assert len((await w.store.list_jobs(JobFilter(), limit=100)).items) == 6


async def case_upstream_and_downstream_jobs_are_created_concurrently(w: StoreFixture) -> None:
    rows = [
        w.row("up", expect=NEW),
        w.row("down", expect=NEW, after=(UpstreamJob(job="up"),)),
        w.row("else", expect=NEW),
    ]
    await asyncio.gather(*(w.store.apply(SaveJobs(rows=(row,), now_us=w.now)) for row in rows))
    assert [job for job, _ in await w.store.followers("default", "up")] == [job_id("default", "down", 1)]


async def case_a_reused_name_gets_the_next_incarnation(w: StoreFixture) -> None:
    first = await w.save("job")
    await w.store.apply(DeleteJob(job=first.id, now_us=w.tick()))
    again = await w.save("job")
    assert (first.incarnation, again.incarnation) == (1, 2)


async def case_tags_are_those_of_the_last_version(w: StoreFixture) -> None:
    await w.save("one", tags={"team": "a", "app": "x"})
    await w.save("two", tags={"team": "a"})
    assert await _list_tagged_names(w, "team", "a") == ["one", "two"]
    saved = await w.save("one", tags={"team": "b"})
    assert await _list_tagged_names(w, "team", "a") == ["two"]
    assert await _list_tagged_names(w, "team", "b") == ["one"]
    assert await _list_tagged_names(w, "app", None) == []
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick()))
    assert await _list_tagged_names(w, "team", None) == ["two"]
    await w.save("one")
    assert await _list_tagged_names(w, "team", None) == ["two"]


async def _list_tagged_names(w: StoreFixture, key: str, value: str | None) -> list[str]:
    return [job.name for job in (await w.store.list_jobs(JobFilter(tag=(key, value)), limit=10)).items]
