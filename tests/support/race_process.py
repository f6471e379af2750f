"""One racer on a shared store: ``python -m tests.support.race_process URL SEED MODE`` prints the executions it started.

It waits for a line on standard input, so that all racers start together.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable, Iterable

from chronos.assembly import make_store
from chronos.core.execution import Status
from chronos.core.ids import scheduled_execution_id
from chronos.core.reasons import ReasonCode
from chronos.store.commands import Admit, AdmitRow, Claim, RegisterNode, Settle, SettleRow
from chronos.store.contract import DueGate, Store

T0 = 1_800_000_000_000_000
SECOND = 1_000_000

Report = Callable[[str], None]


class Racer:
    """A node that works as fast as it can."""

    def __init__(self, store: Store, node: int, seed: int, report: Report) -> None:
        self._store, self._node, self._report = store, node, report
        self._random = random.Random(seed)

    async def start_all(self, until_us: int) -> None:
        """Admit every instant up to a time, in competition with the others, and claim the ready executions."""
        while due := await self._store.due(until_us, 2_000):
            self._random.shuffle(due)
            for first in range(0, len(due), 50):
                claim = self._random.random() < 0.5
                await self._admit(due[first : first + 50], claim=claim, gap_us=1_000 * SECOND)
        lanes = tuple(await self._store.lanes())
        while True:
            claimed = await self._store.apply(
                Claim(lanes=lanes, limit=20, node=self._node, now_us=T0, request=self._random.randbytes(16))
            )
            if not claimed:
                return
            self._report_started(run.id for run in claimed)

    async def churn(self, until_us: int) -> None:
        """Admit, run and settle until every cursor is past a time and nothing of this node runs."""
        lanes = tuple(await self._store.lanes())
        mine: list[tuple[bytes, bytes, int]] = []
        while True:
            due = await self._store.due(until_us, 2_000)
            if due:
                self._random.shuffle(due)
                mine += await self._admit(due, claim=True, gap_us=SECOND)
            claimed = await self._store.apply(
                Claim(lanes=lanes, limit=5, node=self._node, now_us=T0, request=self._random.randbytes(16))
            )
            mine += [(run.id, run.job, run.token) for run in claimed]
            self._random.shuffle(mine)
            batch, mine = mine[:7], mine[7:]
            rows = tuple(SettleRow(*run, Status.SUCCEEDED, ReasonCode.SUCCEEDED, None, T0) for run in batch)
            settled = await self._store.apply(Settle(rows=rows, node=self._node, now_us=T0, take=2, take_lanes=lanes))
            mine += [(run.id, run.job, run.token) for run in settled.started_successors]
            if not due and not mine and not claimed:
                return

    async def _admit(self, due: list[DueGate], *, claim: bool, gap_us: int) -> list[tuple[bytes, bytes, int]]:
        rows = tuple(
            AdmitRow(
                *(d.job, d.version, d.next_us, d.next_us + gap_us, scheduled_execution_id(d.job, d.next_us), d.next_us),
                claim,
                d.needs_gate_lock,
            )
            for d in due
        )
        admitted = await self._store.apply(
            Admit(rows=rows, node=self._node, now_us=T0, request=self._random.randbytes(16))
        )
        running = [run for run in admitted if run.status is Status.RUNNING]
        self._report_started(run.id for run in running)
        return [(run.id, run.job, run.token) for run in running]

    def _report_started(self, ids: Iterable[bytes]) -> None:
        for execution in ids:
            self._report(execution.hex())


async def race(url: str, seed: int, mode: str, *, ready: Callable[[], None], report: Report) -> None:
    """Open the store, wait for the others, and race."""
    store = make_store(url)
    await store.open()
    incarnation = random.Random(seed).randbytes(16)
    node = await store.apply(RegisterNode(name=f"racer-{seed}", incarnation=incarnation, now_us=T0))
    await asyncio.to_thread(ready)
    racer = Racer(store, node, seed, report)
    await (racer.churn(T0 + 40 * SECOND) if mode == "churn" else racer.start_all(T0 + SECOND))
    await store.close()


_lines_left = 0  # until it kills itself; 0: never


def _wait_for_start() -> None:
    global _lines_left  # noqa: PLW0603
    _print_line("ready")
    _lines_left = int(sys.stdin.readline())


def _print_line(line: str) -> None:
    global _lines_left  # noqa: PLW0603
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    _lines_left -= 1
    if _lines_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(race(sys.argv[1], int(sys.argv[2]), sys.argv[3], ready=_wait_for_start, report=_print_line))
