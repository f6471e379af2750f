"""Calls of functions for tests, and a sink that records."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from chronos.runners.contract import AttemptCall

EXECUTION = bytes(range(16))
SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND


class Notes:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.steps: list[tuple[float, float | None]] = []
        self.wrote = threading.Event()

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def write(self, text: str) -> None:
        self.texts.append(text)
        self.wrote.set()

    def progress(self, done: float, total: float | None) -> None:
        self.steps.append((done, total))


def a_call(name: str = "work", **fields: Any) -> AttemptCall:
    """Build a call of a function."""
    known: dict[str, Any] = {
        "execution": EXECUTION,
        "job": bytes(16),
        "job_name": "nightly",
        "namespace": "default",
        "task": "task",
        "number": 1,
        "token": 7,
        "scheduled_us": NOW,
        "started_us": NOW + SECOND,
        "deadline_us": None,
        "last_run_us": None,
        "options": {"name": name},
        "sink": Notes(),
    }
    return AttemptCall(**(known | fields))


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something in another thread or process."""
    for _ in range(12_000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def notes(call: AttemptCall) -> Notes:
    """Return the sink of a call."""
    assert isinstance(call.sink, Notes)
    return call.sink
