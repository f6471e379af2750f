"""The cost of commands and reads on SQLite, counted in statements and in steps of its virtual machine."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from chronos.core.execution import Status
from chronos.core.ids import job_id
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.errors import Conflict
from chronos.store.commands import NEW, Admit, Claim, SaveJobs, Settle, SettleRow
from chronos.store.contract import ExecutionFilter, JobFilter
from chronos.store.sql.command_handlers import CommandHandlers
from chronos.store.sql.jobs.queries import JobQueries
from chronos.store.sql.sqlite.dialect import SqliteDialect
from chronos.store.sql.sqlite.hot_path import SqliteHotPath
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.store.sql.statements import collect_statements
from chronos.testing import StoreProbe
from chronos.testing.conformance import StoreFixture
from chronos.testing.conformance.fixture import SECOND_US, T0_US, admit_row

FEW_STEPS = 20_000  # of the virtual machine: about a hundred lookups
NAMES = 5_000


def run(what: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def opened() -> None:
        store = SqliteStore()  # in memory, reads use the writing connection
        await store.open()
        try:
            await what(store)
        finally:
            await store.close()

    asyncio.run(opened())


@pytest.mark.parametrize(("rows", "admitting", "claiming", "settling"), [(1, 2, 1, 2), (2, 2, 2, 2), (300, 2, 2, 2)])
def test_a_batch_takes_a_few_statements(rows: int, admitting: int, claiming: int, settling: int) -> None:
    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        await world.start_node()
        await store.apply(SaveJobs(rows=tuple(world.build_job_row(f"job-{n}") for n in range(rows)), now_us=T0_US))
        jobs = (await store.list_jobs(JobFilter(), limit=rows)).items
        due = tuple(admit_row(job, T0_US + SECOND_US, T0_US + 2 * SECOND_US, claim=False) for job in jobs)
        lanes, now_us, probe = tuple(await store.lanes()), T0_US + SECOND_US, StoreProbe(store)
        with probe.statements() as seen:
            admitted = await store.apply(Admit(rows=due, node=world.node, now_us=now_us, request=bytes(16)))
        assert (len(admitted), len(seen) <= admitting) == (rows, True), seen
        with probe.statements() as seen:
            claim = Claim(lanes=lanes, limit=rows, node=world.node, now_us=now_us, request=bytes(16))
            claimed = await store.apply(claim)
        assert (len(claimed), len(seen) <= claiming) == (rows, True), seen
        ends = tuple(
            SettleRow(run.id, run.job, run.token, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, now_us)
            for run in claimed
        )
        with probe.statements() as seen:
            settled = await store.apply(Settle(rows=ends, node=world.node, now_us=now_us))
        assert (len(settled.settled), len(seen) <= settling) == (rows, True), seen
        with probe.statements() as seen:
            assert await store.apply(claim) == []
        assert len(seen) <= 1
        assert await store.verify() == []

    run(check)


@pytest.mark.parametrize("jobs", [1, 50, 300])
def test_new_jobs_take_a_few_statements(jobs: int) -> None:
    """One lookup, then one statement per table."""

    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        await world.save("first")  # so that its lane has a number
        rows = tuple(world.build_job_row(f"job-{n:03}", tags={"team": f"t{n % 3}"}) for n in range(jobs))
        with StoreProbe(store).statements() as seen:
            saved = await store.apply(SaveJobs(rows=rows, now_us=T0_US))
        assert len(seen) <= 6, seen
        assert [one.id for one in saved] == [job_id("default", row.name, 1) for row in rows]
        page = await store.list_jobs(JobFilter(tag=("team", "t0")), limit=jobs)
        assert [job.name for job in page.items] == [row.name for row in rows[::3]]
        assert [(job.id, job.next_us) for job in page.items] == [
            (one.id, row.next_us) for one, row in list(zip(saved, rows, strict=True))[::3]
        ]
        assert await store.verify() == []

    run(check)


def test_a_rejected_command_undoes_only_itself() -> None:
    """As the first command of a transaction, which has no savepoint, and as a later one."""

    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        await world.save("there")
        refused = SaveJobs(rows=(world.build_job_row("there", expect=NEW),), now_us=T0_US)
        good = [SaveJobs(rows=(world.build_job_row(name),), now_us=T0_US) for name in ("a", "b")]
        commits: list[int] = []
        store.on_commit(lambda rows, _: commits.append(rows))
        sent = (refused, good[0], refused, good[1])
        answers = await asyncio.gather(*map(store.apply, sent), return_exceptions=True)
        assert commits == [4]
        assert [isinstance(answer, Conflict) for answer in answers] == [True, False, True, False]
        names = [job.name for job in (await store.list_jobs(JobFilter(), limit=9)).items]
        assert names == ["a", "b", "there"]
        assert await store.verify() == []

    run(check)


SHORT = [[f"SCAN {table} USING INDEX {index}"] for table in ("g", "gate") for index in ("gate_long", "gate_unprofiled")]


def test_no_statement_finds_a_job_by_reading_all_jobs() -> None:
    """A job has no index by id: it is found through its gate, and its history by its number."""
    d = SqliteDialect()
    texts = [
        *collect_statements(CommandHandlers(d, SqliteHotPath(d))),
        *(text for text in vars(SqliteStore()).values() if type(text) is str),
    ]
    texts = [text for text in texts if " job" in text or " history" in text]
    tagged = JobFilter(tag=("key", "value")), JobFilter(tag=("key", None), namespace="default", contains="text")
    texts += [next(JobQueries(d).page(where, 100, b"default\0name")).sql for where in tagged]

    async def check(store: SqliteStore) -> None:
        probe, looked = StoreProbe(store), 0
        for text in texts:
            sql = d.to_driver_sql(text)
            arguments = max([0, *(int(number) for number in re.findall(r"\?(\d+)", sql))])
            plan = [row[3] for row in probe.execute(f"explain query plan {sql}", *[None] * arguments)]
            scanned = [line for line in plan if re.match("SCAN (job|j|gate|g|place|history|h|e)( |$)", line)]
            assert scanned in ([], *SHORT), (sql, plan)
            looked += any(re.match("SEARCH (job|j) USING INTEGER PRIMARY KEY", line) for line in plan)
        assert looked >= 10

    run(check)


@pytest.mark.parametrize(
    "where",
    [
        JobFilter(),
        JobFilter(prefix="job-"),
        JobFilter(state=JobState.ACTIVE),
        JobFilter(owner="me"),
        JobFilter(tag=("all", "yes")),
        JobFilter(tag=("all", "yes"), prefix="job-", owner="me", state=JobState.ACTIVE),
        JobFilter(tag=("all", "yes"), contains="ob-"),
        JobFilter(tag=("part", "3")),
    ],
    ids=str,
)
@pytest.mark.parametrize("namespace", [None, "default"])
def test_a_page_costs_the_same_wherever_it_is(where: JobFilter, namespace: str | None) -> None:
    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        for first in range(0, NAMES, 1_000):
            rows = tuple(
                world.build_job_row(f"job-{n:04}", tags={"all": "yes", "part": str(n % 10)}, owner="me")
                for n in range(first, first + 1_000)
            )
            await store.apply(SaveJobs(rows=rows, now_us=T0_US))
        names: list[str] = []
        cursor: bytes | None = None
        for _ in range(4):
            with StoreProbe(store).steps() as steps:
                page = await store.list_jobs(replace(where, namespace=namespace), limit=100, cursor=cursor)
            assert sum(steps) < FEW_STEPS
            names, cursor = names + [job.name for job in page.items], page.cursor
        every = 10 if where.tag == ("part", "3") else 1
        assert names == [f"job-{n:04}" for n in range(3 if every > 1 else 0, NAMES, every)][:400]

    run(check)


@pytest.mark.parametrize("namespace", [None, "default"])
def test_listing_few_of_many_jobs_does_not_read_all(namespace: str | None) -> None:
    """At the end of the list, or without a match."""

    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        for first in range(0, NAMES, 1_000):
            rows = [
                world.build_job_row(f"job-{n:04}", tags={"all": "yes"}, owner="all")
                for n in range(first, first + 1_000)
            ]
            await store.apply(SaveJobs(rows=tuple(rows), now_us=T0_US))
        off = [world.build_job_row(f"off-{n:04}", tags={"off": str(n)}, state=JobState.DISABLED) for n in range(1_000)]
        await store.apply(SaveJobs(rows=tuple(off), now_us=T0_US))
        await world.save("one", tags={"all": "no", "rare": "x"}, owner="me")
        await world.set_state((await world.job("one")).id, JobState.PAUSED)
        paused, disabled = JobState.PAUSED, JobState.DISABLED
        for where, expected in (
            (JobFilter(state=paused), ["one"]),
            (JobFilter(state=paused, prefix="o"), ["one"]),
            (JobFilter(state=JobState.DONE), []),
            (JobFilter(owner="me"), ["one"]),
            (JobFilter(owner="missing"), []),
            (JobFilter(tag=("rare", None)), ["one"]),
            (JobFilter(tag=("all", "yes"), state=paused), []),
            (JobFilter(tag=("all", None), state=paused), ["one"]),
            (JobFilter(tag=("all", "no"), state=disabled), []),
            (JobFilter(tag=("all", "yes"), owner="me"), []),
            (JobFilter(owner="all", state=paused), []),
            (JobFilter(contains="job", state=paused), []),
            (JobFilter(tag=("all", "no"), owner="me", state=paused, contains="ne"), ["one"]),
            (JobFilter(state=disabled), [row.name for row in off[:100]]),
            (JobFilter(tag=("off", None)), [row.name for row in off[:100]]),
        ):
            with StoreProbe(store).steps() as steps:
                page = await store.list_jobs(replace(where, namespace=namespace), limit=100)
            assert [job.name for job in page.items] == expected, where
            assert sum(steps) < FEW_STEPS, where

    run(check)


def test_listing_few_of_many_records_does_not_read_all() -> None:
    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        await world.save("job")
        for statement in MANY_RECORDS:
            StoreProbe(store).execute(statement, NAMES)
        for status in Status:
            with StoreProbe(store).steps() as steps:
                page = await store.list_executions(ExecutionFilter(status=status), limit=20)
            expected = {Status.FAILED: 1, Status.CANCELED: 1, Status.SUCCEEDED: 20}.get(status, 0)
            assert ([run.status for run in page.items], sum(steps) < 10_000) == ([status] * expected, True), status
        for listed in (store.audit, store.list_dead_letters):
            with StoreProbe(store).steps() as steps:
                assert len((await listed(namespace="rare", limit=20)).items) == 1
            assert sum(steps) < 10_000

    run(check)


_ID = "unhex(printf('%032x', value))"
_NUMBERS = "with recursive numbers (value) as (select 1 union all select value + 1 from numbers where value < ?)"
MANY_RECORDS = [
    f"""{_NUMBERS} insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt,
        admitted_us, finished_us)
        select {_ID}, g.job, 1, 1, 0, case value when 1 then 21 when 2 then 12 else 10 end, 'succeeded', 1, 1, 0, 0
        from numbers, gate as g""",
    f"""{_NUMBERS} insert into audit (id, at_us, actor, action, namespace, subject, origin, detail)
        select {_ID}, 0, '', 'create', case value when 1 then 'rare' else 'default' end, '', '', ''
        from numbers""",
    f"""{_NUMBERS} insert into dead_letter (execution, job, namespace, failed_us, code)
        select {_ID}, zeroblob(16), case value when 1 then 'rare' else 'default' end, 0, 'task_failed'
        from numbers""",
]


@pytest.mark.parametrize("namespace", [None, "default"])
@pytest.mark.parametrize(("text", "expected"), [("0777", 1), ("b-4", 1_000), ("job", NAMES), ("none", 0)])
def test_a_search_reads_little_more_than_it_returns(text: str, expected: int, namespace: str | None) -> None:
    """For a rare text, a common one, and one in every name."""

    async def check(store: SqliteStore) -> None:
        world = StoreFixture(store)
        for first in range(0, NAMES, 1_000):
            rows = tuple(world.build_job_row(f"Job-{n:04}") for n in range(first, first + 1_000))
            await store.apply(SaveJobs(rows=rows, now_us=T0_US))
        where = JobFilter(namespace=namespace, contains=text)
        with StoreProbe(store).steps() as steps:
            page = await store.list_jobs(where, limit=20)
        assert sum(steps) < FEW_STEPS + 60 * min(expected, 2_000)
        names = [job.name for job in page.items]
        while page.cursor is not None:
            page = await store.list_jobs(where, limit=1_000, cursor=page.cursor)
            names += [job.name for job in page.items]
        assert names == [name for n in range(NAMES) if text in (name := f"Job-{n:04}").lower()]
        assert len(names) == expected

    run(check)
