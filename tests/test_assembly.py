"""Composition: store URLs and the kinds of targets."""

from pathlib import Path
from typing import Any

import pytest

from chronos.assembly import collect_target_checks, is_in_memory, make_runners, make_store
from chronos.clock import SystemClock
from chronos.errors import Invalid
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.store import SqliteStore


def test_a_url_selects_its_store() -> None:
    relative, absolute, memory = (make_store(f"sqlite://{rest}") for rest in ("/data/a.db", "//var/a.db", ""))
    assert isinstance(relative, SqliteStore)
    assert isinstance(absolute, SqliteStore)
    assert isinstance(memory, SqliteStore)
    assert (relative.path, absolute.path, memory.path) == (Path("data/a.db"), Path("/var/a.db"), None)
    assert isinstance(make_store("postgresql://ana@db.example/jobs"), PostgresStore)
    assert isinstance(make_store("postgres://ana@db.example/jobs"), PostgresStore)


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("mysql://ana:secret@host/x", 'unknown store "mysql://ana:…@host/x"'),
        ("chronos.db", "use sqlite:///path/to/file.db"),
        ("", "unknown store"),
        ("sqlite://chronos.db", "a file needs three slashes: sqlite:///chronos.db"),
        ("sqlite:chronos.db", "a file needs three slashes: sqlite:///chronos.db"),
        ("sqlite:/var/chronos.db", "a file needs three slashes: sqlite:////var/chronos.db"),
    ],
)
def test_an_invalid_url_is_rejected_with_a_valid_form(url: str, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        make_store(url)
    assert part in str(caught.value)
    assert "secret" not in str(caught.value)


def test_only_a_sqlite_url_without_a_file_is_in_memory() -> None:
    assert is_in_memory("sqlite://")
    assert not is_in_memory("sqlite:///a.db")
    assert not is_in_memory("postgresql://db.example/jobs")


def test_a_package_adds_a_target_kind_but_cannot_replace_a_built_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "carrier.py").write_text(
        "from chronos.errors import Invalid\n"
        "class Pigeon:\n"
        "    def check(self, options):\n"
        "        raise Invalid('pigeon.loft is missing')\n"
    )
    info = tmp_path / "carrier-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[chronos.runners]\npigeon = carrier:Pigeon\nhttp = carrier:Pigeon\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    checks = collect_target_checks(make_runners(FunctionRegistry(), clock=SystemClock()))
    assert set(checks) == {"command", "http", "pigeon", "python", "wait"}
    with pytest.raises(Invalid, match=r"pigeon\.loft is missing"):
        checks["pigeon"]({})
    checks["http"]({"url": "https://api.example.org/"})  # the built-in kind wins


ENGINE = """
class Engine:
    def __init__(self, url):
        self.url = url
    def __getattr__(self, name):
        return lambda *args: None

class Half:
    def __init__(self, url):
        pass
    async def open(self): ...
"""


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with store engines."""
    (tmp_path / "engines.py").write_text(ENGINE)
    info = tmp_path / "engines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: engines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[chronos.stores]\nown = engines:Engine\nhalf = engines:Half\nlost = engines:Nothing\nsqlite = engines:Engine\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("engines")
def test_a_package_adds_a_store_engine_but_cannot_replace_a_built_in_one() -> None:
    store: Any = make_store("own://host/jobs")
    assert store.url == "own://host/jobs"
    assert isinstance(make_store("sqlite://"), SqliteStore)


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("half://x", "is not a store: it lacks close, apply, on_hint"),
        ("lost://x", 'the package of the store "lost" cannot be loaded from engines:Nothing: AttributeError'),
        ("other://x", r"use sqlite:///path/to/file.db, sqlite:// (in memory), half://…, lost://…, own://…"),
    ],
)
def test_a_package_without_a_store_engine_is_rejected(url: str, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        make_store(url)
    assert part in str(caught.value)
