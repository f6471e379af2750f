"""The output of a function is in its log over the API, while it runs and afterwards."""

import asyncio

from chronos.runners.python.function_registry import FunctionRegistry
from tests.support.api_server import V1, World, in_world, shape


def test_the_log_of_a_function_that_prints_and_still_runs() -> None:
    go_on = asyncio.Event()

    async def prints() -> None:
        print("first")
        await go_on.wait()
        print("second")

    async def case(world: World) -> None:
        await world.call("POST", f"{V1}/jobs", shape("prints", schedule="manual", python={"name": "prints"}))
        asked = (await world.call("POST", f"{V1}/jobs/prints/trigger")).json
        async with asyncio.timeout(60):
            async with world.client.get(f"{world.base}{V1}/executions/{asked['execution_id']}/log?follow=true") as log:
                assert await log.content.readline() == b"first\n"
                go_on.set()
                assert await log.content.read() == b"second\n"
        assert (await world.call("GET", f"{V1}/executions/{asked['execution_id']}/log")).body == b"first\nsecond\n"

    functions = FunctionRegistry()
    functions.register("prints", prints)
    in_world(case, runs=True, functions=functions)
