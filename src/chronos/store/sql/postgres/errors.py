"""PostgreSQL errors: what each means for the store, and its message for a person."""

import ssl

import asyncpg

from chronos.errors import ChronosError, Conflict, Invalid, StoreBroken, StoreUnavailable
from chronos.store.sql.executions.gates import LostRace
from chronos.store.sql.postgres.database_url import UNREADABLE, ConnectionAddress

SHARED_SESSION_ADVICE = (
    "set pool_mode = session for this database in the pooler, or use a store URL that does not go through it"
)
_ADMIN_SHUTDOWN, _CRASH_SHUTDOWN, _CANNOT_CONNECT_NOW = "57P01", "57P02", "57P03"
_IDLE_IN_TRANSACTION, _IDLE_SESSION = "25P03", "57P05"
_CONNECTION_ENDED_STATES = {_ADMIN_SHUTDOWN, _CRASH_SHUTDOWN, _CANNOT_CONNECT_NOW, _IDLE_IN_TRANSACTION, _IDLE_SESSION}
_SERIALIZATION, _DEADLOCK, _UNIQUE = "40001", "40P01", "23505"
_PROTOCOL_VIOLATION = "08P01"
_LOGIN_STATE_PREFIXES = ("28", "3D")  # login and database name: retrying does not help


class SessionNotEnded(TimeoutError):
    """The server has not ended an earlier session of this node, which may still commit."""


#: Every error that the driver can raise.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection is lost, or no answer came in time. The statement may or may not have been run."""
    state = _state(error)
    return (
        isinstance(error, OSError)
        or state in _CONNECTION_ENDED_STATES
        or state.startswith("08")
        or _is_client_state_error(error)
    )


def is_transaction_conflict(error: BaseException) -> bool:
    """Whether another transaction interfered, so that a retry may succeed."""
    return isinstance(error, LostRace) or _state(error) in (_SERIALIZATION, _DEADLOCK, _UNIQUE)


def is_deadlock(error: BaseException) -> bool:
    """Whether the error is a deadlock."""
    return _state(error) == _DEADLOCK


def is_user_statement_error(error: BaseException) -> bool:
    """Whether a user's statement or its arguments are at fault, and not the server."""
    if isinstance(error, asyncpg.PostgresError):
        return not _state(error).startswith(_SERVER_FAULT_STATE_PREFIXES)
    return isinstance(error, asyncpg.InterfaceError | TypeError | ValueError)


def is_final(error: BaseException) -> bool:
    """Whether reconnecting cannot help until a person changes something."""
    return _state(error).startswith(_LOGIN_STATE_PREFIXES)


def to_store_error(error: BaseException, place: ConnectionAddress) -> ChronosError:
    """Return the error for a person: what is wrong and what to do."""
    if isinstance(error, asyncpg.ClientConfigurationError):
        return Invalid(f"invalid store URL: {error}")
    if isinstance(error, ValueError) and not isinstance(error, OSError) and _state(error) == "":
        return Invalid(UNREADABLE)
    if isinstance(error, SessionNotEnded):
        return StoreUnavailable(
            f"{place} has not ended an earlier session of this node; try again, or end it with pg_terminate_backend"
        )
    if isinstance(error, OSError) or (is_connection_lost(error) and _state(error) not in _CONNECTION_ENDED_STATES):
        return StoreUnavailable(_explain_unreachable(error, place))
    if isinstance(error, LostRace):
        return StoreUnavailable(f"{place}: other nodes kept changing the same rows; try again")
    for states, build, sentence in _SENTENCES:
        if _state(error).startswith(states):
            return build(sentence.format(place=place, user=place.user, database=place.database, error=error))
    return StoreBroken(f"{place}: unexpected error ({error}); run chronos doctor")


def _explain_unreachable(error: BaseException, place: ConnectionAddress) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {place} is not accepted ({error.verify_message}); name the file of the authority "
            "that signed it as sslrootcert in the store URL, and the host as the certificate does"
        )
    if isinstance(error, ssl.SSLError):
        return f"{place} refuses TLS ({error.reason}); check sslmode, sslcert and sslkey in the store URL"
    if isinstance(error, ConnectionError) and "rejected SSL upgrade" in str(error):
        return f"{place} does not offer TLS; set ssl = on in postgresql.conf, or change sslmode in the store URL"
    if isinstance(error, TimeoutError):
        return (
            f"{place} cannot be reached ({str(error) or 'no answer in time'}); check that it runs and that the store "
            "URL is right, and that a pooler in front of it has enough connections (pool_size)"
        )
    if isinstance(error, FileNotFoundError) and place.host.startswith("/"):
        return (
            f"{place} cannot be reached (no socket there); check that it runs and that host in the store URL is right"
        )
    if _state(error) == _PROTOCOL_VIOLATION:  # the code of PgBouncer for every refusal
        return f"{place} refuses the connection ({error}); correct the store URL, or the settings of the pooler"
    return f"{place} cannot be reached ({error}); check that it runs and that the store URL is right"


def to_store_error_if_postgres(error: Exception, place: ConnectionAddress) -> Exception:
    """Like ``to_store_error``, but returns errors that are not PostgreSQL's unchanged."""
    return to_store_error(error, place) if isinstance(error, (*DRIVER_ERRORS, LostRace)) else error


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def _is_client_state_error(error: BaseException) -> bool:
    """Whether the client library found its connection closed or in an unexpected state."""
    return type(error) in (asyncpg.InterfaceError, asyncpg.InternalClientError)


_SERVER_FAULT_STATE_PREFIXES = ("08", "25P03", "40", "53", "55P03", "57", "58", "XX")
_SENTENCES: tuple[tuple[tuple[str, ...], type[ChronosError], str], ...] = (
    (
        ("28",),
        StoreUnavailable,
        '{place} rejects the user "{user}"; correct the user name and password in the store URL, or pg_hba.conf',
    ),
    (
        ("3D",),
        StoreUnavailable,
        '{place} does not exist; create it (createdb "{database}"), or correct the store URL',
    ),
    (
        ("53300",),
        StoreUnavailable,
        "{place} has no connections left; raise max_connections in postgresql.conf, or run fewer nodes",
    ),
    (
        ("53100",),
        StoreUnavailable,
        "the disk of {place} is full; free some space, then try again (no acknowledged change is lost)",
    ),
    (
        ("53",),
        StoreUnavailable,
        "{place} is out of memory, disk or connections ({error}); give it more, then try again",
    ),
    (("57P03",), StoreUnavailable, "{place} is starting or stopping; try again in a moment"),
    (("57P", "25P03"), StoreUnavailable, "{place} ended the connection ({error}); try again in a moment"),
    (("25006",), StoreUnavailable, "{place} is read-only, perhaps a standby; use the primary in the store URL"),
    (("40",), StoreUnavailable, "{place}: too many concurrent changes of the same rows; try again"),
    (("55P03", "57014"), StoreUnavailable, "{place} timed out ({error}); try again"),
    (("22",), Invalid, "PostgreSQL rejects a value: {error}"),
    (("23",), Conflict, "another client changed the same rows at the same time ({error}); read them again"),
    (
        ("42501",),
        StoreBroken,
        '{place}: the user "{user}" lacks a permission ({error}); grant it, or use another user',
    ),
    (
        ("26000", "42P05"),
        StoreBroken,
        f"{{place}}: a pooler gives the session of this node to other clients ({{error}}); {SHARED_SESSION_ADVICE}",
    ),
    (("XX001", "XX002"), StoreBroken, "{place} is damaged ({error}); restore a backup"),
    (
        ("42", "3F"),
        StoreBroken,
        "{place} does not have the expected schema ({error}); undo manual changes, or restore a backup",
    ),
)
