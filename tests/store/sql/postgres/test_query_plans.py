"""Plans of PostgreSQL: every write is fast, although plans are kept while tables grow."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.executions.admission import AdmissionHandler
from chronos.store.sql.executions.concurrency_keys import ConcurrencyKeys
from chronos.store.sql.executions.gate_queue import GateQueue
from chronos.store.sql.executions.lifecycle import LifecycleHandler
from chronos.store.sql.executions.settlement import SettlementHandler
from chronos.store.sql.jobs.delete import JobDeletes
from chronos.store.sql.jobs.dependencies import JobDependencies
from chronos.store.sql.jobs.insert import JobInserts
from chronos.store.sql.jobs.lookup import JobLookup
from chronos.store.sql.jobs.queries import JobQueries
from chronos.store.sql.jobs.save import SaveJobsHandler
from chronos.store.sql.jobs.state import JobStateHandler
from chronos.store.sql.nodes import NodeHandler
from chronos.store.sql.outbox import OutboxHandler
from chronos.store.sql.postgres.connection import Connection, connect
from chronos.store.sql.postgres.database_url import DatabaseUrl
from chronos.store.sql.postgres.dialect import PostgresDialect
from chronos.store.sql.postgres.hot_path import PostgresHotPath
from chronos.store.sql.postgres.session_settings import SessionKind
from chronos.store.sql.queries import Queries
from chronos.store.sql.query import Steps
from chronos.store.sql.retention import TrimHandler
from chronos.store.sql.retention_deletes import RetentionDeletes
from chronos.store.sql.retention_sweep import RetentionSweep
from tests.support.databases import on_server, opened

T = TypeVar("T")


class FirstStatements(Queries):
    """Returns the first statement of a read instead of its result."""

    async def _read(self, steps: Steps[T]) -> T:
        return next(steps)  # type: ignore[return-value]


SMALL = {"lane", "node", "tally", "outbox", "profile", "namespace"}
SHORT = {"gate_long", "gate_unprofiled", "key_gate_blocked"}  # indexes with few rows


@pytest.mark.parametrize("filled", [True, False])
def test_no_write_reads_a_whole_table(postgres_url: str, filled: bool) -> None:
    """Plans are made while tables are empty, and kept when they are full: see ``postgres.session_settings``."""

    async def check() -> None:
        async with opened(postgres_url):
            pass
        if filled:
            await fill(postgres_url)
        await on_server(postgres_url, "analyze")
        connection = await connect(DatabaseUrl.parse(postgres_url), SessionKind.WRITER)
        try:
            new = connection.get_server_version().major >= 17
            if not new and not filled:
                pytest.skip("a small table is read completely, until plans are discarded")
            scans_by_statement = {}
            for sql in statements():
                scans = [scan for scan in whole_scans(await plan(connection, sql)) if new or not scan[-1].isdigit()]
                if scans:
                    scans_by_statement[" ".join(sql.split())] = scans
        finally:
            await connection.close()
        assert not scans_by_statement, "\n".join(f"{scans}: {sql}" for sql, scans in scans_by_statement.items())

    asyncio.run(check())


TAGGED = ("key", "value")
IN_ORDER = [
    (JobFilter(namespace="default"), "job_name"),
    (JobFilter(namespace="default", prefix="job-"), "job_name"),
    (JobFilter(namespace="default", state=JobState.ACTIVE), "job_name"),
    (JobFilter(namespace="default", owner="me"), "job_owner"),
    (JobFilter(owner="me", state=JobState.ACTIVE), "job_owner"),
    (JobFilter(namespace="default", tag=TAGGED), "job_tag_pkey"),
    (JobFilter(namespace="default", tag=TAGGED, state=JobState.ACTIVE), "job_tag_pkey"),
    (JobFilter(tag=TAGGED), "job_tag_pkey"),
    (JobFilter(namespace="default", tag=("key", None)), "job_tag_key"),
    (JobFilter(tag=("key", None)), "job_tag_key"),
    (JobFilter(namespace="default", state=JobState.PAUSED), "idle_named"),
    (JobFilter(namespace="default", prefix="job-", state=JobState.PAUSED), "idle_named"),
    (JobFilter(state=JobState.DONE), "idle_named"),
]


@pytest.mark.parametrize("filled", [True, False])
def test_a_page_is_read_in_index_order(postgres_url: str, filled: bool) -> None:
    """Not sorted, whatever the statistics say: a sort would read all later rows."""
    d, cursor = PostgresDialect(), b"default\0job"
    reads, jobs = FirstStatements(d), JobQueries(d)
    expected: list[tuple[Any, str]] = [(next(jobs.page(where, 100, cursor)), index) for where, index in IN_ORDER]
    several = JobFilter(namespace="default", tag=TAGGED, state=JobState.PAUSED, owner="me")
    for shortest, index in enumerate(("idle_named", "job_tag_pkey", "job_owner")):
        page = jobs.page(several, 100, cursor)
        look = next(page).sql
        expected.append((page.send([tuple(None if place == shortest else 1 for place in (0, 0, 1, 1, 2, 2))]), index))
    for status in (Status.FAILED, Status.SKIPPED):
        few = reads.list_executions(ExecutionFilter(status=status), limit=50)
        expected.append((asyncio.run(few), "history_.*_status_id_idx"))
    lines = reads.audit(namespace="default", limit=50, cursor=bytes(16))
    expected.append((asyncio.run(lines), "audit_namespace"))
    dead = reads.list_dead_letters(namespace="default", limit=50)
    expected.append((asyncio.run(dead), "dead_letter_namespace"))

    async def check() -> None:
        async with opened(postgres_url):
            pass
        if filled:
            await fill(postgres_url)
        connection = await connect(DatabaseUrl.parse(postgres_url), SessionKind.READER)
        try:
            plans = [(await plan(connection, query.sql), index) for query, index in expected]
            probe = await plan(connection, look)
        finally:
            await connection.close()
        probed = [node["Index Name"] for part in probe["Plans"] for node in part["Plans"]]
        assert probed == ["idle_named"] * 2 + ["job_tag_pkey"] * 2 + ["job_owner"] * 2
        for page_plan, index in plans:
            path = [page_plan]
            while parts := [part for part in path[-1].get("Plans", ()) if part["Parent Relationship"] != "SubPlan"]:
                path.append(parts[0])
            kinds = [node["Node Type"] for node in path]
            read = kinds[kinds[::-1].index("Limit") * -1 :]  # the rows of the page may be sorted
            assert not [kind for kind in read if "Sort" in kind], page_plan
            assert re.fullmatch(index, path[-1].get("Index Name", "")), page_plan
            assert "Index Cond" in path[-1], page_plan

    asyncio.run(check())


async def fill(url: str) -> None:
    """Insert thousands of rows into every table."""
    for name, columns in await on_server(url, TABLES):
        values = ", ".join(
            {"uuid": "gen_random_uuid()", "bigint": "i % 4", "number": "i"}.get(kind, "i::text") for kind in columns
        )
        await on_server(url, f"insert into chronos.{name} select {values} from generate_series(100, 5100) as i")


TABLES = """
    select table_name, array_agg(case column_name when 'number' then 'number' else data_type end::text
        order by ordinal_position) from information_schema.columns
    where table_schema = 'chronos' and table_name !~ '_(default|[0-9]+)$'
        and table_name not in ('meta', 'sent', 'tally', 'lane', 'node')
    group by 1"""


def statements() -> Iterator[str]:
    """Yield every statement of the commands, and the reads of the latest executions of a job."""
    d = PostgresDialect()
    hot, records = PostgresHotPath(d), AppendOnlyTables(d)
    gates = GateQueue(d, records)
    settlement = SettlementHandler(d, hot, gates, records)
    job_states = JobStateHandler(d, gates, records)
    lifecycle, jobs = (
        LifecycleHandler(d, hot, gates, records, settlement),
        SaveJobsHandler(d, gates, records, job_states),
    )
    inserts, admission = JobInserts(d, records), AdmissionHandler(d, gates)
    for part in (
        hot,
        gates,
        admission,
        records,
        settlement,
        lifecycle,
        jobs,
        job_states,
        inserts,
        ConcurrencyKeys(d, gates),
        JobDependencies(d),
        JobLookup(d),
        NodeHandler(d),
        OutboxHandler(d, gates, records),
        TrimHandler(d, records),
        RetentionDeletes(d),
        JobDeletes(d, records),
        RetentionSweep(d, RetentionDeletes(d), JobDeletes(d, records)),
    ):
        for text in vars(part).values():
            if isinstance(text, str) and text:
                yield text
    reads = FirstStatements(d)
    yield from (reads._latest, reads._latest_started)  # by the number of a job


async def plan(connection: Connection, sql: str) -> dict[str, Any]:
    """Return the generic plan of a statement."""
    arguments = ", ".join("null" for _ in (await connection.prepare(sql)).get_parameters())
    await connection.execute(f"prepare it as {sql}")
    try:
        text = await connection.fetchval(f"explain (format json) execute it{f'({arguments})' if arguments else ''}")
    finally:
        await connection.execute("deallocate it")
    return json.loads(text)[0]["Plan"]  # type: ignore[no-any-return]


def whole_scans(node: dict[str, Any]) -> Iterator[str]:
    """Yield the nodes of a plan that read a whole table that may be large."""
    kind, table, index = node["Node Type"], node.get("Relation Name"), node.get("Index Name")
    if kind.endswith("Scan") and table and "Index Cond" not in node and table not in SMALL and index not in SHORT:
        yield f"{kind} on {table}"
    for child in node.get("Plans", ()):
        yield from whole_scans(child)
