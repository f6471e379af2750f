"""Fixtures of the declarative tests: rare housekeeping, and stores."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chronos.declarative import scheduler_engine


@pytest.fixture
def rare_housekeeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the node do its periodic work rarely, so that virtual days pass quickly. Instants stay exact."""
    options = replace(
        scheduler_engine.OPTIONS,
        tick_s=600,
        lookahead_s=1_200,
        heartbeat_s=3_600,
        heartbeat_timeout_s=36_000,
        reaper_s=3_600,
    )
    monkeypatch.setattr(scheduler_engine, "OPTIONS", options)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a store that survives its schedulers."""
    return f"sqlite:///{tmp_path / 'tasks.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same on every engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tasks.db'}"
    make: Callable[..., str] = request.getfixturevalue("make_database")
    return make()
