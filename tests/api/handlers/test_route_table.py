"""The route table: complete, documented, and consistent with its examples."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from chronos.api.auth.permissions import Permission
from chronos.api.handlers import ROUTES
from chronos.api.openapi.docs_page import page
from chronos.api.openapi.document import needs, openapi, operation_id
from chronos.api.openapi.schemas import SCHEMAS
from chronos.api.problems import INTERNAL, KINDS
from chronos.api.routing import Route, Scope
from tests.support.api_server import World, in_world

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rest.md"
ROW = re.compile(r"^\| `([A-Z]+) (/[^` ]*)` \| (\w+(?: everywhere)?) \| (.+) \|$", re.MULTILINE)
CONTRACT = """
    POST /jobs · GET /jobs · POST /jobs/bulk · POST /apply · GET /jobs/{ref} · PUT /jobs/{ref} · PATCH /jobs/{ref}
    POST /jobs/actions
    DELETE /jobs/{ref} · POST /jobs/{ref}/enable · POST /jobs/{ref}/disable · GET /jobs/{ref}/versions
    GET /jobs/{ref}/versions/{version} · GET /jobs/{ref}/diff · POST /jobs/{ref}/rollback · POST /jobs/{ref}/trigger
    POST /jobs/{ref}/pause · POST /jobs/{ref}/resume · POST /jobs/{ref}/backfill · GET /jobs/{ref}/next
    POST /jobs/{ref}/enqueue
    GET /jobs/{ref}/executions · GET /jobs/{ref}/why · GET /executions · GET /executions/{id}
    POST /executions/{id}/signal · POST /executions/{id}/cancel · POST /executions/{id}/replay
    GET /executions/{id}/log · GET /dead-letters · POST /dead-letters/{id}/replay · DELETE /dead-letters/{id}
    GET /nodes · GET /queues · GET /status · GET /events · POST /schedule/preview · GET /audit · GET /namespaces
    GET /tokens · POST /tokens · DELETE /tokens/{name} · GET /users
"""


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


def word(route: Route) -> str:
    """Return the role of a route as the page writes it."""
    words = {
        Permission.OPEN: "everybody",
        Permission.VIEW: "viewer",
        Permission.OPERATE: "operator",
        Permission.ADMINISTER: "admin",
    }
    everywhere = route.scope is Scope.EVERYWHERE
    return words[route.permission] + (" everywhere" if everywhere else "")


def test_every_route_of_the_contract_exists() -> None:
    promised = {call.strip().replace(" ", " /api/v1") for call in re.split(r"·|\n", CONTRACT) if call.strip()}
    assert promised <= {named(route) for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_every_route_is_documented(route: Route) -> None:
    assert isinstance(route.permission, Permission)
    assert route.summary[0].isupper()
    assert not route.summary.endswith(".")
    assert needs(route).endswith(".")
    assert route.returns
    if route.permission is Permission.OPEN:
        assert not route.writes
    if route.writes and not route.path.endswith("/preview"):
        assert "dry_run" in {param.name for param in route.query}
    assert all(param.description for param in route.query)


def test_routes_and_operation_ids_are_unique() -> None:
    for names in ([named(route) for route in ROUTES], [operation_id(route) for route in ROUTES]):
        assert len(set(names)) == len(names)


def within(schema: Any) -> dict[str, Any]:
    """Return a schema that can resolve references to the others."""
    return {"allOf": [schema], "components": {"schemas": SCHEMAS}}


def parts(schema: Any) -> Iterator[Any]:
    """Yield a schema and all schemas that it is composed of."""
    yield schema
    inner = [*schema.get("allOf", ()), *schema.get("anyOf", ())]
    if "$ref" in schema:
        inner.append(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    for each in inner:
        yield from parts(each)


def undeclared(schema: Any, value: Any, at: str = "") -> Iterator[str]:
    """Yield the places where a value has fields that its schema does not declare."""
    found = list(parts(schema))
    if isinstance(value, list):
        items = {"anyOf": [part["items"] for part in found if "items" in part]}
        for number, item in enumerate(value):
            yield from undeclared(items, item, f"{at}/{number}")
    if isinstance(value, dict) and not any("additionalProperties" in part for part in found):
        declared: dict[str, list[Any]] = {}
        for part in found:
            for name, inner in part.get("properties", {}).items():
                declared.setdefault(name, []).append(inner)
        for name, inner in value.items():
            if name not in declared:
                yield f"{at}/{name}"
            elif any(declared[name]):  # an empty schema allows anything
                yield from undeclared({"anyOf": declared[name]}, inner, f"{at}/{name}")


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_examples_match_their_schemas(route: Route) -> None:
    if route.body is not None:
        jsonschema_rs.validate(within(route.body.schema), route.body.example)
    for answer in route.returns.values():
        if answer.example is not None and answer.schema is not None:
            jsonschema_rs.validate(within(answer.schema), answer.example)
            assert not list(undeclared(answer.schema, answer.example))


def test_examples_of_refusals_are_problems() -> None:
    for name, answer in openapi(ROUTES)["components"]["responses"].items():
        [content] = answer["content"].values()
        for code, example in content["examples"].items():
            jsonschema_rs.validate(within(content["schema"]), example["value"])
            assert (example["value"]["code"], name) == (code, f"Refused{example['value']['status']}")


def places(node: Any, at: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of the document that is not an example, with its place."""
    if isinstance(node, dict):
        yield at, node
        for name, inner in node.items():
            if name not in ("example", "examples"):
                yield from places(inner, f"{at}/{name}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from places(inner, f"{at}/{number}")


def is_of(schema: dict[str, Any], kind: str) -> bool:
    type_ = schema.get("type")
    return type_ == kind or (isinstance(type_, list) and kind in type_)


def test_schemas_are_understood_by_client_generators() -> None:
    document = openapi(ROUTES)
    named_inside = [
        f"{at}: an object without a name in a union"
        for at, node in places(document)
        for union in (node.get("anyOf"), node.get("oneOf"))
        if isinstance(union, list) and any(is_of(member, "object") for member in union)
    ]
    listed = [
        f"{at}: a list of nothing" for at, node in places(document) if is_of(node, "array") and "items" not in node
    ]
    constant = [
        f"{at}: a constant that is not a text"
        for at, node in places(document)
        if "const" in node and not (node.get("type") == "string" and isinstance(node["const"], str))
    ]
    indexed = [
        f"{at}: fields that have to match those without a name"
        for at, node in places(document)
        if node.get("properties") and isinstance(node.get("additionalProperties"), dict)
    ]
    undefined = [
        f"{at}: {name} is needed and not described"
        for at, node in places(document)
        if isinstance(node.get("required"), list)
        for name in node["required"]
        if name not in node.get("properties", {})
    ]
    assert not [*named_inside, *listed, *constant, *indexed, *undefined]


@pytest.mark.parametrize(
    ("call", "statuses"),
    [
        ("GET /healthz", "400 403"),
        ("GET /api/v1/status", "400 401 403 429"),
        ("GET /api/v1/jobs", "400 401 403 404 429"),
        ("POST /api/v1/jobs", "400 401 403 404 408 409 413 415 422 429"),
        ("GET /api/v1/jobs/{ref}", "400 401 403 404 429"),
        ("PATCH /api/v1/jobs/{ref}", "400 401 403 404 408 409 412 413 415 422 429"),
        ("DELETE /api/v1/jobs/{ref}", "400 401 403 404 409 412 429"),
        ("POST /api/v1/schedule/preview", "400 401 403 408 413 415 422 429"),
        ("DELETE /api/v1/dead-letters/{id}", "400 401 403 404 429"),
        ("DELETE /api/v1/tokens/{name}", "400 401 403 404 409 429"),
    ],
)
def test_refusals_are_listed(call: str, statuses: str) -> None:
    method, path = call.split()
    answers = openapi(ROUTES)["paths"][path][method.lower()]["responses"]
    assert [status for status in answers if status.startswith("4")] == statuses.split()


def test_every_code_is_used_for_one_status() -> None:
    statuses: dict[str, set[int]] = {}
    for kind in (*KINDS, INTERNAL):
        statuses.setdefault(kind.code, set()).add(kind.status)
    assert all(len(found) == 1 for found in statuses.values())
    text = PAGE.read_text()
    assert not [code for code, found in statuses.items() if f"| `{code}` | {min(found)} |" not in text]


def test_the_openapi_document_is_valid() -> None:
    document = openapi(ROUTES, "/base")
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": "/base"}]
    assert sum(len(methods) for methods in document["paths"].values()) == len(ROUTES)
    referred = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert referred <= set(SCHEMAS)


def test_the_documentation_page_works_offline() -> None:
    text = page(ROUTES, "")
    assert "<script" not in text
    assert " style=" not in text
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    for route in ROUTES:
        assert f"<code>{route.path}</code>" in text

    async def case(world: World) -> None:
        reply = await world.call("GET", "/docs")
        assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = reply.headers["Content-Security-Policy"]
        assert "unsafe-inline" not in policy
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        document = (await world.call("GET", "/openapi.json")).json
        assert document == openapi(ROUTES)

    in_world(case)


def test_the_rest_reference_lists_every_route_and_code() -> None:
    declared = {(method, path): (who, what) for method, path, who, what in ROW.findall(PAGE.read_text())}
    assert set(declared) == {(route.method, route.path) for route in ROUTES}
    assert not [
        f"{named(route)}: {word(route)}" for route in ROUTES if declared[route.method, route.path][0] != word(route)
    ]
