"""The survey of the jobs at the start of a node."""

from typing import Any

import pytest

from chronos.core.events import JobUnschedulable
from chronos.engine import job_survey
from chronos.engine.job_survey import StartReport
from chronos.testing.store_probe import StoreProbe
from tests.support.engine_world import NodeOfWorld, World, in_world


async def survey(node: NodeOfWorld, **options: Any) -> StartReport:
    reports: list[StartReport] = []
    await node.engine.survey_jobs(reports.append, **options)
    [report] = reports
    return report


def broken_jobs(node: NodeOfWorld) -> list[str]:
    return [event.error for event in node.events if isinstance(event, JobUnschedulable)]


def spoil(world: World, name: str) -> None:
    """Replace the definition of a job by one that this release cannot read."""
    StoreProbe(world.store).execute("update job set spec = '{\"schedule\": 5}' where name = ?", name)


@in_world
async def test_jobs_are_counted_by_what_becomes_of_them(world: World) -> None:
    world.work("once")
    for name in ("active", "paused", "disabled", "bad", "new"):
        await world.job(name, schedule="@daily")
    await world.job("once", schedule="now")
    first = await world.node()
    await world.advance(2)
    await first.stop()
    await world.switch("pause", "paused")
    await world.switch("disable", "disabled")
    spoil(world, "bad")
    node = await world.node()
    report = await survey(node, new=1)
    assert report == StartReport(found=5, recovered=2, disabled=1, done=1, broken=1)
    assert report.describe() == "5 jobs found: 2 recovered, 1 skipped because disabled, 1 done, 1 broken"
    [error] = broken_jobs(node)
    assert error.startswith("bad: its definition cannot be read")


@in_world
async def test_a_broken_job_is_reported_once(world: World) -> None:
    await world.job("bad", schedule="@every 1s")
    spoil(world, "bad")
    node = await world.node()
    await survey(node)
    await world.advance(10)
    assert len(broken_jobs(node)) == 1


@in_world
async def test_a_large_store_is_checked_up_to_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_survey, "MAX_CHECKED_JOBS", 2)
    monkeypatch.setattr(job_survey, "_PAGE_SIZE", 2)
    for name in ("a", "b", "c"):
        await world.job(name, schedule="@daily")
    report = await survey(await world.node())
    assert report == StartReport(found=3, recovered=3, disabled=0, done=0, broken=0, unchecked=1)
    assert report.describe() == "3 jobs found: 3 recovered; 1 are checked when they are due"


@pytest.mark.parametrize(("found", "sentence"), [(0, "0 jobs found"), (1, "1 job found: 1 recovered")])
def test_the_sentence_fits_the_number(found: int, sentence: str) -> None:
    report = StartReport(found=found, recovered=found, disabled=0, done=0, broken=0)
    assert report.describe() == sentence
