"""A server for each test, and a configuration folder that is nobody's."""

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
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """For tests that leave nothing behind."""
    with serving() as found:
        yield found
