"""Many gates in one transaction: rows of one command, and gaps that are sent together, stand for themselves."""

import asyncio
from dataclasses import replace
from typing import Any

from chronos.core.config import Overlap
from chronos.core.execution import Cancel, Cause, Span, Status
from chronos.core.ids import key_gate_id, scheduled_execution_id, span_id
from chronos.core.job import After, Job
from chronos.core.reasons import Code, Reason
from chronos.store.commands import Admit, AdmitRow, Admitted, Recover, RunRow
from chronos.testing.conformance.world import SECOND, T0, World, admit_row

KEY = key_gate_id("default", "tenant")


async def _admit(w: World, *rows: AdmitRow, request: bytes | None = None) -> list[Admitted]:
    return await w.store.apply(
        Admit(rows=rows, node=w.node, now_us=max(w.now, T0 + SECOND), request=request or w.request())
    )


async def _careful(w: World, name: str, **changes: Any) -> AdmitRow:
    job = await w.job(name)
    assert job.next_us is not None
    return admit_row(job, job.next_us, job.next_us + SECOND, careful=True)._replace(**changes)


def _gap(job: Job, *, missed: int = 0, runs: int = 1, **options: Any) -> Recover:
    """So many instants that were missed, and then so many that run."""
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
        reason=Reason.of(Code.OUTSIDE_RECOVERY),
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


async def _recover(w: World, *gaps: Recover) -> list[list[Status]]:
    answers = await asyncio.gather(*(w.store.apply(gap) for gap in gaps))
    for gap, answer in zip(gaps, answers, strict=True):
        assert {one.job for one in answer} <= {gap.job}
    return [[one.status for one in answer] for answer in answers]


async def case_many_careful_rows_stand_for_themselves(w: World) -> None:
    """What they find open, ready, running or nothing at all, and a row that is stale among them."""
    names = ("empty", "ready", "running", "queued", "stale")
    for name in names:
        await w.save(name, overlap=Overlap.REPLACE)
    await w.save("follower", after=(After(job="ready"),))
    [ready] = await w.instant("ready", careful=True, claim=False)
    [running] = await w.instant("running", careful=True)
    [under_it] = await w.instant("queued", careful=True)
    [queued] = await w.instant("queued", careful=True)
    stale = await _careful(w, "stale", version=7)
    rows = [await _careful(w, name) for name in names[:-1]]
    answers = {one.job: one.status for one in await _admit(w, *rows, stale)}
    assert [answers.get(row.job) for row in (*rows, stale)] == [
        *(Status.RUNNING, Status.RUNNING, Status.QUEUED, Status.QUEUED, None)
    ]
    assert [await w.status(run.id) for run in (ready, queued)] == [Status.CANCELED] * 2
    assert [(await w.execution(run.id)).cancel for run in (running, under_it)] == [Cancel.REPLACED] * 2
    assert [item.execution for item in await w.store.outbox(limit=10)] == [ready.id]
    assert (await w.job("stale")).next_us == T0 + SECOND
    assert [(await w.job(name)).next_us for name in names[:4]] == [T0 + s * SECOND for s in (2, 3, 3, 4)]


async def case_several_careful_rows_of_one_job_come_one_after_the_other(w: World) -> None:
    await w.save(overlap=Overlap.REPLACE)
    await w.save("asked", overlap=Overlap.REPLACE)
    for name, claim, fates in (
        ("job", False, [Status.CANCELED, Status.CANCELED, Status.READY]),
        ("asked", True, [Status.RUNNING, Status.CANCELED, Status.QUEUED]),
    ):
        job = await w.job(name)
        rows = [admit_row(job, T0 + s * SECOND, T0 + (s + 1) * SECOND, claim=claim, careful=True) for s in range(1, 4)]
        assert len(await _admit(w, *rows)) == 3
        assert [await w.status(row.id) for row in rows] == fates
        assert ((await w.execution(rows[0].id)).cancel is Cancel.REPLACED) is claim
        assert (await w.job(name)).next_us == T0 + 4 * SECOND


async def case_careful_rows_share_a_key(w: World) -> None:
    names = [f"job-{n}" for n in range(4)]
    for name in names:
        await w.save(name, overlap=Overlap.ALLOW, keyed=True)
    rows = [await _careful(w, name, key=KEY, key_limit=2) for name in names]
    admitted = await _admit(w, *rows)
    assert sorted(one.status for one in admitted) == [Status.QUEUED, Status.QUEUED, Status.RUNNING, Status.RUNNING]
    await w.settle(*(one for one in admitted if one.status is Status.RUNNING))
    await w.wake()
    assert len(await w.claim()) == 2


async def case_the_same_careful_rows_again_change_nothing(w: World) -> None:
    names = [f"job-{n}" for n in range(3)]
    for name in names:
        await w.save(name, overlap=Overlap.REPLACE)
    rows = [await _careful(w, name) for name in names]
    request = w.request()
    first = await _admit(w, *rows, request=request)
    assert len(first) == 3
    assert await _admit(w, *rows, request=request) == []
    assert [(await w.execution(one.id)).cancel for one in first] == [Cancel.NO] * 3
    back = [await w.save(name, overlap=Overlap.REPLACE, description="back", next_us=T0 + SECOND) for name in names]
    assert await _admit(w, *(row._replace(version=saved.version) for row, saved in zip(rows, back, strict=True))) == []
    assert [(await w.job(name)).next_us for name in names] == [T0 + 2 * SECOND] * 3
    assert [(await w.execution(one.id)).cancel for one in first] == [Cancel.NO] * 3


async def case_gaps_that_are_sent_together_are_judged_each_by_itself(w: World) -> None:
    for name in ("fine", "stale", "missed", "full", "whole"):
        await w.save(name, overlap=Overlap.QUEUE, queue_max=1)
    await w.save("replacing", overlap=Overlap.REPLACE)
    [waiting] = await w.instant("replacing", careful=True, claim=False)
    jobs = {name: await w.job(name) for name in ("fine", "stale", "missed", "full", "whole", "replacing")}
    gaps = [
        _gap(jobs["fine"], missed=2),
        replace(_gap(jobs["stale"]), version=7),
        _gap(jobs["missed"], missed=3, runs=0),
        _gap(jobs["full"], runs=4),
        _gap(jobs["whole"], missed=1, runs=4, whole=True),
        _gap(jobs["replacing"], runs=3),
    ]
    assert await _recover(w, *gaps) == [
        [Status.READY],
        [],
        [],
        [Status.READY, Status.QUEUED],
        [],
        [Status.READY, Status.READY, Status.READY],
    ]
    found = [((await w.job(name)).next_us or 0) - T0 for name in jobs]
    assert found == [s * SECOND for s in (4, 1, 4, 3, 1, 5)]
    fates = [await w.status(run.id) for run in gaps[-1].runs]
    assert fates == [Status.CANCELED, Status.CANCELED, Status.READY]
    assert await w.status(waiting.id) is Status.CANCELED
    assert await _recover(w, *gaps) == [[], [], [], [], [], []]


async def case_gaps_that_are_sent_together_share_a_key(w: World) -> None:
    """One that is refused whole leaves no trace at the key."""
    gaps = []
    for name, runs, whole in (("a", 1, False), ("b", 3, True), ("c", 1, False), ("d", 1, False)):
        await w.save(name, overlap=Overlap.ALLOW, keyed=True, queue_max=1)
        gaps.append(_gap(await w.job(name), runs=runs, whole=whole, key=KEY, key_limit=2))
    found = await _recover(w, *gaps)
    assert found[1] == []
    assert sorted(status for answer in found for status in answer) == [Status.READY, Status.READY, Status.QUEUED]
    claimed = await w.claim()
    assert len(claimed) == 2
    await w.settle(*claimed)
    await w.wake()
    assert len(await w.claim()) == 1
