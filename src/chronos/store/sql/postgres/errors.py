"""PostgreSQL's bad news: what an error means for the driver, and the one sentence it becomes for a person."""

import os
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from chronos.errors import ChronosError, Conflict, Invalid, StoreBroken, StoreUnavailable
from chronos.store.sql.executions.gates import LostRace

_UNREADABLE = "the store URL cannot be understood; write it as postgresql://user:password@host:5432/database"


@dataclass(frozen=True, slots=True)
class ConnectionPlace:
    """Where a database is, in words: never with the password."""

    host: str
    database: str
    user: str

    @classmethod
    def of(cls, url: str) -> "ConnectionPlace":
        """The place that a store URL names, filled in as the client library would."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise Invalid(_UNREADABLE) from None
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        login, _, host = parts.netloc.rpartition("@")
        user = unquote(login.partition(":")[0]) or query.get("user") or os.environ.get("PGUSER", "")
        named = unquote(parts.path[1:]) or query.get("dbname") or query.get("database") or os.environ.get("PGDATABASE")
        return cls(host or query.get("host") or os.environ.get("PGHOST") or "localhost", named or user, user)

    def __str__(self) -> str:
        return f'PostgreSQL at {self.host}, database "{self.database}"'


_ADMIN_SHUTDOWN, _CRASH_SHUTDOWN, _CANNOT_CONNECT_NOW = "57P01", "57P02", "57P03"
_IDLE_IN_TRANSACTION, _IDLE_SESSION = "25P03", "57P05"
_CONNECTION_ENDED_STATES = {_ADMIN_SHUTDOWN, _CRASH_SHUTDOWN, _CANNOT_CONNECT_NOW, _IDLE_IN_TRANSACTION, _IDLE_SESSION}
_SERIALIZATION, _DEADLOCK, _UNIQUE = "40001", "40P01", "23505"
_LOGIN_STATE_PREFIXES = ("28", "3D")  # login and database name: waiting changes nothing

#: Whatever talking to the server can raise.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or no answer came in time: what was sent may or may not have happened."""
    state = _state(error)
    return (
        isinstance(error, OSError)
        or state in _CONNECTION_ENDED_STATES
        or state.startswith("08")
        or _is_client_state_error(error)
    )


def is_transaction_conflict(error: BaseException) -> bool:
    """Whether the same transaction, begun anew, may well succeed: another one got in its way."""
    return isinstance(error, LostRace) or _state(error) in (_SERIALIZATION, _DEADLOCK, _UNIQUE)


def is_deadlock(error: BaseException) -> bool:
    """Whether two transactions waited for each other."""
    return _state(error) == _DEADLOCK


def is_user_statement_error(error: BaseException) -> bool:
    """Whether a statement of the user's own is at fault, or what was passed to it, and not the server or its load."""
    if isinstance(error, asyncpg.PostgresError):
        return not _state(error).startswith(_SERVER_FAULT_STATE_PREFIXES)
    return isinstance(error, asyncpg.InterfaceError | TypeError | ValueError)


def is_final(error: BaseException) -> bool:
    """Whether connecting again cannot help until a person changes something."""
    return _state(error).startswith(_LOGIN_STATE_PREFIXES)


def to_store_error(error: BaseException, place: ConnectionPlace) -> ChronosError:
    """What went wrong in a sentence, and what to do."""
    if isinstance(error, ValueError) and _state(error) == "":
        return Invalid(_UNREADABLE)
    if isinstance(error, OSError) or (is_connection_lost(error) and _state(error) not in _CONNECTION_ENDED_STATES):
        reason = str(error) or "no answer in time"
        return StoreUnavailable(f"{place} cannot be reached ({reason}); check that it runs and that the URL is right")
    if isinstance(error, LostRace):
        return StoreUnavailable(f"{place}: others kept changing the same things; try again")
    for states, build, sentence in _SENTENCES:
        if _state(error).startswith(states):
            return build(sentence.format(place=place, user=place.user, database=place.database, error=error))
    return StoreBroken(f"{place}: {error}")


def to_store_error_if_postgres(error: Exception, place: ConnectionPlace) -> Exception:
    """The same, but for errors that are none of PostgreSQL's: they stay as they are."""
    return to_store_error(error, place) if isinstance(error, (*DRIVER_ERRORS, LostRace)) else error


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def _is_client_state_error(error: BaseException) -> bool:
    """The client library found its connection closed, or something in it that it did not expect."""
    return type(error) in (asyncpg.InterfaceError, asyncpg.InternalClientError)


_SERVER_FAULT_STATE_PREFIXES = ("08", "25P03", "40", "53", "55P03", "57", "58", "XX")
_SENTENCES: tuple[tuple[tuple[str, ...], type[ChronosError], str], ...] = (
    (
        ("28",),
        StoreUnavailable,
        '{place} refuses the user "{user}"; correct the user name and password in the store URL, or pg_hba.conf',
    ),
    (
        ("3D",),
        StoreUnavailable,
        '{place} does not exist; create it (createdb "{database}"), or correct the store URL',
    ),
    (
        ("53300",),
        StoreUnavailable,
        "{place} has no connection left; raise max_connections there, or run fewer nodes",
    ),
    (("53100",), StoreUnavailable, "{place} has a full disk; free some space, then try again: nothing was lost"),
    (("53",), StoreUnavailable, "{place} is out of resources ({error}); give it more, then try again"),
    (("57P03",), StoreUnavailable, "{place} is just starting or stopping; try again in a moment"),
    (("57P", "25P03"), StoreUnavailable, "{place} ended the connection ({error}); try again in a moment"),
    (("25006",), StoreUnavailable, "{place} is read-only, perhaps a standby; connect to the primary"),
    (("40",), StoreUnavailable, "{place}: too many changes of the same things at once; try again"),
    (("55P03", "57014"), StoreUnavailable, "{place} gave up waiting ({error}); try again"),
    (("22",), Invalid, "PostgreSQL does not take this: {error}"),
    (("23",), Conflict, "somebody else changed the same things at the same time ({error}); read them again"),
    (
        ("42501",),
        StoreBroken,
        '{place}: the user "{user}" may not do what is needed ({error}); grant it, or use another user',
    ),
    (("XX001", "XX002"), StoreBroken, "{place} is damaged ({error}); restore a backup"),
    (
        ("42", "3F"),
        StoreBroken,
        "{place} is not as this release expects it ({error}); was its schema changed by hand?",
    ),
)
