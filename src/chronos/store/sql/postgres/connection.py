"""Connections to PostgreSQL: their settings, and a connection that reconnects.

PostgreSQL plans each statement once per connection and keeps the plan. It plans for the tables as they are then, and
``active`` is often empty at that moment: a plan that reads the whole table would stay in use when the table has a
hundred thousand rows. So writing connections turn off sequential scans and every join but the hash join. Statements
name the keys they need (``Dialect.within``), and are fast whatever the statistics say. Before version 17, PostgreSQL
may still read a table of a few rows completely, so plans are discarded every few seconds.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import asyncpg

from chronos.store.sql.postgres.errors import DRIVER_ERRORS, ConnectionPlace, is_final, to_store_error

SCHEMA = "chronos"
CONNECT_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_S = 30.0
REPLAN_S = 10.0
_FIRST_PAUSE_S = 0.02
_MAX_PAUSE_S = 1.0

_COMMON_SETTINGS = {
    "search_path": SCHEMA,
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    # A frozen or disconnected node must not hold its gates for ever.
    "idle_in_transaction_session_timeout": "15s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
# Lists are read in index order and end with the page. A sort would read all rows first.
READER_SETTINGS = _COMMON_SETTINGS | {
    "application_name": "chronos reader",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
}
LISTENER_SETTINGS = _COMMON_SETTINGS | {"application_name": "chronos listener"}
WRITER_SETTINGS = _COMMON_SETTINGS | {
    "application_name": "chronos writer",
    "enable_nestloop": "off",
    "enable_mergejoin": "off",
}

Connection = Any
Connect = Callable[[], Awaitable[Connection]]


def build_connect_options(settings: dict[str, str]) -> dict[str, Any]:
    """Return the options of every connection, pooled or not."""
    return {
        "server_settings": settings,
        "timeout": CONNECT_TIMEOUT_S,
        "command_timeout": STATEMENT_TIMEOUT_S,
        "statement_cache_size": 512,
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
    }


async def prepare(connection: Connection) -> None:
    """Set up a new connection: ids are passed as 16 bytes."""
    await connection.set_type_codec("uuid", schema="pg_catalog", encoder=bytes, decoder=bytes, format="binary")


async def connect(url: str, settings: dict[str, str]) -> Connection:
    """Return a new connection that is ready for use."""
    connection = await asyncpg.connect(url, **build_connect_options(settings))
    try:
        await prepare(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


class ReconnectPolicy:
    """Decides how long to retry while the server cannot be reached. All connections of a store share it.

    The limit is counted from the first error. After the limit, each caller tries once and then gets the error.
    """

    def __init__(self, place: ConnectionPlace, limit_s: float) -> None:
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
        self._session: tuple[int, datetime] | None = None
        self._plans_discarded_s = 0.0
        self._lost_sessions: list[tuple[int, datetime]] = []

    async def get(self) -> Connection:
        """Return the open connection. Raises ``Unavailable`` after the limit of the policy."""
        while True:
            now_s = asyncio.get_running_loop().time()
            try:
                if self._connection is None or self._connection.is_closed():
                    self.lose()
                    self._connection = await self._renew()
                    self._plans_discarded_s = float("-inf")
                if now_s - self._plans_discarded_s >= REPLAN_S:
                    await self._connection.execute("discard plans")
                    await self._on_replan(self._connection)
                    self._plans_discarded_s = now_s
                return self._connection
            except DRIVER_ERRORS as error:
                self.lose()
                await self._reconnect_policy.wait_or_raise(error)

    def lose(self) -> None:
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
                await connection.close(timeout=CONNECT_TIMEOUT_S)
            except DRIVER_ERRORS:
                connection.terminate()

    async def _renew(self) -> Connection:
        connection = await self._connect()
        try:
            await self._end_lost_sessions(connection)
            self._session = (connection.get_server_pid(), await connection.fetchval(_SELECT_SESSION_START))
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _end_lost_sessions(self, connection: Connection) -> None:
        while self._lost_sessions:
            pause_s = 0.005
            while await connection.fetch(_END_SESSION, *self._lost_sessions[-1]):
                if pause_s > _MAX_PAUSE_S:
                    raise TimeoutError("an earlier session of this node does not end")
                await asyncio.sleep(pause_s)
                pause_s *= 2
            self._lost_sessions.pop()


_SELECT_SESSION_START = "select backend_start from pg_stat_activity where pid = pg_backend_pid()"
_END_SESSION = "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_start = $2"
