"""HTTP client for a Chronos server: repeats requests, and raises problem responses as errors of ``chronos.errors``.

A response can be lost after the server made the change. So every repeated request either changes nothing the second
time or carries an ``Idempotency-Key``.
"""

import asyncio
import base64
import os
import uuid
from collections.abc import Mapping, Sequence
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
MAX_ATTEMPTS = 5
_TIMEOUT_S = 60.0
_MAX_PAUSE_S = 5.0
_FIRST_PAUSE_S = 0.1
_RETRYABLE = (429, 502, 503, 504)
_TOKEN_VARIABLE = "CHRONOS_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a server, and the credentials for it."""

    base: str
    authorization: str | None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse ``http://host:8080``. Raises ``Invalid``.

        A user name and password in it become Basic authentication; otherwise ``CHRONOS_TOKEN`` becomes Bearer.
        """
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment:
            raise Invalid(f"{hide_url_password(url)} is not a server URL; write it like http://127.0.0.1:8080")
        host = parts.netloc.rpartition("@")[2]
        authorization = None
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        elif token := os.environ.get(_TOKEN_VARIABLE):
            authorization = f"Bearer {token}"
        base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        return cls(base=base, authorization=authorization)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """The response to a request that succeeded."""

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
        """Close the connections."""
        await self._session.close()

    async def get(self, *path: str, **query: object) -> Any:
        """GET a JSON value. ``path`` has the segments of the path."""
        return (await self.request("GET", *path, query=query, repeat=True)).value

    async def text(self, *path: str) -> str:
        """GET a text."""
        return str((await self.request("GET", *path, repeat=True, text=True)).value)

    async def post(self, *path: str, query: Mapping[str, object] | None = None, body: Any = None, key: str = "") -> Any:
        """POST with an idempotency key, so that repeats have no effect. Without ``key`` a random one is used."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return (await self.request("POST", *path, query=query, body=body, headers=headers, repeat=True)).value

    async def stream(self, *path: str, query: Mapping[str, object]) -> aiohttp.ClientResponse:
        """GET a response that the server writes until one side closes it. The caller closes it.

        Raises the error that the response means, and ``Unavailable`` without a response.
        """
        url, params = self._build_url(path, query)
        timeout = aiohttp.ClientTimeout(total=None, connect=_TIMEOUT_S, sock_read=_TIMEOUT_S)
        try:
            response = await self._session.get(url, params=params, timeout=timeout)
            if response.status < 300:
                return response
            raise to_error(response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self._base, error) from None

    def _build_url(self, path: Sequence[str], query: Mapping[str, object] | None) -> tuple[str, list[tuple[str, str]]]:
        url = f"{self._base}{API}/" + "/".join(quote(segment, safe="") for segment in path)
        return url, [(name, str(value)) for name, values in (query or {}).items() for value in _to_values(values)]

    async def request(
        self,
        method: str,
        *path: str,
        query: Mapping[str, object] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool,
        text: bool = False,
    ) -> HttpReply:
        """Send a request. With ``repeat`` it is sent again when the server is unreachable or busy.

        Raises the error that the response means, and ``Unavailable`` without a response.
        """
        url, params = self._build_url(path, query)
        data = None if body is None else msgspec.json.encode(body)
        all_headers = {**(headers or {}), **({} if data is None else {"Content-Type": "application/json"})}
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                async with self._session.request(
                    method, url, params=params, data=data, headers=all_headers
                ) as response:
                    raw, status, response_headers = await response.read(), response.status, response.headers
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if not repeat or attempt == MAX_ATTEMPTS:
                    raise _unreachable(self._base, error) from None
                await asyncio.sleep(_pause_s(None, attempt))
                continue
            if status < 300:
                return HttpReply(value=raw.decode() if text else _decode_json(raw), etag=response_headers.get("ETag"))
            if not repeat or status not in _RETRYABLE or attempt == MAX_ATTEMPTS:
                raise to_error(status, raw)
            await asyncio.sleep(_pause_s(response_headers.get("Retry-After"), attempt))
        raise AssertionError("the last attempt returns or raises")


def to_error(status: int, text: bytes) -> ChronosError:
    """The error that a problem response means."""
    problem = _read_problem(text)
    message = str(problem.get("detail") or problem.get("title") or f"the server returned status {status}")
    code = problem.get("code")
    if code == "invalid_job":
        problems = [Problem(item["pointer"], item["message"]) for item in problem.get("errors", ())]
        return InvalidJob(problems or [Problem("", message)])
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
            return ChronosError(
                f"{message}; put a token into {_TOKEN_VARIABLE}, or a user name and a password into the address"
            )
        case _ if status in _RETRYABLE or status == 408:
            return Unavailable(message)
        case _:
            request = f" (request {problem['request_id']})" if status >= 500 and "request_id" in problem else ""
            return ChronosError(f"{message}{request}")


def _to_values(value: object) -> Sequence[object]:
    """The values of a parameter: a list has several, None has none."""
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def _unreachable(base: str, error: Exception) -> Unavailable:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return Unavailable(f"cannot reach {base}: {reason}; start a server with: chronos server")


def _read_problem(text: bytes) -> dict[str, Any]:
    """The problem of a response. A response that is not problem+json, such as a proxy's, becomes its ``detail``."""
    try:
        problem = msgspec.json.decode(text)
    except msgspec.DecodeError:
        problem = None
    return problem if isinstance(problem, dict) else {"detail": text[:200].decode(errors="replace").strip()}


def _decode_json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        raise ChronosError("the response is not JSON; check that the address is that of a Chronos server") from None


def _pause_s(retry_after: str | None, attempt: int) -> float:
    try:
        pause_s = float(retry_after or "")
    except ValueError:
        pause_s = _FIRST_PAUSE_S * 2 ** (attempt - 1)
    return min(max(pause_s, 0.0), _MAX_PAUSE_S)
