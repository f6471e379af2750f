"""The page about PostgreSQL: its SQL gives the rights that a store needs, and its URLs are accepted."""

import asyncio
import re
from pathlib import Path

import pytest

from chronos.store.sql.postgres.database_url import DRIVER_PARAMETERS, OWN_PARAMETERS, DatabaseUrl
from tests.docs.test_examples import blocks
from tests.support.databases import Server, as_user, database_url, on_server, opened

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "postgresql.md"
URLS = sorted(set(re.findall(r"""postgresql://[^\s"`]+""", PAGE.read_text())))


@pytest.mark.parametrize("url", URLS)
def test_a_url_of_the_page_is_accepted(url: str) -> None:
    assert DatabaseUrl.parse(url).place.database in ("chronos", "app")


def test_the_statements_of_the_page_give_enough_rights(own_server: Server) -> None:
    own, shared = ([line for line in text.splitlines() if line] for text in blocks(PAGE, "sql"))
    app = database_url(own_server.url, "app")

    async def check() -> None:
        await on_server(own_server.url, *own, "create database app")
        await on_server(app, *shared)
        for url in (as_user(database_url(own_server.url, "chronos"), "chronos", ""), as_user(app, "scheduler", "")):
            async with opened(url) as store:
                assert await store.verify() == []

    asyncio.run(check())


def test_the_reference_has_every_parameter() -> None:
    section = (DOCS / "reference" / "configuration.md").read_text().partition("## PostgreSQL URLs")[2]
    rows = [line.split("|")[1] for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", "".join(rows)))
    assert named | {"database"} == {*OWN_PARAMETERS, *DRIVER_PARAMETERS}
