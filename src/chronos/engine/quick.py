"""The quickest way an execution can go: one async function that wants nothing and succeeds at its first try.

Its coroutine is the only task there is; nothing is made that plain success does not need. Whatever else happens, the
execution goes on as ``Work``, which knows everything.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from chronos.core.outcome import Outcome
from chronos.core.reasons import Code
from chronos.engine.attempts import FORCED, judged
from chronos.engine.catalog import Entry
from chronos.engine.crew import Crew
from chronos.engine.deadlines import Key
from chronos.engine.ledger import succeed_at_once
from chronos.engine.runners.calling import failed, succeeded
from chronos.engine.runners.contract import Call, Sink, StopReason
from chronos.engine.runners.functions import Function
from chronos.engine.runners.printing import prints_to
from chronos.engine.work import FORCE_AT_SHUTDOWN_S
from chronos.store.commands import Claimed


class Passed(Protocol):
    """Where a quick execution reports to."""

    def over(self, work: "Quick") -> None:
        """It is settled."""

    def go_on(self, quick: "Quick") -> None:
        """It takes the long way from here."""


class _Exit:
    """What must not end a task, or it would end the loop: ``SystemExit`` and its like."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _guarded(call: Callable[[], Any], sink: Sink) -> Any:
    prints_to(sink)
    try:
        return await call()
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)


class Quick:
    """An execution of a function that wants neither context nor payload."""

    __slots__ = (
        "_crew",
        "_deadline",
        "_force",
        "_forced",
        "_function",
        "_knows",
        "_passed",
        "_task",
        "claimed",
        "entry",
        "reason",
        "sink",
        "started_us",
        "stopped",
    )

    def __init__(self, crew: Crew, claimed: Claimed, entry: Entry, function: Function, passed: Passed) -> None:
        self.claimed, self.entry = claimed, entry
        self._crew, self._function, self._passed = crew, function, passed
        self.stopped: tuple[Code, str | None] | None = None
        self.reason: StopReason | None = None
        self._force: asyncio.TimerHandle | None = None
        self._forced = False
        self._knows = False  # that it is to stop, or that its time is over
        self.sink = crew.book.sink(claimed.id, entry.spec.tasks[0].name, 1)
        self.started_us = crew.clock.now_us()
        self._task = asyncio.get_running_loop().create_task(_guarded(function.call, self.sink))
        self._task.add_done_callback(self._ended)
        self._deadline: Key | None = None
        if entry.timeout_us:
            self._deadline = crew.deadlines.set(id(self), entry.timeout_us / 1e6, self._timed_out)

    # --- from outside

    def stop(self, code: Code, message: str | None = None) -> None:
        """It is to end: canceled, replaced, its job deleted."""
        if self.stopped is None:
            self.stopped = (code, message)
            self._ask(StopReason.CANCELED, self._crew.options.grace_s)

    def tell_stopping(self) -> None:
        """The node shuts down; it cannot be told, as it wanted no context."""

    def put_down(self) -> None:
        """The grace period is over."""
        self._ask(StopReason.SHUTDOWN, FORCE_AT_SHUTDOWN_S)

    def kill(self) -> None:
        """It is not this node's any more."""
        self._task.remove_done_callback(self._ended)
        self._task.cancel()
        self._drop_timers()
        self.sink.end()
        self._passed.over(self)

    # --- its end

    def outcome(self, call: Call) -> Outcome:
        """How it ended, on the long way."""
        if self._forced:
            return judged(FORCED, self.reason)
        error = asyncio.CancelledError() if self._task.cancelled() else self._task.exception()
        result = None if error is not None else self._task.result()
        if isinstance(result, _Exit):
            error = result.error
        if self.reason is not None:
            call.stop.ask(self.reason)
        outcome = failed(error, call) if error is not None else succeeded(self._function, result, call)
        return judged(outcome, self.reason, late=self._knows)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._drop_timers()
        ended_well = not self._knows and not task.cancelled() and task.exception() is None and self.sink.output is None
        if ended_well and succeed_at_once(self._crew, self.claimed, self.entry, self.started_us, task.result()):
            self.sink.end()
            self._passed.over(self)
        else:
            self._passed.go_on(self)

    def _timed_out(self) -> None:
        self._ask(StopReason.TIMEOUT, self._crew.options.timeout_grace_s)

    def _ask(self, reason: StopReason, grace_s: float) -> None:
        if self.reason is None:
            self.reason = reason
            self._knows = self._task.cancel() or reason is StopReason.TIMEOUT
        if self._force is not None:
            self._force.cancel()
        self._force = asyncio.get_running_loop().call_later(grace_s, self._leave)

    def _leave(self) -> None:
        """It does not stop: its task is left to itself, and the execution ends without it."""
        self._forced = True
        self._task.remove_done_callback(self._ended)
        self._task.cancel()
        self._drop_timers()
        self._passed.go_on(self)

    def _drop_timers(self) -> None:
        if self._deadline is not None:
            self._crew.deadlines.drop(id(self), self._deadline)
        if self._force is not None:
            self._force.cancel()
