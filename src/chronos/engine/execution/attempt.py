"""One attempt of one task: run it under its timeout, stop it when asked, say how it ended.

::

    start ─► runner.run(call) ─► outcome ─► its output is written ─► on_over
      ▲ asked to stop     the runner ends the work in its own way: SIGTERM, cancelling a function
      ▲ grace period over the task is cancelled: the runner ends the work by force
      ▲ last chance over  work that the runner cannot end is left to itself

After a timeout the grace period is the short ``timeout_grace_s``: the work has had its time. The reason of the stop
tells what becomes of the attempt, unless it succeeded after all (see ``contract``).
"""

import asyncio
from collections.abc import Callable
from typing import assert_never

from chronos.core.outcome import Canceled, Failed, Outcome, Released, Succeeded, TimedOut, Waits
from chronos.engine.node_context import NodeContext
from chronos.runners.contract import AttemptCall, StopReason
from chronos.timers import TimerKey

FORCED_STOP_TIMEOUT_S = 1.0  # of work that was ended by force and can be left
FORCED_STOP_OUTCOME = Canceled(error="it did not stop when it was asked to, and was ended by force")


class AttemptRun:
    """An attempt under way, in a task of its own, which is the task that an async function sees."""

    _task: asyncio.Task[None]

    def __init__(
        self,
        crew: NodeContext,
        call: AttemptCall,
        kind: str,
        timeout_us: int,
        on_over: Callable[["AttemptRun"], None] | None = None,
    ) -> None:
        """``on_over`` is called once it is over; ``timeout_us`` 0: without limit."""
        self.call = call
        self.outcome: Outcome | None = None  # stays None when it was killed
        self.over = False
        self._crew, self._kind, self._timeout_us, self._on_over = crew, kind, timeout_us, on_over
        self._forced = self._killed = False
        self._deadline: TimerKey | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin it, in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._done)
        if self._timeout_us:
            self._deadline = self._crew.deadlines.set(id(self), self._timeout_us / 1e6, self._time_out)
        self.call.stop.on_ask(self._asked)

    def kill(self) -> None:
        """End it by force; its outcome is not wanted."""
        self._killed = True
        self._force()

    async def wait(self) -> None:
        """Until it is over."""
        if not self.over:
            waiter = asyncio.get_running_loop().create_future()
            on_over = self._on_over

            def tell(attempt: AttemptRun) -> None:
                if on_over is not None:
                    on_over(attempt)
                if not waiter.done():
                    waiter.set_result(None)

            self._on_over = tell
            await waiter

    # --- its task

    async def _run(self) -> None:
        call, runner = self.call, self._crew.runners.get(self._kind)
        try:
            outcome = _fail_without_runner(self._kind) if runner is None else await runner.run(call)
        except asyncio.CancelledError:
            if self._killed or not self._forced:
                self._crew.book.leave(call.sink)
                raise
            self._task.uncancel()
            outcome = FORCED_STOP_OUTCOME
        except Exception as error:  # noqa: BLE001 - a runner's own mistake must not take the node down
            outcome = Failed(error=f"{type(error).__name__}: {error}", kinds=("runner",))
        if self._killed or self.over:
            self._crew.book.leave(call.sink)
            return
        self._drop_timers()
        call.stop.close()
        self.outcome = apply_stop_reason(outcome, call.stop.reason, late=call.stop.late)
        await self._crew.book.close(call.sink)

    def _done(self, task: asyncio.Task[None]) -> None:
        if self.over:
            return
        if not task.cancelled() and (error := task.exception()) is not None and self.outcome is None:
            self.outcome = Failed(error=f"{type(error).__name__}: {error}", kinds=("runner",))
        self._end()

    def _end(self) -> None:
        self._drop_timers()
        self.over = True
        if self._killed:
            self.outcome = None
        if self._on_over is not None:
            self._on_over(self)

    # --- from asking to forcing

    def _time_out(self) -> None:
        self.call.grace_s = self.call.timeout_grace_s
        self.call.stop.ask(StopReason.TIMEOUT)

    def _asked(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.call.grace_s, self._force)

    def _force(self) -> None:
        self._forced = True
        self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(FORCED_STOP_TIMEOUT_S, self._leave)

    def _leave(self) -> None:
        """The work does not end: where its runner can do without it, go on."""
        if self.call.on_leave is None:
            return
        self.call.on_leave()
        self._crew.book.leave(self.call.sink)
        self.outcome = apply_stop_reason(FORCED_STOP_OUTCOME, self.call.stop.reason)
        self._end()

    def _drop_timers(self) -> None:
        if self._deadline is not None:
            self._crew.deadlines.drop(id(self), self._deadline)
            self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def run_attempt(crew: NodeContext, call: AttemptCall, kind: str, timeout_us: int) -> Outcome:
    """Make an attempt and wait for its outcome. Cancelled, it ends the attempt by force first."""
    attempt = AttemptRun(crew, call, kind, timeout_us)
    attempt.start()
    try:
        await attempt.wait()
    except asyncio.CancelledError:
        attempt.kill()
        await attempt.wait()
        raise
    if attempt.outcome is None:
        raise asyncio.CancelledError  # with the loop that ran it
    return attempt.outcome


def _fail_without_runner(kind: str) -> Outcome:
    return Failed(error=f'this node has no runner for "{kind}" targets', kinds=("no_runner",), worth_retrying=False)


def apply_stop_reason(outcome: Outcome, reason: StopReason | None, *, late: bool = False) -> Outcome:
    """How an attempt ended that was asked to stop, or, without a reason, was not. ``late``: as a ``Stop`` says it."""
    if reason is None or isinstance(outcome, Waits) or (isinstance(outcome, Succeeded) and not late):
        return outcome
    error = getattr(outcome, "error", None)
    match reason:
        case StopReason.TIMEOUT:
            return TimedOut()
        case StopReason.CANCELED:
            return Canceled(error=error if isinstance(outcome, Canceled) else None)
        case StopReason.SHUTDOWN:
            return Released()
        case _:
            assert_never(reason)
