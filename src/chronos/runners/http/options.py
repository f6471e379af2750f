"""Options of an ``http`` target. They are checked when a job is saved, before templates are rendered."""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from yarl import URL

from chronos.core.credentials import hide_userinfo
from chronos.errors import Invalid
from chronos.runners import options as read
from chronos.runners.http.address_guard import AddressGuard, AddressRefused
from chronos.runners.option_faults import OptionFaults
from chronos.runners.templates import check_template, is_template

KNOWN_OPTIONS = (
    "url",
    "method",
    "headers",
    "query",
    "body",
    "json",
    "auth",
    "success_codes",
    "retry_codes",
    "redirects",
    "timeout",
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_REDIRECTS = 10
_DEFAULT_REDIRECTS = 5
_AUTH_OPTIONS = {
    "basic": ("username", "password"),
    "bearer": ("token",),
    "api_key": ("name", "value", "in"),
    "hmac": ("secret",),
}
_REQUIRED_AUTH_OPTIONS = {"basic": ("username",), "bearer": ("token",), "api_key": ("value",), "hmac": ("secret",)}
_HEADER_NAME_PATTERN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_SPACE_OR_CONTROL_PATTERN = re.compile(r"[\x00-\x20\x7f]")
_CONTROL_PATTERN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HOST_PATTERN = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_STATUS_PATTERN = re.compile(r"([1-5])xx|([1-5][0-9]{2})-([1-5][0-9]{2})|([1-5][0-9]{2})", re.ASCII)
_CHRONOS_HEADERS = ("idempotency-key", "traceparent", "webhook-id", "webhook-timestamp", "webhook-signature")
_CONNECTION_HEADERS = (
    "host",
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
)


@dataclass(frozen=True, slots=True)
class StatusRanges:
    """A set of HTTP statuses, as ranges."""

    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, status: int) -> bool:
        for low, high in self.ranges:  # noqa: SIM110 - twice as fast as any()
            if low <= status <= high:
                return True
        return False


SUCCESS = StatusRanges(((200, 299),))
WORTH_RETRYING = StatusRanges(((408, 408), (425, 425), (429, 429), (500, 599)))


def check(options: Mapping[str, Any], guard: AddressGuard, *, has_secrets: bool) -> None:
    """Raise ``InvalidOptions`` with every fault, if no request could be sent with these options."""
    faults = OptionFaults("http", has_secrets=has_secrets)
    if not faults.add_unknown_options((), options, KNOWN_OPTIONS):
        faults.raise_if_any()
    _check_url(options, guard, faults)
    if "headers" in options:
        _check_headers(options["headers"], faults)
    if "query" in options:
        for name, value in faults.read_texts("query", options["query"]):
            faults.add_bad_templates(("query", name), value)
    if "body" in options or "json" in options:
        _check_body(options, faults)
    if "auth" in options:
        _check_auth(options["auth"], faults)
    for name, check_option in _INDEPENDENT_OPTION_CHECKS.items():
        if name in options:
            faults.try_read((name,), check_option, options)
    faults.raise_if_any()


def method(options: Mapping[str, Any]) -> str:
    """Return the method; by default POST if there is a body, else GET."""
    value = options.get("method")
    if value is None:
        return "POST" if "body" in options or "json" in options else "GET"
    name = read.text("http.method", value, limit=20).upper()
    if name not in METHODS:
        raise Invalid(f'http.method is "{value}", allowed: {", ".join(METHODS)}')
    return name


def read_status_ranges(name: str, options: Mapping[str, Any], default: StatusRanges) -> StatusRanges:
    """Read statuses such as 200, "200-299" and "2xx"."""
    value = options.get(name)
    if value is None:
        return default
    if not isinstance(value, list | tuple) or not value or len(value) > 100:
        raise Invalid(f'http.{name} must be a list of statuses such as [200, "4xx", "500-504"]')
    ranges = []
    for item in value:
        match = None if isinstance(item, bool) else _STATUS_PATTERN.fullmatch(str(item))
        if match is None:
            raise Invalid(f'http.{name} has "{str(item)[:40]}", expected a status such as 204, "4xx" or "500-504"')
        hundred, low, high, single = match.groups()
        if hundred:
            ranges.append((int(hundred) * 100, int(hundred) * 100 + 99))
        else:
            ranges.append((int(single or low), int(single or high)))
    return StatusRanges(tuple(ranges))


def read_max_redirects(options: Mapping[str, Any]) -> int:
    """Return how many redirects may be followed."""
    value = options.get("redirects", False)
    if isinstance(value, bool):
        return _DEFAULT_REDIRECTS if value else 0
    return read.whole_number("http.redirects", value, 0, MAX_REDIRECTS)


def parse_url(text: str, guard: AddressGuard, where: str = "http.url") -> URL:
    """Parse a URL. Raises ``Invalid``, or ``AddressRefused`` if jobs may not reach its host."""
    url = _parse_url_or_fault(text)
    if isinstance(url, str):
        raise Invalid(f"{where} {url}")
    guard.check_host(url.host or "")
    return url


@lru_cache(maxsize=4096)
def _parse_url_or_fault(text: str) -> URL | str:
    """Return the URL, or what is wrong with it."""
    shown = hide_userinfo(text)[:200]
    if _SPACE_OR_CONTROL_PATTERN.search(text):
        return "contains a space or a control character"
    try:
        url = URL(text)
        host, port = url.host, url.port
    except ValueError as error:
        return f'is "{shown}", which is not a URL: {hide_userinfo(str(error))}'
    if url.scheme not in ("http", "https") or not host:
        return f'is "{shown}", expected a URL that starts with https:// or http:// and a host'
    if ":" not in host and _HOST_PATTERN.fullmatch(url.raw_host or "") is None:
        return f'has an invalid host "{host[:80]}"'
    if url.user is not None or url.password is not None:
        return "contains a user name or password; use auth, which keeps them hidden"
    if not port:
        return "has an invalid port"
    return url.with_fragment(None)


def check_header_name(name: str) -> None:
    """Raise ``Invalid`` for an invalid name, or one that a job must not set."""
    if _HEADER_NAME_PATTERN.fullmatch(name) is None:
        raise Invalid(f"http.headers has {_cut_after_sign(name, ':')!r}, which is not a valid header name")
    lower = name.lower()
    if lower in _CONNECTION_HEADERS:
        raise Invalid(f'http.headers must not set "{name}"; the connection sets it')
    if lower.startswith("x-chronos-") or lower in _CHRONOS_HEADERS:
        raise Invalid(f'http.headers must not set "{name}"; Chronos sets it')


def _cut_after_sign(name: str, sign: str) -> str:
    """Shorten an invalid name for a message. The text after the sign may be a value, and so a credential."""
    name, separator, _ = name.partition(sign)
    return f"{name[:80]}{separator}"


def check_header_value(name: str, value: str) -> None:
    """Raise ``Invalid`` for line breaks and other control characters, which could add headers."""
    if _CONTROL_PATTERN.search(value):
        raise Invalid(f'http.headers: "{name}" contains a line break or another control character')
    if len(value) > 8_192:
        raise Invalid(f'http.headers: "{name}" has {len(value)} characters, allowed 8192')


def _check_url(options: Mapping[str, Any], guard: AddressGuard, faults: OptionFaults) -> None:
    if "url" not in options:
        faults.add(("url",), "http needs a url")
        return
    try:
        url = read.text("http.url", options["url"], limit=8_192)
        if not is_template(url):
            parse_url(url, guard)
            return
        check_template("http.url", url, has_secrets=faults.has_secrets)
        if not url.startswith(("http://", "https://", "{{")):
            raise Invalid("http.url must start with https:// or http://, or be a single placeholder")
    except AddressRefused as error:
        faults.add(("url",), str(error))
    except Invalid as error:
        faults.add(("url",), str(error))


def _check_headers(headers: Any, faults: OptionFaults) -> None:
    for name, value in faults.read_texts("headers", headers, limit=100):
        faults.add_bad_templates(("headers", name), value)
        try:
            check_header_name(name)
            if not is_template(value):
                check_header_value(name, value)
        except Invalid as error:
            faults.add(("headers", name), str(error))


def _check_body(options: Mapping[str, Any], faults: OptionFaults) -> None:
    if "json" in options:
        faults.add_bad_templates(("json",), options["json"])
    if "body" not in options:
        return
    if "json" in options:
        faults.add(("body",), "http has both body and json; use one of them")
    if not isinstance(options["body"], str):
        faults.add(("body",), "http.body must be text; use json for other values")
    elif faults.try_read(("body",), read.text, "http.body", options["body"]) is not None:
        faults.add_bad_templates(("body",), options["body"])


def _check_auth(auth: Any, faults: OptionFaults) -> None:
    kind = auth.get("type") if isinstance(auth, Mapping) else None
    if not isinstance(kind, str) or kind not in _AUTH_OPTIONS:
        path = ("auth", "type") if isinstance(auth, Mapping) else ("auth",)
        faults.add(path, f'http.auth must be an object whose "type" is one of {", ".join(_AUTH_OPTIONS)}')
        return
    faults.add_unknown_options(("auth",), auth, ("type", *_AUTH_OPTIONS[kind]))
    for name in _REQUIRED_AUTH_OPTIONS[kind]:
        if name not in auth:
            faults.add(("auth", name), f'http.auth ({kind}) needs "{name}"')
    values = dict(faults.read_texts("auth", auth))
    for name, value in values.items():
        faults.add_bad_templates(("auth", name), value)
    if kind == "api_key" and not faults.has_fault("auth", "in"):
        if values.get("in", "header") not in ("header", "query"):
            faults.add(("auth", "in"), 'http.auth.in must be "header" or "query"')
        elif values.get("in", "header") == "header" and "name" in values:
            faults.try_read(("auth", "name"), check_header_name, values["name"])
    if kind == "hmac" and not is_template(values.get("secret", "")):
        faults.try_read(("auth", "secret"), signing_key, values.get("secret", ""))


def signing_key(secret: str) -> bytes:
    """Return the key of a Standard Webhooks secret: ``whsec_`` and base64, or any other text as it is."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return b64decode(secret.removeprefix("whsec_"), validate=True)
    except NotBase64:
        raise Invalid("http.auth.secret starts with whsec_, but the rest is not base64") from None


#: Options that are checked on their own.
_INDEPENDENT_OPTION_CHECKS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "method": method,
    "success_codes": lambda options: read_status_ranges("success_codes", options, SUCCESS),
    "retry_codes": lambda options: read_status_ranges("retry_codes", options, WORTH_RETRYING),
    "redirects": read_max_redirects,
    "timeout": lambda options: read.duration_us("http.timeout", options["timeout"]),
}
