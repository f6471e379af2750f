"""The way to the store, with all that can go wrong on it: a command is lost, its answer is, both are late, rows of it
meet a lock, or nothing gets through for a while. The store behind it is the real one.
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
from tests.simulation.work_journal import Notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How often what goes wrong, in calls."""

    lose: float = 0.01
    lose_ack: float = 0.01
    delay: float = 0.05
    conflict: float = 0.02
    lose_hint: float = 0.3
    longest_s: float = 20.0  # that a delay takes, each way
    crawl: float = 0.0  # outcomes only: sent, and not heard of for hours, whatever becomes of the sender
    crawls_s: float = 0.0  # at least; at most three times as long
    refused_s: float = 1_800.0  # after which, at most, somebody gives up who cannot reach the store

    @property
    def calm(self) -> "Odds":
        """The same wires, on which nothing goes wrong any more; what is under way is not disturbed."""
        return replace(self, lose=0.0, lose_ack=0.0, delay=0.0, conflict=0.0, lose_hint=0.0, crawl=0.0)


CALM = Odds().calm


class DoubtingStore(MemoryStore):
    """In memory, and told which requests are sent again after a lost answer, as a store across a network knows."""

    def __init__(self) -> None:
        super().__init__()
        self.doubts: set[bytes] = set()
        self._handlers = _Doubting(self._handlers, self.doubts)


class _Doubting(CommandHandlers):
    """The writes of a store; what is in doubt is looked for before it is done."""

    def __init__(self, writes: CommandHandlers, doubts: set[bytes]) -> None:
        self.__dict__.update(writes.__dict__)
        self._resent_requests = doubts

    def steps(self, command: Command[Any], *, resent: bool = False) -> Steps[Any]:
        return super().steps(command, resent=resent or getattr(command, "request", None) in self._resent_requests)


class Wire:
    """What all machines share: the store, the dice, the notes."""

    def __init__(self, store: Store, doubts: set[bytes], random: Random, notes: Notes) -> None:
        self.store, self.random, self.notes = store, random, notes
        self.history: History = notes.history
        self.odds = CALM
        self.doubts = doubts  # requests whose answer was lost
        self.out = False  # nobody reaches the store
        self.neutral = Context()  # what is on its way belongs to no machine

    async def transmit(self, command: Command[Any], machine: str = "") -> Any:
        """Apply what a machine sent, and take note of what the store said."""
        answer = await self.store.apply(command)
        self.notes.take(command, answer, machine)
        return answer


class FaultyStore:
    """A store as one machine sees it."""

    def __init__(self, wire: Wire, machine: Machine, clock_us: Callable[[], int] | None = None) -> None:
        self._wire, self._machine, self._clock_us = wire, machine, clock_us

    def __getattr__(self, name: str) -> Any:
        """Reads: they may fail or be late, and do nothing."""
        inner = getattr(self._wire.store, name)

        async def read(*args: Any, **kwargs: Any) -> Any:
            late = await self._stalled()
            if self._hindered():
                await self._fail()
            answer = await inner(*args, **kwargs)
            if late is not None:
                await late.wait()
            if self._rolls(self._wire.odds.delay, Fault.DELAY):
                await self._late()
            return answer

        setattr(self, name, read)
        return read

    async def clock_us(self) -> int | None:
        await self._stalled(both_ways=False)
        if self._hindered():
            await self._fail()
        return None if self._clock_us is None else self._clock_us()

    async def apply(self, command: Command[Any]) -> Any:
        late = await self._stalled()
        if self._hindered():
            await self._fail()
        wire = self._wire
        if isinstance(command, Admit | Claim) and command.request not in wire.doubts:
            command = self._thinned(command)
        crawls = isinstance(command, Settle) and self._rolls(wire.odds.crawl, Fault.DELAY)
        if crawls or self._rolls(wire.odds.delay, Fault.DELAY):
            # Once sent it does not depend on its sender any more: it may arrive when that is long dead.
            deliver = self._crawl if crawls else self._deliver
            sent = asyncio.get_running_loop().create_task(deliver(command), context=wire.neutral.copy())
            answer = await asyncio.shield(sent)
        else:
            answer = await wire.transmit(command, self._machine.name)
        if late is not None:
            await late.wait()
        if self._rolls(wire.odds.lose_ack, Fault.LOST_ACK):
            self._remember_resent(command)
            raise StoreUnavailable("the answer was lost")
        if isinstance(command, Settle):
            rows = {row.id: row for row in command.rows}
            wire.history.acked.update({id_: rows[id_].status for id_ in answer.settled})
        elif isinstance(command, Trigger):
            wire.history.asked.setdefault(answer.id, asyncio.get_running_loop().time())
        elif isinstance(command, Backfill):
            for execution in answer.ids:
                wire.history.asked.setdefault(execution, asyncio.get_running_loop().time())
        return answer

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        loop, machine = asyncio.get_running_loop(), self._machine

        def hinted(hint: Hint) -> None:
            if machine.dead or machine.cut or self._wire.out or self._rolls(self._wire.odds.lose_hint, Fault.LOST_HINT):
                return
            loop.call_later(self._wire.random.uniform(0, 0.5), callback, hint, context=machine.context)

        self._wire.store.on_hint(hinted)

    def _thinned(self, command: Admit | Claim) -> Admit | Claim:
        """Rows that somebody else holds a lock on are passed over, as by SKIP LOCKED."""
        if not self._rolls(self._wire.odds.conflict, Fault.CONFLICT):
            return command
        if isinstance(command, Admit):
            return replace(command, rows=tuple(row for row in command.rows if self._wire.random.random() < 0.5))
        return replace(command, limit=(command.limit + 1) // 2)

    def _remember_resent(self, command: Command[Any]) -> None:
        request: bytes | None = getattr(command, "request", None)
        if request is not None:
            self._wire.doubts.add(request)

    async def _deliver(self, command: Command[Any]) -> Any:
        """Late on its way there, or back."""
        await self._late()
        answer = await self._wire.transmit(command, self._machine.name)
        await self._late()
        return answer

    async def _crawl(self, command: Command[Any]) -> Any:
        """So late that everybody is disturbed by it."""
        from_s = asyncio.get_running_loop().time()
        await asyncio.sleep(self._wire.odds.crawls_s * self._wire.random.uniform(1, 3))
        to_s = asyncio.get_running_loop().time()
        self._wire.history.disturbances.append(Disturbance(fault=Fault.DELAY, machine="", from_s=from_s, to_s=to_s))
        return await self._wire.transmit(command, self._machine.name)

    async def _stalled(self, *, both_ways: bool = True) -> asyncio.Event | None:
        """Wait while the way hangs, or give what the answer has to wait for: by the dice, one or the other hangs."""
        stall = self._machine.stall
        if stall is None or (both_ways and self._wire.random.random() < 0.5):
            return stall
        await stall.wait()
        return None

    def _hindered(self) -> bool:
        """Whether something is wrong on the way there."""
        machine, wire = self._machine, self._wire
        return machine.dead or machine.cut or wire.out or self._rolls(wire.odds.lose, Fault.LOST_COMMAND)

    async def _fail(self) -> NoReturn:
        """Nothing of a dead machine leaves it, and a cut one waits in vain; or else the command is lost."""
        if self._machine.dead:
            await asyncio.Event().wait()
        if self._machine.cut or self._wire.out:
            longest_s = self._wire.odds.refused_s
            await asyncio.sleep(self._wire.random.uniform(longest_s / 10, longest_s))
            raise StoreUnavailable("the store cannot be reached")
        if self._rolls(self._wire.odds.delay, Fault.DELAY):
            await self._late()
        raise StoreUnavailable("the connection broke before the command was sent")

    async def _late(self) -> None:
        await asyncio.sleep(self._wire.random.uniform(0, self._wire.odds.longest_s))

    def _rolls(self, odds: float, fault: Fault) -> bool:
        if odds and self._wire.random.random() < odds:
            self._wire.history.faults[fault] += 1
            return True
        return False
