"""API tokens and users. Passwords and tokens are never returned; a token is shown once, when it is created."""

from typing import Any

from aiohttp import web

from chronos.api.auth.permissions import Permission, Role
from chronos.api.auth.token_store import ROLES, TokenStore
from chronos.api.openapi import examples
from chronos.api.openapi.schema_builders import one_of
from chronos.api.request import BodyReader, RequestContext
from chronos.api.responses import json_response
from chronos.api.routing import Body, ResponseDoc, RouteTable, Scope, ref
from chronos.core.calendar import rfc3339
from chronos.core.token import ApiToken
from chronos.errors import Conflict, NotFound
from chronos.service.serializers.identifiers import find_name_fault
from chronos.store.commands import AuditLine, WriteAudit

MAX_NAMESPACES = 1_000  # per token

route = RouteTable("Access", scope=Scope.EVERYWHERE)


@route.get(
    "/tokens",
    permission=Permission.ADMINISTER,
    summary="List the API tokens",
    returns={200: ResponseDoc.list_of("Token", examples.TOKEN, description="all tokens")},
)
async def list_tokens(context: RequestContext) -> web.StreamResponse:
    """List all tokens by name, without their text."""
    token_store = context.api.access.tokens
    return json_response(
        {"items": [] if token_store is None else [_write_token(token) for token in await token_store.entries()]}
    )


@route.post(
    "/tokens",
    permission=Permission.ADMINISTER,
    summary="Create an API token, which is shown once",
    body=Body.of_fields(
        {
            "name": ref("Name"),
            "role": one_of("the role of the token; viewer by default", ROLES),
            "namespaces": {
                "description": "the namespaces of the role, or a role per namespace; all namespaces by default",
                "anyOf": [
                    {"type": "array", "items": ref("Name"), "minItems": 1},
                    ref("RolesInput"),
                    {"type": "null"},
                ],
            },
            "expires_at": {"type": ["string", "null"], "format": "date-time"},
        },
        required=("name",),
        example={"name": "ci", "role": "operator", "namespaces": ["billing"]},
    ),
    returns={201: ResponseDoc("the token", ref("Token"), examples.TOKEN | {"token": "chr_shown-this-once"})},
)
async def create_token(context: RequestContext) -> web.StreamResponse:
    """Create a token. Only this response contains its text."""
    body = await context.read_object()
    name = body.text("name", max_bytes=200)
    if name is None and not body.problems:
        body.fault("name", "is required; name the program that uses the token")
    elif name is not None and (fault := find_name_fault(name)):
        body.fault("name", f'"{name[:64]}" {fault}')
    role = body.text("role", max_bytes=16) or "viewer"
    _, namespaces = body.take("namespaces")
    expires_us = body.instant_us("expires_at")
    _check_grant(body, role, namespaces)
    if expires_us is not None and expires_us <= context.api.clock.now_us():
        body.fault("expires_at", "is in the past; use a later time")
    body.raise_problems()
    assert name is not None
    token_store = _token_store(context)
    if context.dry_run:
        if name in {token.name for token in await token_store.entries()}:
            raise Conflict(f'token "{name}" already exists; choose another name')
        return json_response({"dry_run": True, "name": name, "role": role})
    text, token = await token_store.add(
        name,
        role=role,
        namespaces=namespaces,
        now_us=context.api.clock.now_us(),
        expires_us=expires_us,
        actor=context.actor,
    )
    return json_response(_write_token(token) | {"token": text}, status=201)


@route.delete(
    "/tokens/{name}",
    permission=Permission.ADMINISTER,
    summary="Delete an API token",
    returns={204: ResponseDoc("the token was deleted")},
)
async def delete_token(context: RequestContext) -> web.StreamResponse:
    """Delete a token. It stops working immediately on this server, and within a second on others."""
    token_store, name = _token_store(context), context.path("name")
    if context.dry_run:
        if name not in {token.name for token in await context.api.store.tokens()}:
            token_store.check_not_configured(name)
            raise NotFound(f'token "{name[:200]}" not found; GET /api/v1/tokens lists them')
        return json_response({"dry_run": True, "name": name})
    await token_store.remove(name, now_us=context.api.clock.now_us(), actor=context.actor)
    return web.Response(status=204)


@route.get(
    "/users",
    permission=Permission.ADMINISTER,
    summary="List the users of the configuration",
    returns={200: ResponseDoc.list_of("User", examples.USER, description="all users")},
)
async def list_users(context: RequestContext) -> web.StreamResponse:
    """List the users of the configuration with their roles."""
    users = sorted(context.api.access.users.items())
    items = [
        {
            "name": name,
            "role": None if user.principal.role is None else _role_name(user.principal.role),
            "namespaces": {space: _role_name(role) for space, role in user.principal.by_namespace.items()} or None,
        }
        for name, user in users
    ]
    return json_response({"items": items})


@route.post(
    "/users/{name}/unlock",
    permission=Permission.ADMINISTER,
    summary="Unlock a user who was locked out, on this node",
    returns={
        200: ResponseDoc(
            "the user, and the node that unlocked it",
            {
                "type": "object",
                "required": ["name", "node"],
                "properties": {"name": {"type": "string"}, "node": {"type": ["string", "null"]}},
            },
            {"name": "ana", "node": "node-a"},
        )
    },
    can_conflict=False,
)
async def unlock_user(context: RequestContext) -> web.StreamResponse:
    """Let a locked-out user log in again. Each node counts wrong passwords separately; this unlocks the node that
    responds.
    """
    name, access = context.path("name"), context.api.access
    if name not in access.users:
        raise NotFound(f'user "{name[:200]}" not found; GET /api/v1/users lists them')
    answer = {"name": name, "node": context.api.status().get("node")}
    if context.dry_run:
        return json_response({"dry_run": True, **answer})
    line = AuditLine(context.actor, "unlock user", name)
    await context.api.store.apply(WriteAudit(lines=(line,), now_us=context.api.clock.now_us()))
    access.unlock(name)
    return json_response(answer)


def _check_grant(body: BodyReader, role: str, namespaces: Any) -> None:
    """Record the problems of a token's role and namespaces."""
    allowed = ", ".join(ROLES)
    if role not in ROLES:
        body.fault("role", f'is "{role}", allowed: {allowed}')
    roles = namespaces if isinstance(namespaces, dict) else {}
    listed = list(namespaces) if isinstance(namespaces, dict | list) else []
    named = all(isinstance(space, str) for space in listed) and all(one in ROLES for one in roles.values())
    if namespaces is not None and not (named and 0 < len(listed) <= MAX_NAMESPACES):
        body.fault(
            "namespaces", f"must be a list of 1 to {MAX_NAMESPACES} names, or an object of names and roles: {allowed}"
        )
    elif fault := next(filter(None, map(find_name_fault, listed)), None):
        body.fault("namespaces", f"has a name that {fault}")


def _token_store(context: RequestContext) -> TokenStore:
    token_store = context.api.access.tokens
    if token_store is None:
        raise Conflict("this server has no authentication (auth.type: none), so it has no tokens; set auth.type: basic")
    return token_store


def _write_token(token: ApiToken) -> dict[str, Any]:
    return {
        "name": token.name,
        "role": token.role,
        "namespaces": token.namespaces,
        "created_at": None if token.created_us is None else rfc3339(token.created_us),
        "expires_at": None if token.expires_us is None else rfc3339(token.expires_us),
        "created_by": token.author or None,
    }


def _role_name(role: Role) -> str:
    return role.name.lower()
