"""A server and an empty configuration folder for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_server import Served, serving


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("CHRONOS_SERVER", "CHRONOS_CONTEXT", "CHRONOS_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """A server for tests that change nothing."""
    with serving() as served:
        yield served
