"""The short way of an execution: one task of any kind, at its first try.

Most executions are this and succeed; then they leave nothing but their row, and nobody has to think about groups of
tasks. Whatever else happens, the execution goes on as ``Work``, which knows everything.
"""

import asyncio
from typing import Protocol

from chronos.core.detail import NO_DETAIL, read_detail
from chronos.core.outcome import Outcome, Succeeded
from chronos.core.reasons import Code
from chronos.engine.attempts import make_attempt
from chronos.engine.calls import last_run_us, make_call
from chronos.engine.catalog import Entry
from chronos.engine.crew import Crew
from chronos.engine.ledger import Ledger
from chronos.engine.runners.contract import Call, StopReason
from chronos.engine.work import FORCE_AT_SHUTDOWN_S
from chronos.store.commands import Claimed


class Ways(Protocol):
    """Where a plain execution reports to."""

    def over(self, work: "Plain") -> None:
        """It is settled, or not this node's any more."""

    def take_long_way(self, plain: "Plain") -> None:
        """It cannot go this way, and has not begun."""

    def go_on_with(self, plain: "Plain", call: Call, outcome: Outcome) -> None:
        """Its first attempt ended otherwise than in plain success."""

    def broke(self, work: "Plain", error: BaseException) -> None:
        """It cannot be run at all."""


class Plain:
    """An execution whose only task is tried for the first time."""

    __slots__ = ("_call", "_crew", "_detail", "_down", "_killed", "_task", "_ways", "claimed", "entry", "stopped")

    def __init__(self, crew: Crew, claimed: Claimed, entry: Entry, ways: Ways) -> None:
        self.claimed, self.entry = claimed, entry
        self._crew, self._ways = crew, ways
        self.stopped: tuple[Code, str | None] | None = None
        self._detail = NO_DETAIL
        self._call: Call | None = None
        self._killed = False
        self._down = False  # told to be put down
        self._task = asyncio.get_running_loop().create_task(self._go())
        self._task.add_done_callback(self._ended)

    # --- from outside

    def stop(self, code: Code, message: str | None = None) -> None:
        """It is to end: canceled, replaced, its job deleted. The first word counts."""
        if self.stopped is None:
            self.stopped = (code, message)
            if self._call is not None:
                self._call.stop.ask(StopReason.CANCELED)

    def tell_stopping(self) -> None:
        """The node shuts down; the work may finish within the grace period."""
        if self._call is not None:
            self._call.stopping.ask(StopReason.SHUTDOWN)

    def put_down(self) -> None:
        """The grace period is over: it is stopped, and given back."""
        self._down = True
        if self._call is not None:
            self._call.grace_s = min(self._call.grace_s, FORCE_AT_SHUTDOWN_S)
            self._call.stop.ask(StopReason.SHUTDOWN)

    def kill(self) -> None:
        """It is not this node's any more: end it by force, and settle nothing."""
        self._killed = True
        self._task.cancel()

    # --- what happens

    async def _go(self) -> Outcome | None:
        """Make the attempt; None: this is not the way for it."""
        crew, claimed, entry = self._crew, self.claimed, self.entry
        if claimed.detail is not None:
            detail = self._detail = read_detail(claimed.detail)
            if detail.group is not None or detail.carried is not None:
                return None
        task = entry.spec.tasks[0]
        last_us = await last_run_us(crew, entry, task.target)
        call = self._call = make_call(
            crew,
            claimed,
            entry,
            self._detail,
            task.target,
            task=task.name,
            number=1,
            started_us=crew.clock.now_us(),
            timeout_us=entry.timeout_us,
            last_us=last_us,
        )
        if self.stopped is not None:
            call.stop.ask(StopReason.CANCELED)
        if self._down:
            self.put_down()
        kind = task.target.kind
        try:
            outcome = await make_attempt(crew.runners.get(kind), call, kind, entry.timeout_us / 1e6, crew.deadlines)
        except BaseException:
            crew.book.leave(call.sink)
            raise
        await crew.book.close(call.sink)
        return outcome

    def _ended(self, task: asyncio.Task[Outcome | None]) -> None:
        if self._killed or task.cancelled():
            self._ways.over(self)
            return
        if (error := task.exception()) is not None:
            self._ways.broke(self, error)
            return
        outcome, call = task.result(), self._call
        if outcome is None or call is None:
            self._ways.take_long_way(self)
        elif type(outcome) is not Succeeded or call.memory or call.statements:
            self._ways.go_on_with(self, call, outcome)
        else:
            self._succeed(call, outcome)

    def _succeed(self, call: Call, outcome: Succeeded) -> None:
        try:
            Ledger(self._crew, self.claimed, self.entry).succeed_plainly(self._detail, call, outcome)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it, and its slot would never come free
            self._ways.broke(self, error)
        else:
            self._ways.over(self)
