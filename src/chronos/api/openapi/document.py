"""The table of routes as an OpenAPI 3.1 document."""

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from chronos.api.auth.permissions import Permission
from chronos.api.openapi import examples
from chronos.api.openapi.refusals import refusal_ref, refusal_responses, refusals
from chronos.api.openapi.schemas import SCHEMAS
from chronos.api.problems import PROBLEM
from chronos.api.routing import ResponseDoc, Route, Scope, ref

_DESCRIPTION = (
    "JSON in, JSON out. Instants are RFC 3339 in UTC. What goes wrong is answered as application/problem+json "
    "with a stable code."
)
_TAGS = {
    "Jobs": "what is to run, when and how",
    "Versions": "what a job said before",
    "Executions": "what runs and what ran",
    "Dead letters": "what failed for good",
    "Schedules": "what a schedule means, before a job has it",
    "Server": "the nodes and how they are",
    "Access": "tokens and users",
    "The guide's paths": "the same jobs under the paths and names of the job schedulers' guide",
}
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
_PATH_DESCRIPTIONS = {
    "ref": "the id or the name of a job",
    "id": "the id of an execution",
    "version": "a version's number",
    "name": "a name",
}
_HEADERS = {
    "If-Match": ("the ETag of what you have read; 412 when it has changed since", {"type": "string"}),
    "Idempotency-Key": ("sent again with the same key, it happens once", {"type": "string", "maxLength": 255}),
}


def openapi(routes: Iterable[Route], base_path: str = "") -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    routes = list(routes)
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Chronos",
            "version": _version(),
            "summary": "Runs jobs at the right time, once, and can always say what it did and why.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_path or "/"}],
        "security": [{}, {"basic": []}, {"bearer": []}],
        "tags": [{"name": tag, "description": _TAGS[tag]} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": refusal_responses(),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def operation_id(route: Route) -> str:
    """A name for programs, of the method and the path."""
    words = re.findall(r"\w+", route.path.removeprefix("/api/v1"))
    return "_".join([route.method.lower(), *words])


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": _description(route),
        "tags": [route.tag],
        "parameters": _parameters(route),
        "responses": {str(status): _response(response) for status, response in sorted(route.returns.items())}
        | {str(status): refusal_ref(status) for status in refusals(route)}
        | {"default": _problem()},
    }
    if route.body is not None:
        content = {"schema": route.body.schema, "examples": {"example": {"value": route.body.example}}}
        operation["requestBody"] = {
            "required": route.body.required,
            "content": dict.fromkeys(route.body.types, content),
        }
    if route.permission is Permission.OPEN:
        operation["security"] = [{}]
    return operation


def _description(route: Route) -> str:
    doc = " ".join((route.handler.__doc__ or "").split())
    return f"{doc} {needs(route)}".strip()


def needs(route: Route) -> str:
    """What somebody has to be to use a route."""
    match route.permission:
        case Permission.OPEN:
            return "Open to everybody."
        case Permission.VIEW:
            role = "viewer"
        case Permission.OPERATE:
            role = "operator"
        case Permission.ADMINISTER:
            role = "admin"
    return f"Needs the role {role}{' in all namespaces' if route.scope is Scope.EVERYWHERE else ''}."


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_DESCRIPTIONS[name],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _PATH_PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": param.name, "in": "query", "description": param.description, "schema": param.schema}
        for param in route.query
    ]
    honoured = (("If-Match", route.honours_if_match), ("Idempotency-Key", route.idempotent_by_key))
    for name, is_honoured in honoured:
        if is_honoured:
            description, schema = _HEADERS[name]
            parameters.append({"name": name, "in": "header", "description": description, "schema": schema})
    return parameters


def _response(response: ResponseDoc) -> dict[str, Any]:
    document: dict[str, Any] = {"description": response.description}
    if response.schema is not None:
        content: dict[str, Any] = {"schema": response.schema}
        if response.example is not None:
            content["examples"] = {"example": {"value": response.example}}
        document["content"] = {response.type: content}
    return document


def _problem() -> dict[str, Any]:
    return {
        "description": "what went wrong (RFC 9457)",
        "content": {PROBLEM: {"schema": ref("Problem"), "examples": {"example": {"value": examples.PROBLEM}}}},
    }


def _version() -> str:
    try:
        return version("chronos-scheduler")
    except PackageNotFoundError:  # run from a tree that was not installed
        return "0"
