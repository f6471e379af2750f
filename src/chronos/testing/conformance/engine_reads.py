"""Reads of the engine: old versions, ready lanes, long-running and ended executions, output."""

from chronos.core.config import Overlap
from chronos.core.execution import Execution, Span, Status
from chronos.core.ids import span_id
from chronos.core.job import JobState
from chronos.core.reasons import Reason, ReasonCode
from chronos.store.commands import PROGRESS, DeleteJob, OutputRow, Trim, WriteOutput
from chronos.testing.conformance.fixture import SECOND, T0, StoreFixture


async def case_any_version_of_a_job_can_be_looked_up(w: StoreFixture) -> None:
    saved = await w.save(description="one")
    await w.save(description="two")
    await w.save(description="three")
    other = await w.save("other", description="its own")
    keys = [(saved.id, 1), (saved.id, 3), (other.id, 1), (other.id, 2), (bytes(16), 1)]
    specs = await w.store.specs_at(keys)
    assert {key: spec.description for key, spec in specs.items()} == {
        (saved.id, 1): "one",
        (saved.id, 3): "three",
        (other.id, 1): "its own",
    }
    await w.store.apply(DeleteJob(job=saved.id, now_us=w.tick()))
    specs = await w.store.specs_at([(saved.id, 2), (saved.id, 3), (saved.id, 3)])
    assert {key[1]: spec.description for key, spec in specs.items()} == {2: "two", 3: "three"}
    assert await w.store.specs_at([]) == {}


async def case_lanes_with_ready_work_are_known(w: StoreFixture) -> None:
    assert await w.store.ready_lanes() == []
    for name in ("a", "b", "c", "d"):
        await w.save(name, lane=name, overlap=Overlap.ALLOW)
    lanes = {text: number for number, text in (await w.store.lanes()).items()}
    for name in ("b", "d", "d", "c"):
        await w.admit_one(name, claim=False)
    await w.admit_one("a")
    await w.set_state((await w.job("c")).id, JobState.PAUSED)
    assert await w.store.ready_lanes() == sorted([lanes["b"], lanes["d"]])
    await w.claim(lanes=(lanes["d"],))
    assert await w.store.ready_lanes() == [lanes["b"]]


async def case_long_running_executions_are_found(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    runs = [await w.admit_one() for _ in range(3)]
    ready = await w.admit_one(claim=False)
    since = await w.store.running_since(T0 + 3 * SECOND, 10)
    assert [execution.id for execution in since] == [run.id for run in runs[:2]]
    assert [execution.id for execution in await w.store.running_since(w.now + SECOND, 2)] == [r.id for r in runs[:2]]
    assert ready.id not in {execution.id for execution in await w.store.running_since(w.now + SECOND, 10)}


async def case_ended_executions_are_read_in_order(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.ALLOW)
    runs = [await w.admit_one() for _ in range(5)]
    for run in reversed(runs[:3]):
        await w.settle(run)
    await w.settle(*runs[3:])
    span = Span(
        id=span_id(saved.id, T0, int(Status.MISSED)),
        job=saved.id,
        status=Status.MISSED,
        from_us=T0,
        to_us=T0 + 5,
        count=2,
        reason=Reason.of(ReasonCode.MISSED),
        recorded_us=w.now + 5,
    )
    await w.set_state(saved.id, JobState.ACTIVE, spans=(span,))
    expected = [runs[2].id, runs[1].id, runs[0].id, *sorted(run.id for run in runs[3:]), span.id]
    seen: list[Execution | Span] = []
    after = (0, bytes(16))
    while page := await w.store.ended_since(after, 2):
        assert len(page) <= 2
        seen += page
        last = page[-1]
        at_us = last.recorded_us if isinstance(last, Span) else last.finished_us
        assert at_us is not None
        after = (at_us, last.id)
    assert [item.id for item in seen] == expected
    assert seen[-1] == span


async def case_an_execution_carries_the_last_run_of_its_job(w: StoreFixture) -> None:
    saved = await w.save(overlap=Overlap.SKIP)
    first = await w.admit_one()
    assert first.last_run_us is None
    assert (await w.admit_one()).status is Status.SKIPPED
    await w.settle(first)
    third = await w.admit_one(claim=False)
    [claimed] = await w.claim(1)
    assert claimed.last_run_us == third.last_run_us == T0 + SECOND
    await w.settle(claimed, status=Status.FAILED)
    fourth = await w.admit_one()
    assert fourth.last_run_us == T0 + 3 * SECOND
    await w.settle(fourth)
    await w.backfill(saved.id, T0 - SECOND)
    await w.settle(*await w.claim())
    [replacing] = await w.admit_next("job", needs_gate_lock=True)
    assert replacing.last_run_us == T0 + 4 * SECOND


async def case_executions_of_one_batch_carry_the_last_run_of_their_jobs(w: StoreFixture) -> None:
    names = ["a", "b", "c"]
    for name in names:
        await w.save(name, overlap=Overlap.QUEUE, queue_max=9)
    await w.settle(*await w.admit_next(*names))
    again = await w.admit_next(*names)
    assert {run.last_run_us for run in again} == {T0 + SECOND}
    behind = await w.admit_next(*names)
    assert {run.status for run in behind} == {Status.QUEUED}
    lanes = tuple(await w.store.lanes())
    taken = (await w.settle(*again, take=9, take_lanes=lanes)).taken
    assert [run.last_run_us for run in taken] == [T0 + 2 * SECOND] * 3
    await w.settle(*taken)
    await w.admit_next(*names, claim=False)
    assert {run.last_run_us for run in await w.claim()} == {T0 + 3 * SECOND}


async def case_the_newest_executions_of_many_jobs_are_found_at_once(w: StoreFixture) -> None:
    both, ended, skipped, new = [await w.save(name, overlap=Overlap.SKIP) for name in ("a", "b", "c", "d")]
    for _ in range(2):
        await w.settle(await w.admit_one("a"))
    await w.settle(await w.admit_one("b"))
    last, opened = await w.admit_one("b"), await w.admit_one("a")
    await w.settle(last, status=Status.FAILED)
    kept = await w.admit_one("c")
    passed = await w.admit_one("c")
    assert passed.status is Status.SKIPPED
    jobs = [both.id, ended.id, skipped.id, new.id, bytes(16)]
    started = await w.store.latest(jobs, started=True)
    assert {job: execution.id for job, execution in started.items()} == {
        both.id: opened.id,
        ended.id: last.id,
        skipped.id: kept.id,
    }
    assert started[both.id].status is Status.RUNNING
    assert started[ended.id].status is Status.FAILED
    assert await w.store.latest([]) == {}
    latest = await w.store.latest(jobs)
    assert latest.pop(skipped.id).id == passed.id
    assert {job: execution.id for job, execution in latest.items()} == {both.id: opened.id, ended.id: last.id}


async def case_output_is_kept_with_its_execution(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW, keep_count=1)
    runs = [await w.admit_one() for _ in range(70)]
    run, last = runs[0], runs[-1]
    rows = (
        OutputRow(run.id, "b", 1, 0, "later"),
        OutputRow(run.id, "a", 2, 0, "second attempt"),
        OutputRow(run.id, "a", 1, 1, "world"),
        OutputRow(run.id, "a", 1, 0, "hello"),
        OutputRow(run.id, "a", 1, PROGRESS, '{"done":1}'),
    )
    await w.store.apply(WriteOutput(rows=rows))
    assert await w.store.output(run.id) == sorted(rows)
    change = (
        OutputRow(run.id, "a", 1, PROGRESS, '{"done":2}'),
        OutputRow(run.id, "a", 1, PROGRESS, '{"done":3}'),
        OutputRow(bytes(16), "a", 1, 0, "of nothing"),
    )
    await w.store.apply(WriteOutput(rows=change))
    await w.store.apply(WriteOutput(rows=()))
    assert await w.store.output(run.id) == [change[1], *sorted(rows)[1:]]
    assert await w.store.output(bytes(16)) == []
    await w.settle(*runs)
    late = OutputRow(last.id, "a", 1, 0, "after its end")
    await w.store.apply(WriteOutput(rows=(late,)))
    w.tick()
    assert await w.store.apply(Trim(now_us=w.now, limit=1000)) == 69
    assert await w.store.output(run.id) == []
    assert await w.store.output(last.id) == [late]
    await w.store.apply(WriteOutput(rows=rows))
    assert await w.store.output(run.id) == [], "its history was trimmed"
