"""The ``http`` target: one request, and what came of it.

::

    check options ─► build request ─► judge host ─► dial only judged addresses ─► keep a bounded answer ─► outcome
                          ▲                                                               │
                          └────────────── a redirect, when they are asked for ◄───────────┘

The check sits where addresses are dialled, so the address judged is the address dialled, whatever a name resolved to
before.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from chronos.core.outcome import Failed, Outcome, Succeeded, TimedOut
from chronos.engine.deadlines import Deadlines
from chronos.engine.runners import http_options
from chronos.engine.runners.addresses import Guard, Refused
from chronos.engine.runners.contract import Call
from chronos.engine.runners.http_client import IDLE_TIMEOUT_S, MAX_AGE_S, Client, NoAnswer
from chronos.engine.runners.http_request import Outline, Request, after_redirect, build
from chronos.engine.runners.http_response import Answer, capture, room
from chronos.engine.runners.templates import Secrets, no_secrets
from chronos.errors import Invalid, NotFound

_REDIRECTS = (301, 302, 303, 307, 308)
_OUTLINES = 4_096  # kept
_STOPPED = Failed(error="it was asked to stop before the answer was complete", kinds=("stopped",))


class HttpRunner:
    """Makes requests. One for a node: its connections are shared by all calls, and nothing else is."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allow_hosts: Sequence[str] = (),
        timeout_s: float = 30.0,
        secrets: Secrets = no_secrets,
        max_connections: int = 1_000,
        max_idle: int = 1_000,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        self._guard = Guard(allow_private=allow_private, allow_hosts=allow_hosts)
        self._timeout_s = timeout_s  # where no level sets one
        self._secrets = secrets
        self._max_connections, self._max_idle = max_connections, max_idle
        self._idle_timeout_s, self._max_age_s = idle_timeout_s, max_age_s
        self._client: Client | None = None
        self._deadlines = Deadlines()
        self._outlines: dict[int, Outline] = {}  # by the identity of the options, which an outline keeps alive

    def check(self, options: Mapping[str, Any]) -> None:
        http_options.check(options, self._guard, has_secrets=self._secrets is not no_secrets)

    async def run(self, call: Call) -> Outcome:
        try:
            outline = self._outline(call.options)
            limit_s = outline.timeout_s
            request = build(call, outline, self._secrets, self._guard)
        except NotFound as error:
            return Failed(error=str(error), kinds=("secret",))
        except Invalid as error:
            return Failed(error=str(error), kinds=("request",), worth_retrying=False)
        except Refused as error:
            return _refused(error)
        if limit_s is None and not call.timeout_said:
            limit_s = self._timeout_s
        return await self._within_time(call, outline, request, limit_s)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _outline(self, options: Mapping[str, Any]) -> Outline:
        """What these options say to every call; a job's are the same object as long as its version is in use."""
        outline = self._outlines.get(id(options))
        if outline is None:
            if len(self._outlines) >= _OUTLINES:
                self._outlines.clear()
            outline = self._outlines[id(options)] = Outline(options)
        return outline

    async def _within_time(self, call: Call, outline: Outline, request: Request, limit_s: float | None) -> Outcome:
        """Ends when it is asked to stop, or when a time of its own is up; both close the connection."""
        if call.stop.asked:
            return _STOPPED
        limit = asyncio.timeout(None)

        def end() -> None:
            _end(limit)

        call.stop.on_ask(end)
        deadline = None if limit_s is None else self._deadlines.set(id(limit), limit_s, end)
        try:
            async with limit:
                return await self._exchange(call, outline, request)
        except TimeoutError:
            return _STOPPED if call.stop.asked else TimedOut(error=f"there was no complete answer within {limit_s:g} s")
        finally:
            if deadline is not None:
                self._deadlines.drop(id(limit), deadline)

    async def _exchange(self, call: Call, outline: Outline, request: Request) -> Outcome:
        try:
            left = outline.redirects
            while True:
                response = await (self._client or self._opened()).send(request, room(request.mask))
                answer = capture(response, request.mask)
                call.detail["response"] = answer.record()
                location = response.header(b"location") if left and answer.status in _REDIRECTS else None
                if location is None:
                    return _judge(outline, answer)
                left -= 1
                request = after_redirect(request, answer.status, location, self._guard)
        except Refused as error:
            return _refused(error, request)
        except (Invalid, ValueError) as error:
            return Failed(error=request.mask(str(error)), kinds=("request",), worth_retrying=False)
        except NoAnswer as error:
            return _unreachable(request, error)

    def _opened(self) -> Client:
        """Made on first use, as it belongs to the running loop."""
        self._client = Client(
            self._guard,
            limit=self._max_connections,
            max_idle=self._max_idle,
            idle_timeout_s=self._idle_timeout_s,
            max_age_s=self._max_age_s,
        )
        return self._client


def _end(limit: asyncio.Timeout) -> None:
    """Let the time be up, unless it is all over."""
    with suppress(RuntimeError):
        limit.reschedule(asyncio.get_running_loop().time())


def _judge(outline: Outline, answer: Answer) -> Outcome:
    status = answer.status
    if status in outline.success:
        return Succeeded(result=answer.result())
    error = f"the server answered {status}"
    if status in _REDIRECTS:
        followed = "redirects" in outline.options
        error += "; too many redirects" if followed else '; redirects are followed only with the option "redirects"'
    elif answer.body:
        error += f": {' '.join(answer.body[:400].split())[:200]}"
    return Failed(
        error=error,
        kinds=(f"http_{status}", f"http_{status // 100}xx"),
        worth_retrying=status in outline.worth_retrying,
    )


def _refused(error: Refused, request: Request | None = None) -> Failed:
    shown = str(error) if request is None else request.mask(str(error))
    return Failed(error=f"the request was not made: {shown}", kinds=("address",), worth_retrying=False)


def _unreachable(request: Request, error: NoAnswer) -> Failed:
    """No answer, or half of one: the network's fault or the server's, and so worth another try."""
    host = request.url.host
    match error.kind:
        case "dns":
            said = f"the name {host} could not be resolved"
        case "tls":
            said = f"no secure connection to {host}: {error}"
        case "reset":
            said = f"{host} closed the connection before the answer was complete"
        case "protocol":
            said = f"what {host} answered is not HTTP: {error}"
        case _:
            said = f"no connection to {host}: {error}"
    return Failed(error=request.mask(said)[:1_000], kinds=("connection", error.kind))
