"""AttemptRun: runs one attempt under its timeout, stops it on request, and determines its outcome.

::

    start ─► runner.run(call) ─► outcome ─► its output is written ─► on_over
      ▲ stop requested     the runner ends the work in its own way: SIGTERM, cancelling a function
      ▲ grace period over  the task is cancelled: the runner kills the work
      ▲ kill timeout over  work that the runner cannot kill is abandoned

After a timeout the grace period is the short ``timeout_grace_s``. The reason of the stop determines the outcome, unless
the attempt succeeded after all (see ``contract``).
"""

import asyncio
from collections.abc import Callable
from typing import assert_never

from chronos.core.outcome import Canceled, Failed, Outcome, Released, Succeeded, TimedOut, Waits
from chronos.engine.node_context import NodeContext
from chronos.runners.contract import AttemptCall, StopReason
from chronos.timers import TimerKey

FORCED_STOP_TIMEOUT_S = 1.0  # from killing work to abandoning it
FORCED_STOP_OUTCOME = Canceled(error="it did not stop when asked to, and was killed")


class AttemptRun:
    """A running attempt. It has its own task, which is also the current task of an async function."""

    _task: asyncio.Task[None]

    def __init__(
        self,
        context: NodeContext,
        call: AttemptCall,
        kind: str,
        timeout_us: int,
        on_over: Callable[["AttemptRun"], None] | None = None,
    ) -> None:
        """``on_over`` is called when the attempt is over. ``timeout_us`` 0 means no limit."""
        self.call = call
        self.outcome: Outcome | None = None  # None if it was killed
        self.is_over = False
        self._context, self._kind, self._timeout_us, self._on_over = context, kind, timeout_us, on_over
        self._forced = self._killed = False
        self._deadline: TimerKey | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the attempt in its own task."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_task_done)
        if self._timeout_us:
            self._deadline = self._context.deadlines.set(id(self), self._timeout_us / 1e6, self._time_out)
        self.call.stop.on_request(self._on_stop_requested)

    def kill(self) -> None:
        """Kill the work; the attempt then has no outcome."""
        self._killed = True
        self._force()

    async def wait(self) -> None:
        """Wait until the attempt is over."""
        if not self.is_over:
            waiter = asyncio.get_running_loop().create_future()
            on_over = self._on_over

            def notify(attempt: AttemptRun) -> None:
                if on_over is not None:
                    on_over(attempt)
                if not waiter.done():
                    waiter.set_result(None)

            self._on_over = notify
            await waiter

    # --- its task

    async def _run(self) -> None:
        call, runner = self.call, self._context.runners.get(self._kind)
        try:
            outcome = _fail_without_runner(self._kind) if runner is None else await runner.run(call)
        except asyncio.CancelledError:
            if self._killed or not self._forced:
                self._context.outputs.abandon(call.sink)
                raise
            self._task.uncancel()
            outcome = FORCED_STOP_OUTCOME
        except Exception as error:  # noqa: BLE001 - a bug in a runner must not stop the node
            outcome = Failed(error=f"{type(error).__name__}: {error}", kinds=("runner",))
        if self._killed or self.is_over:
            self._context.outputs.abandon(call.sink)
            return
        self._drop_timers()
        call.stop.close()
        self.outcome = apply_stop_reason(outcome, call.stop.reason, late=call.stop.overrides_success)
        await self._context.outputs.close(call.sink)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if self.is_over:
            return
        if not task.cancelled() and (error := task.exception()) is not None and self.outcome is None:
            self.outcome = Failed(error=f"{type(error).__name__}: {error}", kinds=("runner",))
        self._end()

    def _end(self) -> None:
        self._drop_timers()
        self.is_over = True
        if self._killed:
            self.outcome = None
        if self._on_over is not None:
            self._on_over(self)

    # --- from asking to killing

    def _time_out(self) -> None:
        self.call.grace_s = self.call.timeout_grace_s
        self.call.stop.request(StopReason.TIMEOUT)

    def _on_stop_requested(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.call.grace_s, self._force)

    def _force(self) -> None:
        self._forced = True
        self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(FORCED_STOP_TIMEOUT_S, self._abandon)

    def _abandon(self) -> None:
        """Continue without work that does not end, if its runner allows that."""
        if self.call.on_abandon is None:
            return
        self.call.on_abandon()
        self._context.outputs.abandon(self.call.sink)
        self.outcome = apply_stop_reason(FORCED_STOP_OUTCOME, self.call.stop.reason)
        self._end()

    def _drop_timers(self) -> None:
        if self._deadline is not None:
            self._context.deadlines.drop(id(self), self._deadline)
            self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def run_attempt(context: NodeContext, call: AttemptCall, kind: str, timeout_us: int) -> Outcome:
    """Run an attempt and return its outcome. If cancelled, kill the attempt first."""
    attempt = AttemptRun(context, call, kind, timeout_us)
    attempt.start()
    try:
        await attempt.wait()
    except asyncio.CancelledError:
        attempt.kill()
        await attempt.wait()
        raise
    if attempt.outcome is None:
        raise asyncio.CancelledError  # the loop is shutting down
    return attempt.outcome


def _fail_without_runner(kind: str) -> Outcome:
    return Failed(error=f'this node has no runner for "{kind}" targets', kinds=("no_runner",), worth_retrying=False)


def apply_stop_reason(outcome: Outcome, reason: StopReason | None, *, late: bool = False) -> Outcome:
    """Return the final outcome of an attempt. ``late`` is ``Stop.overrides_success``."""
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
