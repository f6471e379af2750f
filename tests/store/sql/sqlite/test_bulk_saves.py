"""Thousands of jobs on SQLite: commands that share a transaction, and rejected ones among them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from chronos.core.admission_policy import GateSpec
from chronos.core.ids import job_id
from chronos.core.job import JobSpec, JobState, UpstreamJob
from chronos.core.node import Actor
from chronos.errors import Conflict, StoreBroken
from chronos.store.commands import NEW, DeleteJob, JobRow, RunOnSave, SaveJobs
from chronos.store.commands.batch_size import MAX_BATCH_ROWS
from chronos.store.contract import JobFilter
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing import StoreProbe
from tests.store.sql.sqlite.test_store import run

MANY = MAX_BATCH_ROWS + 1
_SPEC, _GATE = JobSpec(tags={"team": "a"}), GateSpec()


def saving(*names: str, expect: int | None = NEW) -> SaveJobs:
    rows = tuple(
        JobRow(namespace="default", name=name, spec=_SPEC, gate=_GATE, next_us=n, expect=expect)
        for n, name in enumerate(names)
    )
    return SaveJobs(rows=rows, now_us=1)


def many(prefix: str) -> list[str]:
    return [f"{prefix}-{n:04}" for n in range(MANY)]


async def apply_together(store: SqliteStore, *commands: SaveJobs) -> list[Any]:
    """Return the answers of commands that are all queued before the first is written."""
    return await asyncio.gather(*map(store.apply, commands), return_exceptions=True)


async def count(store: SqliteStore) -> int:
    [(jobs, gates, tags, tallied)] = StoreProbe(store).execute(
        "select (select count(*) from job), (select count(*) from gate), (select count(*) from job_tag), "
        "(select sum(jobs) from tally)"
    )
    assert jobs == gates == tags == tallied
    assert await store.verify() == []
    assert isinstance(jobs, int)
    return jobs


def test_a_rejected_command_does_not_affect_others_of_its_transaction(tmp_path: Path) -> None:
    transactions: list[int] = []

    async def main() -> list[Any]:
        store = SqliteStore(tmp_path / "chronos.db")
        await store.open()
        store.on_commit(lambda rows, _: transactions.append(rows))
        await store.apply(saving("taken"))
        commands = [saving(*many("one")), saving(*many("two")[1:], "taken"), saving(*many("three"))]
        answers = await apply_together(store, *commands)
        assert await count(store) == 1 + 2 * MANY
        await store.close()
        return answers

    one, two, three = asyncio.run(main())
    assert transactions == [1, 3 * MANY]
    assert [saved.created for saved in one + three] == [True] * (2 * MANY)
    assert isinstance(two, Conflict)
    assert "taken" in str(two)


def test_a_failed_insert_leaves_no_rows(tmp_path: Path) -> None:
    """An unexpected gate exists: the rows inserted before it are rolled back."""

    async def main(store: SqliteStore) -> None:
        await store.apply(saving("orphan", *many("first")))
        probe = StoreProbe(store)
        probe.execute("update gate set number = 0 where job = ?", job_id("default", "orphan", 1))
        probe.execute("delete from job_tag where name = 'orphan'")
        probe.execute("delete from job where name = 'orphan'")
        with pytest.raises(StoreBroken):
            await store.apply(saving(*many("second"), "orphan"))
        assert (await store.list_jobs(JobFilter(prefix="second"), limit=1)).items == []
        saved = await store.apply(saving(*many("third")))
        assert len(saved) == MANY

    run(tmp_path / "chronos.db", main)


@pytest.mark.parametrize("parts", [3, 12])  # one transaction, and more
def test_merged_commands_keep_their_actor_and_time(tmp_path: Path, parts: int) -> None:
    """The author and time of each job are kept, although one statement inserts all rows."""
    commands = [
        replace(saving(*many(f"part{n:02}")), now_us=1_000 + n, actor=Actor(name=f"actor {n}")) for n in range(parts)
    ]

    async def main(store: SqliteStore) -> None:
        await store.apply(saving(*many("zero")))
        await apply_together(store, *commands)
        rows = StoreProbe(store).execute(
            "select substr(name, 1, 6), author, created_us, saved_us, updated_us, count(*), max(number) - min(number) "
            "from job where name like 'part%' group by 1, 2, 3, 4, 5 order by 1"
        )
        assert rows == [(f"part{n:02}", f"actor {n}", *[1_000 + n] * 3, MANY, MANY - 1) for n in range(parts)]
        audit = await store.audit(namespace=None, limit=parts)
        assert sorted((line.actor, line.subject) for line in audit.items) == sorted(
            (f"actor {n}", f"part{n:02}-0000 and {MANY - 1} more") for n in range(parts)
        )
        assert await count(store) == (parts + 1) * MANY

    run(tmp_path / "chronos.db", main)


def test_merged_jobs_keep_their_own_tags(tmp_path: Path) -> None:
    tags: list[dict[str, str]] = [{}, {"team": "a"}, {"team": "b", "tier": "1"}]
    rows = tuple(
        JobRow(namespace="default", name=name, spec=JobSpec(tags=tags[n % 3]), gate=_GATE, next_us=n, expect=NEW)
        for n, name in enumerate(many("tagged"))
    )

    async def main(store: SqliteStore) -> None:
        await store.apply(SaveJobs(rows=rows, now_us=1))
        tags = StoreProbe(store).execute("select name, key, value from job_tag order by name, key")
        assert tags == [(row.name, key, value) for row in rows for key, value in row.spec.tags.items()]
        assert await store.verify() == []

    run(tmp_path / "chronos.db", main)


def test_of_two_large_commands_with_the_same_job_one_is_rejected(tmp_path: Path) -> None:
    async def main(store: SqliteStore) -> None:
        await store.apply(saving(*many("zero")))
        one, two = await apply_together(store, saving(*many("one"), "same"), saving(*many("two"), "same"))
        assert isinstance(one, list)
        assert isinstance(two, Conflict)
        assert await count(store) == 2 * MANY + 1

    run(tmp_path / "chronos.db", main)


def rows_of(prefix: str, **options: Any) -> SaveJobs:
    fields: dict[str, Any] = {
        "namespace": "default",
        "spec": _SPEC,
        "gate": _GATE,
        "next_us": 7,
        "expect": NEW,
    } | options
    return SaveJobs(rows=tuple(JobRow(name=name, **fields) for name in many(prefix)), now_us=2)


def mixed(prefix: str, **options: Sequence[Any]) -> SaveJobs:
    """Return jobs that alternate between the values of each option."""
    plain = rows_of(prefix)
    rows = [
        structs.replace(row, **{name: values[n % len(values)] for name, values in options.items()})
        for n, row in enumerate(plain.rows)
    ]
    return replace(plain, rows=tuple(rows))


SAVED = {
    "alike": rows_of("a"),
    "never due": rows_of("a", next_us=None),
    "switched off": rows_of("a", state=JobState.DISABLED, next_us=None),
    "owned, elsewhere": rows_of("a", namespace="other", spec=JobSpec(owner="ops", tags={"k": "v"})),
    "without tags": rows_of("a", spec=JobSpec()),
    "in a new lane": rows_of("a", gate=GateSpec(lane="other")),
    "of many times": mixed("a", next_us=[1, None, 3]),
    "of many specs": mixed("a", spec=[JobSpec(description="ü\n\"'"), JobSpec(tags={"a": "b", "c": "d"}), _SPEC]),
    "of many owners": mixed("a", spec=[JobSpec(owner="a"), JobSpec(owner="b")]),
    "of many gates": mixed("a", gate=[GateSpec(), GateSpec(limit=3)]),
    "of many states": mixed("a", state=[JobState.ACTIVE, JobState.PAUSED]),
    "of many namespaces": mixed("a", namespace=["a", "b"]),
    "that run at once": mixed("a", run=[None, RunOnSave()]),
    "one of which follows another": mixed("a", spec=[_SPEC, JobSpec(after=(UpstreamJob(job="a-0000"),))]),
    "whatever is there": mixed("a", expect=[None, NEW]),
    "of names that were used before": rows_of("zero"),
    "one of which is followed": rows_of("upstream"),
}


@pytest.mark.parametrize("command", SAVED.values(), ids=SAVED.keys())
def test_jobs_saved_together_have_the_same_rows_as_jobs_saved_singly(command: SaveJobs) -> None:
    """Except in the audit log, where many jobs share a line."""

    async def save(*commands: SaveJobs) -> tuple[list[Any], dict[str, list[Any]]]:
        store = SqliteStore()
        await store.open()
        zero = await store.apply(saving(*many("zero")))
        for saved in zero if command is SAVED["of names that were used before"] else zero[:3]:
            await store.apply(DeleteJob(job=saved.id, now_us=1))
        await store.apply(rows_of("follower", spec=JobSpec(after=(UpstreamJob(job="upstream-0002"),))))
        answers = [saved for one in commands for saved in await store.apply(one)]
        assert await store.verify() == []
        state = rows_of_tables(store)
        await store.close()
        return answers, state

    one_by_one = [replace(command, rows=(row,)) for row in command.rows]
    assert asyncio.run(save(command)) == asyncio.run(save(*one_by_one))


def rows_of_tables(store: SqliteStore) -> dict[str, list[Any]]:
    """Return the rows of every table except the audit log and the text index."""
    probe = StoreProbe(store)
    names = probe.execute("select name from sqlite_schema where type = 'table' and name not like 'job_fts%'")
    return {name: sorted(probe.execute(f"select * from {name}"), key=repr) for (name,) in names if name != "audit"}
