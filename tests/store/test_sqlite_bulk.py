"""Jobs by the thousand on SQLite: commands that share a transaction, and what becomes of one that is refused there."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chronos.core.ids import job_id
from chronos.core.job import JobSpec
from chronos.core.node import Actor
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


@pytest.mark.parametrize("parts", [3, 12])  # few of them are told apart by the statement, many by the row
def test_those_who_share_a_transaction_keep_what_is_their_own(tmp_path: Path, parts: int) -> None:
    """Who saved a job, and when, is said of each, though all rows are inserted by one statement."""
    commands = [
        replace(saving(*many(f"part{n:02}")), now_us=1_000 + n, actor=Actor(name=f"actor {n}")) for n in range(parts)
    ]

    async def main(store: SqliteStore) -> None:
        await store.apply(saving(*many("zero")))
        store._pump._bulk_rows = 2 * parts * MANY
        await asyncio.gather(*map(store.apply, commands))
        rows = store._open_writer().execute(
            "select substr(name, 1, 6), author, created_us, saved_us, updated_us, count(*), max(number) - min(number) "
            "from job where name like 'part%' group by 1, 2, 3, 4, 5 order by 1"
        )
        assert rows.fetchall() == [
            (f"part{n:02}", f"actor {n}", *[1_000 + n] * 3, MANY, MANY - 1) for n in range(parts)
        ]
        told = await store.audit(namespace=None, limit=parts)
        assert sorted((line.actor, line.subject) for line in told.items) == sorted(
            (f"actor {n}", f"part{n:02}-0000 and {MANY - 1} more") for n in range(parts)
        )
        assert await count(store) == (parts + 1) * MANY

    run(tmp_path / "chronos.db", main)


def test_tags_are_those_of_their_own_jobs(tmp_path: Path) -> None:
    tags: list[dict[str, str]] = [{}, {"team": "a"}, {"team": "b", "tier": "1"}]
    rows = tuple(
        JobRow(namespace="default", name=name, spec=JobSpec(tags=tags[n % 3]), gate=_GATE, next_us=n, expect=NEW)
        for n, name in enumerate(many("tagged"))
    )

    async def main(store: SqliteStore) -> None:
        await store.apply(SaveJobs(rows=rows, now_us=1))
        found = store._open_writer().execute("select name, key, value from job_tag order by name, key")
        assert found.fetchall() == [(row.name, key, value) for row in rows for key, value in row.spec.tags.items()]
        assert await store.verify() == []

    run(tmp_path / "chronos.db", main)
