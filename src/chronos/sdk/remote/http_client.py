"""HTTP to a server: what may be sent again is, and what it refuses is raised as an error of ``chronos.errors``.

An answer can be lost after the change was made. So whatever is sent again either changes nothing the second time, or
carries an ``Idempotency-Key``.
"""

import asyncio
import base64
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import aiohttp
import msgspec

from chronos.assembly import hide_url_password
from chronos.errors import (
    ChronosError,
    Conflict,
    Invalid,
    NotFound,
    QueueFull,
    StoreBusy,
    StoreUnavailable,
    Unavailable,
)
from chronos.service.serializers import InvalidJob, Problem

API = "/api/v1"
TRIES = 5
_TIMEOUT_S = 60.0
_LONGEST_PAUSE_S = 5.0
_FIRST_PAUSE_S = 0.1
_LATER = (429, 502, 503, 504)
_TOKEN = "CHRONOS_TOKEN"  # the variable that holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is, and what to show there."""

    base: str
    authorization: str | None

    @classmethod
    def of(cls, url: str) -> Self:
        """Of ``http://host:8080``; a name and password in it are for Basic, ``CHRONOS_TOKEN`` is for Bearer."""
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment:
            raise Invalid(f"{hide_url_password(url)} is no address of a server; write it like http://127.0.0.1:8080")
        host = parts.netloc.rpartition("@")[2]
        authorization = None
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        elif token := os.environ.get(_TOKEN):
            authorization = f"Bearer {token}"
        base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        return cls(base=base, authorization=authorization)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """An answer that is no error."""

    value: Any
    etag: str | None


class ServerConnection:
    """Connections to one server, on one event loop."""

    def __init__(self, address: Address) -> None:
        self._base = address.base
        headers = {"Accept": "application/json", "User-Agent": "chronos-python"}
        if address.authorization is not None:
            headers["Authorization"] = address.authorization
        self._session = aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._session.close()

    async def get(self, *path: str, **query: object) -> Any:
        """The value at a path, given by its steps."""
        return (await self.ask("GET", *path, query=query, again=True)).value

    async def text(self, *path: str) -> str:
        """The text at a path."""
        return str((await self.ask("GET", *path, again=True, text=True)).value)

    async def post(self, *path: str, query: Mapping[str, object] | None = None, body: Any = None, key: str = "") -> Any:
        """Ask for something once, however often it has to be sent. ``key`` is what makes asking twice the same."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return (await self.ask("POST", *path, query=query, body=body, headers=headers, again=True)).value

    async def ask(
        self,
        method: str,
        *path: str,
        query: Mapping[str, object] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        again: bool,
        text: bool = False,
    ) -> HttpReply:
        """One request; with ``again``, sent again when the server is away or has no time."""
        url = f"{self._base}{API}/" + "/".join(quote(step, safe="") for step in path)
        params = {name: str(value) for name, value in (query or {}).items() if value is not None}
        data = None if body is None else msgspec.json.encode(body)
        said = {**(headers or {}), **({} if data is None else {"Content-Type": "application/json"})}
        for attempt in range(1, TRIES + 1):
            try:
                async with self._session.request(method, url, params=params, data=data, headers=said) as response:
                    raw, status, answered = await response.read(), response.status, response.headers
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if not again or attempt == TRIES:
                    raise _away(self._base, error) from None
                await asyncio.sleep(_pause_s(None, attempt))
                continue
            if status < 300:
                return HttpReply(value=raw.decode() if text else _read(raw), etag=answered.get("ETag"))
            if not again or status not in _LATER or attempt == TRIES:
                raise error_of(status, raw)
            await asyncio.sleep(_pause_s(answered.get("Retry-After"), attempt))
        raise AssertionError("the last try is answered or raised")


def error_of(status: int, text: bytes) -> ChronosError:
    """The error that an answer means."""
    problem = _problem(text)
    message = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
    code = problem.get("code")
    if code == "invalid_job":
        faults = [Problem(one["pointer"], one["message"]) for one in problem.get("errors", ())]
        return InvalidJob(faults or [Problem("", message)])
    if code == "queue_full":
        return QueueFull(message)
    if code == "store_busy":
        return StoreBusy(message)
    if code == "store_unavailable":
        return StoreUnavailable(message)
    match status:
        case 404:
            return NotFound(message)
        case 409 | 412:
            return Conflict(message)
        case 400 | 413 | 415 | 422:
            return Invalid(message)
        case 401:
            return ChronosError(f"{message}; put a token into {_TOKEN}, or a name and a password into the address")
        case _ if status in _LATER or status == 408:
            return Unavailable(message)
        case _:
            named = f" (request {problem['request_id']})" if status >= 500 and "request_id" in problem else ""
            return ChronosError(f"{message}{named}")


def _away(base: str, error: Exception) -> Unavailable:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return Unavailable(f"{base} cannot be reached: {reason}; start a server with: chronos server")


def _problem(text: bytes) -> dict[str, Any]:
    """Of an answer that is no problem+json (a proxy's), its first words."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        found = None
    return found if isinstance(found, dict) else {"detail": text[:200].decode(errors="replace").strip()}


def _read(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        raise ChronosError("the server answered something that is not JSON; is it Chronos?") from None


def _pause_s(retry_after: str | None, attempt: int) -> float:
    try:
        asked_s = float(retry_after or "")
    except ValueError:
        asked_s = _FIRST_PAUSE_S * 2 ** (attempt - 1)
    return min(max(asked_s, 0.0), _LONGEST_PAUSE_S)
