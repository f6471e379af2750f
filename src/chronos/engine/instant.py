"""Async functions that never wait: called on the spot, one after the other, without a task for each.

::

    begin ─► in line ─► the turn after next: call, settle, call, settle … for a few milliseconds, then others' turn

The next turn is for whoever has something to send to the store, so that it is busy meanwhile.

A function whose code has no ``await`` ends as soon as it is called, so there is nothing to time out and nothing to
cancel. What ends otherwise than in plain success goes on as ``Work``, like a ``Quick`` one.
"""

import asyncio
from collections import deque
from contextvars import copy_context
from typing import Any, Protocol

from chronos.core.outcome import Outcome
from chronos.core.reasons import Code
from chronos.engine.attempts import judged
from chronos.engine.catalog import Entry
from chronos.engine.crew import Crew
from chronos.engine.ledger import succeed_at_once
from chronos.engine.output import LazySink
from chronos.engine.runners.calling import STOPPED, failed, succeeded
from chronos.engine.runners.contract import Call, StopReason
from chronos.engine.runners.functions import Function
from chronos.engine.runners.printing import prints_to
from chronos.store.commands import Claimed

_TURN_S = 0.005  # of calls in a row, after which the loop looks after others


class Passed(Protocol):
    """Where executions report to."""

    def over(self, work: "Instant") -> None:
        """It is settled, or not this node's any more."""

    def go_on(self, quick: "Instant") -> None:
        """It takes the long way from here."""


class Instant:
    """An execution that is about to be called, or was."""

    __slots__ = ("claimed", "entry", "error", "function", "killed", "line", "result", "sink", "started_us", "stopped")

    def __init__(self, claimed: Claimed, entry: Entry, function: Function, line: "Line", sink: LazySink) -> None:
        self.claimed, self.entry, self.function, self.line, self.sink = claimed, entry, function, line, sink
        self.stopped: tuple[Code, str | None] | None = None
        self.killed = False
        self.started_us = 0
        self.result: Any = None
        self.error: BaseException | None = None

    def stop(self, code: Code, message: str | None = None) -> None:
        """It is not called any more."""
        if self.stopped is None:
            self.stopped = (code, message)

    def tell_stopping(self) -> None:
        """It is over before that could matter."""

    def put_down(self) -> None:
        """So it is here."""

    def kill(self) -> None:
        """It is not this node's any more."""
        if not self.killed:
            self.killed = True
            self.line.passed.over(self)

    def outcome(self, call: Call) -> Outcome:
        """How it ended, on the long way."""
        if self.stopped is not None:  # before it was called, as nobody can stop it afterwards
            call.stop.ask(StopReason.CANCELED)
            return judged(STOPPED, StopReason.CANCELED)
        if self.error is not None:
            return failed(self.error, call)
        return succeeded(self.function, self.result, call)


class Line:
    """Those that are about to be called."""

    def __init__(self, crew: Crew, passed: Passed) -> None:
        self._crew = crew
        self.passed = passed
        self._waiting: deque[Instant] = deque()
        self._coming = False

    def add(self, instant: Instant) -> None:
        """Call it soon."""
        self._waiting.append(instant)
        self._come_soon()

    def _come_soon(self) -> None:
        if not self._coming:
            self._coming = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._turn)

    def _turn(self) -> None:
        loop, waiting = asyncio.get_running_loop(), self._waiting
        until_s = loop.time() + _TURN_S
        self._coming = False
        try:
            while waiting:
                self._call(waiting.popleft())
                if loop.time() > until_s:
                    break
        finally:
            if waiting:
                self._come_soon()

    def _call(self, instant: Instant) -> None:
        if instant.killed:
            return
        instant.started_us = self._crew.clock.now_us()
        if instant.stopped is None:
            copy_context().run(_step, instant)
        ended_well = instant.stopped is None and instant.error is None and instant.sink.output is None
        if ended_well and succeed_at_once(
            self._crew, instant.claimed, instant.entry, instant.started_us, instant.result
        ):
            instant.sink.end()
            self.passed.over(instant)
        else:
            self.passed.go_on(instant)


def _step(instant: Instant) -> None:
    """The first step of the function, which is its last."""
    prints_to(instant.sink)
    try:
        instant.function.call().send(None)
    except StopIteration as done:
        instant.result = done.value
    except BaseException as error:  # noqa: BLE001 - a job that says sys.exit() must not end the engine
        instant.error = error
    else:
        instant.error = AssertionError(f'"{instant.function.name}" awaits, though its code does not say so')
