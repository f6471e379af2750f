"""Applying jobs: ownership, pruning and atomicity."""

from typing import Any

import pytest

from chronos.core.job import JobState
from chronos.errors import Conflict, Invalid, StoreUnavailable
from chronos.service.serializers import Draft
from chronos.store.commands import Command, SaveJobs
from chronos.store.contract import JobFilter
from tests.support.service_world import World, in_world, shape


def drafts(world: World, *names: str, namespace: str = "default", **fields: object) -> list[Draft]:
    return [world.jobs.read(shape(name, **fields), namespace=namespace) for name in names]


async def names(world: World, namespace: str = "default") -> list[str]:
    return [job.name for job in (await world.jobs.list(JobFilter(namespace=namespace))).items]


def test_pruning_and_saving_are_one_command() -> None:
    async def case(world: World) -> None:
        await world.saver.apply(drafts(world, "a", "b"), owner="repo")
        sent: list[Command[Any]] = []
        apply = world.store.apply

        async def refuse(command: Command[Any]) -> Any:
            sent.append(command)
            if len(sent) == 1:
                raise StoreUnavailable("the store is away")
            return await apply(command)

        world.store.apply = refuse  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable):
            await world.saver.apply(drafts(world, "b", "c", description="new"), owner="repo", prune=True)
        assert await names(world) == ["a", "b"]
        assert (await world.jobs.get("b")).version == 1
        plan = await world.saver.apply(drafts(world, "b", "c", description="new"), owner="repo", prune=True)
        assert [job.name for job in plan.pruned] == ["a"]
        assert await names(world) == ["b", "c"]
        assert [type(command) for command in sent] == [SaveJobs, SaveJobs]

    in_world(case)


def test_pruning_without_drafts_is_a_change() -> None:
    async def case(world: World) -> None:
        await world.saver.apply(drafts(world, "a", "b"), owner="repo")
        plan = await world.saver.apply(drafts(world, "b"), owner="repo", prune=True)
        assert ([one.name for one in plan.unchanged], [job.name for job in plan.pruned]) == (["b"], ["a"])
        assert [job.name for job in (await world.saver.apply([], owner="repo", prune=True)).pruned] == ["b"]
        assert await names(world) == []

    in_world(case)


def test_pruning_stays_within_its_namespaces_and_with_its_owner() -> None:
    async def case(world: World) -> None:
        for namespace in ("one", "two", "three"):
            await world.saver.apply(drafts(world, "a", "b", namespace=namespace), owner="repo")
        await world.saver.apply(drafts(world, "theirs", namespace="one"), owner="other")
        await world.saver.save(drafts(world, "nobodys", namespace="one"))
        new = [*drafts(world, "a", namespace="one"), *drafts(world, "a", namespace="two")]
        plan = await world.saver.apply(new, owner="repo", prune=True, namespace="three")
        assert [(job.namespace, job.name) for job in plan.pruned] == [("one", "b"), ("two", "b")]
        assert await names(world, "one") == ["a", "nobodys", "theirs"]
        assert await names(world, "three") == ["a", "b"]
        plan = await world.saver.apply([], owner="repo", prune=True, namespace="three")
        assert [job.name for job in plan.pruned] == ["a", "b"]

    in_world(case)


def test_a_job_of_another_owner_is_a_conflict() -> None:
    async def case(world: World) -> None:
        await world.saver.apply(drafts(world, "theirs"), owner="other")
        await world.saver.save(drafts(world, "nobodys"))
        for dry_run in (True, False):
            with pytest.raises(Conflict, match='"theirs" belongs to the owner "other", not to "repo"'):
                await world.saver.apply(drafts(world, "mine", "theirs"), owner="repo", prune=True, dry_run=dry_run)
        assert await names(world) == ["nobodys", "theirs"]
        plan = await world.saver.apply(drafts(world, "nobodys"), owner="repo")
        assert [one.name for one in plan.changed] == ["nobodys"]
        assert (await world.jobs.get("nobodys")).spec.owner == "repo"

    in_world(case)


def test_the_plan_of_a_dry_run_equals_the_result() -> None:
    async def case(world: World) -> None:
        many = [f"job-{n:02}" for n in range(15)]
        await world.saver.apply(drafts(world, *many), owner="repo")
        await world.jobs.delete("job-07")
        await world.saver.apply(drafts(world, "job-07"), owner="repo")  # created again, with another id
        for dry_run in (True, False):
            plan = await world.saver.apply(drafts(world, *many, "new"), owner="repo", dry_run=dry_run)
            assert ([one.name for one in plan.created], len(plan.unchanged)) == (["new"], 15)
            with pytest.raises(Invalid, match="appears twice"):
                await world.saver.apply(drafts(world, "a", "a"), owner="repo", dry_run=dry_run)

    in_world(case)


def test_a_concurrent_change_of_a_pruned_job_is_planned_again() -> None:
    async def case(world: World) -> None:
        await world.saver.apply(drafts(world, "a", "b", "c"), owner="repo")
        read = world.store.list_jobs
        raced: list[str] = []

        async def slow(*args: Any, **kwargs: Any) -> object:
            page = await read(*args, **kwargs)
            if not raced:
                raced.append("once")
                await world.saver.save(drafts(world, "b", owner="repo", description="changed"))
                await world.jobs.delete("c")
            return page

        world.store.list_jobs = slow  # type: ignore[method-assign, assignment]
        plan = await world.saver.apply(drafts(world, "a", description="new"), owner="repo", prune=True)
        assert [(job.name, job.version) for job in plan.pruned] == [("b", 2)]
        assert await names(world) == ["a"]

    in_world(case)


def test_saving_a_paused_job_keeps_its_reason() -> None:
    async def case(world: World) -> None:
        await world.save()
        paused = await world.switch("pause", "job", reason="holiday")
        world.tick()
        await world.save(description="new")
        job = await world.jobs.get("job")
        assert (job.state, job.note, job.paused_us, job.version) == (JobState.PAUSED, "holiday", paused.paused_us, 2)

    in_world(case)
