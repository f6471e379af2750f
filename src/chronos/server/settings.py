"""Every setting of the server: its name, how it is read, what it is without being said, what it is for.

One table, from which the file is checked, variables are named, and ``chronos config show`` is printed.
"""

import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chronos.core.calendar import SECOND_US
from chronos.core.config import Overlap, RecoveryStrategy
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
    """One of them. ``read`` takes what a file, a variable or a flag holds and raises ``Invalid`` with "expected …"."""

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
    """A whole number between two."""

    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) and _is_digits(value) else value
        if isinstance(number, bool) or not isinstance(number, int) or not minimum <= number <= maximum:
            raise Invalid(f"expected a whole number from {minimum} to {maximum}")
        return number

    return read


def optional_whole_number(minimum: int) -> Reader:
    """A whole number, or nothing (``null``), which is 0: without end."""
    known = whole_number(minimum)

    def read(value: Any) -> int:
        return 0 if value is None or value in ("", "null") else int(known(value))

    return read


def number(minimum: float) -> Reader:
    """A number, not below another."""

    def read(value: Any) -> float:
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            found = math.nan
        if not math.isfinite(found) or found < minimum:
            raise Invalid(f"expected a number, at least {minimum:g}")
        return found

    return read


def optional_rate(value: Any) -> float | None:
    """So many a second, or nothing: without limit."""
    if value is None or value in ("", "null"):
        return None
    found = number(0)(value)
    if not found:
        raise Invalid("expected a number above 0, or nothing")
    return float(found)


def duration(value: Any) -> float:
    """Seconds, of ``30s``, ``1h30m``, ``PT5M`` or a number of seconds; at most a year."""
    try:
        # A variable holds nothing but text, even where it is a number.
        is_number = _is_digits(value) if isinstance(value, str) else not isinstance(value, bool)
        found = float(value) if is_number else read_duration_us(text(value)) / SECOND_US
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 <= found <= _YEAR_S:
        raise Invalid("expected a duration such as 30s, 5m or 1h30m")
    return found


def size(value: Any) -> int:
    """Bytes, of ``2MiB`` or a number of them."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, str):
        digits = value.strip().rstrip("BKMGibkmg")
        unit = value.strip()[len(digits) :].upper() or "B"
        if _is_digits(digits.strip()) and int(digits) and unit in _SIZES:
            return int(digits) * _SIZES[unit]
    raise Invalid("expected a size such as 2MiB")


def folder(value: Any) -> str:
    """The path of a folder."""
    found = text(value)
    if not found.strip("/") or "\0" in found:
        raise Invalid("expected the path of a folder, such as /var/lib/chronos")
    return found


def url_path(value: Any) -> str:
    """The path of an address: ``/metrics``."""
    found = text(value)
    if _PATH.fullmatch(found) is None:
        raise Invalid("expected a path such as /metrics")
    return found


def one_of(*allowed: str) -> Reader:
    """One of some words."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise Invalid(f"expected one of {', '.join(allowed)}")
        return str(value)

    return read


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; in a variable, with commas between them, or as JSON."""
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except ValueError:
            found = None
        value = found if isinstance(found, list) else [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid("expected a list of texts")
    return tuple(value)


def optional_texts(value: Any) -> tuple[str, ...] | None:
    """A list of at least one text, or nothing: all there are."""
    if value is None or value in ("", "null"):
        return None
    found = texts(value)
    if not found:
        raise Invalid("expected a list of at least one text, or nothing")
    return found


def texts_of(*allowed: str) -> Reader:
    """A list of some words."""

    def read(value: Any) -> tuple[str, ...]:
        found = texts(value)
        if not set(found) <= set(allowed):
            raise Invalid(f"expected a list of {', '.join(allowed)}")
        return found

    return read


def limits(value: Any) -> dict[str, int]:
    """Limits of commands by name; in a variable, JSON."""
    try:
        return read_limits(mapping(value))
    except Invalid as error:
        said = str(error).replace("command.limits", "limits")
        raise Invalid(f"expected limits such as {{cpu_s: 600, memory: 512MiB}}: {said}") from None


def networks(value: Any) -> tuple[str, ...]:
    """Addresses and networks."""
    found = texts(value)
    for one in found:
        try:
            ipaddress.ip_network(one)
        except ValueError:
            raise Invalid("expected addresses or networks, such as 10.0.0.1 or 10.0.0.0/8") from None
    return found


def mapping(value: Any) -> dict[str, Any]:
    """Names and what they stand for; in a variable, JSON."""
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
    count = whole_number(1)
    given = labels(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise Invalid("expected names and numbers, such as {mail: 5}; in a variable, mail=5,reports=2")
    return {str(name): int(count(one)) for name, one in given.items()}


def _is_digits(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS


def address(value: Any) -> tuple[str, int]:
    """Host and port, of ``127.0.0.1:8080``, ``[::1]:8080`` or ``:8080`` (any address)."""
    host, colon, port = text(value).rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not _is_digits(port) or int(port) > 65_535 or (":" in bare and bare == host) or " " in bare:
        raise Invalid("expected HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return bare or "0.0.0.0", int(port)


SETTINGS: tuple[Setting, ...] = (
    Setting(name="store", read=text, default="sqlite:///chronos-data/chronos.db", about="where jobs are kept"),
    Setting(name="cluster.data_dir", read=folder, default="chronos-data", about="the folder of a store that is a file"),
    Setting(name="server.listen", read=address, default=("127.0.0.1", 8080), about="HOST:PORT of the API and the page"),
    Setting(name="server.base_path", read=text, default="", about="a prefix of every path, behind a proxy"),
    Setting(name="server.request_limit", read=size, default=2 << 20, about="the largest request body"),
    Setting(name="server.request_timeout", read=duration, default=30.0, about="how long a request may take"),
    Setting(name="server.write_timeout", read=duration, default=30.0, about="how long a client may take an answer"),
    Setting(name="server.insecure", read=flag, default=False, about="listen beyond this machine without auth"),
    Setting(name="server.hosts", read=texts, default=(), about="names it may be called by without auth"),
    Setting(name="server.public_docs", read=flag, default=True, about="/docs and /openapi.json for anybody"),
    Setting(name="server.trusted_proxies", read=networks, default=(), about="proxies whose forwarded address counts"),
    Setting(name="node.id", read=optional_text, default=None, about="this node's name; the host's without it"),
    Setting(name="node.labels", read=labels, default={}, about="labels that placement asks for"),
    Setting(name="node.queues", read=texts, default=(), about="the queues it works on; none: all"),
    Setting(name="scheduler.lookahead", read=duration, default=5.0, about="how far ahead due jobs are prepared"),
    Setting(name="scheduler.tick_interval", read=duration, default=1.0, about="a safety net, not the clock"),
    Setting(name="scheduler.reaper_interval", read=duration, default=5.0, about="how often dead nodes are looked for"),
    Setting(name="scheduler.heartbeat_interval", read=duration, default=10.0, about="how often a node says it lives"),
    Setting(name="scheduler.heartbeat_timeout", read=duration, default=30.0, about="the silence that means death"),
    Setting(name="scheduler.grace_period", read=duration, default=30.0, about="from asking work to stop to forcing it"),
    Setting(name="scheduler.timeout_grace", read=duration, default=2.0, about="the same after a timeout"),
    Setting(
        name="dispatcher.max_concurrent", read=whole_number(1), default=100, about="executions at once on this node"
    ),
    Setting(name="dispatcher.queue_slots", read=slots, default={}, about="of those, at most so many of a queue"),
    Setting(
        name="dispatcher.per_job_limit",
        read=whole_number(0),
        default=0,
        about="executions of one job at once, where it sets no limit; 0: without limit",
    ),
    Setting(name="dispatcher.targets", read=optional_texts, default=None, about="the kinds of targets it allows"),
    Setting(
        name="dispatcher.command.roles",
        read=texts_of("admin", "namespace_admin"),
        default=("admin",),
        about="who may save jobs that run commands, where there is auth",
    ),
    Setting(name="dispatcher.command.user", read=optional_text, default=None, about="whom commands run as"),
    Setting(name="dispatcher.command.limits", read=limits, default={}, about="of every command; jobs may lower them"),
    Setting(name="dispatcher.http.timeout", read=duration, default=30.0, about="of a webhook where no level sets one"),
    Setting(name="dispatcher.http.allow_private", read=flag, default=False, about="webhooks into private networks"),
    Setting(name="dispatcher.http.allow_hosts", read=texts, default=(), about="private hosts that webhooks may reach"),
    Setting(
        name="dispatcher.http.max_idle_conns", read=whole_number(0), default=1_000, about="connections kept for reuse"
    ),
    Setting(name="dispatcher.http.idle_conn_timeout", read=duration, default=4.0, about="how long one is kept"),
    Setting(name="defaults.retry.max_attempts", read=optional_whole_number(1), default=3, about="1: no retries"),
    Setting(name="defaults.retry.initial_interval", read=duration, default=1.0, about="before the second attempt"),
    Setting(name="defaults.retry.multiplier", read=number(1), default=2.0, about="by which each pause grows"),
    Setting(name="defaults.retry.max_interval", read=duration, default=3600.0, about="the longest pause"),
    Setting(name="defaults.execution_timeout", read=duration, default=3600.0, about="of work, waiting not counted"),
    Setting(name="defaults.task_timeout", read=duration, default=300.0, about="of one attempt"),
    Setting(name="defaults.overlap", read=one_of(*Overlap), default="skip", about="while an earlier one is under way"),
    Setting(name="defaults.recovery", read=one_of(*RecoveryStrategy), default="last", about="of missed instants"),
    Setting(
        name="queue.max_pending", read=whole_number(1, 100_000_000), default=100_000, about="ready and queued; then 429"
    ),
    Setting(name="queue.submit_rate", read=optional_rate, default=None, about="a client's submissions a second"),
    Setting(name="auth.type", read=one_of("none", "basic"), default="none", about="who may come in"),
    Setting(name="auth.users", read=mapping, default={}, about="name: {password_hash, role}", secret=True),
    Setting(name="auth.tokens", read=mapping, default={}, about="name: {token_hash, role}", secret=True),
    Setting(name="logging.level", read=one_of("debug", "info", "warning", "error"), default="info", about="how much"),
    Setting(
        name="logging.format",
        read=one_of("json", "console"),
        default=None,
        about="for machines or people; json, and console on a terminal, unless it is said",
    ),
    Setting(name="logging.output", read=one_of("stderr", "stdout"), default="stderr", about="where log lines go"),
    Setting(name="metrics.prometheus.enabled", read=flag, default=True, about="whether metrics can be read"),
    Setting(name="metrics.prometheus.path", read=url_path, default="/metrics", about="where metrics are read"),
    Setting(name="metrics.per_job", read=flag, default=True, about="a label for each job"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}

#: Names that other documents use for the same things.
ALIASES = {
    "cluster.node_id": "node.id",
    "server.http.address": "server.listen",
    "server.http.read_timeout": "server.request_timeout",
    "server.http.write_timeout": "server.write_timeout",
    "scheduler.execution_timeout": "defaults.execution_timeout",
    "scheduler.default_retry_policy.max_attempts": "defaults.retry.max_attempts",
    "scheduler.default_retry_policy.initial_interval": "defaults.retry.initial_interval",
    "scheduler.default_retry_policy.max_interval": "defaults.retry.max_interval",
    "scheduler.default_retry_policy.multiplier": "defaults.retry.multiplier",
    "dispatcher.concurrency.max_concurrent_jobs": "dispatcher.max_concurrent",
    "dispatcher.concurrency.per_job_limit": "dispatcher.per_job_limit",
}
#: What names the other servers of a cluster. A server that shares no store with them refuses to start.
PEERS = "cluster.raft.peers"
#: Understood, and left aside with a warning: what is not built, or what Chronos does in another way.
IGNORED = {
    PEERS: "servers work together by sharing a PostgreSQL store; a server with peers starts on no other",
    "cluster.raft": "servers work together by sharing a PostgreSQL store",
    "server.grpc": "there is no gRPC API",
    "alerting": "there are no alerts yet",
}
