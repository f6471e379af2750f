"""The composition root: the only place that knows which engine stands behind which url."""

from pathlib import Path
from urllib.parse import urlsplit

from chronos.errors import Invalid
from chronos.store.contract import Store


def make_store(url: str) -> Store:
    """The store a url names, not yet open: ``sqlite:///file``, ``sqlite://`` (in memory), ``postgresql://…``.

    Engines are imported when they are asked for, so that a program pays only for its own.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        from chronos.store.sql.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(_sqlite_path(url))
    if scheme in ("postgresql", "postgres"):
        from chronos.store.sql.postgres import PostgresStore  # noqa: PLC0415

        return PostgresStore(url)
    raise Invalid(
        f"{_without_password(url)} names no store Chronos knows; "
        "write sqlite:///path/to/file.db, sqlite:// (in memory) or postgresql://user@host/database"
    )


def _sqlite_path(url: str) -> Path | None:
    """Three slashes and a relative path, four and an absolute one; two and nothing: in memory."""
    rest = url.removeprefix("sqlite://")
    if rest in ("", "/"):
        return None
    if not rest.startswith("/"):
        raise Invalid(f"{url} has two slashes where a file needs three: sqlite:///{rest}")
    return Path(rest[1:])


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return url if parts.password is None else url.replace(f":{parts.password}@", ":…@")
