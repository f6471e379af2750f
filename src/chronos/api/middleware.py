"""The way of a request to its handler::

packed? from a browser elsewhere? ─► who is it? ─► within its rate? ─► parameters known? ─► allowed there? ─► handler
                                                                                                            │
id, headers, and every error as a problem  ◄────────────────────────────────────────────────────────────────┘
"""

import asyncio
import ipaddress
import logging
import re
from contextlib import suppress
from functools import lru_cache
from random import getrandbits
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from multidict import istr
from structlog.contextvars import bind_contextvars

from chronos.api.auth.permissions import ANONYMOUS_ADMIN, NO_PRINCIPAL, Permission, Principal, read_claimed_name
from chronos.api.errors import (
    CompressedBody,
    Forbidden,
    Malformed,
    NoRoute,
    RequestTimedOut,
    SlowRequest,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    WrongMethod,
)
from chronos.api.handlers.executions import read_execution_id
from chronos.api.problems import kind_of, problem_response
from chronos.api.request import REQUEST_ID, REQUEST_INFO, ApiContext, RequestContext, make_forbidden
from chronos.api.responses import HEADERS, write_within
from chronos.api.routing import Route, Scope
from chronos.errors import NotFound
from chronos.store.contract import ExecutionView

log = logging.getLogger("chronos.api")
_CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_MAX_UNREAD_BYTES = 64 << 10  # of a refused body: so much is still taken in, so that the connection can be kept
_SAFE = ("GET", "HEAD", "OPTIONS")
_SCOPES_WITHOUT_LOOKUP = (Scope.ANYWHERE, Scope.BODY, Scope.EVERYWHERE)
_X_REQUEST_ID, _HOST, _AUTHORIZATION = istr("X-Request-Id"), istr("Host"), istr("Authorization")
_SITE, _ORIGIN = istr("Sec-Fetch-Site"), istr("Origin")
_CONTENT_ENCODING = istr("Content-Encoding")


# --- around every request


def make_sender(limit_s: float) -> Middleware:
    """Return what sends the answer to every request, and hangs up on a client that does not take it in time."""

    @web.middleware
    async def send(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        with suppress(ConnectionError):  # the client is gone
            await write_within(limit_s, request, _write_response(response, request))
        return response

    return send


async def _write_response(response: web.StreamResponse, request: web.Request) -> None:
    await response.prepare(request)
    await response.write_eof()


@web.middleware
async def problem_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every request has an id, and every error is a problem that names it."""
    client_request_id = request.headers.get(_X_REQUEST_ID, "")
    request_id = (
        client_request_id
        if client_request_id and _CLIENT_REQUEST_ID.fullmatch(client_request_id)
        else f"{getrandbits(64):016x}"
    )  # no secret
    request[REQUEST_ID] = request_id
    bind_contextvars(request_id=request_id)  # for every line that is logged on its behalf
    try:
        response = await handler(request)
    except ConnectionError:
        raise  # nobody is there to be answered
    except web.HTTPException as error:
        response = _to_problem_response(error, request_id)
    except Exception as error:  # the last line of defence: it is logged, and answered as 500
        if kind_of(error).status == 500:
            log.exception("a request failed", extra={"request_id": request_id, "path": request.path})
        response = problem_response(error, request_id)
    if not response.prepared:
        headers = response.headers
        headers[_X_REQUEST_ID] = request_id
        for name, value in HEADERS:
            headers.setdefault(name, value)
        if response.status >= 400 and _has_large_unread_body(request):
            response.force_close()
    return response


def _to_problem_response(error: web.HTTPException, request_id: str) -> web.StreamResponse:
    """What the router says, in our words."""
    match error:
        case web.HTTPNotFound():
            return problem_response(NoRoute("nothing answers at this path; /docs lists what does"), request_id)
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            response = problem_response(WrongMethod(f"this path takes {allowed}, not {error.method}"), request_id)
            response.headers["Allow"] = allowed
            return response
        case web.HTTPRequestEntityTooLarge():
            return problem_response(TooLarge("the body is too large; send it in parts"), request_id)
        case _ if 400 <= error.status < 500:
            return problem_response(Malformed(error.reason), request_id)
        case _:
            raise error


def _has_large_unread_body(request: web.Request) -> bool:
    """Whether more of a body is still to come than is worth waiting for."""
    if request.content.is_eof():
        return False
    length = request.content_length
    return length is None or length > _MAX_UNREAD_BYTES


# --- one route


def make_handler(route: Route, api: ApiContext) -> Handler:
    """What is called for a route."""
    limit_s = api.options.request_timeout_s

    async def handle(request: web.Request) -> web.StreamResponse:
        context = RequestContext(
            request=request, route=route, api=api, principal=NO_PRINCIPAL, request_id=request[REQUEST_ID]
        )
        try:
            async with asyncio.timeout(limit_s):
                return await _serve(context)
        except TimeoutError:
            if context.is_reading_body:
                raise SlowRequest(f"the body did not arrive within {limit_s:g} s") from None
            raise RequestTimedOut(f"it took longer than {limit_s:g} s; it may have been done all the same") from None
        finally:
            request[REQUEST_INFO] = context.info

    async def stream(request: web.Request) -> web.StreamResponse:
        context = RequestContext(
            request=request, route=route, api=api, principal=NO_PRINCIPAL, request_id=request[REQUEST_ID]
        )
        return await _serve(context)

    return stream if route.is_stream else handle


async def _serve(context: RequestContext) -> web.StreamResponse:
    route, api = context.route, context.api
    access = api.access
    try:
        refuse_compressed(context.request)
        refuse_cross_site(context.request, is_open=access.open, hosts=api.options.hosts)
        if route.permission is not Permission.OPEN:
            context.principal = ANONYMOUS_ADMIN if access.open else await _authenticate(context)
        if route.is_rate_limited and api.rate.is_limited:
            client = context.address_group if access.open else context.principal.name
            api.rate.take(client, api.clock.now_us())
        if context.request.query_string:
            context.check_query()
        if context.principal is not ANONYMOUS_ADMIN or route.scope not in _SCOPES_WITHOUT_LOOKUP:
            await _authorize(context)
        return await route.handler(context)
    except Forbidden as error:
        context.record_denial(error)
        raise


async def _authenticate(context: RequestContext) -> Principal:
    """Who asks. Raises ``Unauthenticated``, ``LockedOut``, ``TooManyRequests``; wrong credentials leave a trace."""
    header, address = context.request.headers.get(_AUTHORIZATION), context.address_group
    try:
        principal = await context.api.access.principal(header, address)
    except (Unauthenticated, TooManyRequests) as error:
        name, scheme = read_claimed_name(header or "")
        context.api.denials.failed_login(name, scheme, error, address=context.address, counts_as=address)
        raise
    if principal is NO_PRINCIPAL:
        raise Unauthenticated("send a name and password (Basic) or a token (Bearer)")
    return principal


async def _authorize(context: RequestContext) -> None:
    """Raise unless the caller may do this; look up what the path names on the way."""
    principal, permission = context.principal, context.route.permission
    match context.route.scope:
        case Scope.ANYWHERE | Scope.BODY:
            _require(principal, permission, principal.may_somewhere(permission), "here")
        case Scope.EVERYWHERE:
            _require(principal, permission, principal.may(permission), "in all namespaces")
        case Scope.SEEN:
            _require(principal, permission, principal.may_somewhere(permission), "here")
            if context.requested_namespace is not None:
                context.require(context.requested_namespace)
        case Scope.JOB:
            context.found_job = await context.find_job(context.path("ref"))
            context.require(context.found_job.namespace)
        case Scope.EXECUTION:
            context.found_view = await _find_execution(context)


def _require(principal: Principal, permission: Permission, is_held: bool, where: str) -> None:
    if permission is not Permission.OPEN and not is_held:
        raise make_forbidden(principal, permission, where)


async def _find_execution(context: RequestContext) -> ExecutionView:
    """The execution of the path, to those who see the namespace that its job is in, or was."""
    text = context.path("id")
    view = await context.api.service.runs.get(read_execution_id(text))
    if context.principal.may(context.route.permission):
        return view
    job = (await context.api.store.names_of([view.execution.job])).get(view.execution.job)
    namespace = None if job is None else job.namespace
    if not (context.principal.may(Permission.VIEW) if namespace is None else context.principal.sees(namespace)):
        raise NotFound(f'there is no execution "{text[:200]}"')
    if namespace is None:
        raise make_forbidden(context.principal, context.route.permission, "in all namespaces")
    context.require(namespace)
    return view


# --- packed bodies


def refuse_compressed(request: web.Request) -> None:
    """Raise ``CompressedBody`` for a compressed body: some kilobytes can be unpacked into gigabytes."""
    coding = request.headers.get(_CONTENT_ENCODING)
    if coding is not None and coding.strip().lower() not in ("", "identity") and request.body_exists:
        raise CompressedBody(f"the body is compressed (Content-Encoding: {coding[:64]}); send it as it is")


# --- browsers


def refuse_cross_site(request: web.Request, *, is_open: bool, hosts: tuple[str, ...]) -> None:
    """Raise ``Forbidden`` for what a page from elsewhere makes a browser send.

    A write has to come from a page of this server, or from no page at all. Where nobody is asked who they are, a name
    that somebody else's DNS points at this machine does not count as this server.
    """
    headers = request.headers
    host = headers.get(_HOST, "")
    if request.method not in _SAFE:
        site, origin = headers.get(_SITE), headers.get(_ORIGIN)
        if site not in (None, "same-origin", "none"):
            raise Forbidden("a page of another site cannot change anything here")
        if site is None and origin is not None and _authority(origin) != host.lower():
            raise Forbidden("a page of another origin cannot change anything here")
    if is_open and _is_loopback(request.remote or "") and not _is_own_host(host, hosts):
        raise Forbidden(f'this server is not called "{host[:100]}"; call it localhost, or turn authentication on')


def _authority(origin: str) -> str | None:
    """Host and port of an origin; None: it makes no sense."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


@lru_cache(maxsize=1_024)
def _is_own_host(host: str, hosts: tuple[str, ...]) -> bool:
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name in ("", "localhost") or name.endswith(".localhost") or name in hosts:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1_024)
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
