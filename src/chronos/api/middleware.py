"""The middleware of every request, and the checks before its handler::

compressed? cross-site? ─► authenticate ─► rate limit ─► parameters ─► authorize ─► handler
                                                                                       │
request id, headers, every error as a problem  ◄───────────────────────────────────────┘
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

from chronos.api.auth.authentication import read_claimed_name
from chronos.api.auth.authorization import authorize
from chronos.api.auth.permissions import ANONYMOUS_ADMIN, NO_PRINCIPAL, Permission, Principal
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
from chronos.api.problems import kind_of, problem_response
from chronos.api.request import REQUEST_ID, REQUEST_INFO, ApiContext, RequestContext
from chronos.api.responses import HEADERS, write_within
from chronos.api.routing import V1, Route, Scope

log = logging.getLogger("chronos.api")
_CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_MAX_UNREAD_BYTES = (
    64 << 10
)  # of a refused body: up to this size it is read to the end, so that the connection can be kept
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_SCOPES_WITHOUT_LOOKUP = (Scope.ANYWHERE, Scope.BODY, Scope.EVERYWHERE)
_X_REQUEST_ID, _HOST, _AUTHORIZATION = istr("X-Request-Id"), istr("Host"), istr("Authorization")
_SEC_FETCH_SITE, _ORIGIN = istr("Sec-Fetch-Site"), istr("Origin")
_CONTENT_ENCODING = istr("Content-Encoding")
_NOTICE = istr("X-Chronos-Notice")
#: For a client of a server without authentication that sends credentials. They are not refused, because a proxy may
#: require them and pass them on.
CREDENTIALS_IGNORED = "credentials are ignored: this server has no authentication (auth.type is none)"


# --- around every request


def make_sender(limit_s: float) -> Middleware:
    """Return the middleware that sends every response, and aborts if the client does not receive it in time."""

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


def make_problem_middleware(base_path: str) -> Middleware:
    """Return the middleware that gives every request an id and turns every error into a problem."""

    @web.middleware
    async def handle_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await _handle_problems(request, handler, base_path)

    return handle_problems


async def _handle_problems(request: web.Request, handler: Handler, base_path: str) -> web.StreamResponse:
    client_request_id = request.headers.get(_X_REQUEST_ID, "")
    request_id = (
        client_request_id
        if client_request_id and _CLIENT_REQUEST_ID.fullmatch(client_request_id)
        else f"{getrandbits(64):016x}"
    )  # not secret
    request[REQUEST_ID] = request_id
    bind_contextvars(request_id=request_id)  # for every log line of this request
    try:
        response = await handler(request)
    except ConnectionError:
        raise  # the client is gone
    except web.HTTPException as error:
        response = _to_problem_response(error, request, request_id, base_path)
    except Exception as error:  # unexpected errors are logged and returned as 500
        if kind_of(error).status == 500:
            log.exception("request failed", extra={"request_id": request_id, "path": request.path})
        response = problem_response(error, request_id, base_path)
    if not response.prepared:
        headers = response.headers
        headers[_X_REQUEST_ID] = request_id
        for name, value in HEADERS:
            headers.setdefault(name, value)
        if response.status >= 400 and _has_large_unread_body(request):
            response.force_close()
    return response


def _to_problem_response(
    error: web.HTTPException, request: web.Request, request_id: str, base_path: str
) -> web.StreamResponse:
    """Convert an error of aiohttp to a problem."""
    match error:
        case web.HTTPNotFound():
            within_api = request.path.removeprefix(base_path).startswith("/api/")
            prefix = "" if within_api else f"paths of the API start with {base_path}{V1}; "
            no_route = NoRoute(f"no route has this path; {prefix}see {base_path}/docs for all routes")
            return problem_response(no_route, request_id, base_path)
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            wrong_method = WrongMethod(f"{error.method} is not allowed here; use {allowed}")
            response = problem_response(wrong_method, request_id, base_path)
            response.headers["Allow"] = allowed
            return response
        case web.HTTPRequestEntityTooLarge():
            too_large = TooLarge("the body is too large (server.request_limit); send fewer jobs per request")
            return problem_response(too_large, request_id, base_path)
        case _ if 400 <= error.status < 500:
            return problem_response(Malformed(error.reason), request_id, base_path)
        case _:
            raise error


def _has_large_unread_body(request: web.Request) -> bool:
    """Return whether too much of the body is still to come to wait for it."""
    if request.content.is_eof():
        return False
    length = request.content_length
    return length is None or length > _MAX_UNREAD_BYTES


# --- one route


def make_handler(route: Route, api: ApiContext) -> Handler:
    """Return the aiohttp handler of a route."""
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
                raise SlowRequest(f"the body did not arrive within {limit_s:g}s; send it again") from None
            raise RequestTimedOut(
                f"the request took longer than {limit_s:g}s; the change may have been made, check before retrying"
            ) from None
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
        refuse_cross_site(context.request, is_unauthenticated=access.open, hosts=api.options.hosts)
        if route.permission is not Permission.OPEN:
            context.principal = ANONYMOUS_ADMIN if access.open else await _authenticate(context)
        if route.is_rate_limited and api.rate.is_limited:
            client = context.address_group if access.open else context.principal.name
            api.rate.take(client, api.clock.now_us())
        if context.request.query_string:
            context.check_query()
        if context.principal is not ANONYMOUS_ADMIN or route.scope not in _SCOPES_WITHOUT_LOOKUP:
            await authorize(context)
        response = await route.handler(context)
        if access.open and _AUTHORIZATION in context.request.headers and not response.prepared:
            response.headers[_NOTICE] = CREDENTIALS_IGNORED
        return response
    except Forbidden as error:
        context.record_denial(error)
        raise


async def _authenticate(context: RequestContext) -> Principal:
    """Return the principal of a request. Raises ``Unauthenticated``, ``LockedOut``, ``TooManyRequests``.

    Wrong credentials are recorded as a failed login.
    """
    header, address = context.request.headers.get(_AUTHORIZATION), context.address_group
    try:
        principal = await context.api.access.principal(header, address)
    except (Unauthenticated, TooManyRequests) as error:
        name, scheme = read_claimed_name(header or "")
        context.api.denials.failed_login(name, scheme, error, address=context.address, counts_as=address)
        raise
    if principal is NO_PRINCIPAL:
        raise Unauthenticated("no credentials; send a username and password (Basic) or an API token (Bearer)")
    return principal


# --- compressed bodies


def refuse_compressed(request: web.Request) -> None:
    """Raise ``CompressedBody`` for a compressed body: a few kilobytes can expand to gigabytes."""
    coding = request.headers.get(_CONTENT_ENCODING)
    if coding is not None and coding.strip().lower() not in ("", "identity") and request.body_exists:
        raise CompressedBody(f"the body is compressed (Content-Encoding: {coding[:64]}); send it uncompressed")


# --- browsers


def refuse_cross_site(request: web.Request, *, is_unauthenticated: bool, hosts: tuple[str, ...]) -> None:
    """Raise ``Forbidden`` for requests that a page of another site sends through a browser.

    A write must come from a page of this server, or from no page. Without authentication, unknown host names are
    rejected: foreign DNS may point them at this machine (DNS rebinding).
    """
    headers = request.headers
    host = headers.get(_HOST, "")
    if request.method not in _SAFE_METHODS:
        site, origin = headers.get(_SEC_FETCH_SITE), headers.get(_ORIGIN)
        if site not in (None, "same-origin", "none"):
            raise Forbidden("pages of other sites may not make changes; use a page of this server or an API client")
        if site is None and origin is not None and _authority(origin) != host.lower():
            raise Forbidden("pages of other origins may not make changes; use a page of this server or an API client")
    if is_unauthenticated and _is_loopback(request.remote or "") and not _is_own_host(host, hosts):
        raise Forbidden(f'unknown host name "{host[:100]}"; use localhost, or enable authentication (auth.type: basic)')


def _authority(origin: str) -> str | None:
    """Return host and port of an origin; None if it is invalid."""
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
