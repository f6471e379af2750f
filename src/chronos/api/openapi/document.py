"""Builds the OpenAPI 3.1 document from the routes."""

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
    "JSON in, JSON out. Times are RFC 3339 in UTC. Errors are application/problem+json with a stable `code`; "
    "`/docs/problems` explains each code. Statuses are spelled `canceled`; keys that were spelled `cancelled` are sent "
    "in both spellings for one release."
)
_TAGS = {
    "Jobs": "Definitions: what runs, when and how",
    "Versions": "Earlier definitions of a job",
    "Settings": "Every setting with its value and the level it comes from",
    "Executions": "Runs of jobs",
    "Dead letters": "Failed runs that someone has to replay or discard",
    "Schedules": "Schedules without a job",
    "Server": "Health, nodes, queues and the audit log",
    "Access": "API tokens and users",
    "The guide's paths": "The same jobs under the paths and names of the job schedulers' guide",
}
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
_PATH_DESCRIPTIONS = {
    "ref": "the id or the name of a job",
    "id": "the id of an execution",
    "version": "the number of a version",
    "name": "the name of a token or user",
}
_HEADERS = {
    "If-Match": ("the ETag of the version you read; 412 if it has changed since", {"type": "string"}),
    "Idempotency-Key": ("repeated requests with the same key take effect once", {"type": "string", "maxLength": 255}),
}


def openapi(routes: Iterable[Route], base_path: str = "") -> dict[str, Any]:
    """Build the document."""
    paths: dict[str, dict[str, Any]] = {}
    routes = list(routes)
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Chronos",
            "version": _version(),
            "summary": "A job scheduler that runs each job once, on time, and can explain what it did.",
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
    """Return the operation id of a route, from its method and path."""
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
    """Return a sentence about the role that a route needs."""
    match route.permission:
        case Permission.OPEN:
            return "Needs no authentication."
        case Permission.VIEW:
            role = "viewer"
        case Permission.OPERATE:
            role = "operator"
        case Permission.ADMINISTER:
            role = "admin"
    return f"Needs the {role} role{' in all namespaces' if route.scope is Scope.EVERYWHERE else ''}."


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
        "description": "a problem (RFC 9457)",
        "content": {PROBLEM: {"schema": ref("Problem"), "examples": {"example": {"value": examples.PROBLEM}}}},
    }


def _version() -> str:
    try:
        return version("chronos-scheduler")
    except PackageNotFoundError:  # the package is not installed
        return "0"
