"""One request as its handler sees it: who asks, for what, in which namespace, and the way to the service."""

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from aiohttp import web

from chronos.api.auth.client_address import Proxies, to_address_group
from chronos.api.auth.permissions import Access, Permission, Principal
from chronos.api.errors import Forbidden, InvalidBody, Malformed, TooLarge, WrongType
from chronos.api.json_body import BYTES_PER_VALUE, read_json
from chronos.api.options import ApiOptions
from chronos.api.rate_limits import RateLimit
from chronos.api.routing import JSON, Route
from chronos.assembly import Service
from chronos.clock import Clock
from chronos.core.job import DEFAULT_NAMESPACE, Job
from chronos.core.node import Actor
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.timezones import get_zone
from chronos.errors import NotFound
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
_LARGE_BODY_BYTES = 16 << 10  # bytes of a body: what is larger is read beside the event loop
MAX_KEY = 255  # characters of an Idempotency-Key
_TRUE, _FALSE = ("true", "1", "yes", ""), ("false", "0", "no")
_MAX_PARAMETER_CHARS = 2_048


class RequestInfo(NamedTuple):
    """The job and the execution, as far as a request has one."""

    job: Job | bytes | None
    execution: bytes | None

    def log_fields(self) -> dict[str, str]:
        """For a log line."""
        fields: dict[str, str] = {}
        if self.job is not None:
            job = self.job
            fields["job"] = id_text(job) if isinstance(job, bytes) else format_job_name((job.namespace, job.name))
        if self.execution is not None:
            fields["execution"] = id_text(self.execution)
        return fields


#: The id that a request and the answer to it have.
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)

#: What a request turned out to be about, for those who tell of it.
REQUEST_INFO: web.RequestKey[RequestInfo] = web.RequestKey("info", RequestInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """What every request is answered with."""

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
    routes: tuple[Route, ...] = ()
    document: bytes = b""  # the OpenAPI document
    page: bytes = b""  # the same for people
    page_policy: str = ""  # what a browser may do for it


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """A request on its way."""

    request: web.Request
    route: Route
    api: ApiContext
    principal: Principal
    request_id: str
    found_job: Job | None = None
    found_view: ExecutionView | None = None
    requested_execution: bytes | None = None  # the execution that it asked for
    is_reading_body: bool = field(default=False)  # the body is still being received
    has_large_body: bool = field(default=False)  # the body is large

    # --- who and where

    @property
    def headers(self) -> dict[str, str]:
        """What every answer carries."""
        return {"X-Request-Id": self.request_id}

    @property
    def address(self) -> str:
        """The client's address, as far as the proxies in between are trusted."""
        return self.api.proxies.client(self.request.remote or "", self.request.headers)

    @property
    def address_group(self) -> str:
        """What the client's address counts as where addresses are counted."""
        return to_address_group(self.address)

    @property
    def actor(self) -> Actor:
        """Who is written into the audit log."""
        return Actor(name=self.principal.name, origin=self.address)

    @property
    def namespace(self) -> str:
        """The namespace that a name belongs to."""
        return self.requested_namespace or DEFAULT_NAMESPACE

    @property
    def requested_namespace(self) -> str | None:
        """The one that was asked for, if any was."""
        name = self.text("namespace")
        if name is not None and (fault := find_name_fault(name)):
            raise Malformed(f'the namespace "{name[:64]}" {fault}')
        return name

    def require(self, namespace: str, permission: Permission | None = None) -> None:
        """Raise unless the caller has a permission there (the route's own). What it may not see is not there."""
        permission = self.route.permission if permission is None else permission
        if not self.principal.sees(namespace):
            raise NotFound(f'there is no namespace "{namespace[:200]}"')
        if not self.principal.may(permission, namespace):
            raise make_forbidden(self.principal, permission, f'in the namespace "{namespace}"')

    def record_denial(self, error: Forbidden) -> None:
        """Leave a trace of what the caller may not do."""
        what = f"{self.request.method} {self.request.path}: {error}"
        self.api.denials.denied(self.principal.name, what, address=self.address, counts_as=self.address_group)

    def is_visible(self, namespace: str | None) -> bool:
        """Whether a thing of a namespace belongs in a list; None: it is not known, its job being gone."""
        if namespace is None:
            return self.principal.may(self.route.permission) and self.requested_namespace is None
        return self.principal.may(self.route.permission, namespace) and self.requested_namespace in (None, namespace)

    @property
    def sees_everything(self) -> bool:
        return self.requested_namespace is None and self.principal.may(self.route.permission)

    # --- what the path names

    @property
    def job(self) -> Job:
        """The job of the path; the caller may do with it what the route does."""
        assert self.found_job is not None
        return self.found_job

    @property
    def view(self) -> ExecutionView:
        """The execution of the path."""
        assert self.found_view is not None
        return self.found_view

    @property
    def info(self) -> RequestInfo:
        """What it turned out to be about: what it asked for rather than what it named."""
        if self.found_view is None:
            return RequestInfo(self.found_job, self.requested_execution)
        named = self.found_view.execution
        return RequestInfo(self.found_job or named.job, self.requested_execution or named.id)

    async def find_job(self, ref: str) -> Job:
        """A job by id or name. One that the caller may not see is not there, and its neighbours are not hinted at."""
        unseen = NotFound(f'there is no job "{ref[:200]}" in the namespace "{self.namespace}"')
        if read_id(ref) is None and not self.principal.sees(self.namespace):
            raise unseen
        job = await self.api.service.jobs.get(ref, self.namespace)
        if not self.principal.sees(job.namespace):
            raise unseen
        return job

    def path(self, name: str) -> str:
        """What stands in the path; no store knows a thing by a name with NUL in it."""
        text = self.request.match_info[name]
        if "\0" in text:
            raise NotFound(f"there is nothing of this {name}")
        return text

    def path_number(self, name: str) -> int:
        """A number in the path; anything else names nothing."""
        text = self.path(name)
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise NotFound(f'there is no {name} "{text[:64]}"')
        return int(text)

    # --- the query

    def check_query(self) -> None:
        """Refuse parameters that nobody reads, and those that stand there twice."""
        if not self.request.query_string:
            return
        params = {param.name: param.is_repeatable for param in self.route.query}
        for name in self.request.query:
            if name not in params:
                near = get_close_matches(name, params, n=1)
                hint = f'; did you mean "{near[0]}"?' if near else f"; known are {', '.join(params) or 'none'}"
                raise Malformed(f'there is no parameter "{name[:64]}" here{hint}')
            if not params[name] and len(self.request.query.getall(name)) > 1:
                raise Malformed(f'the parameter "{name}" stands there twice')

    def text(self, name: str) -> str | None:
        """A parameter."""
        if not self.request.query_string:
            return None
        return next(iter(self.texts(name)), None)

    def texts(self, name: str) -> list[str]:
        """A parameter that may stand there many times."""
        values = self.request.query.getall(name, [])
        for value in values:
            if len(value) > _MAX_PARAMETER_CHARS or "\0" in value or not _is_unicode(value):
                raise Malformed(f'the parameter "{name}" is too long, or no text')
        return values

    def integer(self, name: str, default: int, *, low: int, high: int) -> int:
        """A whole number."""
        value = self.text(name)
        if value is None:
            return default
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1
        if not low <= number <= high:
            raise Malformed(f'the parameter "{name}" is "{value[:64]}", allowed {low} to {high}')
        return number

    def boolean(self, name: str) -> bool:
        """True or false; a bare name is true."""
        value = self.text(name)
        if value is None or value.lower() in _FALSE:
            return False
        if value.lower() in _TRUE:
            return True
        raise Malformed(f'the parameter "{name}" is "{value[:64]}", allowed true or false')

    def instant_us(self, name: str) -> int | None:
        """An instant."""
        value = self.text(name)
        if value is None:
            return None
        found_us = read_instant_us(value.replace(" ", "+"))  # a plus sign that was not escaped
        if found_us is None:
            raise Malformed(f'the parameter "{name}" is "{value[:64]}"; write an instant like 2027-01-01T09:00:00Z')
        return found_us

    @property
    def limit(self) -> int:
        return self.integer("limit", 100, low=1, high=1000)

    @property
    def dry_run(self) -> bool:
        return self.boolean("dry_run")

    # --- headers

    @property
    def idempotency(self) -> str | None:
        """The client's Idempotency-Key."""
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and (not key or len(key) > MAX_KEY or not key.isascii() or not key.isprintable()):
            raise Malformed(f"the Idempotency-Key has to be 1 to {MAX_KEY} printable ASCII characters")
        return key

    def key_for(self, verb: str, subject: bytes) -> str | None:
        """The client's key, made to mean this verb of this thing only."""
        key = self.idempotency
        return None if key is None else f"api:{verb}:{subject.hex()}:{key}"

    # --- the body

    async def json(self) -> Any:
        """The body; None when there is none. Raises ``Malformed``, ``TooLarge``, ``WrongType``."""
        limit = self.api.options.request_limit
        if (self.request.content_length or 0) > limit:
            raise _too_large(limit)
        try:
            raw = await self._read_bytes()
        except web.HTTPRequestEntityTooLarge:
            raise _too_large(limit) from None
        except web.RequestPayloadError:
            raise Malformed("the body is not what its length or its chunks say") from None
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
        """Do something with what the body says; ``much``: it takes long, which it does for a large body."""
        return (
            await self.api.slicer.run_in_thread(function)
            if (self.has_large_body if is_large is None else is_large)
            else function()
        )

    async def _read_bytes(self) -> bytes:
        content = self.request.content
        if content.is_eof():  # all of it came with the headers, as it mostly does
            return content.read_nowait()
        self.is_reading_body = True
        raw = await self.request.read()
        self.is_reading_body = False
        return raw

    async def read_object(self) -> "BodyReader":
        """The body as an object of which every field has to be taken."""
        problems: list[Problem] = []
        body = await self.json()
        data = await self.run(lambda: to_plain_json(body, problems))
        if data is None and not problems:
            data = {}
        if not isinstance(data, dict):
            raise InvalidBody(problems or [Problem("", "has to be an object")])
        return BodyReader(data, "", problems)


class BodyReader(ObjectReader):
    """A body that is being read."""

    def instant_us(self, name: str, *, required: bool = False) -> int | None:
        """An instant."""
        value = self.text(name, max_bytes=64)
        if value is None:
            if required and not any(problem.pointer == self.at(name) for problem in self.problems):
                self.fault(name, "is missing")
            return None
        found_us = read_instant_us(value)
        if found_us is None:
            self.fault(name, f'is "{value}"; write an instant like 2027-01-01T09:00:00Z')
        return found_us

    def payload(self) -> PlainPayload | None:
        """The payload that goes with a run; None: it is not given."""
        _, value = self.take("payload")
        return None if value is None else PlainPayload(value)

    def raise_problems(self) -> None:
        """Raise what is wrong with it."""
        self.finish()
        if self.problems:
            raise InvalidBody(self.problems)


def make_forbidden(principal: Principal, permission: Permission, where: str) -> Forbidden:
    """What somebody is told who may not do a thing."""
    return Forbidden(f"{principal.name} may not {permission.name.lower()} {where}; ask somebody who administers it")


def read_instant_us(text: str) -> int | None:
    """Microseconds of an RFC 3339 instant; without an offset it is UTC. None: it is none."""
    return parse_instant(text, get_zone("UTC")) if len(text) <= 64 else None


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes; send it in parts")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
