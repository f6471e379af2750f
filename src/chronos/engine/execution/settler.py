"""Outcomes on their way to the store, many in one command.

While one command is under way the next one fills up, so batches grow with the load by themselves. An outcome is never
lost while the node lives: what the store could not be told is told again, until it answers.
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
    """How many queued successors the node would start at once, and of which lanes."""

    slots: int
    lanes: tuple[int, ...]


class SettlementListener(Protocol):
    """What hears of settlements, and says which successors the node takes along."""

    def reserve(self, most: int) -> SuccessorSlots:
        """Hold slots for what a settlement may hand over."""

    def settled(self, takes: SuccessorSlots, answer: Settled) -> None:
        """A settlement was answered: take what it handed over in place of the held slots."""

    def refused(self, row: SettleRow) -> None:
        """The store did not take an outcome: its execution was taken from this node."""

    def keys_freed(self) -> None:
        """A concurrency key came free, for which executions of other jobs may wait."""


class Settler:
    """Sends ``Settle`` commands, one at a time."""

    def __init__(self, store: Store, clock: NodeClock, node: Heartbeat, listener: SettlementListener) -> None:
        self._store, self._clock, self._node, self._listener = store, clock, node, listener
        self._rows: dict[bytes, tuple[SettleRow, CatalogEntry]] = {}
        self._sending: dict[bytes, SettleRow] = {}
        self._worker: asyncio.Task[None] | None = None

    def add(self, row: SettleRow, entry: CatalogEntry) -> None:
        """Settle this execution with the next command. Of two claims of one, the later one's outcome is sent."""
        waiting = self._rows.get(row.id)
        if waiting is None or waiting[0].token < row.token:
            self._rows[row.id] = (row, entry)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name="chronos-settler")

    def holds(self, execution: bytes) -> bool:
        """Whether its outcome is on its way."""
        return execution in self._sending or execution in self._rows

    async def drain(self) -> None:
        """Until everything that was added has been answered."""
        while self._worker is not None and not self._worker.done():
            await asyncio.shield(self._worker)

    def drop(self) -> None:
        """Forget it all: the work is no longer this node's."""
        self._rows.clear()
        if self._worker is not None:
            self._worker.cancel()

    async def _work(self) -> None:
        """From the next turn of the loop on, so that what ends in the same turn goes together."""
        while self._rows:
            rows = list(take_one_batch(self._rows.values(), _measure_row_text))
            for row, _ in rows:
                del self._rows[row.id]
            try:
                await self._send(rows)
                self._node.duties.done("settlement")
            except ChronosError as error:  # one bad row must not keep the others: each is sent alone
                self._node.duties.failed("settlement", error)
                for one in rows if len(rows) > 1 else ():
                    with suppress(ChronosError):  # it is lost to this node, and given back by its heartbeats
                        await self._send([one])

    async def _send(self, leaving: list[tuple[SettleRow, CatalogEntry]]) -> None:
        sending: dict[bytes, SettleRow] = {}
        successors, keyed = 0, False
        for row, entry in leaving:
            sending[row.id] = row
            successors += entry.may_queue
            keyed = keyed or entry.effective.key is not None
        self._sending, rows = sending, tuple(sending.values())
        takes = self._listener.reserve(successors)
        command = Settle(
            rows=rows,
            node=self._node.number,
            now_us=self._clock.now_us(),
            take=takes.slots,
            take_lanes=takes.lanes,
        )
        answer = Settled([], [], 0)
        try:
            answer = await apply_with_retry(self._store, command, self._node.trouble)
        finally:
            self._sending = {}
            self._listener.settled(takes, answer)
        if keyed:
            self._listener.keys_freed()
        if len(answer.settled) < len(rows):
            settled = set(answer.settled)
            for row in rows:
                if row.id not in settled:
                    self._listener.refused(row)


def _measure_row_text(leaving: tuple[SettleRow, CatalogEntry]) -> int:
    return count_run_characters(leaving[0])
