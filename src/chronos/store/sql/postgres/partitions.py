"""Weekly partitions of history on PostgreSQL: created ahead, and dropped when the retention of every job has passed.

Ids start with their time, so a week is a range of ids. Rows without a partition, such as old recovered instants, go to
the default partition. Retention counts from the end of an execution: a week is kept while any row in it ended recently.
Every step is short, and gives up instead of making nodes wait.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import asyncpg

from chronos.core.ids import id_floor
from chronos.store.sql.postgres.advisory_locks import AdvisoryLock
from chronos.store.sql.postgres.connection import Connection

WEEK_US = 7 * 86_400 * 1_000_000
_MONDAY_US = 4 * 86_400 * 1_000_000  # the first Monday: the epoch was a Thursday
WEEKS_AHEAD = 2
_MAX_MOVED_ROWS = 10_000
_MAX_COPIED_WEEKS = 520
_MAX_TRIMMED_ROWS = 1_000
_LOCK_TIMEOUT = "200ms"
PARTITION_COLUMN_BY_TABLE = {
    "history": "id",
    "attempt": "execution",
    "output": "execution",
}

#: Errors after which the step is tried again at the next call.
_RETRY_LATER_ERRORS = (
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.CheckViolationError,
    asyncpg.DuplicateTableError,
)


async def maintain_partitions(connection: Connection, schema: str, now_us: int) -> None:
    """Create partitions ahead of ``now_us`` and drop expired ones. Does nothing while another node does it."""
    lock = AdvisoryLock.UPKEEP.key(schema)
    if not await connection.fetchval(f"select pg_try_advisory_lock({lock})"):
        return
    try:
        kept_us = int(await connection.fetchval(_SELECT_LONGEST_RETENTION) or now_us)
        first_open: bytes | None = await connection.fetchval("select id from active order by id limit 1")
        cut = min(id_floor(now_us - kept_us), first_open or b"\xff" * 16)
        weeks = {
            start_us
            for table in PARTITION_COLUMN_BY_TABLE
            for start_us, attached in (await _weeks(connection, table)).items()
            if attached
        }
        expired = {
            start_us for start_us in weeks if await _is_week_expired(connection, start_us, cut, now_us - kept_us)
        }
        for table, column in PARTITION_COLUMN_BY_TABLE.items():
            existing = await _weeks(connection, table)
            for start_us in _list_upcoming_weeks(now_us):
                if start_us not in existing:
                    await _create(connection, table, column, start_us)
            for start_us, attached in existing.items():
                if attached and start_us in expired:
                    await _detach(connection, table, start_us)
            for name, _ in await connection.fetch(_SELECT_TABLES_BY_PATTERN, f"^{table}_gone_[0-9]{{8}}$"):
                await connection.execute(f"drop table {name}")
            await connection.execute(_trim_strays(table, column), cut, _MAX_TRIMMED_ROWS, now_us - kept_us)
        await connection.execute("delete from sent where sent < now() - interval '1 hour'")
    finally:
        if not connection.is_closed():
            await connection.execute(f"select pg_advisory_unlock({lock})")


async def list_weeks(find_execution: Callable[[bytes], Awaitable[bytes | None]]) -> list[int]:
    """Return the starts of the weeks that have executions. ``find_execution`` returns the first one from an id on.

    - Bounded: the first ``_MAX_COPIED_WEEKS``. Executions of later weeks go to the default partition.
    """
    weeks: list[int] = []
    floor = bytes(16)
    while len(weeks) < _MAX_COPIED_WEEKS and (execution := await find_execution(floor)) is not None:
        weeks.append(to_week_start_us(int.from_bytes(execution[:6]) * 1000))
        floor = id_floor(weeks[-1] + WEEK_US)
    return weeks


async def create_weeks(connection: Connection, weeks: Sequence[int]) -> None:
    """Create the partitions of these weeks, where they are missing."""
    for table, column in PARTITION_COLUMN_BY_TABLE.items():
        existing = await _weeks(connection, table)
        for start_us in weeks:
            if start_us not in existing:
                await _create(connection, table, column, start_us)


async def raise_longest_retention(connection: Connection, keep_age_us: int) -> None:
    """From now on, keep every partition that is younger than this."""
    await connection.execute(_RAISE_LONGEST_RETENTION, str(keep_age_us))


def to_week_start_us(at_us: int) -> int:
    """Return the start of the week of an instant."""
    return (at_us - _MONDAY_US) // WEEK_US * WEEK_US + _MONDAY_US


def _list_upcoming_weeks(now_us: int) -> list[int]:
    start_us = to_week_start_us(now_us)
    return [start_us + i * WEEK_US for i in range(WEEKS_AHEAD + 1)]


def _name(table: str, start_us: int) -> str:
    return f"{table}_{datetime.fromtimestamp(start_us // 1_000_000, UTC):%Y%m%d}"


async def _weeks(connection: Connection, table: str) -> dict[int, bool]:
    """Return the starts of weeks that have a table, and whether it is attached: a person may have detached it."""
    weeks = {}
    for name, attached in await connection.fetch(_SELECT_TABLES_BY_PATTERN, f"^{table}_[0-9]{{8}}$"):
        date = datetime.strptime(name.removeprefix(f"{table}_"), "%Y%m%d").replace(tzinfo=UTC)
        weeks[int(date.timestamp()) * 1_000_000] = attached
    return weeks


async def _create(connection: Connection, table: str, column: str, start_us: int) -> None:
    """Create one partition. Rows of its week in the default partition are moved; if they are too many, give up."""
    name = _name(table, start_us)
    bounds = [id_floor(start_us), id_floor(start_us + WEEK_US)]
    strays = f"from {table}_default where {column} >= $1 and {column} < $2"
    if await connection.fetchval(
        f"select count(*) from (select 1 {strays} limit {_MAX_MOVED_ROWS + 1}) as s", *bounds
    ) > (_MAX_MOVED_ROWS):
        return
    try:
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = '{_LOCK_TIMEOUT}'")
            await connection.execute(f"create table {name} (like {table} including defaults including constraints)")
            await connection.execute(
                f"with moved as (delete {strays} returning *) insert into {name} select * from moved", *bounds
            )
            low, high = (f"'{bound.hex()}'" for bound in bounds)
            await connection.execute(f"alter table {table} attach partition {name} for values from ({low}) to ({high})")
    except _RETRY_LATER_ERRORS:
        return


async def _detach(connection: Connection, table: str, start_us: int) -> None:
    """Detach and rename a partition, which needs a short lock. It is dropped later, when no statement uses it."""
    name = _name(table, start_us)
    try:
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = '{_LOCK_TIMEOUT}'")
            await connection.execute(f"alter table {table} detach partition {name}")
            await connection.execute(f"alter table {name} rename to {name.replace('_', '_gone_')}")
    except _RETRY_LATER_ERRORS:
        return


async def _is_week_expired(connection: Connection, start_us: int, cut: bytes, before_us: int) -> bool:
    """Whether no job keeps anything of a week: all of its ids are too old, and all of its rows ended too long ago."""
    low, high = id_floor(start_us), id_floor(start_us + WEEK_US)
    if high > cut:
        return False
    ended_us: int | None = await connection.fetchval(_LAST_END, low, high)
    return ended_us is None or ended_us < before_us


def _trim_strays(table: str, column: str) -> str:
    lately = f"select 1 from history as h where h.id = s.{column} and h.finished_us >= $3"
    old = f"select {column} from {table}_default as s where {column} < $1 and not exists ({lately}) order by 1 limit $2"
    return f"delete from {table}_default where {column} = any(array({old}))"


_SELECT_LONGEST_RETENTION = "select value from meta where name = 'keep_age_us'"
_RAISE_LONGEST_RETENTION = """
    insert into meta as m (name, value) values ('keep_age_us', $1)
    on conflict (name) do update set value = excluded.value where m.value::bigint < excluded.value::bigint"""
_LAST_END = "select finished_us from history where id >= $1 and id < $2 order by finished_us desc limit 1"
_SELECT_TABLES_BY_PATTERN = """
    select c.relname, c.relispartition from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = current_schema() and c.relkind = 'r' and c.relname ~ $1 order by c.relname"""
