"""Tokens and users: who may come in. Neither passwords nor tokens are ever shown; a token once, when it is made."""

from typing import Any

from aiohttp import web

from chronos.api import examples
from chronos.api.access import Permission, Role
from chronos.api.answers import answer
from chronos.api.call import Call, Given
from chronos.api.describing import one_of
from chronos.api.routes import DRY_RUN, V1, Answer, Body, Route, Scope, ref
from chronos.api.tokenbook import ROLES, TokenBook
from chronos.core.calendar import rfc3339
from chronos.core.token import Token
from chronos.errors import Conflict, NotFound
from chronos.service.shapes.names import fault_of_name
from chronos.store.commands import AuditLine, WriteAudit

MAX_NAMESPACES = 1_000  # of one token


async def list_tokens(call: Call) -> web.StreamResponse:
    """All tokens, by name."""
    book = call.parts.access.tokens
    return answer({"items": [] if book is None else [_written(token) for token in await book.entries()]})


async def create_token(call: Call) -> web.StreamResponse:
    """Make a token. It is shown this once."""
    body = await call.form()
    name = body.text("name", longest=200)
    if name is None and not body.problems:
        body.fault("name", "is missing: say what the token is for")
    elif name is not None and (fault := fault_of_name(name)):
        body.fault("name", f'"{name[:64]}" {fault}')
    role = body.text("role", longest=16) or "viewer"
    _, namespaces = body.take("namespaces")
    expires_us = body.instant_us("expires_at")
    _check_grant(body, role, namespaces)
    if expires_us is not None and expires_us <= call.parts.clock.now_us():
        body.fault("expires_at", "has passed")
    body.done()
    assert name is not None
    book = _book(call)
    if call.dry_run:
        if name in {token.name for token in await book.entries()}:
            raise Conflict(f'a token named "{name}" exists already')
        return answer({"dry_run": True, "name": name, "role": role})
    text, token = await book.add(
        name,
        role=role,
        namespaces=namespaces,
        now_us=call.parts.clock.now_us(),
        expires_us=expires_us,
        actor=call.actor,
    )
    return answer(_written(token) | {"token": text}, status=201)


async def delete_token(call: Call) -> web.StreamResponse:
    """Whoever uses it is nobody from now on."""
    book, name = _book(call), call.path("name")
    if call.dry_run:
        if name not in {token.name for token in await call.parts.store.tokens()}:
            book.check_free(name)
            raise NotFound(f'there is no token "{name[:200]}"')
        return answer({"dry_run": True, "name": name})
    await book.remove(name, now_us=call.parts.clock.now_us(), actor=call.actor)
    return web.Response(status=204)


async def list_users(call: Call) -> web.StreamResponse:
    """The users of the configuration."""
    users = sorted(call.parts.access.users.items())
    items = [
        {
            "name": name,
            "role": None if user.principal.role is None else _word(user.principal.role),
            "namespaces": {space: _word(role) for space, role in user.principal.by_namespace.items()} or None,
        }
        for name, user in users
    ]
    return answer({"items": items})


async def unlock_user(call: Call) -> web.StreamResponse:
    """Let a user who was locked out try again at once. Each node counts for itself, and this one forgets."""
    name, access = call.path("name"), call.parts.access
    if name not in access.users:
        raise NotFound(f'there is no user "{name[:200]}"; GET /api/v1/users lists them')
    said = {"name": name, "node": call.parts.status().get("node")}
    if call.dry_run:
        return answer({"dry_run": True, **said})
    line = AuditLine(call.actor, "unlock user", name)
    await call.parts.store.apply(WriteAudit(lines=(line,), now_us=call.parts.clock.now_us()))
    access.unlock(name)
    return answer(said)


def _check_grant(body: Given, role: str, namespaces: Any) -> None:
    """Note what is wrong with what a token is to be allowed."""
    allowed = ", ".join(ROLES)
    if role not in ROLES:
        body.fault("role", f'is "{role}", allowed: {allowed}')
    roles = namespaces if isinstance(namespaces, dict) else {}
    listed = list(namespaces) if isinstance(namespaces, dict | list) else []
    named = all(isinstance(space, str) for space in listed) and all(one in ROLES for one in roles.values())
    if namespaces is not None and not (named and 0 < len(listed) <= MAX_NAMESPACES):
        body.fault(
            "namespaces", f"has to be a list of 1 to {MAX_NAMESPACES} names, or an object of names and roles: {allowed}"
        )
    elif fault := next(filter(None, map(fault_of_name, listed)), None):
        body.fault("namespaces", f"has a name which {fault}")


def _book(call: Call) -> TokenBook:
    book = call.parts.access.tokens
    if book is None:
        raise Conflict("this server asks nobody who they are (auth.type: none), so that there are no tokens")
    return book


def _written(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "role": token.role,
        "namespaces": token.namespaces,
        "created_at": None if token.created_us is None else rfc3339(token.created_us),
        "expires_at": None if token.expires_us is None else rfc3339(token.expires_us),
        "created_by": token.author or None,
    }


def _word(role: Role) -> str:
    return role.name.lower()


def _items(name: str) -> dict[str, Any]:
    return {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": ref(name)}}}


ROUTES = (
    Route(
        method="GET",
        path=f"{V1}/tokens",
        handler=list_tokens,
        permission=Permission.ADMINISTER,
        scope=Scope.EVERYWHERE,
        tag="Access",
        summary="List the API tokens",
        answers={200: Answer(about="all of them", schema=_items("Token"), example={"items": [examples.TOKEN]})},
    ),
    Route(
        method="POST",
        path=f"{V1}/tokens",
        handler=create_token,
        permission=Permission.ADMINISTER,
        scope=Scope.EVERYWHERE,
        tag="Access",
        summary="Make an API token; it is shown this once",
        query=(DRY_RUN,),
        body=Body(
            schema={
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {
                    "name": ref("Name"),
                    "role": one_of("what its user may do; viewer unless given", ROLES),
                    "namespaces": {
                        "description": "in which the role holds; or a role for each; everywhere without it",
                        "anyOf": [
                            {"type": "array", "items": ref("Name"), "minItems": 1},
                            ref("RolesInput"),
                            {"type": "null"},
                        ],
                    },
                    "expires_at": {"type": ["string", "null"], "format": "date-time"},
                },
            },
            example={"name": "ci", "role": "operator", "namespaces": ["billing"]},
        ),
        answers={
            201: Answer(
                about="the token", schema=ref("Token"), example=examples.TOKEN | {"token": "chr_shown-this-once"}
            ),
            200: Answer(about="of a dry run", schema=ref("Anything"), example={"dry_run": True}),
        },
    ),
    Route(
        method="DELETE",
        path=f"{V1}/tokens/{{name}}",
        handler=delete_token,
        permission=Permission.ADMINISTER,
        scope=Scope.EVERYWHERE,
        tag="Access",
        summary="Delete an API token",
        query=(DRY_RUN,),
        answers={
            204: Answer(about="it is gone"),
            200: Answer(about="of a dry run", schema=ref("Anything"), example={"dry_run": True}),
        },
    ),
    Route(
        method="GET",
        path=f"{V1}/users",
        handler=list_users,
        permission=Permission.ADMINISTER,
        scope=Scope.EVERYWHERE,
        tag="Access",
        summary="List the users of the configuration",
        answers={200: Answer(about="all of them", schema=_items("User"), example={"items": [examples.USER]})},
    ),
    Route(
        method="POST",
        path=f"{V1}/users/{{name}}/unlock",
        handler=unlock_user,
        permission=Permission.ADMINISTER,
        scope=Scope.EVERYWHERE,
        tag="Access",
        summary="Let a user who was locked out try again, on this node",
        query=(DRY_RUN,),
        answers={
            200: Answer(
                about="the user, and the node that forgot the wrong tries",
                schema={
                    "type": "object",
                    "required": ["name", "node"],
                    "properties": {"name": {"type": "string"}, "node": {"type": ["string", "null"]}},
                },
                example={"name": "ana", "node": "node-a"},
            )
        },
        conflicts=False,
    ),
)
