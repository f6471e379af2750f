"""Fixtures of the server tests: servers as processes, and PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.server_process import Process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start servers in the folder of the test, and kill those that still run at its end."""
    started: list[Process] = []

    def make(*arguments: str, **variables: str) -> Process:
        started.append(Process(tmp_path, arguments, variables))
        return started[-1]

    yield make
    for process in started:
        process.close()
