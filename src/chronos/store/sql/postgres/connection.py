"""Connections to PostgreSQL, directly or through a pooler, and a connection that reconnects.

A connection sends no settings when it is opened, because poolers refuse them. It sets them afterwards, which needs a
session of its own: see ``pooler``. The process id that a pooler announces is invented, so the server is asked for it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg

from chronos.store.sql.postgres.database_url import ConnectionAddress, DatabaseUrl
from chronos.store.sql.postgres.errors import DRIVER_ERRORS, SessionNotEnded, is_final, to_store_error
from chronos.store.sql.postgres.session_settings import SessionKind, build_settings

STATEMENT_TIMEOUT_S = 30.0
REPLAN_S = 10.0
_CLOSE_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.02
_MAX_PAUSE_S = 1.0

Connection = Any
Connect = Callable[[], Awaitable[Connection]]


def build_connect_options(url: DatabaseUrl) -> dict[str, Any]:
    """Return the options of every connection, pooled or not."""
    return {
        "dsn": url.driver_url,
        "timeout": url.connect_timeout_s,
        "command_timeout": STATEMENT_TIMEOUT_S,
        "statement_cache_size": 512,
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
    }


async def set_up_session(connection: Connection, url: DatabaseUrl, kind: SessionKind) -> None:
    """Set up a new connection: its settings, and ids as 16 bytes."""
    settings = build_settings(kind, url.schema, url.application_name)
    await connection.fetch(_SET_ALL, list(settings), list(settings.values()), timeout=url.connect_timeout_s)
    await connection.set_type_codec("uuid", schema="pg_catalog", encoder=bytes, decoder=bytes, format="binary")


async def connect(url: DatabaseUrl, kind: SessionKind) -> Connection:
    """Return a new connection that is ready for use."""
    connection = await asyncpg.connect(**build_connect_options(url))
    try:
        await set_up_session(connection, url, kind)
    except BaseException:
        connection.terminate()
        raise
    return connection


class _Session(NamedTuple):
    """What identifies a session of the server. Behind a pooler, another client may use its process later.

    The name contains a random part, and the pooler resets it before it gives the process to another client.
    """

    process: int
    started: datetime
    name: str


class ReconnectPolicy:
    """Decides how long to retry while the server cannot be reached. All connections of a store share it.

    The limit is counted from the first error. After the limit, each caller tries once and then gets the error.
    """

    def __init__(self, place: ConnectionAddress, limit_s: float) -> None:
        self._place, self._limit_s = place, limit_s
        self._since_s: float | None = None
        self._tries = 0

    def reset(self) -> None:
        """Note that the server answers again."""
        self._since_s, self._tries = None, 0

    async def wait_or_raise(self, error: BaseException) -> None:
        """Wait before the next try, longer each time. After the limit, raise the error as a ``ChronosError``."""
        now_s = asyncio.get_running_loop().time()
        if self._since_s is None:
            self._since_s = now_s
        if is_final(error) or now_s - self._since_s >= self._limit_s:
            raise to_store_error(error, self._place) from error
        pause_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2**self._tries)
        self._tries = min(self._tries + 1, 10)
        await asyncio.sleep(pause_s * random.uniform(0.5, 1))


class ReconnectingConnection:
    """One connection that is opened when needed, and again after it was lost.

    - Plans are discarded every few seconds; then ``on_replan`` is called.
    - The server may notice late that a connection is lost, and continue its statement. So before a new connection is
      used, the old session is terminated: what it has not committed by then is never committed.
    """

    def __init__(
        self, connect: Connect, reconnect_policy: ReconnectPolicy, on_replan: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self._connect, self._reconnect_policy, self._on_replan = connect, reconnect_policy, on_replan
        self._connection: Connection | None = None
        self._session: _Session | None = None
        self._plans_discarded_s = 0.0
        self._lost_sessions: list[_Session] = []

    async def get(self) -> Connection:
        """Return the open connection. Raises ``Unavailable`` after the limit of the policy."""
        while True:
            now_s = asyncio.get_running_loop().time()
            try:
                if self._connection is None or self._connection.is_closed():
                    self.drop()
                    self._connection = await self._renew()
                    self._plans_discarded_s = float("-inf")
                if now_s - self._plans_discarded_s >= REPLAN_S:
                    await self._connection.execute("discard plans")
                    await self._on_replan(self._connection)
                    self._plans_discarded_s = now_s
                return self._connection
            except DRIVER_ERRORS as error:
                self.drop()
                await self._reconnect_policy.wait_or_raise(error)

    def drop(self) -> None:
        """Drop the connection, whatever its state."""
        if self._session is not None:
            self._lost_sessions.append(self._session)
        if self._connection is not None:
            self._connection.terminate()
        self._connection = self._session = None

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._session = self._connection, None, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=_CLOSE_TIMEOUT_S)
            except DRIVER_ERRORS:
                connection.terminate()

    async def _renew(self) -> Connection:
        connection = await self._connect()
        try:
            await self._end_lost_sessions(connection)
            self._session = _Session(*await connection.fetchrow(_NAME_SESSION, uuid4().hex[:12]))
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _end_lost_sessions(self, connection: Connection) -> None:
        while self._lost_sessions:
            pause_s = 0.005
            while await connection.fetch(_END_SESSION, *self._lost_sessions[-1]):
                if pause_s > _MAX_PAUSE_S:
                    raise SessionNotEnded
                await asyncio.sleep(pause_s)
                pause_s *= 2
            self._lost_sessions.pop()


_SET_ALL = "select set_config(name, value, false) from unnest($1::text[], $2::text[]) as s(name, value)"
_NAME_SESSION = """
    select pid, backend_start, set_config('application_name', current_setting('application_name') || ' ' || $1, false)
    from pg_stat_activity where pid = pg_backend_pid()"""
_END_SESSION = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid = $1 and backend_start = $2 and application_name = $3"""
