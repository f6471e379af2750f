"""LazyRunner: creates a runner at its first use, because importing its libraries takes long."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from chronos.clock import Clock
from chronos.core.outcome import Outcome
from chronos.runners.contract import AttemptCall, Runner


class LazyRunner:
    """A stand-in that creates the real runner when it is first needed."""

    def __init__(self, make: Callable[[], Runner], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._runner: Runner | None = None

    def check(self, options: Mapping[str, Any]) -> None:
        self._get_runner().check(options)

    async def run(self, call: AttemptCall) -> Outcome:
        runner = self._runner
        if runner is None:
            with self._clock.outside():  # the import runs in a thread
                runner = await asyncio.to_thread(self._get_runner)
        return await runner.run(call)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.close()

    def _get_runner(self) -> Runner:
        with self._lock:
            if self._runner is None:
                self._runner = self._make()
            return self._runner
