"""Derives the refusals (4XX) of each route from its declaration, so that the document lists them.

Failures of the server (5XX) can happen to every route; the document's ``default`` response covers them.
"""

from collections.abc import Callable
from typing import Any

from chronos.api.auth.permissions import Permission
from chronos.api.problems import KINDS, PROBLEM, type_of
from chronos.api.routing import Route, Scope, ref

_NAMING = ("namespace", "job")  # query parameters whose value may not exist


def refusals(route: Route) -> tuple[int, ...]:
    """Return the statuses of the refusals of a route, in order."""
    return tuple(status for status, applies in _RULES if applies(route))


def refusal_ref(status: int) -> dict[str, Any]:
    """Return a reference to the response of a refusal."""
    return {"$ref": f"#/components/responses/{_name(status)}"}


def refusal_responses() -> dict[str, Any]:
    """Return every refusal as a named response of the document."""
    return {_name(status): _response(status) for status, _ in _RULES}


def _is_any(_: Route) -> bool:
    """Unknown parameters (400) and pages of other sites (403) are refused on every route."""
    return True


def _is_guarded(route: Route) -> bool:
    """Authentication, and the limits that depend on the client."""
    return route.permission is not Permission.OPEN


def _names_something(route: Route) -> bool:
    in_query = any(param.name in _NAMING for param in route.query)
    return "{" in route.path or in_query or route.scope is Scope.BODY


def _can_conflict(route: Route) -> bool:
    return route.writes and route.permission is not Permission.VIEW and route.can_conflict


def _honours_if_match(route: Route) -> bool:
    return route.honours_if_match


def _takes_body(route: Route) -> bool:
    return route.body is not None


_RULES: tuple[tuple[int, Callable[[Route], bool]], ...] = (
    (400, _is_any),
    (401, _is_guarded),
    (403, _is_any),
    (404, _names_something),
    (408, _takes_body),
    (409, _can_conflict),
    (412, _honours_if_match),
    (413, _takes_body),
    (415, _takes_body),
    (422, _takes_body),
    (429, _is_guarded),
)


def _name(status: int) -> str:
    return f"Refused{status}"


def _response(status: int) -> dict[str, Any]:
    kinds = [kind for kind in KINDS if kind.status == status]
    codes = dict.fromkeys(kind.code for kind in kinds)
    examples = {
        kind.code: {
            "summary": kind.title,
            "value": {
                "type": type_of(kind),
                "title": kind.title,
                "status": status,
                "code": kind.code,
                "detail": "what is wrong; what to do",
                "request_id": "4f1c2a7e9b0d4c55",
            },
        }
        for kind in kinds
    }
    return {
        "description": f"a problem (RFC 9457) with the code {' or '.join(codes)}",
        "content": {PROBLEM: {"schema": ref("Problem"), "examples": examples}},
    }
