"""The conformance suite on every engine that ships."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from chronos.store.contract import Store
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.memory import MemoryStore
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance import CASES, Case, run


@pytest.fixture(params=["file", "memory", "harness", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Return a new, empty store of each engine, not yet open."""
    match request.param:
        case "file":
            return lambda: SqliteStore(tmp_path / "chronos.db")
        case "memory":
            return SqliteStore
        case "harness":  # the store of users' tests
            return MemoryStore
        case _:
            return partial(PostgresStore, request.getfixturevalue("prepared_url"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.removeprefix("case_"))
def test_engine_keeps_the_contract(make_store: Callable[[], Store], case: Case) -> None:
    async def check() -> None:
        store = make_store()
        await store.open()
        try:
            await run(case, store)
        finally:
            await store.close()

    asyncio.run(check())
