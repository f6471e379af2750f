"""Takes over from the dead: nodes that are silent for too long, and executions that outlived their timeout.

Silence is measured on this node's own monotonic clock, whatever any wall clock says: see ``HeartbeatWatch``.
Taking over is a compare-and-set on the beat that was seen last, so a node that was only slow keeps its work.
A node of this machine whose process has ended, with all that it started, is taken over at once.
"""

import asyncio
from collections.abc import Callable, Sequence

from chronos.core.events import AttemptEnded, NodeLost
from chronos.core.execution import Execution, Status
from chronos.core.node import HeartbeatWatch, Node
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settle import End
from chronos.engine.execution.recorder import to_ended_event
from chronos.engine.heartbeat import WORKER_ONLY_LABEL
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.maintenance.takeover import TakeoverVerdict, decide_takeover
from chronos.engine.node_context import NodeContext
from chronos.process_identity import has_ended, has_helpers
from chronos.store.commands import Reap, Release, ReleaseRow, Settle, SettleRow

_REAP_BATCH_ROWS = 200
_OVERDUE_LIMIT = 1_000
_PROCESS_RECHECK_S = 0.1
_NOT_SETTLED_END = End(status=Status.STALE, reason=Reason.of(ReasonCode.NOT_SETTLED))


class Reaper:
    """Watches the other nodes."""

    def __init__(
        self,
        crew: NodeContext,
        catalog: JobCatalog,
        *,
        ready: Callable[[], None],
        peers: Callable[[tuple[int, ...]], None],
    ) -> None:
        self._crew, self._catalog = crew, catalog
        self._ready, self._peers = ready, peers
        self._recheck_soon = False  # a process has ended, and what it started is about to
        options = crew.options
        self._watch = HeartbeatWatch(
            timeout_s=options.heartbeat_timeout_s, heartbeat_s=options.heartbeat_s, pause_s=options.reaper_s
        )

    async def run(self) -> None:
        """Look around until cancelled. A look that failed is repeated soon, so that the watch is not interrupted."""
        options = self._crew.options
        while True:
            looked = self._recheck_soon = False
            with self._crew.node.duties.count_failures("takeover"):
                await self._look()
                looked = True
            pause_s = options.reaper_s if looked else min(options.reaper_s, options.heartbeat_s / 10)
            await asyncio.sleep(min(pause_s, _PROCESS_RECHECK_S) if self._recheck_soon else pause_s)

    async def _look(self) -> None:
        loop, me = asyncio.get_running_loop(), self._crew.node.number
        asked_s = loop.time()
        nodes = [node for node in await self._crew.store.nodes() if node.stopped_us is None]
        silent = self._watch.observe(nodes, requested_s=asked_s, responded_s=loop.time())
        former = self._crew.node.former
        ended = [
            node for node in nodes if node.number in former or (node.process is not None and has_ended(node.process))
        ]
        dead = [node for node in (*silent, *(node for node in ended if node not in silent)) if node.number != me]
        gone = {node.number for node in dead}
        self._peers(tuple(n.number for n in nodes if self._may_schedule(n, gone)))
        if not self._crew.node.may_start:
            return  # it may be this node that is cut off
        for node in dead:
            if node in silent or node.number in former or node.process is None or not has_helpers(node.process):
                await self._reap(node)
            else:
                self._recheck_soon = True
        await self._reap_overdue()

    def _may_schedule(self, node: Node, gone: set[int]) -> bool:
        """Whether jobs may be left to it. One that was killed still stands in the store, and would make them late."""
        lives = node.number in self._watch.beating_nodes - gone or node.number == self._crew.node.number
        return lives and WORKER_ONLY_LABEL not in node.labels

    async def _reap(self, node: Node) -> None:
        held = await self._crew.store.held_by(node.number)
        self._watch.note_store_read(asyncio.get_running_loop().time())
        batches = [held[i : i + _REAP_BATCH_ROWS] for i in range(0, len(held), _REAP_BATCH_ROWS)] or [[]]
        reaped = 0
        for batch in batches:
            verdicts, now_us = await self._decide(batch)
            rows = tuple(verdict.row(execution) for execution, verdict in zip(batch, verdicts, strict=True))
            done = await self._crew.store.apply(
                Reap(node=node.number, beat=node.beat, rows=rows, now_us=now_us, last=batch is batches[-1])
            )
            self._watch.note_store_read(asyncio.get_running_loop().time())
            if done is None:
                return  # the node has beaten again, or another node took its work over
            reaped += len(done)
            if done:
                self._ready()
            self._emit_ends(batch, verdicts, set(done), now_us)
        self._crew.bus.emit(NodeLost(at_us=self._crew.clock.now_us(), node=node.number, reaped=reaped))

    async def _reap_overdue(self) -> None:
        """What ran past its execution timeout and a grace period, or belongs to a node that is no more.

        The nodes are read after what runs: a node that holds work by then was there before.
        """
        options = self._crew.options
        silent_us = round(options.heartbeat_timeout_s * 1e6)
        running = await self._crew.store.running_since(self._crew.clock.now_us() - silent_us, _OVERDUE_LIMIT)
        there = {node.number for node in await self._crew.store.nodes() if node.stopped_us is None} if running else ()
        strange = [execution for execution in running if execution.node not in there]
        if strange:
            await self._release(strange)
        mine = [execution for execution in running if execution.node in there]
        entries = await self._entries(mine)
        grace_us = round(max(options.grace_s, options.timeout_grace_s) * 1e6) + silent_us
        overdue = [
            execution
            for execution, entry in zip(mine, entries, strict=True)
            if entry is not None and self._overrun_us(entry, execution) > grace_us
        ]
        if overdue:
            await self._settle(overdue)
        self._watch.note_store_read(asyncio.get_running_loop().time())

    def _overrun_us(self, entry: CatalogEntry, execution: Execution) -> int:
        """How long an execution has worked beyond its execution timeout."""
        timeout_us = entry.layout.execution_timeout_us
        if not timeout_us or execution.attempt_us is None:
            return 0
        return execution.worked_us + self._crew.clock.since_us(execution.attempt_us) - timeout_us

    async def _release(self, running: list[Execution]) -> None:
        """Work of nodes that were buried before it was theirs: a claim that was applied late."""
        verdicts, now_us = await self._decide(running)
        again = tuple(
            ReleaseRow(execution.id, execution.token, execution.worked_us, verdict.detail, verdict.lost)
            for execution, verdict in zip(running, verdicts, strict=True)
            if verdict.end is None
        )
        if again:
            await self._crew.store.apply(Release(rows=again, now_us=now_us))
            self._ready()
        ended = [(e, v) for e, v in zip(running, verdicts, strict=True) if v.end is not None]
        await self._settle_verdicts(ended, now_us)

    async def _settle(self, overdue: list[Execution]) -> None:
        verdicts, now_us = await self._decide(overdue, end=_NOT_SETTLED_END)
        await self._settle_verdicts(list(zip(overdue, verdicts, strict=True)), now_us)

    async def _settle_verdicts(self, ended: Sequence[tuple[Execution, TakeoverVerdict]], now_us: int) -> None:
        if not ended:
            return
        rows = tuple(
            SettleRow(
                execution.id,
                execution.job,
                execution.token,
                verdict.status,
                verdict.code,
                None if verdict.end is None else verdict.end.reason.message,
                now_us,
                verdict.detail,
                verdict.lost,
                verdict.follow,
                verdict.end is not None and verdict.end.dead_letter,
            )
            for execution, verdict in ended
        )
        answer = await self._crew.store.apply(Settle(rows=rows, node=self._crew.node.number, now_us=now_us))
        if answer.woken:
            self._ready()
        executions, verdicts = [pair[0] for pair in ended], [pair[1] for pair in ended]
        self._emit_ends(executions, verdicts, set(answer.settled), now_us)

    async def _decide(
        self, executions: list[Execution], *, end: End | None = None
    ) -> tuple[list[TakeoverVerdict], int]:
        """The verdicts, and the time at which they are given: once all that they are based on is here."""
        entries = await self._entries(executions)
        now_us = self._crew.clock.now_us()
        pairs = zip(executions, entries, strict=True)
        return [decide_takeover(entry, execution, now_us, end=end) for execution, entry in pairs], now_us

    async def _entries(self, executions: list[Execution]) -> list[CatalogEntry | None]:
        """None: its definition is gone, or nobody here can read it."""
        pairs = [(execution.job, execution.job_version) for execution in executions]
        found = await self._catalog.fetch(pairs)
        return [entry if (entry := found.get(pair)) is not None and entry.has_valid_layout else None for pair in pairs]

    def _emit_ends(
        self, executions: Sequence[Execution], verdicts: Sequence[TakeoverVerdict], done: set[bytes], now_us: int
    ) -> None:
        for execution, verdict in zip(executions, verdicts, strict=True):
            for lost in verdict.lost if execution.id in done else ():
                self._crew.bus.emit(
                    AttemptEnded(
                        at_us=now_us,
                        execution=execution.id,
                        job=execution.job,
                        task=lost.task,
                        number=lost.number,
                        status=lost.status,
                        duration_us=max(0, lost.finished_us - lost.started_us),
                        error=lost.error,
                    )
                )
            if verdict.end is not None and execution.id in done:
                self._crew.bus.emit(to_ended_event(execution, verdict.end, now_us))
