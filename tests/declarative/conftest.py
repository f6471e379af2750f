"""What the tests of the declarative face share: a calm engine, stores, and a PostgreSQL where it can be had."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chronos.declarative import instance


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node looks after things less often, so that virtual days pass quickly; instants are kept all the same."""
    options = replace(
        instance.OPTIONS,
        tick_s=600,
        lookahead_s=1_200,
        heartbeat_s=3_600,
        heartbeat_timeout_s=36_000,
        reaper_s=3_600,
    )
    monkeypatch.setattr(instance, "OPTIONS", options)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store that outlives its schedulers."""
    return f"sqlite:///{tmp_path / 'tasks.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same, on every engine."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tasks.db'}"
    make: Callable[..., str] = request.getfixturevalue("make_database")
    return make()
