"""A test bed of real processes: nodes that are started, killed, frozen, stopped, and what came of it.

Everything that a test starts is ended with it, by its own process id.
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
from chronos.runners.command.supervisor import descendants
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.service.job_state import StateChange
from chronos.store.contract import ExecutionFilter, JobFilter, Store
from tests.chaos.checker import Evidence, Finding, Wanted, judge
from tests.chaos.history import Fault, Kind, Run, lines_of, runs_of

ROOT = Path(__file__).parent.parent.parent
WORK = Path(__file__).parent.parent / "chaos" / "work.py"
HEARTBEAT_S, TIMEOUT_S, REAPER_S, GRACE_S = 0.5, 4.0, 0.3, 1.0  # a machine may stand still for some seconds
PATIENCE_S = 150.0  # of the tests, on a machine that is busy with others
_MARK = "CHAOS_MARK"
_PAGE = 1_000


class Node:
    """One process."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", log: Path, seen: int) -> None:
        self.name, self.process, self._log, self._seen = name, process, log, seen
        self.known: dict[int, str] = {}  # the processes below it, when somebody looked last

    def log(self, what: str) -> list[dict[str, Any]]:
        """What it said of one kind since it was started."""
        return [line for line in lines_of(self._log)[self._seen :] if line["what"] == what]

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def look(self) -> None:
        """Remember which processes are below it now."""
        self.known = {pid: born for pid in descendants(self.process.pid) if (born := _born(pid))}

    def left(self) -> list[str]:
        """Those of them that still run."""
        return [f"{pid} {_command(pid)}" for pid, born in self.known.items() if _born(pid) == born]


class Bed:
    """Nodes on one store, their jobs, and what was done to them."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.mark = uuid4().hex
        self.jobs: dict[str, Wanted] = {}
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
        """Start a node and wait until it works."""
        log = self.folder / f"{name}.jsonl"
        said = {
            "node_name": name,
            "heartbeat_s": HEARTBEAT_S,
            "heartbeat_timeout_s": TIMEOUT_S,
            "reaper_s": REAPER_S,
            "grace_s": GRACE_S,
            "tick_s": 0.5,
            **options,
        }
        settings = json.dumps({"url": url or self.url, "folder": str(self.folder), "options": said})
        node = self.nodes[name] = Node(name, self._begin(name, settings), log, len(lines_of(log)))
        await self.until(lambda: bool(node.log("ready")), f"node {name} works")
        return node

    def _begin(self, name: str, settings: str) -> "subprocess.Popen[bytes]":
        program = [sys.executable, "-m", "tests.chaos.node", settings]
        with (self.folder / f"{name}.err").open("ab") as errors:
            return subprocess.Popen(program, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=errors)

    async def kill(self, name: str = "a") -> set[bytes]:
        """``kill -9``, and nothing of it may be left; gives the executions whose work it ended."""
        node, began_s, before = self.nodes[name], time.monotonic(), self.running()
        node.look()
        node.send(signal.SIGKILL)
        node.process.wait()
        self.faults.append(Fault(kind=Kind.KILL, from_s=began_s, to_s=time.monotonic(), in_flight=len(before)))
        await self._buried(node)
        ended = {(run.execution, run.token) for run in self.runs() if run.end_s is not None}
        going_on = {run.pid for run in self.running()}
        return {run.execution for run in before if run.pid not in going_on and (run.execution, run.token) not in ended}

    async def stop(self, name: str = "a", within_s: float = PATIENCE_S) -> int:
        """SIGTERM; gives the exit code."""
        node, began_s, hit = self.nodes[name], time.monotonic(), len(self.running())
        node.look()
        node.send(signal.SIGTERM)
        await self.until(lambda: node.process.poll() is not None, f"node {name} stops", within_s)
        self.faults.append(Fault(kind=Kind.TERM, from_s=began_s, to_s=time.monotonic(), in_flight=hit))
        await self._buried(node)
        return node.process.returncode

    async def freeze(self, name: str, until: Callable[[], Awaitable[bool]], what: str, *, whole: bool) -> None:
        """SIGSTOP until something is. What it started goes on, or, when it is the whole of it, stands still too."""
        node, hit = self.nodes[name], len(self.running())
        began_s = time.monotonic()
        node.send(signal.SIGSTOP)
        node.look()
        below = list(node.known) if whole else []
        _send_all(below, signal.SIGSTOP)
        await self.until(until, what)
        _send_all(below, signal.SIGCONT)
        node.send(signal.SIGCONT)
        self.faults.append(Fault(kind=Kind.FREEZE, from_s=began_s, to_s=time.monotonic(), in_flight=hit))

    def set_clock(self, name: str, ahead_s: float) -> None:
        """Set a node's clock against the machine's."""
        (self.folder / f"{name}.clock").write_text(str(ahead_s))
        self.nodes[name].send(signal.SIGUSR1)
        now_s = time.monotonic()
        self.faults.append(Fault(kind=Kind.JUMP, from_s=now_s, to_s=now_s, in_flight=len(self.running())))

    @asynccontextmanager
    async def wrong(self, kind: Kind) -> AsyncIterator[None]:
        """While entered, something is not well."""
        began_s, hit = time.monotonic(), len(self.running())
        yield
        self.faults.append(Fault(kind=kind, from_s=began_s, to_s=time.monotonic(), in_flight=hit))

    async def _buried(self, node: Node) -> None:
        """Its keepers need a moment to kill what they keep; whatever is left then is an orphan."""
        try:
            await self.until(lambda: not node.left(), "its processes are gone", 10.0)
        except AssertionError:
            self.orphans += node.left()

    def close(self) -> None:
        """End what is still there."""
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.send(signal.SIGCONT)
                node.process.kill()
                node.process.wait()
        _send_all(marked(self.mark), signal.SIGKILL)
        if self._gate is not None:
            os.close(self._gate)

    # --- jobs

    async def save(
        self,
        name: str,
        *,
        every_s: float | None,
        first_s: float | None,
        again_s: float = 0.5,
        in_s: float = 1.0,
        **more: Any,
    ) -> None:
        """Save a job: ``every_s`` from ``in_s`` on (None: when triggered), whose tries take so many seconds.

        ``first_s`` None: first tries take until the gate is opened.
        """
        takes = "gate" if first_s is None else str(first_s)
        start_us = SystemClock().now_us() + round(in_s * 1e6)
        overlap = more.setdefault("overlap", "skip")
        words = ["together"] if overlap == "allow" else []
        shape = {
            "name": name,
            "schedule": "manual" if every_s is None else {"every": f"{every_s}s", "start": rfc3339(start_us)},
            "recovery": "all",
            "retry": {"max_attempts": 20, "initial_interval": "100ms"},
            "command": {
                "argv": [
                    *(sys.executable, "-I", "-S", str(WORK), str(self.folder), takes, str(again_s)),
                    *words,
                ],
                "env": {_MARK: self.mark},
            },
            **more,
        }
        await self.service.job_saver.save([self.service.jobs.read(shape)])
        every_us = 0 if every_s is None else round(every_s * 1e6)
        self.jobs[name] = Wanted(start_us=start_us, every_us=every_us, exclusive=overlap != "allow")

    async def trigger(self, name: str, key: str) -> bytes:
        """Ask for a run; what was acknowledged must be there in the end."""
        asked = await self.service.runs.trigger(name, idempotency=key)
        self.acked.append(asked.id)
        return asked.id

    def open_gate(self) -> None:
        """Let all go on that wait there, and whoever comes later."""
        self._gate = os.open(self.folder / "gate", os.O_RDWR)

    # --- looking

    def runs(self) -> list[Run]:
        return runs_of(lines_of(self.folder / "history.jsonl"))

    def running(self) -> list[Run]:
        """Runs whose process is there."""
        return [run for run in self.runs() if run.end_s is None and self._is_ours(run.pid)]

    def _is_ours(self, pid: int) -> bool:
        return self.mark in _environment(pid)

    async def until(
        self, holds: Callable[[], bool | Awaitable[bool]], what: str, within_s: float = PATIENCE_S
    ) -> float:
        """Wait; gives how long it took, in seconds."""
        began_s = time.monotonic()
        while True:
            asked_s = time.monotonic()
            found = holds()
            if found if isinstance(found, bool) else await found:
                return time.monotonic() - began_s
            now_s = time.monotonic()
            assert now_s - began_s < within_s, f"not within {within_s} s: {what}"
            await asyncio.sleep(0.05 + 4 * (now_s - asked_s))  # looking must not keep the machine busy

    async def records(self) -> tuple[list[Execution], list[Span]]:
        """Everything on record."""
        records: list[Execution] = []
        spans: list[Span] = []
        cursor: bytes | None = None
        while True:
            page = await self.store.list_executions(ExecutionFilter(), limit=_PAGE, cursor=cursor)
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
        """Let every instant up to now be admitted, switch the jobs off, let all work end; gives that now."""
        until_us = SystemClock().now_us()

        async def admitted() -> bool:
            next_us = await self.store.next_due_us()
            return next_us is None or next_us > until_us

        async def ended() -> bool:
            return not any((await self.store.counts()).open.values())

        await self.until(admitted, "every instant is admitted")
        for name in self.jobs:
            await self.service.job_states.change(await self.service.jobs.get(name), StateChange.DISABLE)
        await self.until(ended, "all work ends")
        return until_us

    async def evidence(self, until_us: int) -> Evidence:
        """What the judge is shown."""
        records, spans = await self.records()
        page = await self.store.list_jobs(JobFilter(), limit=_PAGE)
        runs = self.runs()
        tried = {record.id for record in records if record.attempt > 1} | {
            run.execution for run in runs if not run.end_s
        }
        return Evidence(
            until_us=until_us,
            jobs=self.jobs,
            names={job.id: job.name for job in page.items},
            records=records,
            spans=spans,
            attempts={id_: await self.attempts(id_) for id_ in tried},
            runs=runs,
            faults=self.faults,
            acked=self.acked,
            unsound=await self.store.verify(),
            orphans=[*self.orphans, *(f"{pid} {_command(pid)}" for pid in marked(self.mark))],
        )

    async def judge(self, *, least: dict[Kind, int], least_hit: int) -> list[Finding]:
        """Settle everything, stop the nodes, and hear the verdict."""
        until_us = await self.settle()
        for name, node in self.nodes.items():
            if node.process.poll() is None:
                assert await self.stop(name) == 0, (self.folder / f"{name}.err").read_text()[-2_000:]
        evidence = await self.evidence(until_us)
        sys.stderr.write(f"\n{evidence.figures()}\n")
        return judge(evidence, least=least, least_hit=least_hit)


@asynccontextmanager
async def a_bed(folder: Path, url: str) -> AsyncIterator[Bed]:
    """A bed with its own look into the store; everything is ended with it."""
    bed = Bed(folder, url)
    bed.store = make_store(url)
    await bed.store.open()
    clock, functions = SystemClock(), FunctionRegistry()
    runners = make_runners(functions, clock=clock)
    bed.service = make_service(bed.store, clock, checks=collect_target_checks(runners))
    try:
        yield bed
    finally:
        bed.close()
        for runner in runners.values():
            await runner.close()
        await bed.store.close()


def on_bed(folder: Path, url: str, case: Callable[[Bed], Awaitable[None]]) -> None:
    """Run a case."""

    async def whole() -> None:
        async with a_bed(folder, url) as bed:
            await case(bed)

    asyncio.run(whole())


def marked(mark: str) -> list[int]:
    """The living processes that carry a mark in their environment."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and mark in _environment(int(name))]


def _send_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def _born(pid: int) -> str | None:
    """When a process began, which tells it from another of the same number; None: it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "?"
