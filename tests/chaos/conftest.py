"""The databases of the store's tests, here too."""

from tests.store.conftest import make_database, own_server, postgres_server, postgres_url

__all__ = ["make_database", "own_server", "postgres_server", "postgres_url"]
