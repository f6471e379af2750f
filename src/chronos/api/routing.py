"""What a route is. One table of them gives the routing, the permission check, and the documentation."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from aiohttp import web

from chronos.api.access import Permission

if TYPE_CHECKING:
    from chronos.api.call import Call

V1 = "/api/v1"
JSON = "application/json"

Handler = Callable[["Call"], Awaitable[web.StreamResponse]]
Schema = Mapping[str, Any]


class Scope(Enum):
    """Where the permission of a route has to be held, and what is looked up before its handler is called."""

    ANYWHERE = "anywhere"  # in some namespace: it shows nothing of any
    EVERYWHERE = "everywhere"  # in all of them
    SEEN = "seen"  # a list over namespaces: what the caller may not see is left out
    BODY = "body"  # the handler asks for each job of the body, with ``Call.require``
    JOB = "job"  # in that of the job that the path names
    EXECUTION = "execution"  # in that of the execution's job


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One query parameter."""

    name: str
    about: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})

    @property
    def many(self) -> bool:
        """Whether it may be given more than once."""
        return self.schema.get("type") == "array"


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a route takes."""

    schema: Schema
    example: Any
    required: bool = True
    types: tuple[str, ...] = (JSON,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a route gives when all is well."""

    about: str
    schema: Schema | None = None
    example: Any = None
    type: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    permission: Permission
    scope: Scope = Scope.ANYWHERE
    tag: str
    summary: str
    answers: Mapping[int, Answer]
    query: tuple[Param, ...] = ()
    body: Body | None = None
    matches: bool = False  # If-Match is honoured
    idempotent_by_key: bool = False  # Idempotency-Key is honoured
    conflicts: bool = True  # a write may be refused for the state that things are in
    submits: bool = False  # counts against a client's rate
    streams: bool = False  # goes on for as long as the client listens

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def ref(name: str) -> Schema:
    """A schema of the document, by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def page_of(name: str) -> Schema:
    """A page of a list."""
    return {
        "type": "object",
        "required": ["items", "next_cursor"],
        "properties": {
            "items": {"type": "array", "items": ref(name)},
            "next_cursor": {"type": ["string", "null"], "description": "asks for the next page; null: there is none"},
        },
    }


NAMESPACE = Param(name="namespace", about='the namespace of a name; "default" without it', schema=ref("Name"))
SPACES = Param(name="namespace", about="only of this namespace; all that you may see without it", schema=ref("Name"))
LIMIT = Param(
    name="limit",
    about="how many at most",
    schema={"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
)
CURSOR = Param(name="cursor", about="`next_cursor` of the page before", schema={"type": "string", "maxLength": 2048})
DRY_RUN = Param(name="dry_run", about="check everything, change nothing", schema={"type": "boolean", "default": False})
