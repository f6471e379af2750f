"""Random commands on all engines side by side."""

import asyncio
from collections.abc import Sequence

from chronos.store.contract import Store
from chronos.store.sql.postgres import PostgresStore
from chronos.store.sql.sqlite import SqliteStore
from tests.store.conftest import on_server
from tests.store.machine import run_machine


def test_one_engine_stays_sound() -> None:
    run_machine(lambda: [SqliteStore()], examples=60, steps=40)


def test_engines_agree(postgres_url: str) -> None:
    def fresh() -> Sequence[Store]:
        asyncio.run(on_server(postgres_url, "drop schema if exists chronos cascade"))
        return [SqliteStore(), PostgresStore(postgres_url)]

    run_machine(fresh, examples=12, steps=30)
