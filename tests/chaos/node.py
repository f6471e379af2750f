"""One node as a program: ``python -m tests.chaos.node SETTINGS``, where SETTINGS is JSON.

Its events go to a log, one line of JSON each. SIGTERM shuts it down. SIGUSR1 sets its clock ahead of the machine's by
the seconds in its clock file.
"""

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from chronos.assembly import make_runners, make_store
from chronos.core.events import ClockJumped, Event, GapFound, NodeLost, ProblemReported
from chronos.engine.engine import Engine
from chronos.engine.options import EngineOptions
from chronos.runners.python.function_registry import FunctionRegistry

LOGGED = (ClockJumped, GapFound, NodeLost, ProblemReported)
REQUEST = b"chaos-"  # the start of every request id, so that a proxy can find requests


class ShiftedClock:
    """The machine's clock, shifted forward or back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ahead_us = 0

    def set(self) -> None:
        self._ahead_us = round(float(self._path.read_text()) * 1e6)

    def now_us(self) -> int:
        return time.time_ns() // 1_000 + self._ahead_us

    def outside(self) -> AbstractContextManager[None]:
        return nullcontext()


class Log:
    """The log of a node, which the tests read."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(self, event: str, **more: Any) -> None:
        line = {"event": event, "at_s": time.monotonic(), **more}
        os.write(self._file, json.dumps(line, default=str).encode() + b"\n")

    def write_event(self, event: Event) -> None:
        if isinstance(event, LOGGED):
            more = {name: getattr(event, name) for name in type(event).__struct_fields__}
            self.write(type(event).__name__, **more)


async def run_node(settings: dict[str, Any]) -> int:
    """Run a node until SIGTERM. Returns the exit code: 1 if its engine failed."""
    folder, loop = Path(settings["folder"]), asyncio.get_running_loop()
    options = EngineOptions(**settings["options"])
    log = Log(folder / f"{options.node_name}.jsonl")
    clock = ShiftedClock(folder / f"{options.node_name}.clock")
    terminated = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    loop.add_signal_handler(signal.SIGUSR1, clock.set)
    store = make_store(settings["url"])
    await store.open()
    functions = FunctionRegistry()
    runners = make_runners(functions, clock=clock, slots=options.slots)
    engine = Engine(
        store,
        clock=clock,
        options=options,
        functions=functions,
        runners=runners,
        new_request=lambda: REQUEST + os.urandom(16 - len(REQUEST)),
    )
    engine.on_event(log.write_event)
    await engine.start()
    log.write("ready", number=engine.node.number, pid=os.getpid())
    engine_end, stopping = asyncio.create_task(engine.wait_until_stopped()), asyncio.create_task(terminated.wait())
    await asyncio.wait([engine_end, stopping], return_when=asyncio.FIRST_COMPLETED)
    error = engine_end.exception() if engine_end.done() else None
    if error is not None:
        log.write("failed", error=repr(error))
    stopping.cancel()
    engine_end.cancel()
    await asyncio.gather(engine_end, stopping, return_exceptions=True)
    await engine.stop()
    for runner in runners.values():
        await runner.close()
    await store.close()
    log.write("stopped")
    return 0 if error is None else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(run_node(json.loads(sys.argv[1]))))
