"""The store probe: raw rows, statements and steps of SQLite stores; other stores are rejected."""

import asyncio
from typing import Any, cast

import pytest

from chronos.errors import Invalid, StoreUnavailable
from chronos.store.contract import JobFilter, Store
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing import StoreProbe
from chronos.testing.conformance import StoreFixture


def test_a_probe_shows_rows_statements_and_steps() -> None:
    async def check() -> None:
        store = SqliteStore()
        await store.open()
        probe = StoreProbe(store)
        with probe.statements() as saving, probe.steps() as steps:
            await StoreFixture(store).save("job")
        assert saving
        assert not {"begin immediate", "commit"} & {*saving}
        assert probe.execute("select name from job where namespace = ?", "default") == [("job",)]
        probe.execute("with recursive n (i) as (select 1 union all select i + 1 from n where i < 9999) select * from n")
        before = len(saving), len(steps)
        with probe.steps() as more:
            probe.execute(
                "with recursive n (i) as (select 1 union all select i + 1 from n where i < 9999) select i from n"
            )
        assert sum(more) > 9_999
        assert (len(saving), len(steps)) == before
        await store.close()
        with pytest.raises(StoreUnavailable, match="not open"):
            probe.execute("select 1")

    asyncio.run(check())


def test_counting_ends_with_the_block_even_after_an_error() -> None:
    async def check() -> None:
        store = SqliteStore()
        await store.open()
        with pytest.raises(ValueError, match="mine"), StoreProbe(store).statements() as seen:
            raise ValueError("mine")
        await store.list_jobs(JobFilter(), limit=1)
        assert seen == []
        await store.close()

    asyncio.run(check())


def test_another_engine_is_rejected() -> None:
    with pytest.raises(Invalid, match="only a SQLite store"):
        StoreProbe(cast(Store, cast(Any, object())))
