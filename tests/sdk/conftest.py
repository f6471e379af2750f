"""Apps on every store that needs no server. Each is stopped at the end of its test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chronos import Chronos

Make = Callable[..., Chronos]


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def make() -> Iterator[Make]:
    apps: list[Chronos] = []

    def make(url: str, **options: Any) -> Chronos:
        apps.append(Chronos(url, **options))
        return apps[-1]

    yield make
    for app in apps:
        app.stop(grace=0)


@pytest.fixture
def app(make: Make, url: str) -> Chronos:
    return make(url)
