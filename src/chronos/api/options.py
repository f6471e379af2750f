"""What the API is told about itself."""

from dataclasses import dataclass
from enum import StrEnum

from chronos.errors import Invalid


class CommandAuthor(StrEnum):
    """A role whose holders may save jobs that run commands."""

    ADMIN = "admin"  # of all namespaces
    NAMESPACE_ADMIN = "namespace_admin"  # of the job's namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """Bounds, and where it stands."""

    base_path: str = ""  # a prefix of every path, behind a proxy
    request_limit: int = 2 << 20  # bytes of a body
    request_timeout_s: float = 30.0
    write_timeout_s: float = 30.0  # how long an answer may wait for its client to take it
    metrics_path: str | None = "/metrics"  # None: there are none to read
    submit_rate: float | None = None  # of one client, a second
    max_streams: int = 500  # that follow events or logs at once
    max_streams_each: int = 50  # of these, of one principal and of one address
    heartbeat_s: float = 15.0  # of a stream on which nothing happens
    poll_s: float = 1.0  # how often a stream looks by itself, where no hint comes
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose forwarded addresses are believed
    hosts: tuple[str, ...] = ()  # names under which it may be called without authentication, beside localhost
    public_docs: bool = True  # False: the documentation of the API needs credentials
    command_authors: frozenset[CommandAuthor] = frozenset((CommandAuthor.ADMIN,))  # where there is authentication

    def __post_init__(self) -> None:
        if self.base_path and (not self.base_path.startswith("/") or self.base_path.endswith("/")):
            raise Invalid(f'server.base_path is "{self.base_path}"; write it like /chronos, or leave it out')
