"""The engine on the page about store engines passes the conformance suite, and keeps what it acknowledged."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chronos.errors import StoreUnavailable
from chronos.store.contract import JobFilter
from chronos.testing.conformance import StoreFixture
from tests.docs.test_examples import ROOT, blocks

ENGINE, SUITE, *_ = blocks(ROOT / "docs" / "how-to" / "store-engines.md", "python")
PAGE: dict[str, Any] = {"__name__": "store_engines"}
exec(compile(f"{ENGINE}\n{SUITE}", "store-engines.md", "exec"), PAGE)

JournalStore: Any = PAGE["JournalStore"]
test_contract = PAGE["test_contract"]


def test_a_cut_journal_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "journal"

    async def write() -> list[bytes]:
        store = JournalStore(f"journal://{path}")
        await store.open()
        fixture = StoreFixture(store)
        saved = [await fixture.save(name) for name in ("a", "b")]
        run = await fixture.admit_one("a")
        await fixture.settle(run)
        with pytest.raises(StoreUnavailable, match="another program uses"):
            await JournalStore(f"journal://{path}").open()
        await store.close()
        return [one.id for one in saved]

    async def read() -> list[bytes]:
        store = JournalStore(f"journal://{path}")
        await store.open()
        assert await store.verify() == []
        page = await store.list_jobs(JobFilter(), limit=10)
        assert len(await store.latest([page.items[0].id])) == 1
        await StoreFixture(store).save("c")
        await store.close()
        return [job.id for job in page.items]

    ids = asyncio.run(write())
    path.write_bytes(path.read_bytes() + b"\0\0\1\0cut off")
    assert asyncio.run(read()) == ids
    assert len(asyncio.run(read())) == 3
