"""Finds a pooler between this node and PostgreSQL, and refuses one that does not keep sessions.

A node sets up each session once, and prepares statements in it. In transaction mode, a pooler gives the session to
another client after each transaction: the node would use the session of another program, and change its settings.
"""

import asyncpg

from chronos.errors import StoreBroken
from chronos.store.sql.postgres.connection import Connection, build_connect_options
from chronos.store.sql.postgres.database_url import DatabaseUrl
from chronos.store.sql.postgres.errors import SHARED_SESSION_ADVICE

_ROUNDS = 8  # other clients of a busy pooler may hide in one round that sessions are shared
_SELECT_SESSION = "select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()"


async def connect_without_session(url: DatabaseUrl) -> Connection:
    """Return a new connection that changes nothing in the session: no settings, no named statements."""
    return await asyncpg.connect(**build_connect_options(url) | {"statement_cache_size": 0})


async def check_pooler(connection: Connection, url: DatabaseUrl) -> None:
    """Raise ``StoreBroken`` if two connections share a session, or if one does not keep its session."""
    session = await connection.fetchrow(_SELECT_SESSION)
    if session["pid"] == connection.get_server_pid():
        return  # a pooler announces another process id
    other = await connect_without_session(url)
    try:
        for _ in range(_ROUNDS):
            if (
                await other.fetchrow(_SELECT_SESSION) == session
                or await connection.fetchrow(_SELECT_SESSION) != session
            ):
                raise StoreBroken(f"{url.place} is behind a pooler in transaction mode; {SHARED_SESSION_ADVICE}")
    finally:
        other.terminate()
