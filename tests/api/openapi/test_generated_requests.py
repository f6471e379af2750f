"""Requests generated from the OpenAPI document, against a running server: nothing breaks it, and responses match."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.api_server import V1, World, in_world, shape


def refusals_are_listed(_: Any, response: Any, case: schemathesis.Case[Any]) -> None:
    """A refusal must be one that the document lists for the operation; its ``default`` covers failures only."""
    listed = case.operation.definition.raw["responses"]
    assert response.status_code < 400 or str(response.status_code) in listed, response.text


CHECKS = [
    refusals_are_listed,
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
DIGEST = {"name": "digest", "schedule": "manual", "command": {"argv": ["true"]}, "retry": {"max_attempts": 1}}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """A server in its own thread."""
    found: list[str] = []
    is_up, is_over = threading.Event(), threading.Event()

    async def case(world: World) -> None:
        found.append(world.base)
        is_up.set()
        await asyncio.to_thread(is_over.wait)

    server = threading.Thread(target=in_world, args=(case,), kwargs={"runs": True})
    server.start()
    assert is_up.wait(60)
    yield found[0]
    is_over.set()
    server.join(60)


def sent(base: str, method: str, path: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(base + V1 + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def existing_objects(base: str) -> dict[str, Any]:
    """Return existing objects for paths: a job, one of its runs, a version. Recreates those that earlier requests
    deleted.
    """
    sent(base, "PUT", "/jobs/digest", DIGEST)
    run = sent(base, "POST", "/jobs/digest/trigger", {})["execution_id"]
    return {"ref": "digest", "id": run, "version": "1"}


def try_out(operation: Any, base: str, examples: int) -> None:
    """Send generated requests to one operation, some of them for existing objects."""
    names = existing_objects(base)

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), real=st.booleans())
    def try_it(case: schemathesis.Case[Any], real: bool) -> None:
        if real:
            case.path_parameters.update({name: names[name] for name in case.path_parameters if name in names})
        case.call_and_validate(base_url=base, checks=CHECKS)

    try_it()


# A few requests per test run; many in long runs.
@pytest.mark.parametrize("examples", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_generated_requests_get_documented_responses(base: str, examples: int) -> None:
    schema = schemathesis.openapi.from_url(f"{base}/openapi.json")
    tried = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if not operation.path.endswith("/events"):  # streams while the client listens
            try_out(operation, base, examples)
            tried += 1
    assert tried > 50


def test_the_examples_of_the_document_are_accepted() -> None:
    """The examples of the documentation can be sent unchanged."""

    async def case(world: World) -> None:
        document = (await world.call("GET", "/openapi.json")).json
        for path in ("/api/v1/jobs", "/api/v1/jobs/bulk", "/api/v1/apply", "/api/v1/schedule/preview"):
            content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            example = content["examples"]["example"]["value"]
            reply = await world.call("POST", path, example)
            assert reply.status in (200, 201), reply.body
        assert (await world.call("POST", "/api/v1/jobs", shape("after"))).status == 201

    in_world(case)
