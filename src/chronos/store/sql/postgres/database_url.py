"""The URL of a PostgreSQL store: where the database is, and the parameters that Chronos reads itself."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from chronos.errors import Invalid
from chronos.store.sql.postgres.advisory_locks import DEFAULT_SCHEMA

UNREADABLE = (
    "invalid store URL; write it as postgresql://user:password@host:5432/database, "
    "with special characters in the password percent-encoded (@ as %40, / as %2F)"
)
_DEFAULT_CONNECT_TIMEOUT_S = "10"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_APPLICATION_NAME = re.compile(r"[ -~]{1,32}")
OWN_PARAMETERS = ("schema", "application_name", "connect_timeout", "channel_binding")
_FILE_PARAMETERS = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
DRIVER_PARAMETERS = (
    *("host", "port", "dbname", "database", "user", "password", "service", "options", "target_session_attrs"),
    *("sslmode", *_FILE_PARAMETERS, "sslpassword", "sslnegotiation"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib"),
)


@dataclass(frozen=True, slots=True)
class ConnectionAddress:
    """Host, database and user of a connection, for messages. It never contains the password."""

    host: str
    database: str
    user: str

    @classmethod
    def of(cls, url: str) -> "ConnectionAddress":
        """Read a store URL, with the same defaults as the client library."""
        return DatabaseUrl.parse(url).place

    def __str__(self) -> str:
        return f'PostgreSQL at {self.host}, database "{self.database}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """A parsed store URL. ``driver_url`` has only the parameters of the client library."""

    driver_url: str
    place: ConnectionAddress
    schema: str
    application_name: str
    connect_timeout_s: float
    files: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, url: str) -> "DatabaseUrl":
        """Read a store URL. Raises ``Invalid`` for unknown parameters and invalid values."""
        try:
            parts = urlsplit(url)
            given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise Invalid(UNREADABLE) from None
        if parts.scheme not in ("postgresql", "postgres") or parts.fragment or parts.netloc.count("@") > 1:
            raise Invalid(UNREADABLE)
        query = dict(given)
        schema = _read_schema(query.pop("schema", DEFAULT_SCHEMA))
        application_name = _read_application_name(query.pop("application_name", "chronos"))
        connect_timeout_s = _read_connect_timeout_s(query.pop("connect_timeout", _DEFAULT_CONNECT_TIMEOUT_S))
        _check_channel_binding(query.pop("channel_binding", "prefer"))
        if unknown := [name for name in query if name not in DRIVER_PARAMETERS]:
            known = ", ".join(sorted((*OWN_PARAMETERS, *DRIVER_PARAMETERS)))
            raise Invalid(f'the store URL has the unknown parameter "{unknown[0]}"; remove it, or use one of: {known}')
        return cls(
            driver_url=urlunsplit(parts._replace(query=urlencode(query))),
            place=_read_place(parts.netloc, parts.path, query),
            schema=schema,
            application_name=application_name,
            connect_timeout_s=connect_timeout_s,
            files=tuple((name, query[name]) for name in _FILE_PARAMETERS if name in query),
        )

    def check_files(self) -> None:
        """Raise ``Invalid`` if a file that the URL names cannot be read."""
        for name, path in self.files:
            if name == "sslrootcert" and path == "system":
                raise Invalid(
                    "sslrootcert=system is not supported; name the file with the system's certificates, "
                    "such as /etc/ssl/certs/ca-certificates.crt"
                )
            if not os.access(path, os.R_OK):
                raise Invalid(f"the store URL has {name}={path}, but this file cannot be read; correct the path")


def _read_place(netloc: str, path: str, query: Mapping[str, str]) -> ConnectionAddress:
    login, _, host = netloc.rpartition("@")
    user = unquote(login.partition(":")[0]) or query.get("user") or os.environ.get("PGUSER", "")
    named = unquote(path[1:]) or query.get("dbname") or query.get("database") or os.environ.get("PGDATABASE")
    host = unquote(host) or query.get("host") or os.environ.get("PGHOST") or "localhost"
    return ConnectionAddress(host, named or user, user)


def _read_schema(text: str) -> str:
    if not _SCHEMA.fullmatch(text) or text.startswith("pg_") or text == "information_schema":
        raise Invalid(
            f'invalid schema "{text}" in the store URL; '
            "use at most 63 lower-case letters, digits and _, starting with a letter, and not with pg_"
        )
    return text


def _read_application_name(text: str) -> str:
    if not _APPLICATION_NAME.fullmatch(text):
        raise Invalid("invalid application_name in the store URL; use at most 32 ASCII characters")
    return text


def _read_connect_timeout_s(text: str) -> float:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 3600:
        raise Invalid(f'invalid connect_timeout "{text}" in the store URL; use seconds from 1 to 3600')
    return float(text)


def _check_channel_binding(text: str) -> None:
    if text not in ("disable", "prefer"):
        raise Invalid(
            f"channel_binding={text} in the store URL is not supported; "
            "remove it, and use sslmode=verify-full to verify the server"
        )
