"""Fixtures of the end-to-end tests: one server per module and engine, and new databases."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.server.conftest import start
from tests.support.api_server import SECRET
from tests.support.databases import database_url, on_server
from tests.support.e2e_server import Client
from tests.support.server_process import Process

__all__ = ["start"]
ENGINES = ("sqlite", "postgresql")
CONFIG = {
    "auth": {"type": "basic", "users": {"ana": {"password_hash": SECRET, "role": "admin"}}},
    "scheduler": {"tick_interval": "200ms"},
}


@pytest.fixture(scope="module", params=ENGINES)
def store_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The store of a module's servers, on each engine in turn."""
    if request.param == "sqlite":
        yield "sqlite:///chronos-data/chronos.db"
        return
    maintenance = request.getfixturevalue("postgres_server")
    name = f"chronos_test_{uuid4().hex[:16]}"
    asyncio.run(on_server(maintenance, f'create database "{name}"'))
    yield database_url(maintenance, name)
    asyncio.run(on_server(maintenance, f'drop database "{name}" with (force)'))


@pytest.fixture(scope="module")
def start_again(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Process]]:
    """A function that starts servers on the module's store, one after the other. All are killed at the end."""
    folder: Path = tmp_path_factory.mktemp("server")
    (folder / "chronos.yaml").write_text(json.dumps(CONFIG))
    started: list[Process] = []

    def make() -> Process:
        started.append(Process(folder, ("--store", store_url, "--node-id", "one"), {}))
        return started[-1].ready()

    yield make
    for process in started:
        process.close()


@pytest.fixture(scope="module")
def api(start_again: Callable[[], Process]) -> Client:
    """A client of the module's server, as an administrator."""
    return Client(start_again())
