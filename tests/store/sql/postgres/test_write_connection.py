"""Lost connections and a crashed PostgreSQL server: no change is lost or applied twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from chronos.core.config import Overlap
from chronos.core.execution import Status
from chronos.core.job import JobState
from chronos.errors import ChronosError, StoreUnavailable
from chronos.store.commands import NEW, Admit, Claim, DeleteJob, SaveJobs
from chronos.store.contract import JobFilter
from chronos.store.sql.postgres.store import PostgresStore
from chronos.testing.conformance import StoreFixture
from chronos.testing.conformance.fixture import SECOND_US, T0_US, admit_row
from tests.support.databases import Server, on_server, opened
from tests.support.tcp_proxy import Proxy, proxied

Change = Callable[[StoreFixture], Awaitable[Any]]


@asynccontextmanager
async def behind_proxy(url: str, **options: Any) -> AsyncIterator[tuple[Proxy, StoreFixture, PostgresStore]]:
    """Open a store behind a proxy, with one node and one job that queues."""
    async with proxied(url) as proxy, opened(proxy.url, work_connections=1, **options) as store:
        fixture = StoreFixture(store)
        await fixture.start_node()
        await fixture.save("job", overlap=Overlap.QUEUE)
        yield proxy, fixture, store


def committing(data: bytes) -> bool:
    """Whether a message to the server commits a transaction of the store."""
    return b"; commit\0" in data


async def create(fixture: StoreFixture) -> None:
    assert (await fixture.save("new", expect=NEW)).created


async def change(fixture: StoreFixture) -> None:
    saved = await fixture.save("job", overlap=Overlap.QUEUE, description="changed", expect=1)
    assert (saved.version, saved.changed) == (2, True)


async def pause(fixture: StoreFixture) -> None:
    await fixture.set_state((await fixture.job()).id, JobState.PAUSED, expect=1)
    assert (await fixture.job()).state is JobState.PAUSED


async def delete(fixture: StoreFixture) -> None:
    await fixture.store.apply(DeleteJob(job=(await fixture.job()).id, now_us=fixture.tick(), expect=1))
    assert await fixture.store.job_named("default", "job") is None


async def trigger(fixture: StoreFixture) -> None:
    triggered = await fixture.trigger((await fixture.job()).id, idempotency="once")
    assert (triggered.created, triggered.status) == (True, Status.READY)


async def register(fixture: StoreFixture) -> None:
    number = await fixture.start_node("second")
    assert [node.number for node in await fixture.store.nodes()] == [1, number]


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("do", [create, change, pause, delete, trigger, register], ids=lambda do: do.__name__)
def test_a_change_whose_commit_is_cut_off_is_applied_once(prepared_url: str, do: Change, cut: str) -> None:
    async def check() -> None:
        async with behind_proxy(prepared_url) as (proxy, fixture, store):
            (proxy.cut_after if cut == "after" else proxy.cut_before)(committing)
            await do(fixture)
            assert proxy.cuts == 1
            assert await store.verify() == []
        [(lines, subjects)] = await on_server(
            prepared_url, "select count(*), count(distinct (action, subject, detail)) from chronos.audit"
        )
        assert lines == subjects

    asyncio.run(check())


@pytest.mark.parametrize("cut", ["before", "after"])
def test_successors_taken_by_a_cut_off_settlement_are_returned(prepared_url: str, cut: str) -> None:
    async def check() -> None:
        async with behind_proxy(prepared_url) as (proxy, fixture, store):
            first, second = await fixture.admit_one(), await fixture.admit_one()
            (proxy.cut_after if cut == "after" else proxy.cut_before)(committing)
            settled = await fixture.settle(first, take=1, take_lanes=tuple(await store.lanes()))
            assert proxy.cuts == 1
            assert settled.settled == [first.id]
            assert [run.id for run in settled.started_successors] == [second.id]
            assert (await fixture.settle(*settled.started_successors)).settled == [second.id]
            assert await store.verify() == []

    asyncio.run(check())


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_standalone_settlement_that_is_cut_off_succeeds(prepared_url: str, cut: str) -> None:
    async def check() -> None:
        async with behind_proxy(prepared_url) as (proxy, fixture, store):
            run = await fixture.admit_one()
            (proxy.cut_after if cut == "after" else proxy.cut_before)(lambda data: run.id in data)
            assert (await fixture.settle(run)).settled == [run.id]
            assert proxy.cuts == 1
            assert await fixture.status(run.id) is Status.SUCCEEDED
            assert await store.verify() == []

    asyncio.run(check())


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_standalone_admission_that_is_cut_off_is_answered(prepared_url: str, cut: str) -> None:
    async def check() -> None:
        async with behind_proxy(prepared_url) as (proxy, fixture, store):
            await fixture.admit_one()  # so that the statement is prepared
            request = b"admit-me-but-one"
            (proxy.cut_after if cut == "after" else proxy.cut_before)(lambda data: request in data)
            [second] = await fixture.admit_next("job", request=request)
            assert proxy.cuts == 1
            assert second.status is Status.QUEUED
            assert [d.next_us for d in await store.due(T0_US + 100 * SECOND_US, 9)] == [T0_US + 3 * SECOND_US]
            assert await store.verify() == []

    asyncio.run(check())


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_claim_that_is_cut_off_is_answered(prepared_url: str, cut: str) -> None:
    async def check() -> None:
        async with behind_proxy(prepared_url) as (proxy, fixture, store):
            await fixture.save("many", overlap=Overlap.ALLOW)
            ready = [await fixture.admit_one("many", claim=False) for _ in range(6)]
            lanes = tuple(await store.lanes())
            first = Claim(lanes=lanes, limit=2, node=fixture.node, now_us=fixture.tick(), request=b"a first request.")
            again = Claim(lanes=lanes, limit=2, node=fixture.node, now_us=fixture.tick(), request=b"a second request")
            one = await store.apply(first)
            (proxy.cut_after if cut == "after" else proxy.cut_before)(lambda data: again.request in data)
            taken = [*one, *await store.apply(again)]
            assert proxy.cuts == 1
            assert [run.id for run in taken] == [run.id for run in ready[:4]]
            assert {held.id: held.token for held in await store.running_on(fixture.node)} == {
                r.id: r.token for r in taken
            }

    asyncio.run(check())


def test_after_the_reconnect_limit_the_caller_gets_an_error_and_may_retry(prepared_url: str) -> None:
    async def check() -> None:
        async with behind_proxy(prepared_url, reconnect_limit_s=0.3) as (proxy, fixture, store):
            request = b"admit-me-just-so"
            job = await fixture.job()
            row = admit_row(job, T0_US + SECOND_US, T0_US + 2 * SECOND_US)
            command = Admit(rows=(row,), node=fixture.node, now_us=fixture.now_us, request=request)

            def last_words(data: bytes) -> bool:
                if request not in data:
                    return False
                proxy.refuse()
                return True

            proxy.cut_after(last_words)
            with pytest.raises(StoreUnavailable, match=r"PostgreSQL at 127\.0\.0\.1.*cannot be reached"):
                await store.apply(command)
            await proxy.stop()
            with pytest.raises(StoreUnavailable):
                await store.lanes()
            await proxy.start()
            [admitted] = await store.apply(command)
            assert (admitted.id, admitted.status) == (row.id, Status.RUNNING)
            assert [held.id for held in await store.running_on(fixture.node)] == [row.id]
            assert await store.verify() == []

    asyncio.run(check())


def test_reads_continue_after_their_connections_are_cut(prepared_url: str) -> None:
    async def check() -> None:
        async with behind_proxy(prepared_url) as (proxy, fixture, store):
            await asyncio.gather(*(fixture.job() for _ in range(9)))
            await proxy.stop()
            await proxy.start()
            await asyncio.gather(*(fixture.job() for _ in range(9)))
            assert (await store.counts()).jobs == {JobState.ACTIVE: 1}

    asyncio.run(check())


@pytest.mark.parametrize("read", ["clock", "jobs", "connecting"])
def test_a_canceled_read_ends_although_the_server_does_not_answer(postgres_url: str, read: str) -> None:
    async def case() -> None:
        async with behind_proxy(postgres_url, readers=1) as (proxy, _, store):
            before = await store.list_jobs(JobFilter(), limit=5)
            if read == "connecting":
                await proxy.stop()
                await proxy.start()
            loop = asyncio.get_running_loop()
            proxy.hold("down")
            asked_s = loop.time()
            asking = store.list_jobs(JobFilter(), limit=5) if read == "jobs" else store.clock_us()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await asking
            assert loop.time() - asked_s < 3
            proxy.resume()
            assert await store.list_jobs(JobFilter(), limit=5) == before
            assert await store.clock_us() is not None

    async def within() -> None:
        async with asyncio.timeout(20):
            await case()

    asyncio.run(within())


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_is_restarted_loses_nothing(own_server: Server, mode: str) -> None:
    async def check() -> None:
        async with opened(own_server.url) as store:
            fixture = StoreFixture(store)
            await fixture.start_node()
            saved: list[str] = []
            ran: list[bytes] = []
            over = asyncio.Event()

            async def save(worker: int) -> None:
                i = 0
                while not over.is_set():
                    i += 1
                    row = fixture.build_job_row(f"job-{worker}-{i}", expect=NEW)
                    [answer] = await store.apply(SaveJobs(rows=(row,), now_us=fixture.now_us))
                    assert answer.created
                    saved.append(row.name)

            async def fire(worker: int) -> None:
                own = StoreFixture(store)
                own.node = fixture.node
                name = f"firing-{worker}"
                await own.save(name, overlap=Overlap.QUEUE)
                while not over.is_set():
                    run = await own.admit_one(name)
                    assert run.status is Status.RUNNING
                    assert (await own.settle(run)).settled == [run.id]
                    ran.append(run.id)

            async def trouble() -> None:
                for _ in range(2):
                    await asyncio.sleep(0.4)
                    before = len(saved), len(ran)
                    await asyncio.to_thread(own_server.stop, mode)
                    await asyncio.to_thread(own_server.start)
                    while len(saved) < before[0] + 9 or len(ran) < before[1] + 9:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                over.set()

            await asyncio.gather(trouble(), *(save(i) for i in range(4)), *(fire(i) for i in range(4)))
            names = {job.name for job in (await store.list_jobs(JobFilter(), limit=100_000)).items}
            assert names >= set(saved)
            ended = await on_server(own_server.url, "select id from chronos.history")
            assert {row[0].bytes for row in ended} == set(ran)
            assert await store.verify() == []

    asyncio.run(check())


def test_a_closed_store_reports_that_it_is_not_open(prepared_url: str) -> None:
    async def check() -> None:
        async with opened(prepared_url) as store:
            await StoreFixture(store).save("job")
        with pytest.raises(StoreUnavailable, match="not open"):
            await StoreFixture(store).save("job")
        with pytest.raises(ChronosError, match="not open"):
            await store.lanes()
        await store.close()
        await store.open()
        assert await store.job_named("default", "job") is not None
        await store.close()

    asyncio.run(check())
