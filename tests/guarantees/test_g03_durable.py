"""G3: what was acknowledged survives a crash of every node."""

from pathlib import Path

from chronos.assembly import make_store
from chronos.core.execution import Status
from chronos.store.contract import ExecutionFilter
from chronos.testing.loop import run
from tests.support.engine_world import World


def test_g3_durable(tmp_path: Path) -> None:
    """Every node dies at once, in the middle of everything; another process opens the file and knows it all."""

    async def scene() -> None:
        world = World(f"sqlite:///{tmp_path / 'chronos.db'}")
        await world.open()
        work = world.work("work", takes=2)
        for _ in range(2):
            await world.node()
        await world.job("work", schedule="@every 5s", overlap="queue")
        asked = await world.executions.trigger("work", idempotency="pay-7")
        await world.reach(11)
        for node in world.nodes:
            await node.crash()
        before = await world.records("work")

        other = make_store(f"sqlite:///{tmp_path / 'chronos.db'}")
        await other.open()
        job = await other.job_named("default", "work")
        assert job is not None
        found = await other.list_executions(ExecutionFilter(job=job.id), limit=100)
        await other.close()
        assert [(record.id, record.status) for record in found.items[::-1]] == [(r.id, r.status) for r in before]
        assert len(work.ends) == sum(record.status is Status.SUCCEEDED for record in before)
        again = await world.executions.trigger("work", idempotency="pay-7")
        assert (again.id, again.created) == (asked.id, False)
        await world.close()

    run(scene())
