"""The bare statements on SQLite: the smallest durable admit + claim, claim and settle."""

import time
from pathlib import Path

import apsw

from bench.bare import Batch

TABLES = """
create table gate (job blob primary key, next_us int, active int default 0, seq int default 0) without rowid;
create index gate_due on gate (next_us);
create table active (id blob primary key, job blob, due int, rank int, status int, owner int, token int, started int)
    without rowid;
create index active_ready on active (rank, id) where status = 1;
create unique index active_one on active (job) where status = 3;
create table history (id blob primary key, job blob, due int, status int, owner int, token int, started int,
    finished int) without rowid;
create index history_job on history (job, id);
create temp table batch (job blob, due int, next int, id blob, token int);
create temp table ended (id blob primary key, job blob, token int);
"""


class BareSqlite:
    """Jobs by id, all due at the same time."""

    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))

    async def open(self, jobs: list[bytes]) -> None:
        """Create the tables."""
        for pragma in ("journal_mode = wal", "synchronous = full", "cache_size = -65536", "temp_store = memory"):
            self._db.execute(f"pragma {pragma}")
        self._db.execute(TABLES)
        with self._db:
            self._db.executemany("insert into gate (job, next_us) values (?, 0)", [(job,) for job in jobs])

    async def admit(self, batch: Batch, due: int, *, claim: bool = True) -> None:
        """Admit (job, execution) rows of the instant ``due``. The next instant is a second later."""
        db, now = self._db, time.time_ns() // 1000
        with db:
            db.execute("delete from temp.batch")
            db.executemany(
                "insert into temp.batch values (?, ?, ?, ?, null)", [(job, due, due + 1, run) for job, run in batch]
            )
            db.execute("""update temp.batch set token = (select g.seq + 1 from gate as g
                where g.job = batch.job and g.next_us = batch.due and g.active < 1000)""")
            db.execute("""update gate set next_us = b.next, seq = seq + 1, active = active + 1
                from temp.batch as b where gate.job = b.job and b.token is not null""")
            db.execute(
                "insert into active select id, job, due, due, ?, ?, token, ? from temp.batch where token is not null",
                (3, 1, now) if claim else (1, None, None),
            )
            db.execute("select id, token from temp.batch where token is not null").fetchall()

    async def claim(self, limit: int) -> None:
        """Claim the best-ranked ready executions."""
        with self._db as db:
            db.execute(
                """update active set status = 3, owner = 1, token = token + 1, started = ? where id in (
                    select id from active where status = 1 order by rank, id limit ?) returning id, job, due, token""",
                (time.time_ns() // 1000, limit),
            ).fetchall()

    async def settle(self, batch: Batch) -> None:
        """Move (job, execution) rows to history."""
        db, now = self._db, time.time_ns() // 1000
        with db:
            db.execute("delete from temp.ended")
            db.executemany("insert into temp.ended values (?, ?, 0)", [(run, job) for job, run in batch])
            db.execute(
                """insert into history select a.id, a.job, a.due, 10, a.owner, a.token, a.started, ?
                from temp.ended as e join active as a on a.id = e.id""",
                (now,),
            )
            db.execute("delete from active where id in (select id from temp.ended)")
            db.execute("""update gate set active = active - n.k
                from (select job, count(*) as k from temp.ended group by job) as n where gate.job = n.job""")

    async def close(self) -> None:
        """Close the connection."""
        self._db.close()
