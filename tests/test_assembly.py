"""Which url names which store."""

from pathlib import Path

import pytest

from chronos.assembly import make_store
from chronos.errors import Invalid
from chronos.store.sql.postgres import PostgresStore
from chronos.store.sql.sqlite import SqliteStore


def test_urls() -> None:
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
        ("mysql://ana:secret@host/x", "mysql://ana:…@host/x names no store Chronos knows"),
        ("chronos.db", "write sqlite:///path/to/file.db"),
        ("", "names no store"),
        ("sqlite://chronos.db", "sqlite:///chronos.db"),
    ],
)
def test_other_urls_are_refused_with_what_to_write(url: str, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        make_store(url)
    assert part in str(caught.value)
    assert "secret" not in str(caught.value)
