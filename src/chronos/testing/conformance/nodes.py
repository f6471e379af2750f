"""Nodes: registration, heartbeats, and the executions of dead nodes."""

from chronos.core.config import Overlap
from chronos.core.execution import AttemptStatus, CancelRequest, Status
from chronos.core.node import Process
from chronos.core.reasons import ReasonCode
from chronos.store.commands import (
    Beat,
    CancelExecution,
    FollowUp,
    Reap,
    ReapRow,
    RegisterNode,
    StopNode,
    TakeOutbox,
    Trim,
)
from chronos.testing.conformance.fixture import SECOND_US, Run, StoreFixture, ended_attempt

DAY = 86_400 * SECOND_US


async def case_an_incarnation_has_one_number(fixture: StoreFixture) -> None:
    one = RegisterNode(name="alpha", incarnation=b"a" * 16, now_us=fixture.now_us, slots=4, labels={"zone": "eu"})
    first = await fixture.store.apply(one)
    assert await fixture.store.apply(one) == first
    second = await fixture.store.apply(RegisterNode(name="alpha", incarnation=b"b" * 16, now_us=fixture.now_us))
    assert second != first
    nodes = await fixture.store.nodes()
    assert [(n.number, n.name, n.labels, n.slots) for n in nodes] == [
        (first, "alpha", {"zone": "eu"}, 4),
        (second, "alpha", {}, 0),
    ]


async def case_a_node_stores_its_offer(fixture: StoreFixture) -> None:
    async def offers() -> list[str | None]:
        return [node.offer for node in await fixture.store.nodes() if node.name == "alpha"]

    command = RegisterNode(name="alpha", incarnation=b"a" * 16, now_us=fixture.now_us, offer='{"functions":["a"]}')
    number = await fixture.store.apply(command)
    assert await offers() == ['{"functions":["a"]}']
    await fixture.store.apply(Beat(node=number, beat=1, now_us=fixture.tick()))
    assert await offers() == ['{"functions":["a"]}']
    await fixture.store.apply(Beat(node=number, beat=2, now_us=fixture.tick(), offer='{"functions":["b"]}'))
    assert await offers() == ['{"functions":["b"]}']


async def case_a_node_stores_its_process(fixture: StoreFixture) -> None:
    process = Process(scope="boot/namespace", pid=4711, started="123456")
    with_process = RegisterNode(
        name="n", incarnation=fixture.new_request_id(), now_us=fixture.now_us, labels={"zone": "eu"}, process=process
    )
    number = await fixture.store.apply(with_process)
    without_process = await fixture.store.apply(
        RegisterNode(name="m", incarnation=fixture.new_request_id(), now_us=fixture.now_us)
    )
    stored = {node.number: (node.process, node.labels) for node in await fixture.store.nodes()}
    assert stored[number] == (process, {"zone": "eu"})
    assert stored[without_process] == (None, {})


async def case_a_beat_returns_the_executions_of_the_node(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    a, b = await fixture.admit_one(), await fixture.admit_one()
    await fixture.store.apply(CancelExecution(execution=b.id, now_us=fixture.tick(), message="enough"))
    beaten = await fixture.store.apply(Beat(node=fixture.node, beat=1, now_us=fixture.tick()))
    assert beaten.alive
    assert set(beaten.running) == {
        (a.id, a.token, CancelRequest.NO, None),
        (b.id, b.token, CancelRequest.REQUESTED, "enough"),
    }
    assert {e.id for e in await fixture.store.running_on(fixture.node)} == {a.id, b.id}
    [node] = await fixture.store.nodes()
    assert (node.beat, node.beat_us) == (1, fixture.now_us)
    assert (await fixture.store.apply(Beat(node=fixture.node, beat=1, now_us=fixture.tick()))).alive
    assert not (await fixture.store.apply(Beat(node=99, beat=1, now_us=fixture.tick()))).alive


def _build_retry_row(run: Run) -> ReapRow:
    lost = ended_attempt(run, 1, AttemptStatus.LOST)
    return ReapRow(run.id, run.job, run.token, Status.READY, ReasonCode.WORKER_LOST, 2, (lost,))


def _build_stale_row(run: Run, **options: object) -> ReapRow:
    lost = ended_attempt(run, 1, AttemptStatus.LOST)
    row = ReapRow(run.id, run.job, run.token, Status.STALE, ReasonCode.WORKER_LOST, 1, (lost,), dead_letter=True)
    return row._replace(**options)  # type: ignore[arg-type]


async def case_executions_of_a_dead_node_are_retried_or_stale(fixture: StoreFixture) -> None:
    for name in ("a", "b"):
        await fixture.save(name, overlap=Overlap.QUEUE)
    a, b = await fixture.admit_next("a", "b")
    if a.job != (await fixture.job("a")).id:
        a, b = b, a
    behind = await fixture.admit_one("b")
    dead = fixture.node
    await fixture.store.apply(Beat(node=dead, beat=3, now_us=fixture.now_us))
    await fixture.start_node("other")
    follow = (FollowUp("hook", "on_complete", "{}"),)
    reap = Reap(
        node=dead, beat=3, rows=(_build_retry_row(a), _build_stale_row(b, follow=follow)), now_us=fixture.tick()
    )
    reaped = await fixture.store.apply(reap)
    assert reaped is not None
    assert set(reaped) == {a.id, b.id}
    assert await fixture.store.apply(reap) is None
    stale = await fixture.store.execution(b.id)
    assert stale is not None
    assert stale.execution.status is Status.STALE
    assert [x.status for x in stale.attempts] == [AttemptStatus.LOST]
    assert len((await fixture.store.list_dead_letters(namespace=None, limit=5)).items) == 1
    assert len(await fixture.store.outbox(limit=5)) == 1
    claimed = {c.id: c for c in await fixture.claim()}
    assert set(claimed) == {a.id, behind.id}
    assert claimed[a.id].attempt == 2
    assert (await fixture.settle(a)).settled == []
    assert (await fixture.settle(claimed[a.id])).settled == [a.id]
    assert not (await fixture.store.apply(Beat(node=dead, beat=4, now_us=fixture.tick()))).alive


async def case_a_node_that_beats_again_keeps_its_work(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    await fixture.store.apply(Beat(node=fixture.node, beat=1, now_us=fixture.tick()))
    await fixture.store.apply(Beat(node=fixture.node, beat=2, now_us=fixture.tick()))
    assert (
        await fixture.store.apply(Reap(node=fixture.node, beat=1, rows=(_build_retry_row(run),), now_us=fixture.tick()))
        is None
    )
    assert await fixture.status(run.id) is Status.RUNNING
    assert (await fixture.store.apply(Beat(node=fixture.node, beat=3, now_us=fixture.tick()))).alive


async def case_a_node_reaped_in_parts_is_stopped_by_the_last_part(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    a, b = await fixture.admit_one(), await fixture.admit_one()
    first = Reap(node=fixture.node, beat=0, rows=(_build_retry_row(a),), now_us=fixture.tick(), last=False)
    assert await fixture.store.apply(first) == [a.id]
    assert (await fixture.store.nodes())[0].stopped_us is None
    assert await fixture.store.apply(
        Reap(node=fixture.node, beat=0, rows=(_build_retry_row(b),), now_us=fixture.tick())
    ) == [b.id]
    assert (await fixture.store.nodes())[0].stopped_us == fixture.now_us


async def case_outbox_items_of_a_stopped_node_are_taken_by_another(fixture: StoreFixture) -> None:
    await fixture.save()
    run = await fixture.admit_one()
    await fixture.settle(run, follow=(FollowUp("hook", "x", "{}"),))
    first = fixture.node
    taken = await fixture.store.apply(TakeOutbox(node=first, limit=5))
    assert len(taken) == 1
    other = await fixture.start_node("other")
    assert await fixture.store.apply(TakeOutbox(node=other, limit=5)) == []
    await fixture.store.apply(StopNode(node=first, now_us=fixture.tick(SECOND_US)))
    assert await fixture.store.apply(TakeOutbox(node=other, limit=5)) == taken
    assert not (await fixture.store.apply(Beat(node=first, beat=9, now_us=fixture.tick()))).alive


async def case_taken_outbox_items_are_returned_again_only_on_request(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    for kind in ("first", "second"):
        await fixture.settle(await fixture.admit_one(), follow=(FollowUp(kind, "x", "{}"),))

    async def take(*, limit: int, include_held: bool, targets: tuple[str, ...] | None) -> list[str]:
        take = TakeOutbox(node=fixture.node, limit=limit, include_held=include_held, targets=targets)
        return [item.kind for item in await fixture.store.apply(take)]

    for targets in (None, ("x", "y")):
        assert await take(limit=1, include_held=False, targets=targets) == ["first"]
        assert await take(limit=1, include_held=True, targets=targets) == ["first"]
        assert await take(limit=1, include_held=False, targets=targets) == ["second"]
        assert await take(limit=5, include_held=False, targets=targets) == []
        assert await take(limit=5, include_held=True, targets=targets) == ["first", "second"]
        await fixture.store.apply(StopNode(node=fixture.node, now_us=fixture.tick()))
        await fixture.start_node("next")


async def case_old_nodes_without_work_are_removed(fixture: StoreFixture) -> None:
    await fixture.save(overlap=Overlap.ALLOW)
    stopped = fixture.node
    await fixture.store.apply(StopNode(node=stopped, now_us=fixture.now_us))
    silent = await fixture.start_node("silent")
    busy = await fixture.start_node("busy")
    run = await fixture.admit_one()
    writer = await fixture.start_node("writer")
    await fixture.settle(await fixture.admit_one(), follow=(FollowUp("hook", "x", "{}"),))
    taken = await fixture.store.apply(TakeOutbox(node=writer, limit=5))
    assert len(taken) == 1
    fixture.tick(20 * DAY)
    alive = await fixture.start_node("alive")
    late = await fixture.start_node("late")
    fixture.tick(9 * DAY)
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=10)) == 0
    fixture.tick(2 * DAY)
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=1)) == 1
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=10)) == 1
    assert [node.number for node in await fixture.store.nodes()] == [busy, writer, alive, late]
    assert not (await fixture.store.apply(Beat(node=silent, beat=1, now_us=fixture.now_us))).alive
    fixture.node = busy
    assert (await fixture.settle(run)).settled == [run.id]
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=10)) == 1
    assert [node.number for node in await fixture.store.nodes()] == [writer, alive, late]
    assert stopped < silent


async def case_the_number_of_a_removed_node_is_not_reused(fixture: StoreFixture) -> None:
    numbers = [await fixture.start_node(f"n{n}") for n in range(3)]
    for number in numbers:
        await fixture.store.apply(StopNode(node=number, now_us=fixture.now_us))
    fixture.tick(100 * DAY)
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=10)) == 2
    assert await fixture.store.apply(Trim(now_us=fixture.now_us, limit=10)) == 0
    assert await fixture.start_node("new") == numbers[-1] + 1
