"""One node as a program of its own: ``python -m tests.chaos.node SETTINGS``, which are JSON.

What happens to it goes to a log, a line of JSON each. SIGTERM stops it in good order. SIGUSR1 sets its clock: it is
then ahead of the machine's by as many seconds as its clock file says.
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

TOLD = (ClockJumped, GapFound, NodeLost, ProblemReported)
REQUEST = b"chaos-"  # how the id of every request begins, so that it can be found on the wire


class SetClock:
    """The machine's clock, set forward or back."""

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
    """What the tests read of a node."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def say(self, what: str, **more: Any) -> None:
        line = {"what": what, "at_s": time.monotonic(), **more}
        os.write(self._file, json.dumps(line, default=str).encode() + b"\n")

    def event(self, event: Event) -> None:
        if isinstance(event, TOLD):
            more = {name: getattr(event, name) for name in type(event).__struct_fields__}
            self.say(type(event).__name__, **more)


async def serve(settings: dict[str, Any]) -> int:
    """A node, from its start to SIGTERM; 1 when its engine broke."""
    folder, loop = Path(settings["folder"]), asyncio.get_running_loop()
    options = EngineOptions(**settings["options"])
    log = Log(folder / f"{options.node_name}.jsonl")
    clock = SetClock(folder / f"{options.node_name}.clock")
    told = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)
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
    engine.on_event(log.event)
    await engine.start()
    log.say("ready", number=engine.node.number, pid=os.getpid())
    over, stopping = asyncio.create_task(engine.failed()), asyncio.create_task(told.wait())
    await asyncio.wait([over, stopping], return_when=asyncio.FIRST_COMPLETED)
    broken = over.exception() if over.done() else None
    if broken is not None:
        log.say("broken", error=repr(broken))
    stopping.cancel()
    over.cancel()
    await asyncio.gather(over, stopping, return_exceptions=True)
    await engine.stop()
    for runner in runners.values():
        await runner.close()
    await store.close()
    log.say("stopped")
    return 0 if broken is None else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(serve(json.loads(sys.argv[1]))))
