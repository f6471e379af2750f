"""Freezes stores of this release for the upgrade tests of the next one: ``python -m tests.store.freeze``.

A program with jobs of every kind runs on a SQLite file and on a PostgreSQL database, and kills itself while they run.
Its stores are written to ``tests/data`` as ``schema-N``: the file, a dump in plain SQL that any connection can replay,
and the records that the contract returned. Run it before a change of the schema, and commit the files.
"""

import asyncio
import json
import lzma
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import msgspec

from chronos import Chronos, Context
from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.store.commands import CreateToken
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from chronos.store.sql.migrations import VERSION
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.store import SqliteStore
from tests.support.databases import Server

DATA = Path(__file__).parent.parent / "data"
TOKEN = "chronos_frozen_with_the_store"
NODE = "frozen"
SOON_S = 60
P = ParamSpec("P")
R = TypeVar("R")
_MANY = 1_000


def main() -> None:
    """Freeze a SQLite and a PostgreSQL store."""
    records = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chronos.db"
        _die_at_work(f"sqlite:///{path}")
        records["sqlite"] = asyncio.run(_read_store(SqliteStore(path)))
        _keep("sqlite", path.read_bytes())
        server = Server(Path(folder) / "postgres")
        try:
            _die_at_work(server.url)
            records["postgres"] = asyncio.run(_read_store(PostgresStore(server.url)))
            _keep("sql", _dump(server))
        finally:
            server.close()
    _keep("json", json.dumps(records, indent=1).encode())


def _keep(kind: str, data: bytes) -> None:
    (DATA / f"schema-{VERSION}.{kind}.xz").write_bytes(lzma.compress(data, preset=9))


def _dump(server: Server) -> bytes:
    """Return a database as SQL, without lines that only ``psql`` or the newest server understands."""
    options = ("--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=100", "--schema=chronos")
    dump = subprocess.run([server.tools / "pg_dump", *options, server.url], check=True, capture_output=True)
    unwanted = (b"\\", b"--", b"SET ")
    return b"\n".join(line for line in dump.stdout.splitlines() if line and not line.startswith(unwanted))


# --- records


async def _read_store(store: Store) -> dict[str, Any]:
    """Open a store and return its records."""
    await store.open()
    try:
        return await read_records(store)
    finally:
        await store.close()


async def read_records(store: Store) -> dict[str, Any]:
    """Return everything that an upgrade must keep, as JSON: jobs, versions, executions, attempts, output and more."""
    jobs = (await store.list_jobs(JobFilter(), limit=_MANY)).items
    executions = []
    for item in (await store.list_executions(ExecutionFilter(), limit=_MANY)).items:
        view = await store.execution(item.id)
        executions.append(
            {
                "item": _plain(item),
                "attempts": [_plain(attempt) for attempt in (view.attempts if view is not None else ())],
                "output": [_plain(row) for row in await store.output(item.id)],
            }
        )
    return {
        "jobs": [_plain(job) for job in jobs],
        "versions": {
            job.name: [_plain(version) for version in await store.versions(job.id, limit=_MANY)] for job in jobs
        },
        "executions": executions,
        "dead_letters": [
            letter.execution.hex() for letter in (await store.list_dead_letters(namespace=None, limit=_MANY)).items
        ],
        "outbox": [_plain(item) for item in await store.outbox(limit=_MANY)],
        "audit": [_plain(line) for line in (await store.audit(namespace=None, limit=_MANY)).items],
        "tokens": [_plain(token) for token in await store.tokens()],
        "nodes": [_plain(node) for node in await store.nodes()],
        "lanes": {str(number): lane for number, lane in (await store.lanes()).items()},
    }


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value, enc_hook=repr, builtin_types=())


# --- the program


def _die_at_work(url: str) -> None:
    """Run the program on this store until it kills itself."""
    done = subprocess.run([sys.executable, "-m", __spec__.name, url], check=False)
    assert done.returncode == -signal.SIGKILL, done.returncode


def work(url: str) -> None:  # noqa: PLR0915 - a list of everything that a store may contain
    """Fill a store, and die while executions run."""
    before = Chronos(url, owner="program", node_name="before")
    before.job(name="digest", cron="0 9 * * *", timezone="Europe/Paris", tags={"team": "money"})(_nothing)
    before.job(name="dropped")(_nothing)
    with before:
        before.trigger("dropped").wait(timeout=SOON_S)
        before.trigger("digest").wait(timeout=SOON_S)
    app = Chronos(url, owner="program", node_name=NODE, queues=["default"])
    begun: dict[str, threading.Event] = {}

    def endless(name: str, job: Callable[..., Any] = app.job, first: int = 1, **options: Any) -> None:
        """Return a job that runs until the program dies; it fails until attempt ``first``."""
        begun[name] = threading.Event()

        def run(ctx: Context) -> None:
            if ctx.attempt < first:
                _failing()
            begun[name].set()
            time.sleep(SOON_S * 10)

        job(name=name, **options)(_of_program(run))

    digest = app.job(
        name="digest",
        cron="0 9 * * *",
        timezone="Europe/Paris",
        tags={"team": "money"},
        description="the second version",
        recovery="skip",
    )(_printing)

    @app.job(retry={"max_attempts": 3, "initial_interval": "1ms"})
    @_of_program
    def flaky(ctx: Context) -> dict[str, int]:
        ctx.log.info("attempt %d", ctx.attempt)
        if ctx.attempt == 1:
            _failing()
        return {"attempt": ctx.attempt}

    fails = app.job(name="fails", retries=0)(_failing)

    @app.job(every="100ms", overlap="skip", recovery="skip")
    def often() -> None: ...

    @app.job(after={"job": "digest", "on": "success"})
    def follower() -> None: ...

    hooked = app.job(name="hooked", on_complete={"python": {"name": "of-another-program"}})(_nothing)
    steps = app.group("steps", mode="sequential")
    steps.task(name="first")(_nothing)
    steps.command("second", ["true"])
    steps.wait("approval", signal="ok")
    command = app.command("command", ["echo", "hello"])
    app.webhook("webhook", "https://example.com/hook", cron="0 0 1 1 *", headers={"X-Team": "money"}, recovery="skip")
    held = app.job(name="held", cron="0 * * * *", start="2026-01-01T00:00:00Z", overlap="queue", queue="nowhere")(
        _nothing
    )
    off = app.job(name="off", cron="0 * * * *")(_nothing)
    ready = app.job(name="ready", queue="nowhere", concurrency={"limit": 1, "key": "{{ payload.account }}"})(_nothing)
    endless("line", overlap="queue")
    endless("skips")
    endless("side_by_side", overlap="allow")
    endless("replaces", overlap="replace")
    endless("second_try", first=2, retry={"initial_interval": "1ms"})
    batch = app.group("batch", overlap="queue")
    batch.task(name="first")(_nothing)
    endless("second", batch.task)
    later = {"max_attempts": 5, "initial_interval": "1h"}
    retrying = {name: app.job(name=name, retry=later)(_failing) for name in ("backs_off", "canceled")}
    retrying["replaced"] = app.job(name="replaced", retry=later, overlap="replace")(_failing)
    app.start()
    digest.trigger({"n": 1}, key="once").wait(timeout=SOON_S)
    digest.trigger({"n": 1}, key="once")
    for job in (flaky, fails, hooked, command):
        job.trigger().wait(timeout=SOON_S)
    _until(lambda: len(often.executions()) > 3)
    often.pause("seen enough")
    _until(lambda: len(app.get("follower").executions()) > 0)
    waiting = steps.trigger()
    slept = {name: job.trigger() for name, job in retrying.items()}
    _until(lambda: all(run.status == "waiting" for run in (waiting, *slept.values())))
    slept["canceled"].cancel("not needed")
    retrying["replaced"].trigger()
    _until(lambda: slept["replaced"].status == "canceled")
    held.backfill("2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z")
    held.pause("a holiday")
    off.disable("for now")
    ready.trigger({"account": 7})
    ready.trigger({"account": 7})
    for name, event in begun.items():
        app.trigger("batch" if name == "second" else name)
        assert event.wait(SOON_S)
    for name in ("line", "line", "replaces", "side_by_side"):
        app.trigger(name, key=f"behind:{name}:{len(app.get(name).executions())}")
    asyncio.run(_with_token(url))
    os.kill(os.getpid(), signal.SIGKILL)


def _nothing() -> None: ...


def _printing(n: int = 0) -> int:
    print("working on", n)
    return n


def _of_program(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a fixed file name, because tracebacks are stored."""
    function.__code__ = function.__code__.replace(co_filename="program.py")
    return function


@_of_program
def _failing() -> None:
    raise ValueError("no answer")


def _until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + SOON_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.02)


async def _with_token(url: str) -> None:
    store: Store = SqliteStore(Path(urlsplit(url).path[1:])) if url.startswith("sqlite") else PostgresStore(url)
    await store.open()
    token = ApiToken(name="ci", token_hash=sha256(TOKEN.encode()).hexdigest(), role="operator", namespaces=["default"])
    await store.apply(CreateToken(token=token, now_us=time.time_ns() // 1000, actor=Actor(name="ana", origin="::1")))
    await store.close()


if __name__ == "__main__":
    if addresses := sys.argv[1:]:
        work(addresses[0])
    else:
        main()
