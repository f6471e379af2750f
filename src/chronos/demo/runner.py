"""DemoRunner: invents the attempts of the demo's jobs, and runs the jobs of users for real."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from chronos.clock import Clock
from chronos.core.outcome import Failed, Outcome, Succeeded
from chronos.demo.behaviour import Behaviour, Trouble, decide_act
from chronos.runners.contract import AttemptCall, Runner

_REASONS = {200: "OK", 502: "Bad Gateway", 503: "Service Unavailable", 429: "Too Many Requests", 500: "Server Error"}


class DemoRunner:
    """The runner of one kind of target in the demo."""

    def __init__(
        self, kind: str, real: Runner, behaviours: Mapping[str, Behaviour], *, clock: Clock, start_us: int
    ) -> None:
        self._kind, self._real, self._behaviours = kind, real, behaviours
        self._clock, self._start_us = clock, start_us

    def check(self, options: Mapping[str, Any]) -> None:
        """Check the options as the real runner does."""
        self._real.check(options)

    async def run(self, call: AttemptCall) -> Outcome:
        """Invent the attempt of a demo job, or make that of another job."""
        behaviour = self._behaviours.get(call.job_name)
        if behaviour is None:
            return await self._real.run(call)
        act = decide_act(
            behaviour,
            job=call.job_name,
            task=call.task,
            scheduled_us=call.scheduled_us,
            number=call.number,
            before_us=self._start_us - self._clock.now_us(),
        )
        return await self._act(call, behaviour, act.duration_s, act.trouble)

    async def close(self) -> None:
        """Close the real runner."""
        await self._real.close()

    async def _act(
        self, call: AttemptCall, behaviour: Behaviour, duration_s: float, trouble: Trouble | None
    ) -> Outcome:
        if self._kind == "command":
            for line in behaviour.lines:
                call.sink.write(f"{line}\n")
        with suppress(TimeoutError):
            await asyncio.wait_for(call.stop.wait(), duration_s)
            return Failed(error="stopped before it ended", kinds=("stopped",))
        if self._kind == "http":
            self._record_response(call, behaviour, trouble)
        else:
            call.detail["exit_code"] = 0 if trouble is None else 1
        if trouble is None:
            return Succeeded(result=behaviour.result)
        if self._kind == "command":
            call.sink.write(f"{trouble.error}\n")
        kind = "exit_1" if trouble.response is None else f"http_{trouble.response}"
        return Failed(error=trouble.error, kinds=(kind,))

    def _record_response(self, call: AttemptCall, behaviour: Behaviour, trouble: Trouble | None) -> None:
        if trouble is not None and trouble.response is None:
            return  # the connection failed
        status = 200 if trouble is None or trouble.response is None else trouble.response
        body = "\n".join(behaviour.lines) if trouble is None else trouble.error
        call.detail["response"] = {
            "status": status,
            "headers": {"Content-Type": "text/plain; charset=utf-8", "Server": "demo"},
            "body": body or _REASONS.get(status, ""),
            "truncated": False,
        }
