"""HTTP client for the REST API.

It uses only the standard library, so that commands start quickly. Commands receive values. Error replies are raised as
``CommandFailure``, with a message and an exit code.
"""

import base64
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from chronos.cli.ctl.contexts import ServerContext, hide_password
from chronos.cli.ctl.errors import CommandFailure, ForeignServer, Unreachable, error_for_reply
from chronos.cli.ctl.execution_ids import is_full_id
from chronos.cli.output import note

if TYPE_CHECKING:
    import socket

API = "/api/v1"
MAX_ATTEMPTS = 3
_MAX_PAUSE_S = 5.0
_TIMEOUT_S = 60.0
_RETRY_STATUSES = (429, 503)
_FOREIGN_STATUSES = (404, 405, 501)  # without a code, they come from another kind of server
_RUN_PATHS = ("executions", "dead-letters")
_REST_HINT = re.compile(r"; (?:GET \S+ lists them|list the jobs to see their names)$")
_TAG = re.compile(r"<[^<>]*>")

Query = Mapping[str, object | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiReply:
    """A successful reply of the API."""

    status: int
    value: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")


class ApiClient:
    """Client for one server. Names are looked up in ``server.namespace``; None means the server's default."""

    def __init__(
        self,
        server: ServerContext,
        *,
        timeout_s: float = _TIMEOUT_S,
        connect_locally: "Callable[[], socket.socket] | None" = None,
    ) -> None:
        """``connect_locally`` connects to the API of a store within this process; ``server.url`` is then the store."""
        self.server = server
        self._timeout_s = timeout_s
        self._from_chronos = False
        self._notices: set[str] = set()  # that were shown
        self._connect_locally = connect_locally
        self._headers = {"Accept": "application/json", "User-Agent": "chronosctl"}
        if connect_locally is not None:
            self._host, self._port, self._secure, self._base = "localhost", None, False, ""
            return
        parts = urlsplit(server.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandFailure(
                f'invalid server URL "{hide_password(server.url)}"; write it like http://127.0.0.1:8080'
            )
        self._secure = parts.scheme == "https"
        try:
            self._host, self._port = parts.hostname, parts.port
        except ValueError:
            raise CommandFailure(
                f'invalid port in "{hide_password(server.url)}"; use a number from 1 to 65535'
            ) from None
        self._base = parts.path.rstrip("/")
        authorization = _authorization(server, parts.username, parts.password)
        if authorization is not None:
            self._headers["Authorization"] = authorization

    @contextmanager
    def explain_foreign_replies(self) -> Iterator[None]:
        """Turn errors about the shape of a reply into a message, if the reply did not come from Chronos."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError):
            if self._from_chronos:
                raise
            raise self._foreign_reply() from None

    def _foreign_reply(self, detail: str = "") -> ForeignServer:
        return ForeignServer(
            f"{hide_password(self.server.url)} does not answer like a Chronos server{detail}; "
            "name one with --server URL or CHRONOS_SERVER"
        )

    # --- requests

    def get(self, *path: str, **query: object) -> Any:
        """Return the JSON value at a path, which is given as its segments."""
        return self.call("GET", *path, query=query).value

    def get_text(self, *path: str, query: Query | None = None) -> str:
        """Return the text at a path."""
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
        """Send a request. While the server is busy, a GET or a request with an idempotency key is sent again, up to
        ``MAX_ATTEMPTS`` times in all.
        """
        can_retry = method == "GET" or "Idempotency-Key" in (headers or {})
        for attempt in range(1, MAX_ATTEMPTS + 1):
            with self._send(method, path, query, body, headers) as response:
                status, raw = response.status, response.read()
                reply_headers = {name.lower(): value for name, value in response.getheaders()}
            if not (can_retry and status in _RETRY_STATUSES and attempt < MAX_ATTEMPTS):
                break
            time.sleep(_pause_s(reply_headers.get("retry-after"), attempt))
        if status >= 300:
            raise self._error(status, raw, path)
        return ApiReply(
            status=status, value=raw.decode(errors="replace") if text else _parse_value(raw), headers=reply_headers
        )

    def change_job(
        self, method: str, name: str, *verb: str, query: Query | None = None, body: object = None, dry_run: bool = False
    ) -> Any:
        """Change a job. Raises ``StateConflict`` if it changes between the read and the write (``If-Match``)."""
        current = self.call("GET", "jobs", name, query={"namespace": self.server.namespace})
        parameters = {"namespace": self.server.namespace, "dry_run": dry_run or None, **(query or {})}
        return self.call(
            method, "jobs", name, *verb, query=parameters, body=body, headers={"If-Match": current.etag or "*"}
        ).value

    def stream(self, *path: str, query: Query | None = None) -> Iterator[bytes]:
        """Yield the lines that a path sends, until the server closes the stream."""
        with self._send("GET", path, query, None, None, no_timeout=True) as response:
            if response.status >= 300:
                raise self._error(response.status, response.read(), path)
            while line := response.readline():
                yield line

    def list_pages(self, *path: str, limit: int | None, query: Query | None = None) -> dict[str, Any]:
        """Return at most ``limit`` items of a list (None: all), in the shape of one page."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            page_size = 1000 if limit is None else min(1000, limit - len(items))
            page = self.call("GET", *path, query={**(query or {}), "limit": page_size, "cursor": cursor}).value
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None or (limit is not None and len(items) >= limit):
                return {**page, "items": items, "next_cursor": cursor}

    # --- internals

    def _error(self, status: int, body: bytes, path: Sequence[str]) -> CommandFailure:
        problem = _parse_problem(body)
        if status in _FOREIGN_STATUSES and "code" not in problem:
            return self._foreign_reply(f" (status {status})")
        hint = self._add_not_found_hint(problem, path) if problem.get("code") == "not_found" and len(path) > 1 else None
        return error_for_reply(status, problem, hint)

    def _add_not_found_hint(self, problem: dict[str, Any], path: Sequence[str]) -> str | None:
        """Return the command that helps after a 404. The detail is changed to match: it may name a REST path."""
        detail = str(problem.get("detail"))
        if "did you mean" in detail or detail.startswith("namespace"):
            return None
        if path[0] in _RUN_PATHS and not is_full_id(path[1]) and self.has_job(path[1]):
            problem["detail"] = f'"{path[1]}" is a job, not an execution'
            return f"list its executions: chronosctl executions list {shlex.quote(path[1])}{self._namespace_option()}"
        problem["detail"] = _REST_HINT.sub("", detail)
        return _list_hint(path, self._namespace_option())

    def _namespace_option(self) -> str:
        return "" if self.server.namespace is None else f" -n {shlex.quote(self.server.namespace)}"

    def has_job(self, name: str) -> bool:
        """Whether the namespace has a job of this name. A failure means no."""
        try:
            self.call("GET", "jobs", name, query={"namespace": self.server.namespace})
        except CommandFailure:
            return False
        return True

    def _show_notice(self, notice: str | None) -> None:
        """Print what the server says about the request, once."""
        if notice is not None and self._from_chronos and notice not in self._notices:
            self._notices.add(notice)
            note(f"! {notice}")

    @contextmanager
    def _send(
        self,
        method: str,
        path: Sequence[str],
        query: Query | None,
        body: object,
        headers: Mapping[str, str] | None,
        *,
        no_timeout: bool = False,
    ) -> Iterator[HTTPResponse]:
        all_headers = {**self._headers, **(headers or {})}
        with closing(self._open_connection(None if no_timeout else self._timeout_s)) as connection:
            try:
                data = None
                if body is not None:
                    data = json.dumps(body, allow_nan=False).encode()
                    all_headers["Content-Type"] = "application/json"
                target = f"{self._base}{API}/{'/'.join(quote(step, safe='') for step in path)}{_query_string(query)}"
                connection.request(method, target, data, all_headers)
                response = connection.getresponse()
                self._from_chronos = response.getheader("Server") == "chronos"
                self._show_notice(response.getheader("X-Chronos-Notice"))
                yield response
            except TimeoutError:
                raise Unreachable(
                    f"{hide_password(self.server.url)} did not answer within {self._timeout_s:g} s"
                ) from None
            except (OSError, HTTPException) as error:
                raise Unreachable(_unreachable_message(self.server, error)) from None
            except ValueError as error:  # not UTF-8, not JSON, or not allowed in a header
                raise CommandFailure(f"the request cannot be sent: {error}") from None

    def _open_connection(self, timeout_s: float | None) -> HTTPConnection:
        """Return a connection, which connects when it is used."""
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=timeout_s)
        if self._connect_locally is not None:
            connection.sock = self._connect_locally()
            connection.sock.settimeout(timeout_s)
        return connection


def _query_string(query: Query | None) -> str:
    """Build a query string. A list becomes one parameter per item; None is left out."""
    parameters = {
        name.rstrip("_"): [_text(item) for item in value] if isinstance(value, list | tuple) else [_text(value)]
        for name, value in (query or {}).items()
        if value is not None
    }
    encoded = urlencode(parameters, doseq=True)
    return f"?{encoded}" if encoded else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _authorization(server: ServerContext, name: str | None, password: str | None) -> str | None:
    """Return the Authorization header. Credentials in the URL come before a token."""
    if name is not None:
        credentials = f"{unquote(name)}:{unquote(password or '')}"
        return f"Basic {base64.b64encode(credentials.encode()).decode()}"
    return None if server.token is None else f"Bearer {server.token}"


def _parse_problem(text: bytes) -> dict[str, Any]:
    """Parse a problem+json body. Any other body, such as a proxy's page, becomes a problem with its first words."""
    try:
        problem = json.loads(text)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        return problem
    words = _TAG.sub(" ", text[:2000].decode(errors="replace"))
    return {"detail": " ".join(words.split())[:200]}


def _list_hint(path: Sequence[str], namespace_option: str) -> str | None:
    """Return a line with the command that lists the resources of a path."""
    match path:
        case ("jobs", name, "versions", *_):
            return f"list its versions: chronosctl jobs versions {shlex.quote(name)}{namespace_option}"
        case ("jobs", *_):
            return f"list the jobs: chronosctl jobs list{namespace_option}"
        case ("executions", *_):
            return f"list the executions: chronosctl executions list{namespace_option}"
        case ("dead-letters", *_):
            return f"list the dead letters: chronosctl dlq list{namespace_option}"
        case ("tokens" | "users" as noun, *_):
            return f"list the {noun}: chronosctl {noun} list"
        case _:
            return None


def _parse_value(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        raise CommandFailure("the server's reply is not JSON; is it Chronos?") from None


def _pause_s(retry_after: str | None, attempt: int) -> float:
    try:
        pause_s = float(retry_after or "")
    except ValueError:
        pause_s = 0.2 * 2**attempt
    return min(max(pause_s, 0.0), _MAX_PAUSE_S)


def _unreachable_message(server: ServerContext, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return (
        f"{hide_password(server.url)} cannot be reached: {reason}\n"
        "  start a server: chronos server\n"
        "  or name another one with --server URL or CHRONOS_SERVER"
    )
