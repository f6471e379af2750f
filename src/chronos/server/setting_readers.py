"""Readers of server settings: each converts a value of a file, variable or flag, or says what it expected."""

import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chronos.core.calendar import SECOND_US
from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid
from chronos.runners.command.options import read_limits
from chronos.service.serializers.object_reader import read_duration_us

Reader = Callable[[Any], Any]
_SIZES = {"B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_MAX_DIGITS = 18
_YEAR_S = 366 * 86_400.0
_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
_TRUE_WORDS, _FALSE_WORDS = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. ``read`` converts a value of a file, variable or flag; it raises ``Invalid`` with "expected …"."""

    name: str  # dotted
    read: Reader
    default: Any
    about: str
    secret: bool = False


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid("expected text")
    return value


def optional_text(value: Any) -> str | None:
    return None if value is None or value == "" else text(value)


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TRUE_WORDS + _FALSE_WORDS:
        return value.lower() in _TRUE_WORDS
    raise Invalid("expected true or false")


def whole_number(minimum: int, maximum: int = 10_000_000) -> Reader:
    """Return a reader of a whole number within limits."""

    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) and _is_digits(value) else value
        if isinstance(number, bool) or not isinstance(number, int) or not minimum <= number <= maximum:
            raise Invalid(f"expected a whole number from {minimum} to {maximum}")
        return number

    return read


def optional_whole_number(minimum: int) -> Reader:
    """Return a reader of a whole number; empty or ``null`` is 0, which means unlimited."""
    read_number = whole_number(minimum)

    def read(value: Any) -> int:
        return 0 if value is None or value in ("", "null") else int(read_number(value))

    return read


def number(minimum: float) -> Reader:
    """Return a reader of a number with a minimum."""

    def read(value: Any) -> float:
        try:
            parsed = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            parsed = math.nan
        if not math.isfinite(parsed) or parsed < minimum:
            raise Invalid(f"expected a number, at least {minimum:g}")
        return parsed

    return read


def optional_rate(value: Any) -> float | None:
    """A number per second; empty or ``null`` means unlimited."""
    if value is None or value in ("", "null"):
        return None
    rate = number(0)(value)
    if not rate:
        raise Invalid("expected a number above 0, or nothing")
    return float(rate)


def duration(value: Any) -> float:
    """Seconds, from ``30s``, ``1h30m``, ``PT5M`` or a number of seconds; at most a year."""
    try:
        # The value of a variable is always text, even if it is a number.
        is_number = _is_digits(value) if isinstance(value, str) else not isinstance(value, bool)
        seconds = float(value) if is_number else read_duration_us(text(value)) / SECOND_US
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds <= _YEAR_S:
        raise Invalid("expected a duration such as 30s, 5m or 1h30m")
    return seconds


def size(value: Any) -> int:
    """Bytes, from ``2MiB`` or a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str):
        digits = value.strip().rstrip("BKMGibkmg")
        unit = value.strip()[len(digits) :].upper() or "B"
        if _is_digits(digits.strip()) and int(digits) and unit in _SIZES:
            return int(digits) * _SIZES[unit]
    raise Invalid("expected a size such as 2MiB")


def folder(value: Any) -> str:
    """The path of a folder, other than the root."""
    path = text(value)
    if not path.strip("/") or "\0" in path:
        raise Invalid("expected the path of a folder, such as /var/lib/chronos")
    return path


def url_path(value: Any) -> str:
    """The path of a URL, such as ``/metrics``."""
    path = text(value)
    if _PATH.fullmatch(path) is None:
        raise Invalid("expected a path such as /metrics")
    return path


def zone(value: Any) -> str:
    """The name of a time zone, such as ``Europe/Paris``."""
    try:
        return get_zone(text(value)).name
    except LookupError as error:
        raise Invalid(f"expected a time zone: {error}") from None


def one_of(*allowed: str, aliases: Mapping[str, str] | None = None) -> Reader:
    """Return a reader of one of the allowed words. ``aliases`` maps other accepted words to them."""
    words = dict(zip(allowed, allowed, strict=True)) | dict(aliases or {})

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise Invalid(f"expected one of {', '.join(words)}")
        return words[value]

    return read


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; in a variable separated by commas, or as JSON."""
    if isinstance(value, str):
        try:
            items = json.loads(value)
        except ValueError:
            items = None
        value = items if isinstance(items, list) else [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid("expected a list of texts")
    return tuple(value)


def optional_texts(value: Any) -> tuple[str, ...] | None:
    """A list of at least one text; empty or ``null`` means all."""
    if value is None or value in ("", "null"):
        return None
    items = texts(value)
    if not items:
        raise Invalid("expected a list of at least one text, or nothing")
    return items


def texts_of(*allowed: str) -> Reader:
    """Return a reader of a list of allowed words."""

    def read(value: Any) -> tuple[str, ...]:
        items = texts(value)
        if not set(items) <= set(allowed):
            raise Invalid(f"expected a list of {', '.join(allowed)}")
        return items

    return read


def limits(value: Any) -> dict[str, int]:
    """Limits of commands by name; in a variable, JSON."""
    try:
        return read_limits(mapping(value))
    except Invalid as error:
        problem = str(error).replace("command.limits", "limits")
        raise Invalid(f"expected limits such as {{cpu_s: 600, memory: 512MiB}}: {problem}") from None


def networks(value: Any) -> tuple[str, ...]:
    """IP addresses and networks."""
    items = texts(value)
    for network in items:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise Invalid("expected addresses or networks, such as 10.0.0.1 or 10.0.0.0/8") from None
    return items


def mapping(value: Any) -> dict[str, Any]:
    """A mapping; in a variable, JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise Invalid('expected a mapping; in a variable, write it as JSON: {"name": …}')
    return dict(value)


def labels(value: Any) -> dict[str, str]:
    """Names and texts; in a variable, ``region=eu,zone=a``."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): text.strip() for name, equals, text in pairs if equals}
        if len(value) < len(pairs):
            value = None
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise Invalid("expected names and texts, such as {region: eu}; in a variable, region=eu,zone=a")
    return dict(value)


def slots(value: Any) -> dict[str, int]:
    """Names and whole numbers; in a variable, ``mail=5,reports=2``."""
    read_count = whole_number(1)
    counts = labels(value) if isinstance(value, str) else value
    if not isinstance(counts, Mapping):
        raise Invalid("expected names and numbers, such as {mail: 5}; in a variable, mail=5,reports=2")
    return {str(name): int(read_count(count)) for name, count in counts.items()}


def _is_digits(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS


def address(value: Any) -> tuple[str, int]:
    """Host and port, from ``127.0.0.1:8080``, ``[::1]:8080`` or ``:8080`` (all addresses)."""
    host, colon, port = text(value).rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not _is_digits(port) or int(port) > 65_535 or (":" in bare and bare == host) or " " in bare:
        raise Invalid("expected HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return bare or "0.0.0.0", int(port)
