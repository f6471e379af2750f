"""Requests made up from the OpenAPI document, at a running server: nothing breaks it, and answers keep their word."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.world import World, in_world, shape

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 10


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """A server in a thread of its own, with a job and a run to find."""
    found: list[str] = []
    is_up, is_over = threading.Event(), threading.Event()

    async def case(world: World) -> None:
        await world.create("digest")
        await world.post("/jobs/digest/trigger", status=202)
        found.append(world.base)
        is_up.set()
        await asyncio.to_thread(is_over.wait)

    server = threading.Thread(target=in_world, args=(case,))
    server.start()
    assert is_up.wait(10)
    yield found[0]
    is_over.set()
    server.join(10)


@pytest.mark.slow
def test_made_up_requests(base: str) -> None:
    schema = schemathesis.openapi.from_url(f"{base}/openapi.json")
    tried = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if operation.path.endswith("/events"):
            continue  # goes on for as long as somebody listens

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def try_it(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(base_url=base, checks=CHECKS)

        try_it()
        tried += 1
    assert tried > 50


def test_the_examples_of_the_document_work() -> None:
    """What the documentation shows can be sent as it is."""

    async def case(world: World) -> None:
        document = (await world.call("GET", "/openapi.json")).json
        for path in ("/api/v1/jobs", "/api/v1/jobs/bulk", "/api/v1/apply", "/api/v1/schedule/preview"):
            content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            example = content["examples"]["example"]["value"]
            reply = await world.call("POST", path, example)
            assert reply.status in (200, 201), reply.body
        assert (await world.call("POST", "/api/v1/jobs", shape("after"))).status == 201

    in_world(case)
