"""Routes, and the decorators that declare them above their handlers.

Routing, the permission check and the documentation are all derived from the declared routes.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Required, Self, TypedDict, Unpack

from aiohttp import web

from chronos.api.auth.permissions import Permission
from chronos.core.config import UpdatePolicy

if TYPE_CHECKING:
    from chronos.api.request import RequestContext

V1 = "/api/v1"
JSON = "application/json"

Handler = Callable[["RequestContext"], Awaitable[web.StreamResponse]]
Decorator = Callable[[Handler], Handler]
Schema = Mapping[str, Any]


class Scope(Enum):
    """Where the permission of a route must be held, and what is looked up before its handler is called."""

    ANYWHERE = "anywhere"  # in any namespace: the route reveals nothing of them
    EVERYWHERE = "everywhere"  # in all namespaces
    SEEN = "seen"  # a list over namespaces, without those that the caller may not see
    BODY = "body"  # the handler checks each job of the body with ``RequestContext.require``
    JOB = "job"  # in the namespace of the job in the path
    EXECUTION = "execution"  # in the namespace of the execution's job


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A query parameter of a route."""

    name: str
    description: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})

    @property
    def is_repeatable(self) -> bool:
        """Whether the parameter may be given more than once."""
        return self.schema.get("type") == "array"


def ref(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request."""

    schema: Schema
    example: Any
    required: bool = True
    types: tuple[str, ...] = (JSON,)

    @classmethod
    def of_fields(cls, properties: Mapping[str, Schema], *, required: tuple[str, ...] = (), example: Any) -> Self:
        """Return a body with exactly these fields. It is optional if no field is required."""
        required_fields = {"required": list(required)} if required else {}
        schema = {"type": "object", **required_fields, "additionalProperties": False, "properties": properties}
        return cls(schema, example, required=bool(required))


@dataclass(frozen=True, slots=True)
class ResponseDoc:
    """The documentation of a successful response."""

    description: str
    schema: Schema | None = None
    example: Any = None
    type: str = JSON

    @classmethod
    def list_of(cls, name: str, *items: Any, description: str) -> Self:
        """Document a complete list of a schema, with example items."""
        properties = {"items": {"type": "array", "items": ref(name)}}
        return cls(
            description, {"type": "object", "required": ["items"], "properties": properties}, {"items": list(items)}
        )

    @classmethod
    def page_of(cls, name: str, *items: Any, description: str = "a page") -> Self:
        """Document a page of a list, with example items."""
        properties = {
            "items": {"type": "array", "items": ref(name)},
            "next_cursor": {
                "type": ["string", "null"],
                "description": "the `cursor` of the next page; null on the last page",
            },
        }
        schema = {"type": "object", "required": ["items", "next_cursor"], "properties": properties}
        return cls(description, schema, {"items": list(items), "next_cursor": None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    permission: Permission
    scope: Scope
    tag: str
    summary: str
    returns: Mapping[int, ResponseDoc]
    query: tuple[Param, ...] = ()
    body: Body | None = None
    honours_if_match: bool = False
    idempotent_by_key: bool = False  # honours Idempotency-Key
    can_conflict: bool = True  # of a write: it can be refused because of the current state
    is_rate_limited: bool = False  # counts against the client's submit rate
    is_stream: bool = False  # responds for as long as the client listens

    @property
    def writes(self) -> bool:
        return self.method != "GET"


NAMESPACE = Param(name="namespace", description='the namespace of the job; "default" if not given', schema=ref("Name"))
NAMESPACE_FILTER = Param(
    name="namespace", description="only this namespace; by default all that you may see", schema=ref("Name")
)
LIMIT = Param(
    name="limit",
    description="the maximum number of items",
    schema={"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
)
CURSOR = Param(
    name="cursor", description="`next_cursor` of the previous page", schema={"type": "string", "maxLength": 2048}
)
DRY_RUN = Param(
    name="dry_run", description="check everything, change nothing", schema={"type": "boolean", "default": False}
)
UPDATE = Param(
    name="update",
    description=(
        "when the new schedule takes over, for this change only; by default the job's `update`. `windowed` uses the "
        "job's `count` and `duration`"
    ),
    schema={"type": "string", "enum": [policy.value for policy in UpdatePolicy]},
)
DRY_RUN_RESPONSE = ResponseDoc("the result of a dry run", ref("Anything"), {"dry_run": True})


class RouteOptions(TypedDict, total=False):
    """The fields of a ``Route`` that a decorator accepts. ``RouteTable`` fills in the rest."""

    permission: Required[Permission]
    summary: Required[str]
    returns: Required[Mapping[int, ResponseDoc]]
    scope: Scope
    tag: str
    query: tuple[Param, ...]
    body: Body
    honours_if_match: bool
    idempotent_by_key: bool
    can_conflict: bool
    is_rate_limited: bool
    is_stream: bool


class RouteTable:
    """The routes of a module, by handler, in declaration order.

    Defaults of a route:

    - the tag is that of the table;
    - the scope is that of the table, else the job of ``{ref}`` or the execution of ``{id}`` in the path;
    - a route of a job takes the parameter ``namespace``, before its own;
    - a route that changes something takes the parameter ``dry_run``, after its own, and documents a 200 for it.
    """

    def __init__(self, tag: str, *, base: str = V1, scope: Scope | None = None) -> None:
        self.by_handler: dict[Handler, Route] = {}
        self._tag, self._base, self._scope = tag, base, scope

    def get(self, path: str, **options: Unpack[RouteOptions]) -> Decorator:
        """Declare the GET handler of a path."""
        return self._declare("GET", path, options)

    def post(self, path: str, **options: Unpack[RouteOptions]) -> Decorator:
        """Declare the POST handler of a path."""
        return self._declare("POST", path, options)

    def put(self, path: str, **options: Unpack[RouteOptions]) -> Decorator:
        """Declare the PUT handler of a path."""
        return self._declare("PUT", path, options)

    def patch(self, path: str, **options: Unpack[RouteOptions]) -> Decorator:
        """Declare the PATCH handler of a path."""
        return self._declare("PATCH", path, options)

    def delete(self, path: str, **options: Unpack[RouteOptions]) -> Decorator:
        """Declare the DELETE handler of a path."""
        return self._declare("DELETE", path, options)

    def _declare(self, method: str, path: str, options: RouteOptions) -> Decorator:
        scope = options.setdefault("scope", self._scope or _find_scope(path))
        options.setdefault("tag", self._tag)
        query = options.get("query", ())
        if scope is Scope.JOB:
            query = (NAMESPACE, *query)
        if method != "GET" and options["permission"] is not Permission.VIEW:
            query = (*query, DRY_RUN)
            options["returns"] = {**options["returns"], 200: options["returns"].get(200, DRY_RUN_RESPONSE)}
        options["query"] = query

        def register(handler: Handler) -> Handler:
            if handler in self.by_handler:
                raise ValueError(f"{handler.__name__} has a route already; give each route a handler of its own")
            self.by_handler[handler] = Route(method=method, path=self._base + path, handler=handler, **options)
            return handler

        return register


def _find_scope(path: str) -> Scope:
    if "{ref}" in path:
        return Scope.JOB
    return Scope.EXECUTION if "{id}" in path else Scope.ANYWHERE
