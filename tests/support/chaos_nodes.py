"""Clusters of real node processes that tests start, kill, freeze and stop.

A test ends every process that it started, by its process id.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from chronos.assembly import Service, collect_target_checks, make_runners, make_service, make_store
from chronos.clock import SystemClock
from chronos.core.calendar import rfc3339
from chronos.core.execution import Attempt, Execution, Span
from chronos.runners.command.supervisor import list_descendants
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.service.job_state import StateChange
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from tests.chaos.checker import Evidence, ExpectedJob, check_evidence
from tests.chaos.history import Fault, Kind, Run, read_lines, read_runs
from tests.support.verdicts import Finding

ROOT = Path(__file__).parent.parent.parent
WORK = Path(__file__).parent.parent / "chaos" / "work.py"
HEARTBEAT_S, TIMEOUT_S, REAPER_S, GRACE_S = 0.5, 4.0, 0.3, 1.0  # a busy machine may pause for seconds
MAX_WAIT_S = 150.0  # on a busy machine
_MARK_VARIABLE = "CHAOS_MARK"
_PAGE_SIZE = 1_000


class Node:
    """One node process. ``skip`` is how many lines of its log are from earlier processes."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", log: Path, skip: int) -> None:
        self.name, self.process, self._log, self._skip = name, process, log, skip
        self.children: dict[int, str] = {}  # start times of its descendants, as of the last look

    def log(self, event: str) -> list[dict[str, Any]]:
        """Its log lines of one kind of event."""
        return [line for line in read_lines(self._log)[self._skip :] if line["event"] == event]

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def record_children(self) -> None:
        """Note its current descendants."""
        self.children = {
            pid: started for pid in list_descendants(self.process.pid) if (started := _read_start_time(pid))
        }

    def list_surviving_children(self) -> list[str]:
        """The noted descendants that still run."""
        return [
            f"{pid} {_read_command(pid)}" for pid, started in self.children.items() if _read_start_time(pid) == started
        ]


class Cluster:
    """Nodes on one store, their jobs, and the faults that were caused."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.mark = uuid4().hex
        self.jobs: dict[str, ExpectedJob] = {}
        self.faults: list[Fault] = []
        self.acked: list[bytes] = []
        self.orphans: list[str] = []
        self.nodes: dict[str, Node] = {}
        self._gate: int | None = None
        os.mkfifo(folder / "gate")
        self.store: Store
        self.service: Service

    # --- nodes

    async def start(self, name: str = "a", *, url: str | None = None, **options: Any) -> Node:
        """Start a node and wait until it is ready."""
        log = self.folder / f"{name}.jsonl"
        engine_options = {
            "node_name": name,
            "heartbeat_s": HEARTBEAT_S,
            "heartbeat_timeout_s": TIMEOUT_S,
            "reaper_s": REAPER_S,
            "grace_s": GRACE_S,
            "tick_s": 0.5,
            **options,
        }
        settings = json.dumps({"url": url or self.url, "folder": str(self.folder), "options": engine_options})
        node = self.nodes[name] = Node(name, self._start_process(name, settings), log, len(read_lines(log)))
        await self.wait_until(lambda: bool(node.log("ready")), f"node {name} is ready")
        return node

    def _start_process(self, name: str, settings: str) -> "subprocess.Popen[bytes]":
        program = [sys.executable, "-m", "tests.chaos.node", settings]
        with (self.folder / f"{name}.err").open("ab") as errors:
            return subprocess.Popen(program, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=errors)

    async def kill(self, name: str = "a") -> set[bytes]:
        """``kill -9`` a node. Its processes must end. Returns the executions whose work was killed."""
        node, started_s, before = self.nodes[name], time.monotonic(), self.running()
        node.record_children()
        node.send(signal.SIGKILL)
        node.process.wait()
        self.faults.append(Fault(kind=Kind.KILL, from_s=started_s, to_s=time.monotonic(), in_flight=len(before)))
        await self._check_no_survivors(node)
        ended = {(run.execution, run.token) for run in self.runs() if run.end_s is not None}
        surviving = {run.pid for run in self.running()}
        return {run.execution for run in before if run.pid not in surviving and (run.execution, run.token) not in ended}

    async def stop(self, name: str = "a", within_s: float = MAX_WAIT_S) -> int:
        """Send SIGTERM and wait. Returns the exit code."""
        node, started_s, in_flight = self.nodes[name], time.monotonic(), len(self.running())
        node.record_children()
        node.send(signal.SIGTERM)
        await self.wait_until(lambda: node.process.poll() is not None, f"node {name} stops", within_s)
        self.faults.append(Fault(kind=Kind.TERM, from_s=started_s, to_s=time.monotonic(), in_flight=in_flight))
        await self._check_no_survivors(node)
        return node.process.returncode

    async def freeze(
        self, name: str, until: Callable[[], Awaitable[bool]], description: str, *, with_children: bool
    ) -> None:
        """SIGSTOP a node until a condition holds. Its child processes continue, unless ``with_children``."""
        node, in_flight = self.nodes[name], len(self.running())
        started_s = time.monotonic()
        node.send(signal.SIGSTOP)
        node.record_children()
        children = list(node.children) if with_children else []
        _send_all(children, signal.SIGSTOP)
        await self.wait_until(until, description)
        _send_all(children, signal.SIGCONT)
        node.send(signal.SIGCONT)
        self.faults.append(Fault(kind=Kind.FREEZE, from_s=started_s, to_s=time.monotonic(), in_flight=in_flight))

    def set_clock(self, name: str, ahead_s: float) -> None:
        """Set a node's clock ahead of the machine's by some seconds."""
        (self.folder / f"{name}.clock").write_text(str(ahead_s))
        self.nodes[name].send(signal.SIGUSR1)
        now_s = time.monotonic()
        self.faults.append(Fault(kind=Kind.JUMP, from_s=now_s, to_s=now_s, in_flight=len(self.running())))

    @asynccontextmanager
    async def disturbed(self, kind: Kind) -> AsyncIterator[None]:
        """Record a fault that lasts while the context is entered."""
        started_s, in_flight = time.monotonic(), len(self.running())
        yield
        self.faults.append(Fault(kind=kind, from_s=started_s, to_s=time.monotonic(), in_flight=in_flight))

    async def _check_no_survivors(self, node: Node) -> None:
        """Give its supervisors a moment to kill their commands. Processes that remain are orphans."""
        try:
            await self.wait_until(lambda: not node.list_surviving_children(), "its processes end", 10.0)
        except AssertionError:
            self.orphans += node.list_surviving_children()

    def close(self) -> None:
        """End every process of the cluster."""
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.send(signal.SIGCONT)
                node.process.kill()
                node.process.wait()
        _send_all(find_marked(self.mark), signal.SIGKILL)
        if self._gate is not None:
            os.close(self._gate)

    # --- jobs

    async def save_job(
        self,
        name: str,
        *,
        every_s: float | None,
        first_s: float | None,
        again_s: float = 0.5,
        in_s: float = 1.0,
        **more: Any,
    ) -> None:
        """Save a job that is due every ``every_s`` seconds, from ``in_s`` seconds on (None: only when triggered).

        First attempts take ``first_s`` seconds (None: until the gate is opened), later ones ``again_s``.
        """
        takes = "gate" if first_s is None else str(first_s)
        start_us = SystemClock().now_us() + round(in_s * 1e6)
        overlap = more.setdefault("overlap", "skip")
        flags = ["together"] if overlap == "allow" else []
        shape = {
            "name": name,
            "schedule": "manual" if every_s is None else {"every": f"{every_s}s", "start": rfc3339(start_us)},
            "recovery": "all",
            "retry": {"max_attempts": 20, "initial_interval": "100ms"},
            "command": {
                "argv": [
                    *(sys.executable, "-I", "-S", str(WORK), str(self.folder), takes, str(again_s)),
                    *flags,
                ],
                "env": {_MARK_VARIABLE: self.mark},
            },
            **more,
        }
        await self.service.job_saver.save([self.service.jobs.read(shape)])
        every_us = 0 if every_s is None else round(every_s * 1e6)
        self.jobs[name] = ExpectedJob(start_us=start_us, every_us=every_us, exclusive=overlap != "allow")

    async def trigger(self, name: str, key: str) -> bytes:
        """Trigger a run. Acknowledged runs must be on record at the end."""
        triggered = await self.service.runs.trigger(name, idempotency=key)
        self.acked.append(triggered.id)
        return triggered.id

    def open_gate(self) -> None:
        """Let all attempts pass that wait at the gate, and all later ones."""
        self._gate = os.open(self.folder / "gate", os.O_RDWR)

    # --- records

    def runs(self) -> list[Run]:
        return read_runs(read_lines(self.folder / "history.jsonl"))

    def running(self) -> list[Run]:
        """The runs whose process is alive."""
        return [run for run in self.runs() if run.end_s is None and self._is_ours(run.pid)]

    def _is_ours(self, pid: int) -> bool:
        return self.mark in _read_environment(pid)

    async def wait_until(
        self, condition: Callable[[], bool | Awaitable[bool]], description: str, within_s: float = MAX_WAIT_S
    ) -> float:
        """Wait until a condition holds. Returns how long it took, in seconds."""
        started_s = time.monotonic()
        while True:
            checked_s = time.monotonic()
            result = condition()
            if result if isinstance(result, bool) else await result:
                return time.monotonic() - started_s
            now_s = time.monotonic()
            assert now_s - started_s < within_s, f"not within {within_s} s: {description}"
            await asyncio.sleep(0.05 + 4 * (now_s - checked_s))  # the checks must not keep the machine busy

    async def records(self) -> tuple[list[Execution], list[Span]]:
        """All executions and spans of the store."""
        records: list[Execution] = []
        spans: list[Span] = []
        cursor: bytes | None = None
        while True:
            page = await self.store.list_executions(ExecutionFilter(), limit=_PAGE_SIZE, cursor=cursor)
            for item in page.items:
                if isinstance(item, Span):
                    spans.append(item)
                else:
                    records.append(item)
            cursor = page.cursor
            if cursor is None:
                return records, spans

    async def attempts(self, execution: bytes) -> list[Attempt]:
        view = await self.store.execution(execution)
        return [] if view is None else view.attempts

    # --- the end

    async def settle(self) -> int:
        """Wait until every instant up to now is admitted, disable the jobs, and wait for all work. Returns that now."""
        until_us = SystemClock().now_us()

        async def admitted() -> bool:
            next_us = await self.store.next_due_us()
            return next_us is None or next_us > until_us

        async def ended() -> bool:
            return not any((await self.store.counts()).open.values())

        await self.wait_until(admitted, "every instant is admitted")
        for name in self.jobs:
            await self.service.job_states.change(await self.service.jobs.get(name), StateChange.DISABLE)
        await self.wait_until(ended, "all work ends")
        return until_us

    async def evidence(self, until_us: int) -> Evidence:
        """Collect the input of the checker."""
        records, spans = await self.records()
        page = await self.store.list_jobs(JobFilter(), limit=_PAGE_SIZE)
        runs = self.runs()
        retried = {record.id for record in records if record.attempt > 1} | {
            run.execution for run in runs if not run.end_s
        }
        return Evidence(
            until_us=until_us,
            jobs=self.jobs,
            names={job.id: job.name for job in page.items},
            records=records,
            spans=spans,
            attempts={id_: await self.attempts(id_) for id_ in retried},
            runs=runs,
            faults=self.faults,
            acked=self.acked,
            inconsistencies=await self.store.verify(),
            orphans=[*self.orphans, *(f"{pid} {_read_command(pid)}" for pid in find_marked(self.mark))],
        )

    async def check(self, *, min_faults: dict[Kind, int], min_in_flight: int) -> list[Finding]:
        """Wait for all work, stop the nodes, and return the findings of the checker."""
        until_us = await self.settle()
        for name, node in self.nodes.items():
            if node.process.poll() is None:
                assert await self.stop(name) == 0, (self.folder / f"{name}.err").read_text()[-2_000:]
        evidence = await self.evidence(until_us)
        sys.stderr.write(f"\n{evidence.summarize()}\n")
        return check_evidence(evidence, min_faults=min_faults, min_in_flight=min_in_flight)


@asynccontextmanager
async def open_cluster(folder: Path, url: str) -> AsyncIterator[Cluster]:
    """A cluster with its own connection to the store. Everything is closed at the end."""
    cluster = Cluster(folder, url)
    cluster.store = make_store(url)
    await cluster.store.open()
    clock, functions = SystemClock(), FunctionRegistry()
    runners = make_runners(functions, clock=clock)
    cluster.service = make_service(cluster.store, clock, checks=collect_target_checks(runners))
    try:
        yield cluster
    finally:
        cluster.close()
        for runner in runners.values():
            await runner.close()
        await cluster.store.close()


def run_on_cluster(folder: Path, url: str, case: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run a test case on a cluster."""

    async def main() -> None:
        async with open_cluster(folder, url) as cluster:
            await case(cluster)

    asyncio.run(main())


def find_marked(mark: str) -> list[int]:
    """The processes that have a mark in their environment."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and mark in _read_environment(int(name))]


def _send_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _read_environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def _read_start_time(pid: int) -> str | None:
    """The start time of a process, which distinguishes it from a later one with the same id; None: it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "?"
