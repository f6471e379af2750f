"""The way to the store, with all that can go wrong on it: a command is lost, its answer is, both are late, or nothing
gets through for a while. The store behind it is the real one.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from chronos.core.execution import Status
from chronos.errors import StoreUnavailable
from chronos.store.commands import Admit, Claim, Command, Settle, Trigger
from chronos.store.contract import Hint, Store
from chronos.store.sql.dialect import Steps
from chronos.store.sql.sqlite import SqliteStore
from chronos.store.sql.writes import Writes
from tests.simulation.history import Fault, History, SettledNote
from tests.simulation.machines import Machine

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How often what goes wrong, in calls."""

    lose: float = 0.01
    lose_ack: float = 0.01
    delay: float = 0.05
    lose_hint: float = 0.3
    longest_s: float = 20.0


CALM = Odds(lose=0.0, lose_ack=0.0, delay=0.0, lose_hint=0.0)


class DoubtingStore(SqliteStore):
    """In memory, and told which requests are sent again after a lost answer, as a store across a network knows."""

    def __init__(self) -> None:
        super().__init__()
        self.doubts: set[bytes] = set()
        self._writes = _Doubting(self._writes, self.doubts)

    async def apply(self, command: Command[R]) -> R:
        """One at a time and at once: batches are the business of the pump's own tests."""
        [answer] = await self._run([command])
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


class _Doubting(Writes):
    """The writes of a store; what is in doubt is looked for before it is done."""

    def __init__(self, writes: Writes, doubts: set[bytes]) -> None:
        self.__dict__.update(writes.__dict__)
        self._doubts = doubts

    def steps(self, command: Command[Any], *, resent: bool = False) -> Steps[Any]:
        return super().steps(command, resent=resent or getattr(command, "request", None) in self._doubts)


class Wire:
    """What all machines share: the store, the dice, the notes."""

    def __init__(self, store: Store, doubts: set[bytes], random: Random, history: History, odds: Odds) -> None:
        self.store, self.random, self.history, self.odds = store, random, history, odds
        self.doubts = doubts  # requests whose answer was lost
        self.out = False  # nobody reaches the store
        self.neutral = Context()  # what is on its way belongs to no machine

    async def transmit(self, command: Command[Any]) -> Any:
        """Apply, and take note of what the store said."""
        answer = await self.store.apply(command)
        self._note(command, answer)
        return answer

    def _note(self, command: Command[Any], answer: Any) -> None:
        history = self.history
        if isinstance(command, Admit):
            given = [(row.id, row.token) for row in answer if row.status is Status.RUNNING]
        elif isinstance(command, Claim):
            given = [(row.id, row.token) for row in answer]
        elif isinstance(command, Settle):
            rows = {row.id: row for row in command.rows}
            at_s = asyncio.get_running_loop().time()
            for id_ in answer.settled:
                token, newest = rows[id_].token, history.tokens.get(id_, 0)
                note = SettledNote(execution=id_, token=token, newest=newest, status=rows[id_].status, at_s=at_s)
                history.settled.setdefault(id_, note)
            given = [(row.id, row.token) for row in answer.taken]
        else:
            return
        for id_, token in given:
            history.tokens[id_] = max(history.tokens.get(id_, 0), token)


class FaultyStore:
    """A store as one machine sees it."""

    def __init__(self, wire: Wire, machine: Machine, clock_us: Callable[[], int] | None = None) -> None:
        self._wire, self._machine, self._clock_us = wire, machine, clock_us

    def __getattr__(self, name: str) -> Any:
        """Reads: they may fail or be late, and do nothing."""
        inner = getattr(self._wire.store, name)

        async def read(*args: Any, **kwargs: Any) -> Any:
            await self._go()
            answer = await inner(*args, **kwargs)
            await self._maybe_late()
            return answer

        return read

    async def clock_us(self) -> int | None:
        await self._go()
        return None if self._clock_us is None else self._clock_us()

    async def apply(self, command: Command[Any]) -> Any:
        await self._go()
        wire, loop = self._wire, asyncio.get_running_loop()
        if self._rolls(wire.odds.delay, Fault.DELAY):
            # Once sent it does not depend on its sender any more: it may arrive when that is long dead.
            sent = loop.create_task(self._deliver(command), context=wire.neutral.copy())
            answer = await asyncio.shield(sent)
        else:
            answer = await wire.transmit(command)
        if self._rolls(wire.odds.lose_ack, Fault.LOST_ACK):
            self._doubt(command)
            raise StoreUnavailable("the answer was lost")
        if isinstance(command, Settle):
            rows = {row.id: row for row in command.rows}
            wire.history.acked.update({id_: rows[id_].status for id_ in answer.settled})
        elif isinstance(command, Trigger):
            wire.history.asked.setdefault(answer.id, loop.time())
        return answer

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        loop, machine = asyncio.get_running_loop(), self._machine

        def hinted(hint: Hint) -> None:
            if machine.dead or machine.cut or self._wire.out or self._rolls(self._wire.odds.lose_hint, Fault.LOST_HINT):
                return
            loop.call_later(self._wire.random.uniform(0, 0.5), callback, hint, context=machine.context)

        self._wire.store.on_hint(hinted)

    def _doubt(self, command: Command[Any]) -> None:
        request: bytes | None = getattr(command, "request", None)
        if request is not None:
            self._wire.doubts.add(request)

    async def _deliver(self, command: Command[Any]) -> Any:
        """Late on its way there, or back."""
        there_s, back_s = (self._wire.random.uniform(0, self._wire.odds.longest_s) for _ in range(2))
        await asyncio.sleep(there_s)
        answer = await self._wire.transmit(command)
        await asyncio.sleep(back_s)
        return answer

    async def _go(self) -> None:
        """The way there: nothing of a dead machine leaves it, and a cut one waits in vain."""
        if self._machine.dead:
            await asyncio.Event().wait()
        if self._machine.cut or self._wire.out:
            await asyncio.sleep(self._wire.random.uniform(30, 300))
            raise StoreUnavailable("the store cannot be reached")
        if self._rolls(self._wire.odds.lose, Fault.LOST_COMMAND):
            await self._maybe_late()
            raise StoreUnavailable("the connection broke before the command was sent")

    async def _maybe_late(self) -> None:
        if self._rolls(self._wire.odds.delay, Fault.DELAY):
            await asyncio.sleep(self._wire.random.uniform(0, self._wire.odds.longest_s))

    def _rolls(self, odds: float, fault: Fault) -> bool:
        if odds and self._wire.random.random() < odds:
            self._wire.history.faults[fault] += 1
            return True
        return False
