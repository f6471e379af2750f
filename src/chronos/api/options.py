"""Options of the API."""

from dataclasses import dataclass
from enum import StrEnum

from chronos.errors import Invalid


class CommandAuthor(StrEnum):
    """A role that may save jobs with commands."""

    ADMIN = "admin"  # in all namespaces
    NAMESPACE_ADMIN = "namespace_admin"  # in the job's namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """Limits and paths of the API."""

    base_path: str = ""  # the prefix of every path, behind a proxy
    request_limit: int = 2 << 20  # bytes per body
    request_timeout_s: float = 30.0
    write_timeout_s: float = 30.0  # for the client to receive a response
    metrics_path: str | None = "/metrics"  # None: no metrics
    submit_rate: float | None = None  # requests per second and client
    max_streams: int = 500  # of events or logs, at once
    max_streams_each: int = 50  # per principal and per address
    heartbeat_s: float = 15.0  # of an idle stream
    poll_s: float = 1.0  # of a stream without hints
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose forwarded addresses are trusted
    hosts: tuple[str, ...] = ()  # host names that are accepted without authentication, besides localhost
    public_docs: bool = True  # False: the documentation of the API needs credentials
    command_authors: frozenset[CommandAuthor] = frozenset((CommandAuthor.ADMIN,))  # with authentication

    def __post_init__(self) -> None:
        if self.base_path and (not self.base_path.startswith("/") or self.base_path.endswith("/")):
            raise Invalid(f'server.base_path is "{self.base_path}"; write it like /chronos, or leave it out')
