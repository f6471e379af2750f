"""The ``http`` target: sends one request and turns the response into an outcome.

::

    check options ─► build request ─► check host ─► dial only checked addresses ─► bounded response ─► outcome
                          ▲                                                            │
                          └────────────── a redirect, if the job follows them ◄────────┘

Addresses are checked where they are dialled, so the checked address is always the dialled one, whatever the name
resolved to before.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from chronos.core.outcome import Failed, Outcome, Succeeded, TimedOut
from chronos.errors import Invalid, NotFound
from chronos.runners.contract import AttemptCall
from chronos.runners.http import options as http_options
from chronos.runners.http.address_guard import AddressGuard, AddressRefused
from chronos.runners.http.client import IDLE_TIMEOUT_S, MAX_AGE_S, HttpClient, NoResponse
from chronos.runners.http.request import (
    Request,
    RequestOutline,
    build_redirected_request,
    build_request,
    to_request_record,
)
from chronos.runners.http.response import CapturedResponse, body_limit_bytes, capture
from chronos.runners.templates import SecretLookup, no_secrets
from chronos.timers import Timers

_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_OUTLINES = 4_096
_MAX_TIMEOUT_S = 3e9  # a hundred years
_STOPPED = Failed(error="stopped before the response was complete", kinds=("stopped",))


class HttpRunner:
    """Sends requests. A node has one; all calls share its connections and nothing else."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allow_hosts: Sequence[str] = (),
        advice: str = "",
        timeout_s: float = 30.0,
        secrets: SecretLookup = no_secrets,
        max_connections: int = 1_000,
        max_idle: int = 1_000,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        self._guard = AddressGuard(allow_private=allow_private, allow_hosts=allow_hosts, advice=advice)
        self._timeout_s = timeout_s  # if no setting has a timeout
        self._secrets = secrets
        self._max_connections, self._max_idle = max_connections, max_idle
        self._idle_timeout_s, self._max_age_s = idle_timeout_s, max_age_s
        self._client: HttpClient | None = None
        self._deadlines = Timers()
        self._outlines: dict[int, RequestOutline] = {}  # by id() of the options, which the outline keeps alive

    def check(self, options: Mapping[str, Any]) -> None:
        http_options.check(options, self._guard, has_secrets=self._secrets is not no_secrets)

    async def run(self, call: AttemptCall) -> Outcome:
        try:
            outline = self._outline(call.options)
            limit_s = outline.timeout_s
            request = build_request(call, outline, self._secrets, self._guard)
        except NotFound as error:
            return Failed(error=str(error), kinds=("secret",))
        except Invalid as error:
            return Failed(error=str(error), kinds=("request",), worth_retrying=False)
        except AddressRefused as error:
            return _to_refused_failure(error)
        if limit_s is None and not call.has_timeout:
            limit_s = self._timeout_s
        if limit_s is not None and call.timeout_factor != 1:
            limit_s = min(limit_s * call.timeout_factor, _MAX_TIMEOUT_S)
        outcome = await self._run_within_time(call, outline, request, limit_s)
        if not isinstance(outcome, Succeeded):
            call.detail["request"] = to_request_record(request)
        return outcome

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _outline(self, options: Mapping[str, Any]) -> RequestOutline:
        """Return the outline of these options. A job's options are the same object while its version is cached."""
        outline = self._outlines.get(id(options))
        if outline is None:
            if len(self._outlines) >= _MAX_OUTLINES:
                self._outlines.clear()
            outline = self._outlines[id(options)] = RequestOutline(options)
        return outline

    async def _run_within_time(
        self, call: AttemptCall, outline: RequestOutline, request: Request, limit_s: float | None
    ) -> Outcome:
        """Run the exchange until a stop is requested or its own timeout ends. Both close the connection."""
        if call.stop.requested:
            return _STOPPED
        limit = asyncio.timeout(None)

        def end() -> None:
            _expire_timeout(limit)

        call.stop.on_request(end)
        deadline = None if limit_s is None else self._deadlines.set(id(limit), limit_s, end)
        try:
            async with limit:
                return await self._exchange(call, outline, request)
        except TimeoutError:
            return _STOPPED if call.stop.requested else TimedOut(error=f"no complete response within {limit_s:g} s")
        finally:
            if deadline is not None:
                self._deadlines.drop(id(limit), deadline)

    async def _exchange(self, call: AttemptCall, outline: RequestOutline, request: Request) -> Outcome:
        try:
            redirects_left = outline.redirects
            while True:
                response = await (self._client or self._open_client()).send(request, body_limit_bytes(request.mask))
                captured = capture(response, request.mask)
                call.detail["response"] = captured.record()
                location = response.header(b"location") if redirects_left and captured.status in _REDIRECTS else None
                if location is None:
                    return _to_outcome(outline, captured)
                redirects_left -= 1
                request = build_redirected_request(request, captured.status, location, self._guard)
        except AddressRefused as error:
            return _to_refused_failure(error, request)
        except (Invalid, ValueError) as error:
            return Failed(error=request.mask(str(error)), kinds=("request",), worth_retrying=False)
        except NoResponse as error:
            return _to_connection_failure(request, error)

    def _open_client(self) -> HttpClient:
        """Create the client on first use, because it belongs to the running loop."""
        self._client = HttpClient(
            self._guard,
            max_exchanges=self._max_connections,
            max_idle=self._max_idle,
            idle_timeout_s=self._idle_timeout_s,
            max_age_s=self._max_age_s,
        )
        return self._client


def _expire_timeout(limit: asyncio.Timeout) -> None:
    """Let a timeout expire now, unless it is already over."""
    with suppress(RuntimeError):
        limit.reschedule(asyncio.get_running_loop().time())


def _to_outcome(outline: RequestOutline, captured: CapturedResponse) -> Outcome:
    status = captured.status
    if status in outline.success:
        return Succeeded(result=captured.result())
    error = f"the server answered {status}"
    if status in _REDIRECTS:
        followed = "redirects" in outline.options
        error += "; too many redirects" if followed else '; to follow redirects, set the option "redirects"'
    elif captured.body:
        error += f": {' '.join(captured.body[:400].split())[:200]}"
    return Failed(
        error=error,
        kinds=(f"http_{status}", f"http_{status // 100}xx"),
        worth_retrying=status in outline.worth_retrying,
    )


def _to_refused_failure(error: AddressRefused, request: Request | None = None) -> Failed:
    shown = str(error) if request is None else request.mask(str(error))
    return Failed(error=f"the request was not sent: {shown}", kinds=("address",), worth_retrying=False)


def _to_connection_failure(request: Request, error: NoResponse) -> Failed:
    """Build the failure for a missing or incomplete response. It is worth a retry: network or server may recover."""
    host = request.url.host
    match error.kind:
        case "dns":
            message = f"could not resolve the name {host}"
        case "tls":
            message = f"no secure connection to {host}: {error}"
        case "reset":
            message = f"{host} closed the connection before the response was complete"
        case "protocol":
            message = f"the response of {host} is not valid HTTP: {error}"
        case _:
            message = f"no connection to {host}: {error}"
    return Failed(error=request.mask(message)[:1_000], kinds=("connection", error.kind))
