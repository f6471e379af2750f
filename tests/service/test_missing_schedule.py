"""Jobs whose custom schedule is registered in other programs only: they are shown, and left alone."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from chronos import register_schedule
from chronos.core.schedule import plugins
from chronos.errors import Invalid, MissingSchedule
from chronos.service.serializers import write_job
from tests.support.service_world import HOUR_US, START_US, World, in_world

NOTE = (
    "its schedule @moon is not registered here, so only programs that register it, or have its package, "
    "run the job by its schedule"
)


class Moon:
    def next_after(self, instant: datetime, /) -> datetime:
        return instant.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(plugins.PROGRAM_SCHEDULES)
    register_schedule("moon", Moon())
    yield
    plugins.PROGRAM_SCHEDULES.clear()
    plugins.PROGRAM_SCHEDULES.update(before)


@pytest.mark.parametrize("schedule", ["@moon", "CRON_TZ=Europe/Paris @moon", ["0 0 1 1 *", "@moon"]])
def test_the_job_is_shown_with_the_reason(schedule: str | list[str]) -> None:
    async def case(world: World) -> None:
        await world.save(schedule=schedule)
        assert "note" not in write_job(await world.jobs.get("job"))
        plugins.PROGRAM_SCHEDULES.clear()
        shown = write_job(await world.jobs.get("job"))
        assert (shown["schedule"], shown["state"], shown["note"]) == (schedule, "active", NOTE)
        assert shown["next_run_at"] == "2027-01-01T01:00:00Z"
        assert await world.jobs.next_runs("job") == (START_US + HOUR_US,)
        [step] = await world.why.why("job")
        assert step.sentence.endswith(f": {NOTE}.")
        step, _ = await world.why.why("job", START_US + HOUR_US // 2)
        assert "cannot tell whether" in step.sentence

    in_world(case)


def test_what_needs_the_schedule_is_rejected_and_changes_nothing() -> None:
    async def case(world: World) -> None:
        await world.save(schedule="@moon")
        await world.save("off", schedule="@moon", enabled=False)
        plugins.PROGRAM_SCHEDULES.clear()
        before = await world.jobs.get("job")
        for request in (
            world.save(schedule="0 9 * * *"),
            world.switch("enable", "off"),
            world.backfills.run("job", START_US - HOUR_US, START_US),
        ):
            with pytest.raises(MissingSchedule, match="its schedule @moon is not registered here"):
                await request
        with pytest.raises(Invalid, match="is not a known macro"):
            await world.save(schedule="@moon", description="changed")
        assert await world.jobs.get("job") == before
        assert (await world.switch("pause", "job")).next_us == before.next_us
        await world.jobs.delete("job")

    in_world(case)
