"""The bare statements on PostgreSQL: the smallest durable admit + claim, claim and settle."""

import time

import asyncpg

from bench.bare import Batch

TABLES = """
create table bare_gate (job bytea primary key, next_us bigint, active int not null default 0,
    seq bigint not null default 0) with (fillfactor = 60);
create index on bare_gate (next_us);
create table bare_active (id bytea primary key, job bytea, due bigint, rank bigint, status int, owner int, token bigint,
    started bigint) with (fillfactor = 80);
create index on bare_active (rank, id) where status = 1;
create unique index on bare_active (job) where status = 3;
create table bare_history (id bytea primary key, job bytea, due bigint, status int, owner int, token bigint,
    started bigint, finished bigint);
create index on bare_history (job, id);
"""
ADMIT = """
with d as materialized (
    select i.*, g.seq + 1 as token from bare_gate as g
    join unnest($1::bytea[], $2::bytea[]) as i (job, id) using (job)
    where g.next_us = $3 order by g.job for update of g skip locked
), moved as (
    update bare_gate as g set next_us = $3 + 1, active = g.active + 1, seq = g.seq + 1 from d where g.job = d.job
), opened as (
    insert into bare_active select id, job, $3, $3, $4, $5, token, $6 from d
) select id, token from d"""
CLAIM = """
with c as materialized (
    select id from bare_active where status = 1 order by rank, id limit $1 for update skip locked
) update bare_active as a set status = 3, owner = 1, token = a.token + 1, started = $2 from c where a.id = c.id
returning a.id, a.job, a.due, a.token"""
SETTLE = """
with o as (select * from unnest($1::bytea[], $2::bytea[]) as t (id, job)),
l as materialized (select g.job from bare_gate as g where g.job = any($2) order by g.job for update),
e as (
    delete from bare_active as a using o where (select count(*) from l) >= 0 and a.id = o.id returning a.*
), h as (
    insert into bare_history select id, job, due, 10, owner, token, started, $3 from e
) update bare_gate as g set active = g.active - n.k from (select job, count(*) as k from e group by job) as n
where g.job = n.job"""


class BarePostgres:
    """Jobs by id, all due at the same time; one connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._db: asyncpg.Connection

    async def open(self, jobs: list[bytes]) -> None:
        """Create the tables."""
        self._db = await asyncpg.connect(self._url, server_settings={"plan_cache_mode": "force_generic_plan"})
        await self._db.execute(TABLES)
        await self._db.copy_records_to_table(
            "bare_gate", records=[(job, 0) for job in jobs], columns=["job", "next_us"]
        )
        await self._db.execute("analyze bare_gate")

    async def admit(self, batch: Batch, due: int, *, claim: bool = True) -> None:
        """Admit (job, execution) rows of the instant ``due``. The next instant is a second later."""
        jobs, ids = [job for job, _ in batch], [run for _, run in batch]
        status, owner, started = (3, 1, _now()) if claim else (1, None, None)
        await self._db.fetch(ADMIT, jobs, ids, due, status, owner, started)

    async def claim(self, limit: int) -> None:
        """Claim the best-ranked ready executions."""
        await self._db.fetch(CLAIM, limit, _now())

    async def settle(self, batch: Batch) -> None:
        """Move (job, execution) rows to history."""
        await self._db.execute(SETTLE, [run for _, run in batch], [job for job, _ in batch], _now())

    async def close(self) -> None:
        """Close the connection."""
        await self._db.close()


def _now() -> int:
    return time.time_ns() // 1000
