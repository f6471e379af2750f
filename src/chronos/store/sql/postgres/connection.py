"""Connections to PostgreSQL: how each is set up, and one that comes back when it breaks.

Plans are made once for each statement and connection, and kept. PostgreSQL would make them for the tables as they are
at that moment, and ``active`` is often empty when it looks: a plan that reads it whole then stays in use when it holds
a hundred thousand rows. So on writing connections every way of joining but by hash is turned off, and reading a table
whole as well: statements name the keys they want (``Dialect.within``), and are as fast whatever the statistics say.
Before version 17 a table of a few rows may still be read whole; plans are therefore made anew every few seconds.
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
    # A node that is frozen or cut off must not hold its gates for ever.
    "idle_in_transaction_session_timeout": "15s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
# Lists are read in order off an index, and end where the page does; what is to be sorted is read to its end first.
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
    """What every connection is made with, pooled or not."""
    return {
        "server_settings": settings,
        "timeout": CONNECT_TIMEOUT_S,
        "command_timeout": STATEMENT_TIMEOUT_S,
        "statement_cache_size": 512,
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
    }


async def prepare(connection: Connection) -> None:
    """Ids are bytes on both sides: 16 of them, passed through as they are."""
    await connection.set_type_codec("uuid", schema="pg_catalog", encoder=bytes, decoder=bytes, format="binary")


async def connect(url: str, settings: dict[str, str]) -> Connection:
    """A connection that is ready for use."""
    connection = await asyncpg.connect(url, **build_connect_options(settings))
    try:
        await prepare(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


class ReconnectPolicy:
    """How long to go on trying while the server is away; shared by all connections of a store.

    Counted from the first sign of trouble: when it has run out, whoever comes later is told at once after one try.
    """

    def __init__(self, place: ConnectionPlace, limit_s: float) -> None:
        self._place, self._limit_s = place, limit_s
        self._since_s: float | None = None
        self._tries = 0

    def reset(self) -> None:
        """The server answers."""
        self._since_s, self._tries = None, 0

    async def wait_or_raise(self, error: BaseException) -> None:
        """Wait a little before the next try, longer each time; or raise what the error means when it is enough."""
        now_s = asyncio.get_running_loop().time()
        if self._since_s is None:
            self._since_s = now_s
        if is_final(error) or now_s - self._since_s >= self._limit_s:
            raise to_store_error(error, self._place) from error
        pause_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2**self._tries)
        self._tries = min(self._tries + 1, 10)
        await asyncio.sleep(pause_s * random.uniform(0.5, 1))


class ReconnectingConnection:
    """One connection, made when it is needed and made again when it was lost.

    Every few seconds its plans are made anew, and its user is given the opportunity to look around.
    The server may notice late that a connection is gone, and go on with what was sent. So before a new connection is
    used, the old session is ended and waited for: from then on, what it did not commit never will be.
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
        """The connection. Raises ``Unavailable`` when there is none to be had for long enough."""
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
        """Give the connection up, whatever state it is in."""
        if self._session is not None:
            self._lost_sessions.append(self._session)
        if self._connection is not None:
            self._connection.terminate()
        self._connection = self._session = None

    async def close(self) -> None:
        """Say goodbye."""
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
                    raise TimeoutError("an earlier session does not end")
                await asyncio.sleep(pause_s)
                pause_s *= 2
            self._lost_sessions.pop()


_SELECT_SESSION_START = "select backend_start from pg_stat_activity where pid = pg_backend_pid()"
_END_SESSION = "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_start = $2"
