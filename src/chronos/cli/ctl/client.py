"""A small HTTP client of the API, of the standard library alone: it starts in a tenth of the time of a larger one.

An error that the server answers becomes a message and an exit code here; what commands see are values.
"""

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from chronos.cli.ctl.contexts import ServerContext, hide_password
from chronos.cli.ctl.errors import CommandFailure, Unreachable, error_for_reply

API = "/api/v1"
MAX_ATTEMPTS = 3
_MAX_PAUSE_S = 5.0
_TIMEOUT_S = 60.0
_RETRY_STATUSES = (429, 503)

Query = Mapping[str, object | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiReply:
    """An answer that is no error."""

    status: int
    value: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")


class ApiClient:
    """One server, and the namespace that names are looked up in (None: the server's own choice)."""

    def __init__(self, server: ServerContext, *, timeout_s: float = _TIMEOUT_S) -> None:
        self.server = server
        self._timeout_s = timeout_s
        self._from_chronos = False
        parts = urlsplit(server.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandFailure(
                f"{hide_password(server.url)} is no address of a server; write it like http://127.0.0.1:8080"
            )
        self._secure = parts.scheme == "https"
        try:
            self._host, self._port = parts.hostname, parts.port
        except ValueError:
            raise CommandFailure(f"{hide_password(server.url)} has a port that is none") from None
        self._base = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json", "User-Agent": "chronosctl"}
        authorization = _authorization(server, parts.username, parts.password)
        if authorization is not None:
            self._headers["Authorization"] = authorization

    @contextmanager
    def explain_foreign_replies(self) -> Iterator[None]:
        """Turn errors over the shape of an answer into a message, where the answer is not a Chronos server's."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError):
            if self._from_chronos:
                raise
            raise CommandFailure(
                f"{hide_password(self.server.url)} does not answer like a Chronos server; "
                "name one with --server URL or CHRONOS_SERVER"
            ) from None

    # --- asking

    def get(self, *path: str, **query: object) -> Any:
        """The value at a path, given by its steps."""
        return self.call("GET", *path, query=query).value

    def text(self, *path: str, query: Query | None = None) -> str:
        """The text at a path."""
        return str(self.call("GET", *path, query=query, text=True).value)

    def call(
        self,
        method: str,
        *path: str,
        query: Query | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        text: bool = False,
    ) -> ApiReply:
        """One request. What may be sent again is, when the server says that it cannot answer right now."""
        again = method == "GET" or "Idempotency-Key" in (headers or {})
        for attempt in range(1, MAX_ATTEMPTS + 1):
            with self._send(method, path, query, body, headers) as response:
                status, raw = response.status, response.read()
                replied = {name.lower(): value for name, value in response.getheaders()}
            if not (again and status in _RETRY_STATUSES and attempt < MAX_ATTEMPTS):
                break
            time.sleep(_pause_s(replied.get("retry-after"), attempt))
        if status >= 300:
            raise error_for_reply(status, _parse_problem(raw))
        return ApiReply(
            status=status, value=raw.decode(errors="replace") if text else _parse_value(raw), headers=replied
        )

    def change(
        self, method: str, name: str, *verb: str, query: Query | None = None, body: object = None, dry_run: bool = False
    ) -> Any:
        """Change a job as it was a moment ago: what somebody else changes in between is not overwritten."""
        there = self.call("GET", "jobs", name, query={"namespace": self.server.namespace})
        said = {"namespace": self.server.namespace, "dry_run": dry_run or None, **(query or {})}
        return self.call(
            method, "jobs", name, *verb, query=said, body=body, headers={"If-Match": there.etag or "*"}
        ).value

    def stream(self, *path: str, query: Query | None = None) -> Iterator[bytes]:
        """What a path sends, line by line, for as long as it goes on."""
        with self._send("GET", path, query, None, None, patient=True) as response:
            if response.status >= 300:
                raise error_for_reply(response.status, _parse_problem(response.read()))
            while line := response.readline():
                yield line

    def pages(self, *path: str, limit: int | None, query: Query | None = None) -> dict[str, Any]:
        """A list of at most ``limit`` items (None: all of them), in the shape of one page."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            wanted = 1000 if limit is None else min(1000, limit - len(items))
            page = self.call("GET", *path, query={**(query or {}), "limit": wanted, "cursor": cursor}).value
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None or (limit is not None and len(items) >= limit):
                return {**page, "items": items, "next_cursor": cursor}

    # --- how

    @contextmanager
    def _send(
        self,
        method: str,
        path: Sequence[str],
        query: Query | None,
        body: object,
        headers: Mapping[str, str] | None,
        *,
        patient: bool = False,
    ) -> Iterator[HTTPResponse]:
        said = {**self._headers, **(headers or {})}
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=None if patient else self._timeout_s)
        with closing(connection):
            try:
                data = None
                if body is not None:
                    data = json.dumps(body, allow_nan=False).encode()
                    said["Content-Type"] = "application/json"
                target = f"{self._base}{API}/{'/'.join(quote(step, safe='') for step in path)}{_query_string(query)}"
                connection.request(method, target, data, said)
                response = connection.getresponse()
                self._from_chronos = response.getheader("Server") == "chronos"
                yield response
            except TimeoutError:
                raise Unreachable(
                    f"{hide_password(self.server.url)} did not answer within {self._timeout_s:g} s"
                ) from None
            except (OSError, HTTPException) as error:
                raise Unreachable(_unreachable_message(self.server, error)) from None
            except ValueError as error:  # no text, no JSON, or nothing that a header may hold
                raise CommandFailure(f"it cannot be sent: {error}") from None


def _query_string(query: Query | None) -> str:
    """Of a list, each of its values."""
    said = {
        name.rstrip("_"): [_text(one) for one in value] if isinstance(value, list | tuple) else [_text(value)]
        for name, value in (query or {}).items()
        if value is not None
    }
    question = urlencode(said, doseq=True)
    return f"?{question}" if question else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _authorization(server: ServerContext, name: str | None, password: str | None) -> str | None:
    """What the address says comes before a token: it is nearer."""
    if name is not None:
        credentials = f"{unquote(name)}:{unquote(password or '')}"
        return f"Basic {base64.b64encode(credentials.encode()).decode()}"
    return None if server.token is None else f"Bearer {server.token}"


def _parse_problem(text: bytes) -> dict[str, Any]:
    """The problem of an answer; of one that is no problem+json (a proxy's), its first words."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"detail": text[:200].decode(errors="replace").strip()}


def _parse_value(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        raise CommandFailure("the server answered something that is not JSON; is it Chronos?") from None


def _pause_s(retry_after: str | None, attempt: int) -> float:
    try:
        asked_s = float(retry_after or "")
    except ValueError:
        asked_s = 0.2 * 2**attempt
    return min(max(asked_s, 0.0), _MAX_PAUSE_S)


def _unreachable_message(server: ServerContext, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return (
        f"{hide_password(server.url)} cannot be reached: {reason}\n"
        "  start a server with: chronos server\n"
        "  or name another: chronosctl --server URL …, CHRONOS_SERVER"
    )
