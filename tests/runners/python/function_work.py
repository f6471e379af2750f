"""Functions for worker processes, which import them from here."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from chronos.runners.python.context import Context


def add(a: int, b: int = 10) -> dict[str, int]:
    return {"sum": a + b}


def who() -> int:
    return os.getpid()


def reports(ctx: Context) -> list[Any]:
    ctx.log.info("hello from %s", ctx.job)
    ctx.progress(1, 2)
    ctx.transaction.execute("insert", 1, None, "x", b"\0y")
    return [ctx.execution_id, ctx.attempt, ctx.token, ctx.payload, ctx.scheduled_at.isoformat()]


def stepwise(ctx: Context) -> Any:
    first = ctx.step("first", time.time)
    ctx.sleep(60)
    return [first, ctx.wait_for_signal("go", timeout=5)]


def crashes_after_a_step(ctx: Context) -> None:
    ctx.step("first", lambda: "kept")
    os.kill(os.getpid(), signal.SIGSEGV)


def raises() -> None:
    raise LookupError("not there")


def leaves() -> None:
    sys.exit(2)


def ends_the_process() -> None:
    os._exit(5)


def polite(ctx: Context) -> str:
    ctx.log.info("begun")
    while not ctx.canceled:
        time.sleep(0.001)
    return "ended well"


def notices_shutdown(ctx: Context) -> str:
    ctx.log.info("begun")
    while not ctx.stopping:
        time.sleep(0.001)
    return "put away"


def stubborn_with_child(ctx: Context) -> None:
    """Hold the interpreter, with a child in the group: only SIGKILL ends the two."""
    child = subprocess.Popen(["sleep", "600"])
    ctx.log.info("%d %d", os.getpid(), child.pid)
    ctypes.PyDLL(None).sleep(600)


def leaves_child_behind(ctx: Context) -> None:
    child = subprocess.Popen(["sleep", "600"])
    ctx.log.info("%d %d", os.getpid(), child.pid)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


def eats_memory() -> int:
    return len(bytearray(512 << 20))


def eats_cpu() -> None:
    while True:
        pass


class Held:
    """An object that a decorator may put in a function's place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def _held() -> str:
    return "found inside"


_held.__qualname__ = "held"
held = Held(_held)
