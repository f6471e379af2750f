"""The link to the store, and its faults.

Commands and answers are lost or late, rows are locked, or nothing gets through for a while. The store is the real one.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NoReturn

from chronos.errors import StoreUnavailable
from chronos.store.commands import Admit, Backfill, Claim, Command, Settle, Trigger
from chronos.store.contract import Hint, Store
from chronos.store.sql.command_handlers import CommandHandlers
from chronos.store.sql.query import Steps
from chronos.store.sql.sqlite.memory import MemoryStore
from tests.simulation.history import Disturbance, Fault, History
from tests.simulation.machines import Machine
from tests.simulation.work_journal import WorkJournal


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """The probabilities of faults, per call."""

    lose: float = 0.01
    lose_ack: float = 0.01
    delay: float = 0.05
    conflict: float = 0.02
    lose_hint: float = 0.3
    longest_s: float = 20.0  # of a delay, each way
    very_late: float = 0.0  # outcomes only: they arrive hours later, even if the sender is dead
    very_late_s: float = 0.0  # at least; at most three times that
    max_unreachable_s: float = 1_800.0  # an unreachable store is given up after this time at most

    @property
    def calm(self) -> "Odds":
        """The same link without faults. Commands in transit are not affected."""
        return replace(self, lose=0.0, lose_ack=0.0, delay=0.0, conflict=0.0, lose_hint=0.0, very_late=0.0)


CALM = Odds().calm


class ResendAwareStore(MemoryStore):
    """A store in memory that is told which requests were resent after a lost answer, as a remote store is."""

    def __init__(self) -> None:
        super().__init__()
        self.resent_requests: set[bytes] = set()
        self._handlers = _ResendAwareHandlers(self._handlers, self.resent_requests)


class _ResendAwareHandlers(CommandHandlers):
    """Command handlers that first look for the result of a resent request."""

    def __init__(self, writes: CommandHandlers, resent_requests: set[bytes]) -> None:
        self.__dict__.update(writes.__dict__)
        self._resent_requests = resent_requests

    def steps(self, command: Command[Any], *, resent: bool = False) -> Steps[Any]:
        return super().steps(command, resent=resent or getattr(command, "request", None) in self._resent_requests)


class StoreLink:
    """The store, the randomness and the journal that all machines share."""

    def __init__(self, store: Store, resent_requests: set[bytes], random: Random, journal: WorkJournal) -> None:
        self.store, self.random, self.journal = store, random, journal
        self.history: History = journal.history
        self.odds = CALM
        self.resent_requests = resent_requests  # whose answer was lost
        self.out = False  # no machine reaches the store
        self.neutral = Context()  # commands in transit belong to no machine

    async def transmit(self, command: Command[Any], machine: str = "") -> Any:
        """Apply a command of a machine, and record the result."""
        answer = await self.store.apply(command)
        self.journal.record(command, answer, machine)
        return answer


class FaultyStore:
    """The store as one machine sees it."""

    def __init__(self, link: StoreLink, machine: Machine, clock_us: Callable[[], int] | None = None) -> None:
        self._link, self._machine, self._clock_us = link, machine, clock_us

    def __getattr__(self, name: str) -> Any:
        """Reads may fail or be late, and change nothing."""
        inner = getattr(self._link.store, name)

        async def read(*args: Any, **kwargs: Any) -> Any:
            late = await self._wait_for_stall()
            if self._is_blocked():
                await self._fail()
            answer = await inner(*args, **kwargs)
            if late is not None:
                await late.wait()
            if self._happens(self._link.odds.delay, Fault.DELAY):
                await self._delay()
            return answer

        setattr(self, name, read)
        return read

    async def clock_us(self) -> int | None:
        await self._wait_for_stall(both_ways=False)
        if self._is_blocked():
            await self._fail()
        return None if self._clock_us is None else self._clock_us()

    async def apply(self, command: Command[Any]) -> Any:
        late = await self._wait_for_stall()
        if self._is_blocked():
            await self._fail()
        link = self._link
        if isinstance(command, Admit | Claim) and command.request not in link.resent_requests:
            command = self._skip_locked_rows(command)
        is_very_late = isinstance(command, Settle) and self._happens(link.odds.very_late, Fault.DELAY)
        if is_very_late or self._happens(link.odds.delay, Fault.DELAY):
            # A sent command is independent of its sender, and may arrive after the sender died.
            deliver = self._deliver_very_late if is_very_late else self._deliver
            sent = asyncio.get_running_loop().create_task(deliver(command), context=link.neutral.copy())
            answer = await asyncio.shield(sent)
        else:
            answer = await link.transmit(command, self._machine.name)
        if late is not None:
            await late.wait()
        if self._happens(link.odds.lose_ack, Fault.LOST_ACK):
            self._remember_resent(command)
            raise StoreUnavailable("the answer was lost")
        if isinstance(command, Settle):
            rows = {row.id: row for row in command.rows}
            link.history.acked.update({id_: rows[id_].status for id_ in answer.settled})
        elif isinstance(command, Trigger):
            link.history.triggered.setdefault(answer.id, asyncio.get_running_loop().time())
        elif isinstance(command, Backfill):
            for execution in answer.ids:
                link.history.triggered.setdefault(execution, asyncio.get_running_loop().time())
        return answer

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        loop, machine = asyncio.get_running_loop(), self._machine

        def deliver_hint(hint: Hint) -> None:
            if (
                machine.dead
                or machine.cut
                or self._link.out
                or self._happens(self._link.odds.lose_hint, Fault.LOST_HINT)
            ):
                return
            loop.call_later(self._link.random.uniform(0, 0.5), callback, hint, context=machine.context)

        self._link.store.on_hint(deliver_hint)

    def _skip_locked_rows(self, command: Admit | Claim) -> Admit | Claim:
        """Leave out some rows, as if another transaction had locked them (SKIP LOCKED)."""
        if not self._happens(self._link.odds.conflict, Fault.CONFLICT):
            return command
        if isinstance(command, Admit):
            return replace(command, rows=tuple(row for row in command.rows if self._link.random.random() < 0.5))
        return replace(command, limit=(command.limit + 1) // 2)

    def _remember_resent(self, command: Command[Any]) -> None:
        request: bytes | None = getattr(command, "request", None)
        if request is not None:
            self._link.resent_requests.add(request)

    async def _deliver(self, command: Command[Any]) -> Any:
        """Deliver a command late, and its answer too."""
        await self._delay()
        answer = await self._link.transmit(command, self._machine.name)
        await self._delay()
        return answer

    async def _deliver_very_late(self, command: Command[Any]) -> Any:
        """Deliver a command so late that it counts as a disturbance of all machines."""
        from_s = asyncio.get_running_loop().time()
        await asyncio.sleep(self._link.odds.very_late_s * self._link.random.uniform(1, 3))
        to_s = asyncio.get_running_loop().time()
        self._link.history.disturbances.append(Disturbance(fault=Fault.DELAY, machine="", from_s=from_s, to_s=to_s))
        return await self._link.transmit(command, self._machine.name)

    async def _wait_for_stall(self, *, both_ways: bool = True) -> asyncio.Event | None:
        """Wait for the stall on the way there, or return the event for the way back; chosen at random."""
        stall = self._machine.stall
        if stall is None or (both_ways and self._link.random.random() < 0.5):
            return stall
        await stall.wait()
        return None

    def _is_blocked(self) -> bool:
        """Whether a command cannot be sent."""
        machine, link = self._machine, self._link
        return machine.dead or machine.cut or link.out or self._happens(link.odds.lose, Fault.LOST_COMMAND)

    async def _fail(self) -> NoReturn:
        """Never return on a dead machine. Otherwise raise, after a wait where the store is unreachable."""
        if self._machine.dead:
            await asyncio.Event().wait()
        if self._machine.cut or self._link.out:
            longest_s = self._link.odds.max_unreachable_s
            await asyncio.sleep(self._link.random.uniform(longest_s / 10, longest_s))
            raise StoreUnavailable("the store cannot be reached")
        if self._happens(self._link.odds.delay, Fault.DELAY):
            await self._delay()
        raise StoreUnavailable("the connection broke before the command was sent")

    async def _delay(self) -> None:
        await asyncio.sleep(self._link.random.uniform(0, self._link.odds.longest_s))

    def _happens(self, odds: float, fault: Fault) -> bool:
        if odds and self._link.random.random() < odds:
            self._link.history.faults[fault] += 1
            return True
        return False
