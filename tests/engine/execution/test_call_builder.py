"""The payload of a function: the trigger's, else its task's own, else the job's."""

import pytest

from chronos.core.execution import Status
from tests.support.engine_world import World, in_world

TASKS = [
    {"name": "first", "python": {"name": "first", "payload": {"x": "task"}}},
    {"name": "second", "python": {"name": "second"}},
]


@pytest.mark.parametrize(
    ("triggered", "expected"),
    [(None, [{"x": "task"}, {"x": "job"}]), ({"x": "trigger"}, [{"x": "trigger"}, {"x": "trigger"}])],
)
@in_world
async def test_the_most_specific_payload_is_used(world: World, triggered: object, expected: list[object]) -> None:
    works = [world.work("first", hears=True), world.work("second", hears=True)]
    await world.node()
    await world.job("job", schedule="manual", tasks=TASKS, payload={"x": "job"})
    await world.executions.trigger("job", triggered)
    await world.advance(2)
    assert (await world.last("job")).status is Status.SUCCEEDED
    assert [work.payloads for work in works] == [[payload] for payload in expected]


@in_world
async def test_a_single_function_with_its_own_payload(world: World) -> None:
    work = world.work("main", hears=True)
    await world.node()
    await world.job("job", schedule="now", python={"name": "main", "payload": {"x": 1}})
    await world.advance(2)
    assert work.payloads == [{"x": 1}]
