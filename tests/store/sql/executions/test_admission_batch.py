"""A batch of admissions gives the same rows as single commands, with as few statements as one."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronos.core.config import Overlap
from chronos.core.execution import Cause
from chronos.core.ids import key_gate_id, scheduled_execution_id
from chronos.core.job import Job, UpstreamJob
from chronos.store.commands import Admit, AdmitRow, Admitted, Recover, RunRow
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing import StoreProbe
from chronos.testing.conformance import StoreFixture
from chronos.testing.conformance.fixture import SECOND_US, T0_US

TABLES = ("gate", "active", "history", "key_gate", "outbox", "tally")
Commands = Sequence[Admit | Recover]
Both = tuple[Commands, Commands]  # one command for all, and one command each
KEYS = [key_gate_id("default", name) for name in ("k1", "k2")]


class Request(NamedTuple):
    """One requested admission of one job in one round."""

    place: int
    claim: bool
    key: int | None
    limit: int  # limit of the key
    stale: bool
    runs: int  # number of recovered runs
    all_or_nothing: bool
    last: bool


REQUEST = st.builds(
    Request,
    place=st.integers(0, 3),
    claim=st.booleans(),
    key=st.sampled_from([None, 0, 1]),
    limit=st.integers(1, 2),
    stale=st.sampled_from([False, False, False, True]),
    runs=st.integers(0, 3),
    all_or_nothing=st.booleans(),
    last=st.sampled_from([False, False, False, False, True]),
)
ROUNDS = st.lists(
    st.tuples(st.booleans(), st.lists(REQUEST, min_size=1, max_size=4, unique_by=lambda request: request.place)),
    min_size=1,
    max_size=6,
)
GATES = st.lists(
    st.tuples(st.sampled_from([Overlap.REPLACE, Overlap.REPLACE, Overlap.QUEUE, Overlap.ALLOW]), st.integers(0, 2)),
    min_size=4,
    max_size=4,
)


@settings(max_examples=60)
@given(gates=GATES, rounds=ROUNDS)
def test_a_batch_gives_the_same_rows_as_single_commands(
    gates: list[tuple[Overlap, int]], rounds: list[tuple[bool, list[Request]]]
) -> None:
    """Recoveries and instants, under ``replace`` and keys; some are stale, and some do not fit the queue."""

    async def check() -> None:
        together, apart = [StoreFixture(store) for store in (SqliteStore(), SqliteStore())]
        for world in (together, apart):
            await world.store.open()
            for place, (overlap, queue_max) in enumerate(gates):
                await world.save(f"job-{place}", overlap=overlap, queue_max=queue_max, keyed=True)
            await world.save("follower", after=(UpstreamJob(job="job-0"),))
        for number, (gap, requests) in enumerate(rounds):
            jobs = [await together.job(f"job-{place}") for place in range(4)]
            now_us = T0_US + (100 + number) * SECOND_US
            pairs = [(jobs[request.place], request) for request in requests if jobs[request.place].next_us is not None]
            pairs.sort(key=lambda pair: pair[0].id)
            if not pairs:
                continue
            both = _gaps(pairs, now_us) if gap else _instants(pairs, together.node, now_us)
            answers = [await _apply(world, commands) for world, commands in zip((together, apart), both, strict=True)]
            assert answers[0] == answers[1]
            assert rows_of(together.store) == rows_of(apart.store)
            if number % 2:
                for world in (together, apart):
                    await world.settle(*await world.claim(1))
        for world in (together, apart):
            assert await world.store.verify() == []
            await world.store.close()

    asyncio.run(check())


def test_a_recovery_that_fails_does_not_affect_others() -> None:
    async def check() -> None:
        world = StoreFixture(store := SqliteStore())
        await store.open()
        jobs = []
        for name in ("a", "broken", "c"):
            await world.save(name)
            jobs.append(await world.job(name))
        StoreProbe(store).execute(
            f"create temp trigger breaks before insert on main.active when new.job = x'{jobs[1].id.hex()}' "
            "begin select raise(abort, 'not this one'); end"
        )
        gaps = [_gap(job, Request(0, False, None, 1, False, 1, False, False), T0_US + 9 * SECOND_US) for job in jobs]
        first, broken, last = await asyncio.gather(*(store.apply(one) for one in gaps), return_exceptions=True)
        assert isinstance(broken, Exception)
        assert [one.job for answer in (first, last) for one in answer] == [jobs[0].id, jobs[2].id]  # type: ignore[union-attr]
        assert (await world.job("broken")).next_us == T0_US + SECOND_US
        await store.close()

    asyncio.run(check())


@pytest.mark.parametrize("gap", [True, False])
def test_many_jobs_take_as_many_statements_as_one(gap: bool) -> None:
    async def statements(count: int) -> int:
        world = StoreFixture(store := SqliteStore())
        await store.open()
        for n in range(count):
            await world.save(f"job-{n:03}", overlap=Overlap.REPLACE)
        for _ in range(2):  # the second round replaces the first
            jobs = sorted([await world.job(f"job-{n:03}") for n in range(count)], key=lambda job: job.id)
            pairs = [(job, Request(0, False, 0, 1, False, 1, False, False)) for job in jobs]
            now_us = world.tick(10 * SECOND_US)
            [[command], _] = _gaps(pairs, now_us) if gap else _instants(pairs, world.node, now_us)
            with StoreProbe(store).statements() as executed:
                assert len(await _apply(world, [command])) == count
        await store.close()
        return len(executed)

    assert asyncio.run(statements(50)) <= asyncio.run(statements(1))


def _instants(pairs: Sequence[tuple[Job, Request]], node: int, now_us: int) -> Both:
    rows = []
    for job, request in pairs:
        at_us = job.next_us or 0
        key = None if request.key is None else KEYS[request.key]
        id_ = scheduled_execution_id(job.id, at_us)
        next_us = None if request.last else at_us + SECOND_US
        version = job.version + request.stale
        rows.append(
            AdmitRow(
                job.id,
                version,
                at_us,
                next_us,
                id_,
                at_us,
                request.claim,
                True,
                key,
                0 if key is None else request.limit,
            )
        )
    admit = Admit(rows=tuple(rows), node=node, now_us=now_us, request=now_us.to_bytes(16))
    return [admit], [replace(admit, rows=(row,)) for row in rows]


def _gaps(pairs: Sequence[tuple[Job, Request]], now_us: int) -> Both:
    gaps = [_gap(job, request, now_us) for job, request in pairs]
    return [replace(gaps[0], merged=tuple(gaps[1:]))], gaps


def _gap(job: Job, request: Request, now_us: int) -> Recover:
    first_us = job.next_us or 0
    key = None if request.key is None else KEYS[request.key]
    instants = [first_us + n * SECOND_US for n in range(request.runs)]
    return Recover(
        job=job.id,
        version=job.version + request.stale,
        expect_us=first_us,
        next_us=None if request.last else first_us + (request.runs or 1) * SECOND_US,
        runs=tuple(
            RunRow(
                scheduled_execution_id(job.id, at),
                Cause.RECOVERY,
                at,
                at,
                None,
                key,
                0 if key is None else request.limit,
            )
            for at in instants
        ),
        spans=(),
        now_us=now_us,
        all_or_nothing=request.all_or_nothing,
    )


async def _apply(world: StoreFixture, commands: Commands) -> list[Admitted]:
    return [row for command in commands for row in await world.store.apply(command)]


def rows_of(store: Any) -> dict[str, list[Any]]:
    """Every row of the tables that admission writes."""
    return {table: sorted(StoreProbe(store).execute(f"select * from {table}"), key=repr) for table in TABLES}
