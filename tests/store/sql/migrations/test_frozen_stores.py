"""Frozen stores of earlier releases, with running executions, under this release (see ``freeze``)."""

import asyncio
import json
import lzma
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from chronos.core.execution import AttemptStatus, Status
from chronos.core.reasons import Reason, ReasonCode
from chronos.store.commands import EndedAttempt, Reap, ReapRow
from chronos.store.contract import JobFilter, Store
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.store import SqliteStore
from chronos.testing.conformance import StoreFixture
from tests.store.freeze import DATA, NODE, TOKEN, read_records

SCHEMAS = sorted(path.name.split(".")[0] for path in DATA.glob("schema-*.json.xz"))
FORMER_SENTENCES = {  # of reasons that were stored without a message; each release shows its own sentence
    "overlap": "An earlier execution of the job was still under way.",
    "replaced": "A newer execution of the job took its place.",
}
SHARED = ("side_by_side",)  # jobs whose executions may overlap


@dataclass(frozen=True)
class Frozen:
    """A frozen store: its URL, its records, and how to open it."""

    url: str
    was: dict[str, Any]
    make: Callable[[], Store]


def read(name: str) -> bytes:
    return lzma.decompress((DATA / name).read_bytes())


async def replay(url: str, sql: str) -> None:
    """Load a dump, as any database client could."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.fixture(params=[(schema, engine) for schema in SCHEMAS for engine in ("sqlite", "postgres")], ids="-".join)
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Frozen]:
    schema, engine = request.param
    was = json.loads(read(f"{schema}.json.xz"))[engine]
    if engine == "sqlite":
        path = tmp_path / "chronos.db"
        path.write_bytes(read(f"{schema}.sqlite.xz"))
        yield Frozen(f"sqlite:///{path}", was, lambda: SqliteStore(path))
        return
    url: str = request.getfixturevalue("postgres_url")
    asyncio.run(replay(url, read(f"{schema}.sql.xz").decode()))
    yield Frozen(url, was, lambda: PostgresStore(url))


def comparable(records: dict[str, Any]) -> dict[str, Any]:
    """Return records without values that an upgrade may change: tokens of open executions, open tasks, sentences."""
    plain: dict[str, Any] = json.loads(json.dumps(records))
    for execution in plain["executions"]:
        item = execution["item"]
        if item["status"] in (Status.READY, Status.WAITING):
            item.pop("token")
        if item["status"] == Status.CANCELED:
            (item["detail"] or {}).pop("group", None)
        reason = item.get("reason")
        if reason and reason["message"] == FORMER_SENTENCES.get(reason["code"]):
            reason["message"] = Reason.of(ReasonCode(reason["code"])).message
    return plain


def known(record: Any, was: Any) -> Any:
    """Return records without the fields that the frozen release did not have."""
    if isinstance(record, dict) and isinstance(was, dict):
        return {key: known(value, was[key]) for key, value in record.items() if key in was}
    if isinstance(record, list) and isinstance(was, list) and len(record) == len(was):
        return [known(item, old) for item, old in zip(record, was, strict=True)]
    return record


def test_a_frozen_store_keeps_its_records_under_this_release(frozen: Frozen) -> None:
    async def check() -> None:
        store = frozen.make()
        await store.open()
        try:
            records = await read_records(store)
            for kind, was in comparable(frozen.was).items():
                assert known(comparable(records)[kind], was) == was, kind
            assert await store.verify() == []
            token = await store.token(sha256(TOKEN.encode()).hexdigest())
            assert token is not None
            assert (token.name, token.role, token.namespaces) == ("ci", "operator", ["default"])
        finally:
            await store.close()

    asyncio.run(check())


def test_the_work_of_the_dead_node_continues_with_higher_tokens(frozen: Frozen) -> None:
    """Reap, claim and settle until nothing is left to run: running, ready and queued executions."""

    async def check() -> None:
        store = frozen.make()
        await store.open()
        try:
            fixture = StoreFixture(store)
            fixture.now_us = 2_000_000_000_000_000
            names = {job.id: job.name for job in (await store.jobs_by_id(await ids(store))).values()}
            [dead] = [node for node in await store.nodes() if node.name == NODE]
            held = await store.running_on(dead.number)
            running = {"line", "skips", "side_by_side", "replaces", "second_try", "batch"}
            assert {names[run.job] for run in held} == running
            last = highest(frozen.was, names)
            await fixture.start_node()
            rows = tuple(
                ReapRow(
                    *(run.id, run.job, run.token, Status.READY, ReasonCode.WORKER_LOST, run.attempt + 1),
                    (
                        EndedAttempt(
                            run.id, "main", run.attempt, AttemptStatus.LOST, fixture.now_us, fixture.now_us, dead.number
                        ),
                    ),
                )
                for run in held
            )
            reaped = await store.apply(Reap(node=dead.number, beat=dead.beat, rows=rows, now_us=fixture.now_us))
            assert reaped is not None
            asked_to_stop = {run.id for run in held if run.cancel}
            assert set(reaped) == {run.id for run in held} - asked_to_stop
            assert {names[run.job] for run in held if run.cancel} == {"replaces"}
            assert await fixture.wake() > 0
            started: list[str] = []
            while taken := await fixture.claim():
                for run in taken:
                    name = names[run.job]
                    started.append(name)
                    if name not in SHARED:
                        assert run.token > last.get(name, 0), name
                        last[name] = run.token
                await fixture.settle(*taken, detail='{"result":1}')
            expected = {"line": 3, "side_by_side": 2, "replaces": 1, "ready": 2, "backs_off": 1, "replaced": 1}
            assert expected.items() <= {name: started.count(name) for name in started}.items()
            assert "held" not in started
            assert await store.verify() == []
        finally:
            await store.close()

    asyncio.run(check())


async def ids(store: Store) -> list[bytes]:
    return [job.id for job in (await store.list_jobs(JobFilter(), limit=1_000)).items]


def highest(was: dict[str, Any], names: dict[bytes, str]) -> dict[str, int]:
    """Return the highest token of the started executions of each job."""
    tokens: dict[str, int] = {}
    for execution in was["executions"]:
        item = execution["item"]
        if item.get("started_us") is not None and (name := names.get(b64decode(item["job"]))):
            tokens[name] = max(tokens.get(name, 0), item["token"])
    return tokens
