"""Reads that nodes need: old versions, ready lanes, long-running and ended executions, output."""

from chronos.core.config import Overlap
from chronos.core.execution import Execution, Span, Status
from chronos.core.ids import span_id
from chronos.core.job import JobState
from chronos.core.reasons import Reason, ReasonCode
from chronos.store.commands import PROGRESS, DeleteJob, OutputRow, Trim, WriteOutput
from chronos.testing.conformance.fixture import SECOND_US, T0_US, StoreFixture


async def case_any_version_of_a_job_can_be_looked_up(fixture: StoreFixture) -> None:
    saved = await fixture.save(description="one")
    await fixture.save(description="two")
    await fixture.save(description="three")
    other = await fixture.save("other", description="its own")
    keys = [(saved.id, 1), (saved.id, 3), (other.id, 1), (other.id, 2), (bytes(16), 1)]
    specs = await fixture.store.specs_at(keys)
    assert {key: spec.description for key, spec in specs.items()} == {
        (saved.id, 1): "one",
        (saved.id, 3): "three",
        (other.id, 1): "its own",
    }
    await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick()))
    specs = await fixture.store.specs_at([(saved.id, 2), (saved.id, 3), (saved.id, 3)])
    assert {key[1]: spec.description for key, spec in specs.items()} == {2: "two", 3: "three"}
    assert await fixture.store.specs_at([]) == {}


async def case_lanes_with_ready_work_are_known(fixture: StoreFixture) -> None:
    assert await fixture.store.ready_lanes() == []
    for name in ("a", "b", "c", "d"):
        await fixture.save(name, lane=name, overlap=Overlap.ALLOW)
    lanes = {text: number for number, text in (await fixture.store.lanes()).items()}
    for name in ("b", "d", "d", "c"):
        await fixture.admit_one(name, claim=False)
    await fixture.admit_one("a")
    await fixture.set_state((await fixture.job("c")).id, JobState.PAUSED)
    assert await fixture.store.ready_lanes() == sorted([lanes["b"], lanes["d"]])
    await fixture.claim(lanes=(lanes["d"],))
    assert await fixture.store.ready_lanes() == [lanes["b"]]


async def case_long_running_executions_are_found(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one() for _ in range(3)]
    ready = await fixture.admit_one(claim=False)
    since = await fixture.store.running_since(T0_US + 3 * SECOND_US, 10)
    assert [execution.id for execution in since] == [run.id for run in runs[:2]]
    assert [execution.id for execution in await fixture.store.running_since(fixture.now_us + SECOND_US, 2)] == [
        r.id for r in runs[:2]
    ]
    assert ready.id not in {
        execution.id for execution in await fixture.store.running_since(fixture.now_us + SECOND_US, 10)
    }


async def case_ended_executions_are_read_in_order(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.ALLOW)
    runs = [await fixture.admit_one() for _ in range(5)]
    for run in reversed(runs[:3]):
        await fixture.settle(run)
    await fixture.settle(*runs[3:])
    span = Span(
        id=span_id(saved.id, T0_US, int(Status.MISSED)),
        job=saved.id,
        status=Status.MISSED,
        from_us=T0_US,
        to_us=T0_US + 5,
        count=2,
        reason=Reason.of(ReasonCode.MISSED),
        recorded_us=fixture.now_us + 5,
    )
    await fixture.set_state(saved.id, JobState.ACTIVE, spans=(span,))
    expected = [runs[2].id, runs[1].id, runs[0].id, *sorted(run.id for run in runs[3:]), span.id]
    seen: list[Execution | Span] = []
    after = (0, bytes(16))
    while page := await fixture.store.ended_since(after, 2):
        assert len(page) <= 2
        seen += page
        last = page[-1]
        at_us = last.recorded_us if isinstance(last, Span) else last.finished_us
        assert at_us is not None
        after = (at_us, last.id)
    assert [item.id for item in seen] == expected
    assert seen[-1] == span


async def case_an_execution_carries_the_last_run_of_its_job(fixture: StoreFixture) -> None:
    saved = await fixture.save(overlap=Overlap.SKIP)
    first = await fixture.admit_one()
    assert first.last_run_us is None
    assert (await fixture.admit_one()).status is Status.SKIPPED
    await fixture.settle(first)
    third = await fixture.admit_one(claim=False)
    [claimed] = await fixture.claim(1)
    assert claimed.last_run_us == third.last_run_us == T0_US + SECOND_US
    await fixture.settle(claimed, status=Status.FAILED)
    fourth = await fixture.admit_one()
    assert fourth.last_run_us == T0_US + 3 * SECOND_US
    await fixture.settle(fourth)
    await fixture.backfill(saved.id, T0_US - SECOND_US)
    await fixture.settle(*await fixture.claim())
    [replacing] = await fixture.admit_next("job", needs_gate_lock=True)
    assert replacing.last_run_us == T0_US + 4 * SECOND_US


async def case_executions_of_one_batch_carry_the_last_run_of_their_jobs(fixture: StoreFixture) -> None:
    names = ["a", "b", "c"]
    for name in names:
        await fixture.save(name, overlap=Overlap.QUEUE, queue_max=9)
    await fixture.settle(*await fixture.admit_next(*names))
    again = await fixture.admit_next(*names)
    assert {run.last_run_us for run in again} == {T0_US + SECOND_US}
    behind = await fixture.admit_next(*names)
    assert {run.status for run in behind} == {Status.QUEUED}
    lanes = tuple(await fixture.store.lanes())
    taken = (await fixture.settle(*again, take=9, take_lanes=lanes)).started_successors
    assert [run.last_run_us for run in taken] == [T0_US + 2 * SECOND_US] * 3
    await fixture.settle(*taken)
    await fixture.admit_next(*names, claim=False)
    assert {run.last_run_us for run in await fixture.claim()} == {T0_US + 3 * SECOND_US}


async def case_the_newest_executions_of_many_jobs_are_found_at_once(fixture: StoreFixture) -> None:
    both, ended, skipped, new = [await fixture.save(name, overlap=Overlap.SKIP) for name in ("a", "b", "c", "d")]
    for _ in range(2):
        await fixture.settle(await fixture.admit_one("a"))
    await fixture.settle(await fixture.admit_one("b"))
    last, opened = await fixture.admit_one("b"), await fixture.admit_one("a")
    await fixture.settle(last, status=Status.FAILED)
    kept = await fixture.admit_one("c")
    passed = await fixture.admit_one("c")
    assert passed.status is Status.SKIPPED
    jobs = [both.id, ended.id, skipped.id, new.id, bytes(16)]
    started = await fixture.store.latest(jobs, started=True)
    assert {job: execution.id for job, execution in started.items()} == {
        both.id: opened.id,
        ended.id: last.id,
        skipped.id: kept.id,
    }
    assert started[both.id].status is Status.RUNNING
    assert started[ended.id].status is Status.FAILED
    assert await fixture.store.latest([]) == {}
    latest = await fixture.store.latest(jobs)
    assert latest.pop(skipped.id).id == passed.id
    assert {job: execution.id for job, execution in latest.items()} == {both.id: opened.id, ended.id: last.id}


async def case_output_is_kept_with_its_execution(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW, keep_count=1)
    runs = [await fixture.admit_one() for _ in range(70)]
    run, last = runs[0], runs[-1]
    rows = (
        OutputRow(run.id, "b", 1, 0, "later"),
        OutputRow(run.id, "a", 2, 0, "second attempt"),
        OutputRow(run.id, "a", 1, 1, "world"),
        OutputRow(run.id, "a", 1, 0, "hello"),
        OutputRow(run.id, "a", 1, PROGRESS, '{"done":1}'),
    )
    await fixture.store.apply(WriteOutput(rows=rows))
    assert await fixture.store.output(run.id) == sorted(rows)
    change = (
        OutputRow(run.id, "a", 1, PROGRESS, '{"done":2}'),
        OutputRow(run.id, "a", 1, PROGRESS, '{"done":3}'),
        OutputRow(bytes(16), "a", 1, 0, "of nothing"),
    )
    await fixture.store.apply(WriteOutput(rows=change))
    await fixture.store.apply(WriteOutput(rows=()))
    assert await fixture.store.output(run.id) == [change[1], *sorted(rows)[1:]]
    assert await fixture.store.output(bytes(16)) == []
    await fixture.settle(*runs)
    late = OutputRow(last.id, "a", 1, 0, "after its end")
    await fixture.store.apply(WriteOutput(rows=(late,)))
    fixture.tick()
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=1000)) == 69
    assert await fixture.store.output(run.id) == []
    assert await fixture.store.output(last.id) == [late]
    await fixture.store.apply(WriteOutput(rows=rows))
    assert await fixture.store.output(run.id) == [], "its history was trimmed"
