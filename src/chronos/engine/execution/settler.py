"""Settler: batches outcomes into Settle commands.

While one command is pending the next batch grows, so batches adapt to the load. An outcome is never lost while the
node lives: a command is sent again until the store answers.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple, Protocol

from chronos.engine.heartbeat import Heartbeat
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_clock import NodeClock
from chronos.engine.store_retry import apply_with_retry
from chronos.errors import ChronosError
from chronos.store.commands import Settle, Settled, SettleRow
from chronos.store.commands.batch_size import count_run_characters, take_one_batch
from chronos.store.contract import Store


class SuccessorSlots(NamedTuple):
    """How many queued successors the node would start now, and in which lanes."""

    slots: int
    lanes: tuple[int, ...]


class SettlementListener(Protocol):
    """Receives the results of settlements, and reserves slots for successors."""

    def reserve_successors(self, limit: int) -> SuccessorSlots:
        """Hold slots for executions that a settlement may hand over."""

    def on_settled(self, reserved: SuccessorSlots, result: Settled) -> None:
        """Start the executions that a settlement handed over, in the held slots."""

    def on_outcome_rejected(self, row: SettleRow) -> None:
        """The store rejected an outcome: another node has taken over its execution."""

    def on_keys_freed(self) -> None:
        """A concurrency key was freed; executions of other jobs may be waiting for it."""


class Settler:
    """Sends ``Settle`` commands, one at a time."""

    def __init__(self, store: Store, clock: NodeClock, node: Heartbeat, listener: SettlementListener) -> None:
        self._store, self._clock, self._node, self._listener = store, clock, node, listener
        self._rows: dict[bytes, tuple[SettleRow, CatalogEntry]] = {}
        self._sending: dict[bytes, SettleRow] = {}
        self._worker: asyncio.Task[None] | None = None

    def add(self, row: SettleRow, entry: CatalogEntry) -> None:
        """Settle this execution with the next command. Of two claims of one execution, the later one wins."""
        queued = self._rows.get(row.id)
        if queued is None or queued[0].token < row.token:
            self._rows[row.id] = (row, entry)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._send_all(), name="chronos-settler")

    def holds(self, execution: bytes) -> bool:
        """Whether the outcome of an execution is still to be settled."""
        return execution in self._sending or execution in self._rows

    async def drain(self) -> None:
        """Wait until everything that was added has been settled."""
        while self._worker is not None and not self._worker.done():
            await asyncio.shield(self._worker)

    def drop(self) -> None:
        """Discard everything: the work no longer belongs to this node."""
        self._rows.clear()
        if self._worker is not None:
            self._worker.cancel()

    async def _send_all(self) -> None:
        """Send batches until none are left. Outcomes of the same turn of the loop go into one batch."""
        while self._rows:
            rows = list(take_one_batch(self._rows.values(), _measure_row_text))
            for row, _ in rows:
                del self._rows[row.id]
            try:
                await self._send(rows)
                self._node.duties.record_success("settlement")
            except ChronosError as error:  # one bad row must not block the others: send each alone
                self._node.duties.record_failure("settlement", error)
                for pair in rows if len(rows) > 1 else ():
                    with suppress(ChronosError):  # the heartbeats release it
                        await self._send([pair])

    async def _send(self, rows_and_entries: list[tuple[SettleRow, CatalogEntry]]) -> None:
        sending: dict[bytes, SettleRow] = {}
        successors, keyed = 0, False
        for row, entry in rows_and_entries:
            sending[row.id] = row
            successors += entry.may_queue
            keyed = keyed or entry.effective.key is not None
        self._sending, rows = sending, tuple(sending.values())
        reserved = self._listener.reserve_successors(successors)
        command = Settle(
            rows=rows,
            node=self._node.number,
            now_us=self._clock.now_us(),
            take=reserved.slots,
            take_lanes=reserved.lanes,
        )
        result = Settled([], [], 0)
        try:
            result = await apply_with_retry(self._store, command, self._node.report_store_error)
        finally:
            self._sending = {}
            self._listener.on_settled(reserved, result)
        if keyed:
            self._listener.on_keys_freed()
        if len(result.settled) < len(rows):
            settled = set(result.settled)
            for row in rows:
                if row.id not in settled:
                    self._listener.on_outcome_rejected(row)


def _measure_row_text(pair: tuple[SettleRow, CatalogEntry]) -> int:
    return count_run_characters(pair[0])
