"""RequestContext: one request as its handler sees it, with principal, parameters, body and access to the service."""

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from aiohttp import web

from chronos.api.auth.authentication import Access
from chronos.api.auth.client_address import Proxies, to_address_group
from chronos.api.auth.permissions import Permission, Principal, Role
from chronos.api.errors import Forbidden, InvalidBody, Malformed, TooLarge, WrongType
from chronos.api.json_body import BYTES_PER_VALUE, read_json
from chronos.api.options import ApiOptions
from chronos.api.rate_limits import RateLimit
from chronos.api.routing import JSON, Route
from chronos.assembly import Service
from chronos.clock import Clock
from chronos.core.config import UpdatePolicy
from chronos.core.job import DEFAULT_NAMESPACE, Job
from chronos.core.node import Actor
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.timezones import get_zone
from chronos.errors import NotFound
from chronos.observe.delay_history import DelayHistory
from chronos.observe.event_log import format_job_name
from chronos.service.cooperative import TimeSlicer
from chronos.service.run_requests import PlainPayload
from chronos.service.serializers import Problem, id_text, read_id
from chronos.service.serializers.identifiers import find_name_fault
from chronos.service.serializers.json_values import to_plain_json
from chronos.service.serializers.object_reader import ObjectReader
from chronos.store.contract import ExecutionView, Store

if TYPE_CHECKING:
    from chronos.api.auth.denials import Denials
    from chronos.api.handlers.event_streams import Streams

T = TypeVar("T")
_LARGE_BODY_BYTES = 16 << 10  # larger bodies are read in a thread
MAX_KEY = 255  # characters of an Idempotency-Key
_MAX_HINTED = 5  # namespaces that a message lists
_TRUE, _FALSE = ("true", "1", "yes", ""), ("false", "0", "no")
_MAX_PARAMETER_CHARS = 2_048


class RequestInfo(NamedTuple):
    """The job and the execution of a request, if it has one."""

    job: Job | bytes | None
    execution: bytes | None

    def log_fields(self) -> dict[str, str]:
        """Return the fields of a log line."""
        fields: dict[str, str] = {}
        if self.job is not None:
            job = self.job
            fields["job"] = id_text(job) if isinstance(job, bytes) else format_job_name((job.namespace, job.name))
        if self.execution is not None:
            fields["execution"] = id_text(self.execution)
        return fields


#: The id of a request and its response.
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)

#: The job and execution of a request, for its log line.
REQUEST_INFO: web.RequestKey[RequestInfo] = web.RequestKey("info", RequestInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """Everything that requests share."""

    service: Service
    store: Store
    clock: Clock
    options: ApiOptions
    access: Access
    status: Callable[[], dict[str, Any]]
    metrics: Callable[[], bytes]
    rate: RateLimit
    proxies: Proxies
    streams: "Streams"
    denials: "Denials"
    slicer: TimeSlicer
    delays: DelayHistory
    routes: tuple[Route, ...] = ()
    document: bytes = b""  # the OpenAPI document
    page: bytes = b""  # the same as HTML
    problems_page: bytes = b""  # every problem code, as HTML
    page_policy: str = ""  # the content security policy of both pages


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """One request, from authentication to response."""

    request: web.Request
    route: Route
    api: ApiContext
    principal: Principal
    request_id: str
    found_job: Job | None = None
    found_view: ExecutionView | None = None
    requested_execution: bytes | None = None  # the execution that it created
    is_reading_body: bool = field(default=False)
    has_large_body: bool = field(default=False)
    translated_body: Any = None  # replaces the body, for an alias that has other names

    # --- client and namespace

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a streamed response."""
        return {"X-Request-Id": self.request_id}

    @property
    def address(self) -> str:
        """The client's address, taken from trusted proxies if there are any."""
        return self.api.proxies.client(self.request.remote or "", self.request.headers)

    @property
    def address_group(self) -> str:
        """The address as counted by limits: see ``to_address_group``."""
        return to_address_group(self.address)

    @property
    def actor(self) -> Actor:
        """The author of changes in the audit log."""
        return Actor(name=self.principal.name, origin=self.address)

    @property
    def namespace(self) -> str:
        """The requested namespace, or the default one."""
        return self.requested_namespace or DEFAULT_NAMESPACE

    @property
    def requested_namespace(self) -> str | None:
        """The ``namespace`` parameter, if given."""
        name = self.text("namespace")
        if name is not None and (fault := find_name_fault(name)):
            raise Malformed(f'the namespace "{name[:64]}" {fault}')
        return name

    def require(self, namespace: str, permission: Permission | None = None) -> None:
        """Raise unless the principal holds a permission (default: the route's) in a namespace.

        Raises ``NotFound`` for a namespace that the principal may not see.
        """
        permission = self.route.permission if permission is None else permission
        if not self.principal.sees(namespace):
            raise NotFound(f'namespace "{namespace[:200]}" not found{self._namespace_hint()}')
        if not self.principal.may(permission, namespace):
            raise make_forbidden(self.principal, permission, namespace)

    def _namespace_hint(self) -> str:
        """Return a hint with the namespaces that the principal has a role in."""
        own = sorted(self.principal.by_namespace)
        return f"; you have roles in {', '.join(own[:_MAX_HINTED])}: add ?namespace={own[0]}" if own else ""

    def record_denial(self, error: Forbidden) -> None:
        """Record a denied request in the log, the metrics and the audit log."""
        what = f"{self.request.method} {self.request.path}: {error}"
        self.api.denials.denied(self.principal.name, what, address=self.address, counts_as=self.address_group)

    def is_visible(self, namespace: str | None) -> bool:
        """Return whether an item of a namespace belongs in a list. Items of unknown jobs have no namespace (None)."""
        if namespace is None:
            return self.principal.may(self.route.permission) and self.requested_namespace is None
        return self.principal.may(self.route.permission, namespace) and self.requested_namespace in (None, namespace)

    @property
    def sees_everything(self) -> bool:
        return self.requested_namespace is None and self.principal.may(self.route.permission)

    # --- job and execution of the path

    @property
    def job(self) -> Job:
        """The job of the path. The principal holds the route's permission for it."""
        assert self.found_job is not None
        return self.found_job

    @property
    def view(self) -> ExecutionView:
        """The execution of the path, with its attempts."""
        assert self.found_view is not None
        return self.found_view

    @property
    def info(self) -> RequestInfo:
        """The job and execution of the request. A created execution takes precedence over the one in the path."""
        if self.found_view is None:
            return RequestInfo(self.found_job, self.requested_execution)
        named = self.found_view.execution
        return RequestInfo(self.found_job or named.job, self.requested_execution or named.id)

    async def find_job(self, ref: str) -> Job:
        """Return a job by id or name. A job that the principal may not see is not found, without suggestions."""
        unseen = NotFound(f'job "{ref[:200]}" not found in the namespace "{self.namespace}"')
        if read_id(ref) is None and not self.principal.sees(self.namespace):
            raise NotFound(f"{unseen}{self._namespace_hint()}")
        job = await self.api.service.jobs.get(ref, self.namespace)
        if not self.principal.sees(job.namespace):
            raise unseen
        return job

    def path(self, name: str) -> str:
        """Return a part of the path. Raises ``NotFound`` for text with NUL, which no store can hold."""
        text = self.request.match_info[name]
        if "\0" in text:
            raise NotFound(f"{name} not found")
        return text

    def path_number(self, name: str) -> int:
        """Return a number of the path. Raises ``NotFound`` for anything else."""
        text = self.path(name)
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise NotFound(f'{name} "{text[:64]}" not found')
        return int(text)

    # --- the query

    def check_query(self) -> None:
        """Reject unknown parameters, and parameters that are given twice."""
        if not self.request.query_string:
            return
        params = {param.name: param.is_repeatable for param in self.route.query}
        for name in self.request.query:
            if name not in params:
                near = get_close_matches(name, params, n=1)
                known = f"; known parameters: {', '.join(params)}" if params else "; this route takes no parameters"
                hint = f'; did you mean "{near[0]}"?' if near else known
                raise Malformed(f'unknown parameter "{name[:64]}"{hint}')
            if not params[name] and len(self.request.query.getall(name)) > 1:
                raise Malformed(f'parameter "{name}" is given twice; give it once')

    def text(self, name: str) -> str | None:
        """Return a parameter, or None."""
        if not self.request.query_string:
            return None
        return next(iter(self.texts(name)), None)

    def texts(self, name: str) -> list[str]:
        """Return the values of a parameter that may be repeated."""
        values = self.request.query.getall(name, [])
        for value in values:
            if len(value) > _MAX_PARAMETER_CHARS or "\0" in value or not _is_unicode(value):
                raise Malformed(
                    f'invalid parameter "{name}"; use valid Unicode text of at most {_MAX_PARAMETER_CHARS} characters'
                )
        return values

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return an integer parameter."""
        value = self.text(name)
        if value is None:
            return default
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1
        if not low <= number <= high:
            raise Malformed(f'parameter "{name}" is "{value[:64]}", allowed {low} to {high}')
        return number

    def boolean(self, name: str) -> bool:
        """Return a boolean parameter. A bare name is true."""
        value = self.text(name)
        if value is None or value.lower() in _FALSE:
            return False
        if value.lower() in _TRUE:
            return True
        raise Malformed(f'parameter "{name}" is "{value[:64]}", allowed true or false')

    def instant_us(self, name: str) -> int | None:
        """Return an instant parameter."""
        value = self.text(name)
        if value is None:
            return None
        found_us = read_instant_us(value.replace(" ", "+"))  # a plus sign that was not escaped
        if found_us is None:
            raise Malformed(f'parameter "{name}" is "{value[:64]}"; write a time like 2027-01-01T09:00:00Z')
        return found_us

    @property
    def limit(self) -> int:
        return self.integer("limit", 100, low=1, high=1000)

    @property
    def dry_run(self) -> bool:
        return self.boolean("dry_run")

    @property
    def update_policy(self) -> UpdatePolicy | None:
        """The ``update`` parameter: the update policy of this change."""
        value = self.text("update")
        if value is not None and value not in tuple(UpdatePolicy):
            raise Malformed(f'parameter "update" is "{value[:64]}", allowed {", ".join(UpdatePolicy)}')
        return None if value is None else UpdatePolicy(value)

    # --- headers

    @property
    def idempotency(self) -> str | None:
        """The client's Idempotency-Key."""
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and (fault := find_key_fault(key)):
            raise Malformed(f"invalid Idempotency-Key; {fault}")
        return key

    def key_for(self, verb: str, subject: bytes) -> str | None:
        """Return the client's key, scoped to one verb and one subject."""
        key = self.idempotency
        return None if key is None else f"api:{verb}:{subject.hex()}:{key}"

    # --- the body

    async def json(self) -> Any:
        """Return the body, or None if it is empty. Raises ``Malformed``, ``TooLarge``, ``WrongType``."""
        if self.translated_body is not None:
            return self.translated_body
        limit = self.api.options.request_limit
        if (self.request.content_length or 0) > limit:
            raise _too_large(limit)
        try:
            raw = await self._read_bytes()
        except web.HTTPRequestEntityTooLarge:
            raise _too_large(limit) from None
        except web.RequestPayloadError:
            raise Malformed("the body does not match its Content-Length or chunk sizes") from None
        if len(raw) > limit:
            raise _too_large(limit)
        if not raw.strip():
            if self.route.body is not None and self.route.body.required:
                raise Malformed("the body is missing; send JSON")
            return None
        allowed = self.route.body.types if self.route.body is not None else (JSON,)
        if self.request.content_type not in allowed:
            raise WrongType(f"the body is {self.request.content_type}; send Content-Type: {allowed[0]}")
        self.has_large_body = len(raw) > _LARGE_BODY_BYTES
        return await self.run(partial(read_json, raw, limit // BYTES_PER_VALUE))

    async def run(self, function: Callable[[], T], *, is_large: bool | None = None) -> T:
        """Run a function on the body; in a thread if ``is_large`` (default: if the body is large)."""
        return (
            await self.api.slicer.run_in_thread(function)
            if (self.has_large_body if is_large is None else is_large)
            else function()
        )

    async def _read_bytes(self) -> bytes:
        content = self.request.content
        if content.is_eof():  # the usual case: it came with the headers
            return content.read_nowait()
        self.is_reading_body = True
        raw = await self.request.read()
        self.is_reading_body = False
        return raw

    async def read_object(self) -> "BodyReader":
        """Read the body as an object. Fields that the handler does not read are rejected."""
        problems: list[Problem] = []
        body = await self.json()
        data = await self.run(lambda: to_plain_json(body, problems))
        if data is None and not problems:
            data = {}
        if not isinstance(data, dict):
            raise InvalidBody(problems or [Problem("", "the body must be an object")])
        return BodyReader(data, "", problems)


class BodyReader(ObjectReader):
    """Reads the fields of a request body."""

    def instant_us(self, name: str, *, required: bool = False) -> int | None:
        """Read an instant."""
        value = self.text(name, max_bytes=64)
        if value is None:
            if required and not any(problem.pointer == self.at(name) for problem in self.problems):
                self.fault(name, "is required")
            return None
        found_us = read_instant_us(value)
        if found_us is None:
            self.fault(name, f'is "{value}"; write a time like 2027-01-01T09:00:00Z')
        return found_us

    def payload(self) -> PlainPayload | None:
        """Read the payload of a run, or None."""
        _, value = self.take("payload")
        return None if value is None else PlainPayload(value)

    def raise_problems(self) -> None:
        """Raise ``InvalidBody`` if any field is invalid or unknown."""
        self.finish()
        if self.problems:
            raise InvalidBody(self.problems)


def find_key_fault(key: str) -> str | None:
    """Return what to change in an idempotency key, or None if it is valid."""
    is_valid = 0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()
    return None if is_valid else f"use 1 to {MAX_KEY} printable ASCII characters"


def make_forbidden(
    principal: Principal, permission: Permission, namespace: str | None = None, *, everywhere: bool = False
) -> Forbidden:
    """Return the error for a missing role: in a namespace, ``everywhere``, or in any namespace at all."""
    if namespace is not None:
        where, admin = namespace, f"an admin of {namespace}"
    else:
        where, admin = ("all namespaces", "an admin of all namespaces") if everywhere else ("a namespace", "an admin")
    role, held = Role(permission).name.lower(), principal.describe_roles(namespace)
    return Forbidden(f"needs the {role} role in {where}; {principal.name} has {held}; ask {admin}")


def read_instant_us(text: str) -> int | None:
    """Parse an RFC 3339 instant; UTC without an offset. Returns microseconds, or None if it is invalid."""
    return parse_instant(text, get_zone("UTC")) if len(text) <= 64 else None


def _too_large(limit: int) -> TooLarge:
    size = f"{limit / (1 << 20):g} MiB" if limit >= 1 << 20 else f"{limit:,} bytes"
    return TooLarge(f"the body is larger than {size} (server.request_limit); send fewer jobs per request")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
