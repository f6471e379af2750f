"""The table of all server settings: name, reader, default and description.

The configuration file, the environment variables and ``chronos config show`` are all based on this table.
"""

import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chronos.core.calendar import SECOND_US
from chronos.core.config import OVERLAP_ALIASES, RECOVERY_ALIASES, Overlap, RecoveryStrategy
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


SETTINGS: tuple[Setting, ...] = (
    Setting(name="store", read=text, default="sqlite:///chronos-data/chronos.db", about="the URL of the store"),
    Setting(name="cluster.data_dir", read=folder, default="chronos-data", about="the folder of a SQLite store"),
    Setting(name="server.listen", read=address, default=("127.0.0.1", 8080), about="HOST:PORT of the API"),
    Setting(name="server.base_path", read=text, default="", about="a prefix for all paths, behind a proxy"),
    Setting(name="server.request_limit", read=size, default=2 << 20, about="the largest request body"),
    Setting(name="server.request_timeout", read=duration, default=30.0, about="how long a request may take"),
    Setting(
        name="server.write_timeout", read=duration, default=30.0, about="how long a client may take to read a reply"
    ),
    Setting(name="server.insecure", read=flag, default=False, about="allow other machines without a login"),
    Setting(name="server.hosts", read=texts, default=(), about="host names that are accepted without auth"),
    Setting(name="server.public_docs", read=flag, default=True, about="/docs and /openapi.json need no login"),
    Setting(
        name="server.trusted_proxies", read=networks, default=(), about="proxies whose forwarded addresses are trusted"
    ),
    Setting(name="node.id", read=optional_text, default=None, about="the name of this node; default: the host name"),
    Setting(name="node.labels", read=labels, default={}, about="labels of this node, for placement"),
    Setting(name="node.queues", read=texts, default=(), about="the queues that this node works on; empty: all"),
    Setting(name="scheduler.lookahead", read=duration, default=5.0, about="how far ahead due jobs are prepared"),
    Setting(
        name="scheduler.tick_interval",
        read=duration,
        default=1.0,
        about="how often due jobs are checked as a safety net",
    ),
    Setting(name="scheduler.reaper_interval", read=duration, default=5.0, about="how often dead nodes are detected"),
    Setting(
        name="scheduler.heartbeat_interval", read=duration, default=10.0, about="the time between heartbeats of a node"
    ),
    Setting(
        name="scheduler.heartbeat_timeout",
        read=duration,
        default=30.0,
        about="without a heartbeat for this long, a node is dead",
    ),
    Setting(
        name="scheduler.grace_period",
        read=duration,
        default=30.0,
        about="how long work may take to stop before it is killed",
    ),
    Setting(name="scheduler.timeout_grace", read=duration, default=2.0, about="the same, after a timeout"),
    Setting(
        name="dispatcher.max_concurrent", read=whole_number(1), default=100, about="concurrent executions on this node"
    ),
    Setting(
        name="dispatcher.queue_slots", read=slots, default={}, about="concurrent executions per queue on this node"
    ),
    Setting(
        name="dispatcher.per_job_limit",
        read=whole_number(0),
        default=0,
        about="concurrent executions of a job that sets no limit; 0: unlimited",
    ),
    Setting(
        name="dispatcher.targets", read=optional_texts, default=None, about="the allowed kinds of targets; default: all"
    ),
    Setting(
        name="dispatcher.command.roles",
        read=texts_of("admin", "namespace_admin"),
        default=("admin",),
        about="the roles that may save jobs with commands, if auth is on",
    ),
    Setting(
        name="dispatcher.command.user", read=optional_text, default=None, about="the system user that commands run as"
    ),
    Setting(
        name="dispatcher.command.limits", read=limits, default={}, about="limits of every command; jobs may lower them"
    ),
    Setting(name="dispatcher.http.timeout", read=duration, default=30.0, about="the default timeout of a webhook"),
    Setting(name="dispatcher.http.allow_private", read=flag, default=False, about="allow webhooks to private networks"),
    Setting(name="dispatcher.http.allow_hosts", read=texts, default=(), about="private hosts that webhooks may reach"),
    Setting(
        name="dispatcher.http.max_idle_conns",
        read=whole_number(0),
        default=1_000,
        about="idle connections kept for reuse",
    ),
    Setting(
        name="dispatcher.http.idle_conn_timeout",
        read=duration,
        default=4.0,
        about="how long an idle connection is kept",
    ),
    Setting(
        name="defaults.retry.max_attempts",
        read=optional_whole_number(1),
        default=3,
        about="attempts per task; 1: no retries",
    ),
    Setting(
        name="defaults.retry.initial_interval", read=duration, default=1.0, about="the pause before the second attempt"
    ),
    Setting(name="defaults.retry.multiplier", read=number(1), default=2.0, about="the growth of each pause"),
    Setting(name="defaults.retry.max_interval", read=duration, default=3600.0, about="the longest pause"),
    Setting(
        name="defaults.retry.timeout_multiplier",
        read=number(1),
        default=1.0,
        about="the growth of the task timeout from attempt to attempt",
    ),
    Setting(
        name="defaults.execution_timeout",
        read=duration,
        default=3600.0,
        about="the time limit of an execution, without waiting",
    ),
    Setting(name="defaults.task_timeout", read=duration, default=300.0, about="the time limit of one attempt"),
    Setting(
        name="defaults.overlap",
        read=one_of(*Overlap, aliases=OVERLAP_ALIASES),
        default="skip",
        about="what to do while an earlier run is active",
    ),
    Setting(
        name="defaults.recovery",
        read=one_of(*RecoveryStrategy, aliases=RECOVERY_ALIASES),
        default="last",
        about="what to do about missed instants",
    ),
    Setting(
        name="queue.max_pending",
        read=whole_number(1, 100_000_000),
        default=100_000,
        about="ready and queued executions; beyond that 429",
    ),
    Setting(
        name="queue.submit_rate",
        read=optional_rate,
        default=None,
        about="requests per second and client that save jobs or start runs; beyond it 429",
    ),
    Setting(name="auth.type", read=one_of("none", "basic"), default="none", about="how users log in"),
    Setting(name="auth.users", read=mapping, default={}, about="name: {password_hash, role}", secret=True),
    Setting(name="auth.tokens", read=mapping, default={}, about="name: {token_hash, role}", secret=True),
    Setting(
        name="logging.level",
        read=one_of("debug", "info", "warning", "error"),
        default="info",
        about="the minimum level of log lines",
    ),
    Setting(
        name="logging.format",
        read=one_of("json", "console"),
        default=None,
        about="default: console on a terminal, else json",
    ),
    Setting(name="logging.output", read=one_of("stderr", "stdout"), default="stderr", about="where log lines go"),
    Setting(name="metrics.prometheus.enabled", read=flag, default=True, about="whether metrics are served"),
    Setting(name="metrics.prometheus.path", read=url_path, default="/metrics", about="the path of the metrics"),
    Setting(name="metrics.per_job", read=flag, default=True, about="a label with the name of the job"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}

#: Other names for the same settings.
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
#: The setting with the other servers of a cluster. A server without a shared store refuses to start with it.
PEERS = "cluster.raft.peers"
#: Settings that are accepted but ignored, with a warning that says why.
IGNORED = {
    PEERS: "servers work together by sharing a PostgreSQL store",
    "cluster.raft": "servers work together by sharing a PostgreSQL store",
    "server.grpc": "Chronos has no gRPC API",
    "alerting": "alerts are not supported yet",
}
