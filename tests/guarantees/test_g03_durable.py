"""G3: acknowledged writes survive a crash of every node."""

from pathlib import Path

from chronos.assembly import make_store
from chronos.core.execution import Status
from chronos.store.contract import ExecutionFilter
from chronos.testing.loop import run
from tests.support.engine_world import World


def test_g3_durable(tmp_path: Path) -> None:
    """All nodes crash at once, with work in progress. Another process opens the file and finds every record."""

    async def scenario() -> None:
        world = World(f"sqlite:///{tmp_path / 'chronos.db'}")
        await world.open()
        work = world.work("work", takes=2)
        for _ in range(2):
            await world.node()
        await world.job("work", schedule="@every 5s", overlap="queue")
        triggered = await world.executions.trigger("work", idempotency="pay-7")
        await world.reach(11)
        for node in world.nodes:
            await node.crash()
        before = await world.records("work")

        other = make_store(f"sqlite:///{tmp_path / 'chronos.db'}")
        await other.open()
        job = await other.job_named("default", "work")
        assert job is not None
        page = await other.list_executions(ExecutionFilter(job=job.id), limit=100)
        await other.close()
        assert [(record.id, record.status) for record in page.items[::-1]] == [(r.id, r.status) for r in before]
        assert len(work.ends) == sum(record.status is Status.SUCCEEDED for record in before)
        repeated = await world.executions.trigger("work", idempotency="pay-7")
        assert (repeated.id, repeated.created) == (triggered.id, False)
        await world.close()

    run(scenario())
