"""Rows that this release cannot read, on every engine: they are reported, and do not affect others."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chronos.core.config import Overlap
from chronos.core.execution import Cause, Execution, Status
from chronos.core.job import Unreadable, UpstreamJob
from chronos.core.reasons import ReasonCode
from chronos.store.commands import DeleteJob
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing import StoreProbe
from chronos.testing.conformance import StoreFixture
from tests.support.databases import on_server

SPECS = ['{"schedule": 5}', "no JSON", "", '{"settings": {"overlap": "some day"}}', "[" * 5_000]
#: Runs a case on an open store, with a function that changes rows directly.
InStore = Callable[[Callable[[StoreFixture, Callable[[str], Awaitable[Any]]], Awaitable[None]]], None]


@pytest.fixture(params=["sqlite", "postgres"])
def in_store(request: pytest.FixtureRequest, tmp_path: Path) -> InStore:
    """Run a case on each engine."""
    url = request.getfixturevalue("prepared_url") if request.param == "postgres" else ""

    def run(case: Callable[[StoreFixture, Callable[[str], Awaitable[Any]]], Awaitable[None]]) -> None:
        async def open_and_run() -> None:
            store: Store
            if not url:
                store = file = SqliteStore(tmp_path / "chronos.db")

                async def by_hand(statement: str) -> None:
                    StoreProbe(file).execute(statement)
            else:
                store = PostgresStore(url)

                async def by_hand(statement: str) -> None:
                    await on_server(url, "set search_path to chronos", statement)

            await store.open()
            try:
                await case(StoreFixture(store), by_hand)
            finally:
                await store.close()

        asyncio.run(open_and_run())

    return run


@pytest.mark.parametrize("spec", SPECS)
def test_an_unreadable_spec_affects_only_its_job(in_store: InStore, spec: str) -> None:
    async def case(fixture: StoreFixture, by_hand: Callable[[str], Awaitable[Any]]) -> None:
        store = fixture.store

        async def tagged(key: str) -> list[str]:
            return [job.name for job in (await store.list_jobs(JobFilter(tag=(key, None)), limit=9)).items]

        tags, after = {"team": "a", "env": "b"}, (UpstreamJob(job="good"),)
        good, bad = await fixture.save("good", tags=tags), await fixture.save("bad", tags=tags, after=after)
        await by_hand(f"update job set spec = '{spec}' where name = 'bad'")
        jobs = await store.jobs_by_id([good.id, bad.id])
        assert jobs[good.id].spec == fixture.build_job_row("good", tags=tags).spec
        assert jobs[bad.id] == await store.job_named("default", "bad")
        broken = jobs[bad.id].spec
        assert isinstance(broken, Unreadable)
        assert "cannot be read" in broken.error
        assert [job.name for job in (await store.list_jobs(JobFilter(), limit=9)).items] == ["bad", "good"]
        assert [one.spec for one in await store.versions(bad.id, limit=9)] == [broken]
        assert await store.specs_at([(bad.id, 1), (good.id, 1)]) == {
            (bad.id, 1): broken,
            (good.id, 1): jobs[good.id].spec,
        }
        assert await store.verify() == []  # an unreadable job is not an inconsistency of the store

        again = await fixture.save("bad", description="as it should be", tags={"team": "a"})
        assert (again.id, again.version, again.changed) == (bad.id, 2, True)
        assert (await fixture.job("bad")).spec.description == "as it should be"
        assert [isinstance(one.spec, Unreadable) for one in await store.versions(bad.id, limit=9)] == [False, True]
        assert await tagged("team") == ["bad", "good"]
        assert await tagged("env") == ["good"]
        assert await store.followers("default", "good") == []
        await by_hand(f"update job set spec = '{spec}' where name = 'bad'")
        await store.apply(DeleteJob(job=bad.id, now_us=fixture.now_us))
        assert await store.job_named("default", "bad") is None
        assert await tagged("team") == ["good"]
        await fixture.save("bad", tags={"team": "a"})
        assert await tagged("team") == ["bad", "good"]
        assert await store.verify() == []

    in_store(case)


def test_unknown_statuses_and_codes_of_a_newer_release_are_shown(in_store: InStore) -> None:
    async def case(fixture: StoreFixture, by_hand: Callable[[str], Awaitable[Any]]) -> None:
        store = fixture.store
        saved = await fixture.save("job", overlap=Overlap.ALLOW)
        for _ in range(3):
            await fixture.settle(await fixture.admit_one("job"))
        failed = await fixture.admit_one("job")
        await fixture.settle(failed, status=Status.FAILED, dead_letter=True, detail='{"result": 7}')
        where = ExecutionFilter(job=saved.id)
        before = (await store.list_executions(where, limit=9)).items
        one = f"'{failed.id.hex()}'" if isinstance(store, PostgresStore) else f"x'{failed.id.hex()}'"
        new = "code = 'out_of_luck', message = null, cause = 77, detail = '{'"
        await by_hand(f"update history set {new}, status = 91 where id = {one}")
        await by_hand("update dead_letter set code = 'out_of_luck', message = null")
        strange, *others = (await store.list_executions(where, limit=9)).items
        assert others == before[1:]
        assert isinstance(strange, Execution)
        assert strange.reason is not None
        assert (strange.reason.code.value, strange.cause.name, strange.status.name) == (
            *("out_of_luck", "UNKNOWN_77", "UNKNOWN_91"),
        )
        assert strange.status.final
        assert strange.status not in set(Status)
        assert strange.reason.code not in set(ReasonCode)
        assert strange.cause not in set(Cause)
        assert strange.detail is None
        assert "out_of_luck" in strange.reason.message
        [letter] = (await store.list_dead_letters(namespace=None, limit=9)).items
        assert letter.reason == strange.reason
        assert (await store.latest([saved.id]))[saved.id] == strange

    in_store(case)
