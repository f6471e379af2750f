"""The job of one-off runs: retention removes it, and a change of it does not last."""

import pytest

from chronos.core.job import JobState
from chronos.store.commands import Trim
from tests.support.service_world import World, in_world

DAY_US = 86_400_000_000


@pytest.mark.parametrize("target", [{"command": {"argv": ["true"]}}, {"python": {"name": "greet"}}])
def test_retention_removes_the_job_after_its_last_run(target: dict[str, object]) -> None:
    async def case(world: World) -> None:
        runs = world.service.one_off_runs
        draft = runs.read(target, namespace="default")
        job = (await runs.run(draft)).job
        for days in (60, 60):
            world.tick(days * DAY_US)
            await world.store.apply(Trim(now_us=world.clock.us, limit=1_000))
        assert (await world.jobs.get(draft.name)).state is JobState.DONE  # its run has not ended
        [claimed] = await world.claim()
        await world.settle(claimed)
        for _ in range(3):
            world.tick(91 * DAY_US)
            await world.store.apply(Trim(now_us=world.clock.us, limit=1_000))
        assert await world.store.job_named("default", draft.name) is None
        assert (await runs.run(draft)).job.id != job.id

    in_world(case)


def test_the_next_request_restores_a_changed_job() -> None:
    async def case(world: World) -> None:
        runs = world.service.one_off_runs
        draft = runs.read({"command": {"argv": ["true"]}}, namespace="default")
        await runs.run(draft)
        await world.save(draft.name, schedule="manual", command={"argv": ["false"]})
        restored = (await runs.run(draft)).job
        assert restored.spec.tasks[0].target.options == {"argv": ["true"]}
        assert restored.version == 3

    in_world(case)
