"""Builds the request of a call: renders templates, adds credentials and Chronos' own headers.

The parts that are the same for every call of a job (a ``RequestOutline``) are computed once.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from yarl import URL

from chronos.core.calendar import SECOND_US, rfc3339
from chronos.core.credentials import MASK, hide_userinfo, is_credential_name
from chronos.errors import Invalid
from chronos.runners import options as read
from chronos.runners.contract import AttemptCall
from chronos.runners.http import options as http_options
from chronos.runners.http.address_guard import AddressGuard, AddressRefused
from chronos.runners.http.options import (
    SUCCESS,
    WORTH_RETRYING,
    StatusRanges,
    check_header_value,
    parse_url,
    signing_key,
)
from chronos.runners.secret_mask import SecretMask
from chronos.runners.templates import Renderer, SecretLookup, is_template, uuid_text

MAX_RECORDED_BODY = 64 << 10  # bytes of a request's body that are recorded
_PAYLOAD_METHODS = ("POST", "PUT", "PATCH")
_CROSS_ORIGIN_HEADERS = ("content-type", "accept", "user-agent", "accept-encoding", "idempotency-key", "traceparent")
_REDIRECT_TO_GET_STATUSES = (301, 302, 303)
USER_AGENT = "Chronos"
_DEFAULT_HEADERS = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}


class Request(Struct, frozen=True, kw_only=True):
    """The request that is sent."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None = None
    mask: SecretMask

    def __repr__(self) -> str:
        return f"Request({self.method} {self.mask(str(self.url))})"


class RequestOutline:
    """The parts of a request that are the same for every call. Each raises ``Invalid`` when it is first used."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self._static_headers: dict[str | None, dict[str, str]] = {}  # by content type
        self._url: URL | None = None

    @cached_property
    def method(self) -> str:
        return http_options.method(self.options)

    @cached_property
    def success(self) -> StatusRanges:
        return http_options.read_status_ranges("success_codes", self.options, SUCCESS)

    @cached_property
    def worth_retrying(self) -> StatusRanges:
        return http_options.read_status_ranges("retry_codes", self.options, WORTH_RETRYING)

    @cached_property
    def redirects(self) -> int:
        return http_options.read_max_redirects(self.options)

    @cached_property
    def timeout_s(self) -> float | None:
        """The target's own timeout, or None."""
        if "timeout" not in self.options:
            return None
        return read.duration_us("http.timeout", self.options["timeout"]) / SECOND_US

    def url(self, renderer: Renderer, guard: AddressGuard) -> URL:
        """Return the URL of a call. A URL without templates is checked once."""
        if self._url is not None:
            return self._url
        url = _url(self.options, renderer, guard)
        if not is_template(self.options["url"]) and not self.options.get("query"):
            self._url = url
        return url

    def headers(self, content_type: str | None, renderer: Renderer) -> dict[str, str]:
        """Return the default headers and the target's own, as a new dict."""
        headers = self._static_headers.get(content_type)
        if headers is not None:
            return headers.copy()
        headers = _DEFAULT_HEADERS.copy()
        if content_type is not None:
            headers["Content-Type"] = content_type
        own = self.options.get("headers", {})
        for name, template in own.items():
            _set_header(headers, name, renderer.text(f"http.headers.{name}", str(template)))
        if not any(is_template(str(template)) for template in own.values()):
            self._static_headers[content_type] = headers.copy()
        return headers

    def add_credentials_to_mask(self, headers: Mapping[str, str], body: bytes | None, mask: SecretMask) -> None:
        """Add to the mask the headers named like credentials, and the passwords of URLs."""
        for name in self.options.get("headers", ()):
            value = headers.get(name, "")
            if is_credential_name(name):
                mask.add_credential(value)
            mask.add_urls(value)
        if body and b"@" in body and b"://" in body:
            mask.add_urls(body.decode("utf-8", "replace"))


def build_request(call: AttemptCall, outline: RequestOutline, secrets: SecretLookup, guard: AddressGuard) -> Request:
    """Build the request of a call.

    Raises ``Invalid``, ``NotFound`` (a secret) or ``AddressRefused``; none shows a secret.
    """
    options, mask = outline.options, SecretMask()
    renderer = Renderer(call, secrets, mask)
    try:
        method = outline.method
        body, content_type = _body(call, method, renderer)
        headers = outline.headers(content_type, renderer)
        outline.add_credentials_to_mask(headers, body, mask)
        _add_own_headers(headers, call)
        url = outline.url(renderer, guard)
        if "auth" in options:
            url = _authenticate(call, options["auth"], renderer, headers, url, body or b"", mask)
        return Request(method=method, url=url, headers=headers, body=body, mask=mask)
    except AddressRefused as error:
        raise AddressRefused(mask(str(error))) from None
    except ValueError as error:  # including every Invalid, and text that cannot be encoded
        raise Invalid(mask(str(error))) from None


def build_redirected_request(request: Request, status: int, location: str, guard: AddressGuard) -> Request:
    """Build the request for a redirect. Credentials are not sent to another origin."""
    url = parse_url(str(request.url.join(URL(location))), guard, "the redirect's URL")
    if request.url.scheme == "https" and url.scheme != "https":
        raise Invalid("the redirect leads from https to http and was not followed")
    method, headers, body = request.method, request.headers, request.body
    if status in _REDIRECT_TO_GET_STATUSES and method not in ("GET", "HEAD"):
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    if url.origin() != request.url.origin():
        if body is not None and request.mask.has_secret_in(body.decode("utf-8", "replace")):
            raise Invalid("the redirect would send a secret in the body to another host and was not followed")
        headers = {
            name: value
            for name, value in headers.items()
            if name.lower() in _CROSS_ORIGIN_HEADERS or name.lower().startswith("x-chronos-")
        }
        headers = {name: value for name, value in headers.items() if not request.mask.has_secret_in(value)}
    return replace(request, method=method, url=url, headers=headers, body=body)


def to_request_record(request: Request) -> dict[str, Any]:
    """Return a request as it is recorded with an attempt: credentials masked, the body cut."""
    mask = request.mask
    body = (request.body or b"")[: MAX_RECORDED_BODY + mask.longest_secret_chars].decode("utf-8", "replace")
    return {
        "method": request.method,
        "url": hide_userinfo(mask(str(request.url))),
        "headers": {name: MASK if is_credential_name(name) else mask(value) for name, value in request.headers.items()},
        "body": None if request.body is None else mask(body)[:MAX_RECORDED_BODY].replace("\0", "\ufffd"),
        "truncated": len(request.body or b"") > MAX_RECORDED_BODY,
    }


def _add_own_headers(headers: dict[str, str], call: AttemptCall) -> None:
    execution, task_run, attempt = call.execution, uuid_text(call.task_run_id), call.attempt_id
    headers["X-Chronos-Job-ID"] = uuid_text(call.job)
    headers["X-Chronos-Execution-ID"] = uuid_text(execution)
    headers["X-Chronos-Scheduled-Time"] = rfc3339(call.scheduled_us)
    headers["X-Chronos-Task-Run-ID"] = task_run
    headers["X-Chronos-Attempt-ID"] = uuid_text(attempt)
    headers["X-Chronos-Attempt"] = str(call.number)
    headers["X-Chronos-Fencing-Token"] = str(call.token)
    headers["Idempotency-Key"] = task_run
    headers["traceparent"] = f"00-{execution.hex()}-{attempt[:8].hex()}-01"
    if (span := call.span) is not None:
        headers["X-Chronos-Span-From"] = rfc3339(span.from_us)
        headers["X-Chronos-Span-To"] = rfc3339(span.to_us)
        headers["X-Chronos-Span-Count"] = str(span.count)


def _body(call: AttemptCall, method: str, renderer: Renderer) -> tuple[bytes | None, str | None]:
    """Return the body and its content type. Without a body of its own, a request sends the payload."""
    options = call.options
    if "json" in options:
        return msgspec.json.encode(renderer.value("http.json", options["json"])), "application/json"
    if "body" in options:
        return renderer.text("http.body", options["body"]).encode("utf-8", "replace"), "text/plain; charset=utf-8"
    if method in _PAYLOAD_METHODS:
        if call.payload is not None:
            return msgspec.json.encode(call.payload), "application/json"
        return b"", None
    return None, None


def _url(options: Mapping[str, Any], renderer: Renderer, guard: AddressGuard) -> URL:
    template = options["url"]
    if "{{" in template:
        value = renderer.value("http.url", template)  # a single placeholder is a complete URL
        is_single = template.startswith("{{") and template.find("}}") == len(template) - 2
        text = value if is_single and isinstance(value, str) else renderer.text("http.url", template, _quote_value)
    else:
        text = template
    url = parse_url(text, guard)
    if query := options.get("query"):
        url = url.extend_query([(name, renderer.text(f"http.query.{name}", str(v))) for name, v in query.items()])
    return url


def _quote_value(value: str, secret: bool) -> str:
    """Quote a value so that input cannot change where a request goes.

    A secret comes from the operator and may contain slashes.
    """
    return quote(value, safe="/" if secret else "")


def _authenticate(
    call: AttemptCall,
    auth: Mapping[str, Any],
    renderer: Renderer,
    headers: dict[str, str],
    url: URL,
    body: bytes,
    mask: SecretMask,
) -> URL:
    def option(name: str, default: str = "") -> str:
        return renderer.text(f"http.auth.{name}", str(auth.get(name, default)))

    match auth["type"]:
        case "basic":
            password = option("password")
            pair = b64encode(f"{option('username')}:{password}".encode()).decode()
            _add_to_mask(mask, password, pair)
            _set_header(headers, "Authorization", f"Basic {pair}")
        case "bearer":
            token = option("token")
            _add_to_mask(mask, token)
            _set_header(headers, "Authorization", f"Bearer {token}")
        case "api_key":
            key = option("value")
            _add_to_mask(mask, key)
            if auth.get("in", "header") == "query":
                return url.extend_query([(option("name", "api_key"), key)])
            _set_header(headers, str(auth.get("name", "X-API-Key")), key)
        case _:
            secret = option("secret")
            _add_to_mask(mask, secret)
            _sign(call, signing_key(secret), headers, body)
    return url


def _sign(call: AttemptCall, key: bytes, headers: dict[str, str], body: bytes) -> None:
    """Sign as Standard Webhooks: one HMAC over id, time and body, so that none can be changed or replayed later."""
    message, seconds = uuid_text(call.task_run_id), str(call.started_us // SECOND_US)
    digest = hmac.digest(key, f"{message}.{seconds}.".encode() + body, "sha256")
    headers["webhook-id"] = message
    headers["webhook-timestamp"] = seconds
    headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"


def _add_to_mask(mask: SecretMask, *values: str) -> None:
    for value in values:
        mask.add(value)


def _set_header(headers: dict[str, str], name: str, value: str) -> None:
    """Set a header, replacing one that differs only in case."""
    check_header_value(name, value)
    lower = name.lower()
    for present in headers:
        if present.lower() == lower:
            del headers[present]
            break
    headers[name] = value
