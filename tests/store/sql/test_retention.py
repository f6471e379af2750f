"""Retention: the rows that are left, its cost, and trimming during other commands."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.store.commands import DeleteJob, SaveJobs, Trim
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing import StoreProbe
from chronos.testing.conformance import StoreFixture
from chronos.testing.conformance.fixture import SECOND_US, T0_US
from tests.support.command_recorder import digest
from tests.support.databases import on_server, opened

DAY = 86_400 * SECOND_US
YEAR = 365 * DAY
OF_JOBS = ("job", "gate", "job_version", "job_tag", "job_after", "tombstone", "remains", "gone", "idempotency", "audit")
OF_RUNS = ("active", "history", "attempt", "output", "dead_letter", "key_gate")


def in_a_file(path: Path, what: Callable[[StoreFixture], Awaitable[Any]]) -> Any:
    async def check() -> Any:
        store = SqliteStore(path)
        await store.open()
        try:
            return await what(StoreFixture(store))
        finally:
            await store.close()

    return asyncio.run(check())


async def live(fixture: StoreFixture) -> None:
    """Create jobs that change, run under keys, fail, are deleted and are done; then let years pass."""
    for n in range(3):
        for note in ("first", "second"):
            saved = await fixture.save(
                f"gone-{n}", overlap=Overlap.ALLOW, keyed=True, description=note, tags={"a": note}
            )
        for key in range(4):
            await fixture.trigger(saved.id, key=f"customer-{n}-{key}", idempotency=f"{n}-{key}")
        await fixture.settle(*await fixture.claim(), status=Status.FAILED, dead_letter=True)
        await fixture.store.apply(DeleteJob(job=saved.id, now_us=fixture.tick()))
    await fixture.save("once", kind="http", next_us=fixture.now_us + SECOND_US, tags={"b": "c"})
    await fixture.settle(*await fixture.admit_next("once", last=True))
    for _ in range(20):
        fixture.tick(90 * DAY)
        await fixture.store.apply(Trim(now_us=fixture.now_us, limit=1_000))
    await fixture.store.maintain(fixture.now_us)
    assert await fixture.store.verify() == []


def test_a_store_does_not_grow_with_its_age_on_sqlite(tmp_path: Path) -> None:
    in_a_file(tmp_path / "a.db", live)
    assert (
        in_a_file(tmp_path / "a.db", lambda fixture: fixture.store.verify()) == []
    )  # its cached state does not matter
    connection = apsw.Connection(str(tmp_path / "a.db"))
    left = {t: connection.execute(f"select count(*) from {t}").fetchall()[0][0] for t in (*OF_JOBS, *OF_RUNS)}
    connection.close()
    assert left == dict.fromkeys(left, 0)


def test_a_store_does_not_grow_with_its_age_on_postgres(postgres_url: str) -> None:
    async def check() -> None:
        async with opened(postgres_url) as store:
            await live(StoreFixture(store))
        left = {}
        for table in (*OF_JOBS, *OF_RUNS):
            [(left[table],)] = await on_server(postgres_url, f"select count(*) from chronos.{table}")
        assert left == dict.fromkeys(left, 0)

    asyncio.run(check())


def test_trimming_is_deterministic(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        in_a_file(tmp_path / name, live)
    assert digest(tmp_path / "a.db") == digest(tmp_path / "b.db")


def test_a_trim_with_nothing_to_do_takes_a_few_statements(tmp_path: Path) -> None:
    async def check(fixture: StoreFixture) -> None:
        store = fixture.store
        await fixture.start_node()
        await store.apply(
            SaveJobs(
                rows=tuple(fixture.build_job_row(f"job-{n}", overlap=Overlap.ALLOW) for n in range(250)), now_us=T0_US
            )
        )
        for _ in range(5):
            await store.apply(Trim(now_us=fixture.tick(), limit=1_000))
        with StoreProbe(store).statements() as seen:
            await store.apply(Trim(now_us=fixture.tick(), limit=1_000))
        assert len(seen) <= 7, seen

    in_a_file(tmp_path / "a.db", check)


def test_a_page_of_the_sweep_costs_the_same_in_any_store(tmp_path: Path) -> None:
    """A hundred jobs with expired rows take as many statements as one."""

    async def check(fixture: StoreFixture) -> None:
        store = fixture.store
        probe = StoreProbe(store)
        names = [f"job-{n}" for n in range(300)]
        await fixture.start_node()
        rows = tuple(
            fixture.build_job_row(name, overlap=Overlap.ALLOW, keep_count=2, next_us=T0_US + SECOND_US)
            for name in names
        )
        await store.apply(SaveJobs(rows=rows, now_us=T0_US))
        for _ in range(4):
            await fixture.settle(*await fixture.admit_next(*names))
        with probe.statements() as seen, probe.steps() as steps:
            assert await store.apply(Trim(now_us=fixture.now_us, limit=1_000)) == 200
        assert len(seen) <= 19, seen
        assert sum(steps) < 300_000

    in_a_file(tmp_path / "a.db", check)


def test_unused_keys_do_not_split_batches(postgres_url: str) -> None:
    async def looked(store: PostgresStore) -> set[bool]:
        for lane in store._write_connections:
            await lane._on_replan(await lane._reconnecting.get())
        return {lane._separate_transactions for lane in store._write_connections}

    async def check() -> None:
        async with opened(postgres_url) as store:
            fixture = StoreFixture(store)
            job = await fixture.save(overlap=Overlap.ALLOW, keyed=True)
            assert await looked(store) == {False}
            await fixture.trigger(job.id, key="k")
            assert await looked(store) == {True}
            await fixture.settle(*await fixture.claim())
            assert await looked(store) == {False}

    asyncio.run(check())


def test_trimming_keys_while_nodes_use_them_is_safe(postgres_url: str) -> None:
    """Two nodes delete unused concurrency keys while another node starts to use them."""

    async def work(fixture: StoreFixture, job: bytes, done: asyncio.Event) -> None:
        for n in range(20):
            await asyncio.gather(*(fixture.trigger(job, key=f"k{(n + m) % 3}") for m in range(4)))
            fixture.tick()
            while runs := await fixture.claim():
                await fixture.settle(*runs)
                await fixture.wake()
        done.set()

    async def trim(store: PostgresStore, done: asyncio.Event) -> int:
        now_us, went = T0_US, 0
        while not done.is_set():
            now_us += 7_200 * SECOND_US
            went += await store.apply(Trim(now_us=now_us, limit=100))
        return went

    async def check() -> None:
        async with opened(postgres_url) as one, opened(postgres_url) as other, opened(postgres_url) as third:
            fixture = StoreFixture(one)
            job = await fixture.save(overlap=Overlap.ALLOW, keyed=True, keep_age_us=100 * YEAR, keep_count=100_000)
            done = asyncio.Event()
            _, *went = await asyncio.gather(work(fixture, job.id, done), trim(other, done), trim(third, done))
            assert sum(went) > 0, "no key was forgotten meanwhile"
            assert await one.verify() == []
            counts = await one.counts()
            assert (counts.open, counts.jobs) == ({}, {JobState.ACTIVE: 1})
            [(ended,)] = await on_server(postgres_url, "select count(*) from chronos.history")
            assert ended == 80

    asyncio.run(check())
