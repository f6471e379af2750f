"""What the tests of the server share: servers as processes, and a PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.server_process import Process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts servers in a folder of the test's own; what still runs in the end is killed."""
    started: list[Process] = []

    def make(*arguments: str, **variables: str) -> Process:
        started.append(Process(tmp_path, arguments, variables))
        return started[-1]

    yield make
    for process in started:
        process.close()
