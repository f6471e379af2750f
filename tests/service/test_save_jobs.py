"""Saving many jobs: new and existing ones, in several portions, with shared parts."""

from typing import Any

from chronos.core.config import NOTHING_SET
from chronos.core.job import JobState
from chronos.service.save_jobs import CHUNK, SavedJob
from chronos.service.save_plan import PlanCache, plan_save
from chronos.service.serializers import InvalidJob, JobReader
from tests.support.service_world import CHECKS, HOUR_US, START_US, World, in_world, shape


async def save(world: World, jobs: list[dict[str, Any]]) -> list[str]:
    """Save the drafts; returns the result of each."""
    results = await world.saver.save_each([world.jobs.read(job) for job in jobs])
    assert len(results) == len(jobs)
    summaries = []
    for job, result in zip(jobs, results, strict=True):
        if isinstance(result, SavedJob):
            assert result.name == job["name"]
            summaries.append(
                f"{'created' if result.created else 'changed' if result.changed else 'same'} {result.version}"
            )
        else:
            summaries.append(type(result).__name__)
    return summaries


def test_new_jobs_among_existing_ones_are_created() -> None:
    async def case(world: World) -> None:
        names = [f"job-{n:02}" for n in range(20)]
        await save(world, [shape(names[5]), shape(names[7], description="old")])
        await world.save(names[9])
        await world.jobs.delete(names[9])
        await world.save(names[9])  # created again, so its id does not follow from its name
        results = await save(world, [shape(name) for name in names])
        expected = dict.fromkeys(names, "created 1") | {names[5]: "same 1", names[7]: "changed 2", names[9]: "same 1"}
        assert results == list(expected.values())
        assert await save(world, [shape(name) for name in names]) == [
            f"same {2 if name == names[7] else 1}" for name in names
        ]

    in_world(case)


def test_a_past_instant_does_not_affect_other_jobs() -> None:
    async def case(world: World) -> None:
        await world.save("at", schedule="2027-01-01T00:30:00Z")
        world.tick(HOUR_US)
        jobs = [shape(f"job-{n:02}") for n in range(15)]
        jobs[3] = shape("at", schedule="2027-01-01T00:30:00Z")
        jobs[4] = shape("late", schedule="2027-01-01T00:30:00Z")
        results = await save(world, jobs)
        assert (results[3], results[4]) == ("same 1", InvalidJob.__name__)
        assert results[:3] + results[5:] == ["created 1"] * 13

    in_world(case)


def test_portions_are_saved_in_order() -> None:
    """The last definition of a job wins, in whichever portion it is."""

    async def case(world: World) -> None:
        jobs = [shape(f"job-{n}") for n in range(CHUNK)]
        jobs += [shape("job-0", description="last"), shape("new"), *(shape(f"more-{n}") for n in range(CHUNK))]
        results = await save(world, jobs)
        assert (results[0], results[CHUNK], results[-1]) == ("created 1", "changed 2", "created 1")
        assert (await world.jobs.get("job-0")).spec.description == "last"

    in_world(case)


def test_an_upstream_job_may_be_in_a_later_portion() -> None:
    async def case(world: World) -> None:
        jobs: list[dict[str, Any]] = [{"name": "down", "after": ["up"], "command": {"argv": ["true"]}}]
        jobs += [shape(f"job-{n}") for n in range(CHUNK)]
        results = await save(world, [*jobs, shape("up")])
        assert (results[0], results[-1]) == ("created 1", "created 1")

    in_world(case)


def test_a_chain_of_jobs_may_be_given_in_reverse() -> None:
    """Each job follows one of a later portion, and one follows a job that does not exist."""

    def link(number: int) -> dict[str, Any]:
        return {"name": f"link-{number}", "after": [f"link-{number + 1}"], "command": {"argv": ["true"]}}

    async def case(world: World) -> None:
        links = [link(number) for number in (2, 0, 1)]
        jobs = links + [shape(f"job-{n}") for n in range(CHUNK)] + [shape("link-3"), link(7)]
        results = await save(world, jobs)
        assert results[:3] == ["created 1"] * 3
        assert results[-2:] == ["created 1", InvalidJob.__name__]

    in_world(case)


def test_shared_plans_equal_individual_ones() -> None:
    """Independent of the order of instants and of the jobs planned before."""
    reader, cache = JobReader(CHECKS), PlanCache(NOTHING_SET)
    schedules = ["0 * * * *", "@every 7m", "H * * * *", "2027-01-01T00:00:20Z", "30 9 * * 1-5", "R3/PT1H"]
    jobs = [shape(f"{name}-{n}", schedule=text) for n, text in enumerate(schedules) for name in ("a", "b")]
    jobs += [{**jobs[0], "overlap": "queue"}, {**jobs[0], "queue": "slow"}, {**jobs[2], "jitter": "5m"}]
    for now_us in (START_US, START_US + 1, START_US + 5 * HOUR_US // 60, START_US - HOUR_US, START_US + HOUR_US):
        for job in jobs:
            draft = reader.read(job)
            alone, together = (
                _prepared(draft, now_us, PlanCache(NOTHING_SET)),
                _prepared(draft, now_us, cache),
            )
            assert alone == together


def _prepared(draft: Any, now_us: int, cache: PlanCache) -> Any:
    try:
        one = plan_save(draft, None, now_us=now_us, cache=cache)
    except InvalidJob as error:
        return str(error)
    assert one.state is JobState.ACTIVE
    return one.row, one.next_us, one.diff
