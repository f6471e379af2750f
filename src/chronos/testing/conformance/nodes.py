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
from chronos.testing.conformance.fixture import SECOND, Run, StoreFixture, ended_attempt

DAY = 86_400 * SECOND


async def case_an_incarnation_has_one_number(w: StoreFixture) -> None:
    one = RegisterNode(name="alpha", incarnation=b"a" * 16, now_us=w.now, slots=4, labels={"zone": "eu"})
    first = await w.store.apply(one)
    assert await w.store.apply(one) == first
    second = await w.store.apply(RegisterNode(name="alpha", incarnation=b"b" * 16, now_us=w.now))
    assert second != first
    nodes = await w.store.nodes()
    assert [(n.number, n.name, n.labels, n.slots) for n in nodes] == [
        (first, "alpha", {"zone": "eu"}, 4),
        (second, "alpha", {}, 0),
    ]


async def case_a_node_stores_its_offer(w: StoreFixture) -> None:
    async def offers() -> list[str | None]:
        return [node.offer for node in await w.store.nodes() if node.name == "alpha"]

    command = RegisterNode(name="alpha", incarnation=b"a" * 16, now_us=w.now, offer='{"functions":["a"]}')
    number = await w.store.apply(command)
    assert await offers() == ['{"functions":["a"]}']
    await w.store.apply(Beat(node=number, beat=1, now_us=w.tick()))
    assert await offers() == ['{"functions":["a"]}']
    await w.store.apply(Beat(node=number, beat=2, now_us=w.tick(), offer='{"functions":["b"]}'))
    assert await offers() == ['{"functions":["b"]}']


async def case_a_node_stores_its_process(w: StoreFixture) -> None:
    process = Process(scope="boot/namespace", pid=4711, started="123456")
    with_process = RegisterNode(name="n", incarnation=w.request(), now_us=w.now, labels={"zone": "eu"}, process=process)
    number = await w.store.apply(with_process)
    without_process = await w.store.apply(RegisterNode(name="m", incarnation=w.request(), now_us=w.now))
    stored = {node.number: (node.process, node.labels) for node in await w.store.nodes()}
    assert stored[number] == (process, {"zone": "eu"})
    assert stored[without_process] == (None, {})


async def case_a_beat_returns_the_executions_of_the_node(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    a, b = await w.admit_one(), await w.admit_one()
    await w.store.apply(CancelExecution(execution=b.id, now_us=w.tick(), message="enough"))
    beaten = await w.store.apply(Beat(node=w.node, beat=1, now_us=w.tick()))
    assert beaten.alive
    assert set(beaten.held) == {
        (a.id, a.token, CancelRequest.NO, None),
        (b.id, b.token, CancelRequest.REQUESTED, "enough"),
    }
    assert {e.id for e in await w.store.held_by(w.node)} == {a.id, b.id}
    [node] = await w.store.nodes()
    assert (node.beat, node.beat_us) == (1, w.now)
    assert (await w.store.apply(Beat(node=w.node, beat=1, now_us=w.tick()))).alive
    assert not (await w.store.apply(Beat(node=99, beat=1, now_us=w.tick()))).alive


def _build_retry_row(run: Run) -> ReapRow:
    lost = ended_attempt(run, 1, AttemptStatus.LOST)
    return ReapRow(run.id, run.job, run.token, Status.READY, ReasonCode.WORKER_LOST, 2, (lost,))


def _build_stale_row(run: Run, **options: object) -> ReapRow:
    lost = ended_attempt(run, 1, AttemptStatus.LOST)
    row = ReapRow(run.id, run.job, run.token, Status.STALE, ReasonCode.WORKER_LOST, 1, (lost,), dead_letter=True)
    return row._replace(**options)  # type: ignore[arg-type]


async def case_executions_of_a_dead_node_are_retried_or_stale(w: StoreFixture) -> None:
    for name in ("a", "b"):
        await w.save(name, overlap=Overlap.QUEUE)
    a, b = await w.admit_next("a", "b")
    if a.job != (await w.job("a")).id:
        a, b = b, a
    behind = await w.admit_one("b")
    dead = w.node
    await w.store.apply(Beat(node=dead, beat=3, now_us=w.now))
    await w.start_node("other")
    follow = (FollowUp("hook", "on_complete", "{}"),)
    reap = Reap(node=dead, beat=3, rows=(_build_retry_row(a), _build_stale_row(b, follow=follow)), now_us=w.tick())
    reaped = await w.store.apply(reap)
    assert reaped is not None
    assert set(reaped) == {a.id, b.id}
    assert await w.store.apply(reap) is None
    stale = await w.store.execution(b.id)
    assert stale is not None
    assert stale.execution.status is Status.STALE
    assert [x.status for x in stale.attempts] == [AttemptStatus.LOST]
    assert len((await w.store.list_dead_letters(namespace=None, limit=5)).items) == 1
    assert len(await w.store.outbox(limit=5)) == 1
    claimed = {c.id: c for c in await w.claim()}
    assert set(claimed) == {a.id, behind.id}
    assert claimed[a.id].attempt == 2
    assert (await w.settle(a)).settled == []
    assert (await w.settle(claimed[a.id])).settled == [a.id]
    assert not (await w.store.apply(Beat(node=dead, beat=4, now_us=w.tick()))).alive


async def case_a_node_that_beats_again_keeps_its_work(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    await w.store.apply(Beat(node=w.node, beat=1, now_us=w.tick()))
    await w.store.apply(Beat(node=w.node, beat=2, now_us=w.tick()))
    assert await w.store.apply(Reap(node=w.node, beat=1, rows=(_build_retry_row(run),), now_us=w.tick())) is None
    assert await w.status(run.id) is Status.RUNNING
    assert (await w.store.apply(Beat(node=w.node, beat=3, now_us=w.tick()))).alive


async def case_a_node_reaped_in_parts_is_stopped_by_the_last_part(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    a, b = await w.admit_one(), await w.admit_one()
    first = Reap(node=w.node, beat=0, rows=(_build_retry_row(a),), now_us=w.tick(), last=False)
    assert await w.store.apply(first) == [a.id]
    assert (await w.store.nodes())[0].stopped_us is None
    assert await w.store.apply(Reap(node=w.node, beat=0, rows=(_build_retry_row(b),), now_us=w.tick())) == [b.id]
    assert (await w.store.nodes())[0].stopped_us == w.now


async def case_outbox_items_of_a_stopped_node_are_taken_by_another(w: StoreFixture) -> None:
    await w.save()
    run = await w.admit_one()
    await w.settle(run, follow=(FollowUp("hook", "x", "{}"),))
    first = w.node
    taken = await w.store.apply(TakeOutbox(node=first, limit=5))
    assert len(taken) == 1
    other = await w.start_node("other")
    assert await w.store.apply(TakeOutbox(node=other, limit=5)) == []
    await w.store.apply(StopNode(node=first, now_us=w.tick(SECOND)))
    assert await w.store.apply(TakeOutbox(node=other, limit=5)) == taken
    assert not (await w.store.apply(Beat(node=first, beat=9, now_us=w.tick()))).alive


async def case_taken_outbox_items_are_returned_again_only_on_request(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    for kind in ("first", "second"):
        await w.settle(await w.admit_one(), follow=(FollowUp(kind, "x", "{}"),))

    async def take(*, limit: int, include_held: bool, targets: tuple[str, ...] | None) -> list[str]:
        take = TakeOutbox(node=w.node, limit=limit, include_held=include_held, targets=targets)
        return [item.kind for item in await w.store.apply(take)]

    for targets in (None, ("x", "y")):
        assert await take(limit=1, include_held=False, targets=targets) == ["first"]
        assert await take(limit=1, include_held=True, targets=targets) == ["first"]
        assert await take(limit=1, include_held=False, targets=targets) == ["second"]
        assert await take(limit=5, include_held=False, targets=targets) == []
        assert await take(limit=5, include_held=True, targets=targets) == ["first", "second"]
        await w.store.apply(StopNode(node=w.node, now_us=w.tick()))
        await w.start_node("next")


async def case_old_nodes_without_work_are_removed(w: StoreFixture) -> None:
    await w.save(overlap=Overlap.ALLOW)
    stopped = w.node
    await w.store.apply(StopNode(node=stopped, now_us=w.now))
    silent = await w.start_node("silent")
    busy = await w.start_node("busy")
    run = await w.admit_one()
    writer = await w.start_node("writer")
    await w.settle(await w.admit_one(), follow=(FollowUp("hook", "x", "{}"),))
    taken = await w.store.apply(TakeOutbox(node=writer, limit=5))
    assert len(taken) == 1
    w.tick(20 * DAY)
    alive = await w.start_node("alive")
    late = await w.start_node("late")
    w.tick(9 * DAY)
    assert await w.store.apply(Trim(now_us=w.now, limit=10)) == 0
    w.tick(2 * DAY)
    assert await w.store.apply(Trim(now_us=w.now, limit=1)) == 1
    assert await w.store.apply(Trim(now_us=w.now, limit=10)) == 1
    assert [node.number for node in await w.store.nodes()] == [busy, writer, alive, late]
    assert not (await w.store.apply(Beat(node=silent, beat=1, now_us=w.now))).alive
    w.node = busy
    assert (await w.settle(run)).settled == [run.id]
    assert await w.store.apply(Trim(now_us=w.now, limit=10)) == 1
    assert [node.number for node in await w.store.nodes()] == [writer, alive, late]
    assert stopped < silent


async def case_the_number_of_a_removed_node_is_not_reused(w: StoreFixture) -> None:
    numbers = [await w.start_node(f"n{n}") for n in range(3)]
    for number in numbers:
        await w.store.apply(StopNode(node=number, now_us=w.now))
    w.tick(100 * DAY)
    assert await w.store.apply(Trim(now_us=w.now, limit=10)) == 2
    assert await w.store.apply(Trim(now_us=w.now, limit=10)) == 0
    assert await w.start_node("new") == numbers[-1] + 1
