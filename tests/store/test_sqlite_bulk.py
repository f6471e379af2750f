"""Jobs by the thousand on SQLite: commands that share a transaction, and what becomes of one that is refused there."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chronos.core.ids import job_id
from chronos.core.job import JobSpec
from chronos.core.policy import GateSpec
from chronos.errors import Conflict, StoreBroken
from chronos.store.commands import NEW, JobRow, SaveJobs
from chronos.store.contract import JobFilter
from chronos.store.pump import MAX_ROWS
from chronos.store.sql.sqlite import SqliteStore
from tests.store.test_sqlite import run

MANY = MAX_ROWS + 1
_SPEC, _GATE = JobSpec(tags={"team": "a"}), GateSpec()


def saving(*names: str, expect: int | None = NEW) -> SaveJobs:
    rows = tuple(
        JobRow(namespace="default", name=name, spec=_SPEC, gate=_GATE, next_us=n, expect=expect)
        for n, name in enumerate(names)
    )
    return SaveJobs(rows=rows, now_us=1)


def many(prefix: str) -> list[str]:
    return [f"{prefix}-{n:04}" for n in range(MANY)]


async def count(store: SqliteStore) -> int:
    [(jobs, gates, tags, tallied)] = (
        store._open_writer()
        .execute(
            "select (select count(*) from job), (select count(*) from gate), (select count(*) from job_tag), "
            "(select sum(jobs) from tally)"
        )
        .fetchall()
    )
    assert jobs == gates == tags == tallied
    assert await store.verify() == []
    assert isinstance(jobs, int)
    return jobs


def test_one_that_is_refused_spoils_nothing_for_the_others(tmp_path: Path) -> None:
    transactions: list[int] = []

    class Counted(SqliteStore):
        def _transaction(self, commands: Any) -> list[Any]:
            transactions.append(len(commands))
            return super()._transaction(commands)

    async def main() -> list[Any]:
        store = Counted(tmp_path / "chronos.db")
        await store.open()
        await store.apply(saving("taken"))
        await store.apply(saving(*many("zero")))  # how fast they are is known from here on
        store._pump._bulk_rows = 10 * MANY
        commands = [saving(*many("one")), saving(*many("two")[1:], "taken"), saving(*many("three"))]
        answers = await asyncio.gather(*map(store.apply, commands), return_exceptions=True)
        assert await count(store) == 1 + 3 * MANY
        await store.close()
        return answers

    one, two, three = asyncio.run(main())
    assert transactions == [1, 1, 3]
    assert [saved.created for saved in one + three] == [True] * (2 * MANY)
    assert isinstance(two, Conflict)
    assert "taken" in str(two)


def test_rows_that_fail_half_way_leave_nothing(tmp_path: Path) -> None:
    """A gate is there that should not be: what was inserted before it goes with the transaction."""

    async def main(store: SqliteStore) -> None:
        await store.apply(saving("orphan", *many("first")))
        writer = store._open_writer()
        writer.execute("update gate set number = 0 where job = ?", (job_id("default", "orphan", 1),))
        writer.execute("delete from job_tag where name = 'orphan'")
        writer.execute("delete from job where name = 'orphan'")
        with pytest.raises(StoreBroken):
            await store.apply(saving(*many("second"), "orphan"))
        assert (await store.list_jobs(JobFilter(prefix="second"), limit=1)).items == []
        saved = await store.apply(saving(*many("third")))
        assert len(saved) == MANY

    run(tmp_path / "chronos.db", main)
