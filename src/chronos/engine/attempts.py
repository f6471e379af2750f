"""One attempt of one task: run it under its timeout, stop it when asked, say how it ended.

Stopping has two steps: the work is asked, and after the grace period its coroutine is cancelled, which ends it by
force. After a timeout that is the short ``timeout_grace_s``: the work has had its time. What comes of an attempt that
was stopped is told by the reason, unless it made it after all: in time, and without having heard that it was to stop.
"""

import asyncio
from typing import assert_never

from chronos.core.outcome import Canceled, Failed, Outcome, Released, Succeeded, TimedOut, Waits
from chronos.engine.deadlines import Deadlines
from chronos.engine.runners.contract import Call, Runner, StopReason

FORCED = Canceled(error="it did not stop when it was asked to, and was ended by force")


async def make_attempt(runner: Runner | None, call: Call, kind: str, timeout_s: float, deadlines: Deadlines) -> Outcome:
    """Run a call to its end. ``timeout_s`` 0: without limit.

    The task it runs in is cancelled to force the end; cancelling it for any other reason goes through to the caller.
    """
    if runner is None:
        return Failed(error=f'this node has no runner for "{kind}" targets', kinds=("no_runner",), worth_retrying=False)
    forcing = _Forcing(call)
    call.stop.on_ask(forcing.begin)
    deadline = deadlines.set(id(forcing), timeout_s, forcing.time_out) if timeout_s else None
    try:
        outcome = await runner.run(call)
    except asyncio.CancelledError:
        if not forcing.forced:
            raise
        forcing.task.uncancel()
        outcome = FORCED
    except Exception as error:  # noqa: BLE001 - a runner's own mistake must not take the node down
        outcome = Failed(error=f"{type(error).__name__}: {error}", kinds=("runner",))
    finally:
        if deadline is not None:
            deadlines.drop(id(forcing), deadline)
        forcing.end()
    return judged(outcome, call.stop.reason, late=call.stop.late)


class _Forcing:
    """From asking to forcing."""

    __slots__ = ("_call", "_timer", "forced", "task")

    def __init__(self, call: Call) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self._call = call
        self._timer: asyncio.TimerHandle | None = None
        self.forced = False

    def time_out(self) -> None:
        self._call.grace_s = self._call.timeout_grace_s
        self._call.stop.ask(StopReason.TIMEOUT)

    def begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._call.grace_s, self._force)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _force(self) -> None:
        self.forced = True
        self.task.cancel()


def judged(outcome: Outcome, reason: StopReason | None, *, late: bool = False) -> Outcome:
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
