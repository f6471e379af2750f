"""Reaper: takes over executions of nodes that stopped sending heartbeats, and executions beyond their timeout.

Silence is measured on this node's own monotonic clock; wall clocks do not matter (see ``HeartbeatWatch``). A takeover
is a compare-and-set on the last beat that was seen, so a node that was only slow keeps its work. A node on this machine
is taken over at once when its process and everything that the process started have ended.
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
from chronos.engine.maintenance.takeover_decision import TakeoverVerdict, decide_takeover
from chronos.engine.node_context import NodeContext
from chronos.process_identity import has_ended, has_helpers
from chronos.store.commands import Reap, Release, ReleaseRow, Settle, SettleRow

_REAP_BATCH_ROWS = 200
_OVERDUE_LIMIT = 1_000
_PROCESS_RECHECK_S = 0.1
_NOT_SETTLED_END = End(status=Status.STALE, reason=Reason.of(ReasonCode.NOT_SETTLED))


class Reaper:
    """Watches the other nodes and takes over their work."""

    def __init__(
        self,
        context: NodeContext,
        catalog: JobCatalog,
        *,
        claim_soon: Callable[[], None],
        set_scheduling_nodes: Callable[[tuple[int, ...]], None],
    ) -> None:
        self._context, self._catalog = context, catalog
        self._claim_soon, self._set_scheduling_nodes = claim_soon, set_scheduling_nodes
        self._recheck_soon = False  # a node's process has ended, but not yet its children
        options = context.options
        self._watch = HeartbeatWatch(
            timeout_s=options.heartbeat_timeout_s, heartbeat_s=options.heartbeat_s, pause_s=options.reaper_s
        )

    async def run(self) -> None:
        """Watch until cancelled. A failed look is repeated soon, so that the watch has no gap."""
        options = self._context.options
        while True:
            succeeded = self._recheck_soon = False
            with self._context.node.duties.count_failures("takeover"):
                await self._look()
                succeeded = True
            pause_s = options.reaper_s if succeeded else min(options.reaper_s, options.heartbeat_s / 10)
            await asyncio.sleep(min(pause_s, _PROCESS_RECHECK_S) if self._recheck_soon else pause_s)

    async def _look(self) -> None:
        loop, me = asyncio.get_running_loop(), self._context.node.number
        asked_s = loop.time()
        nodes = [node for node in await self._context.store.nodes() if node.stopped_us is None]
        silent = self._watch.observe(nodes, requested_s=asked_s, responded_s=loop.time())
        former = self._context.node.former_numbers
        ended = [
            node for node in nodes if node.number in former or (node.process is not None and has_ended(node.process))
        ]
        dead = [node for node in (*silent, *(node for node in ended if node not in silent)) if node.number != me]
        dead_numbers = {node.number for node in dead}
        self._set_scheduling_nodes(tuple(n.number for n in nodes if self._may_schedule(n, dead_numbers)))
        if not self._context.node.may_start:
            return  # this node itself may be cut off
        for node in dead:
            if node in silent or node.number in former or node.process is None or not has_helpers(node.process):
                await self._reap(node)
            else:
                self._recheck_soon = True
        await self._reap_overdue()

    def _may_schedule(self, node: Node, dead_numbers: set[int]) -> bool:
        """Return whether a node may be expected to admit jobs.

        A killed node is still registered, and its jobs would be late.
        """
        is_alive = node.number in self._watch.beating_nodes - dead_numbers or node.number == self._context.node.number
        return is_alive and WORKER_ONLY_LABEL not in node.labels

    async def _reap(self, node: Node) -> None:
        held = await self._context.store.running_on(node.number)
        self._watch.note_store_read(asyncio.get_running_loop().time())
        batches = [held[i : i + _REAP_BATCH_ROWS] for i in range(0, len(held), _REAP_BATCH_ROWS)] or [[]]
        reaped = 0
        for batch in batches:
            verdicts, now_us = await self._decide(batch, worked_until_us=node.beat_us)
            rows = tuple(verdict.to_row(execution) for execution, verdict in zip(batch, verdicts, strict=True))
            reaped_ids = await self._context.store.apply(
                Reap(node=node.number, beat=node.beat, rows=rows, now_us=now_us, last=batch is batches[-1])
            )
            self._watch.note_store_read(asyncio.get_running_loop().time())
            if reaped_ids is None:
                return  # the node sent a heartbeat, or another node took over its work
            reaped += len(reaped_ids)
            if reaped_ids:
                self._claim_soon()
            self._emit_ends(batch, verdicts, set(reaped_ids), now_us)
        self._context.bus.emit(NodeLost(at_us=self._context.clock.now_us(), node=node.number, reaped=reaped))

    async def _reap_overdue(self) -> None:
        """End executions that exceed their timeout and a grace period, and release those of unregistered nodes.

        The nodes are read after the executions, so a node that holds one of them was registered before.
        """
        options = self._context.options
        silent_us = round(options.heartbeat_timeout_s * 1e6)
        running = await self._context.store.running_since(self._context.clock.now_us() - silent_us, _OVERDUE_LIMIT)
        live_numbers = (
            {node.number for node in await self._context.store.nodes() if node.stopped_us is None} if running else ()
        )
        unowned = [execution for execution in running if execution.node not in live_numbers]
        if unowned:
            await self._release(unowned)
        owned = [execution for execution in running if execution.node in live_numbers]
        entries = await self._entries(owned)
        grace_us = round(max(options.grace_s, options.timeout_grace_s) * 1e6) + silent_us
        overdue = [
            execution
            for execution, entry in zip(owned, entries, strict=True)
            if entry is not None and self._overrun_us(entry, execution) > grace_us
        ]
        if overdue:
            await self._settle(overdue)
        self._watch.note_store_read(asyncio.get_running_loop().time())

    def _overrun_us(self, entry: CatalogEntry, execution: Execution) -> int:
        """Return how long an execution has worked beyond its execution timeout."""
        timeout_us = entry.layout.execution_timeout_us
        if not timeout_us or execution.attempt_us is None:
            return 0
        return execution.worked_us + self._context.clock.since_us(execution.attempt_us) - timeout_us

    async def _release(self, running: list[Execution]) -> None:
        """Release work of nodes that were declared dead before they received it: their claim was applied late."""
        verdicts, now_us = await self._decide(running, worked_until_us=0)
        rows = tuple(
            ReleaseRow(execution.id, execution.token, execution.worked_us, verdict.detail, verdict.lost)
            for execution, verdict in zip(running, verdicts, strict=True)
            if verdict.end is None
        )
        if rows:
            await self._context.store.apply(Release(rows=rows, now_us=now_us))
            self._claim_soon()
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
                verdict.end is not None and verdict.end.is_dead_letter,
            )
            for execution, verdict in ended
        )
        answer = await self._context.store.apply(Settle(rows=rows, node=self._context.node.number, now_us=now_us))
        if answer.woken:
            self._claim_soon()
        executions, verdicts = [pair[0] for pair in ended], [pair[1] for pair in ended]
        self._emit_ends(executions, verdicts, set(answer.settled), now_us)

    async def _decide(
        self, executions: list[Execution], *, end: End | None = None, worked_until_us: int | None = None
    ) -> tuple[list[TakeoverVerdict], int]:
        """Return the verdicts and their time, which is taken after all data has been read."""
        entries = await self._entries(executions)
        now_us = self._context.clock.now_us()
        verdicts = [
            decide_takeover(entry, execution, now_us, end=end, worked_until_us=worked_until_us)
            for execution, entry in zip(executions, entries, strict=True)
        ]
        return verdicts, now_us

    async def _entries(self, executions: list[Execution]) -> list[CatalogEntry | None]:
        """Return the entry of each execution; None if its definition is deleted or unreadable."""
        keys = [(execution.job, execution.job_version, execution.levels) for execution in executions]
        entries = await self._catalog.fetch(keys)
        return [entry if (entry := entries.get(key)) is not None and entry.has_valid_layout else None for key in keys]

    def _emit_ends(
        self, executions: Sequence[Execution], verdicts: Sequence[TakeoverVerdict], reaped_ids: set[bytes], now_us: int
    ) -> None:
        for execution, verdict in zip(executions, verdicts, strict=True):
            for lost in verdict.lost if execution.id in reaped_ids else ():
                self._context.bus.emit(
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
            if verdict.end is not None and execution.id in reaped_ids:
                self._context.bus.emit(to_ended_event(execution, verdict.end, now_us))
