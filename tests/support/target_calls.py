"""Calls for runners under test, and a sink that keeps its input."""

import asyncio
from collections.abc import Mapping
from typing import Any

from chronos.runners.contract import AttemptCall

EXECUTION = bytes.fromhex("0190f1f2aaaa8bbb8cccdddddddddddd")
JOB = bytes.fromhex("6d1f1f386a0e5c8e9c0b0f6b6c5f2a11")
SCHEDULED_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z
STARTED_US = SCHEDULED_US + 1_500_000


class Kept:
    """A sink that keeps all output."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def write(self, text: str) -> None:
        self.pieces.append(text)

    def progress(self, done: float, total: float | None) -> None:
        raise AssertionError("no runner here reports progress")

    async def holds(self, lines: int) -> None:
        """Wait until it has this many lines."""
        for _ in range(12_000):
            if self.text.count("\n") >= lines:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"only this was written: {self.text!r}")

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def make_call(options: Mapping[str, Any], *, sink: Kept | None = None, **changes: Any) -> AttemptCall:
    """The call of the first attempt of task ``work`` of job ``report``."""
    defaults: dict[str, Any] = {
        "execution": EXECUTION,
        "job": JOB,
        "job_name": "report",
        "namespace": "default",
        "task": "work",
        "number": 1,
        "token": 7,
        "scheduled_us": SCHEDULED_US,
        "started_us": STARTED_US,
        "deadline_us": STARTED_US + 300_000_000,
        "last_run_us": None,
        "options": options,
        "sink": sink or Kept(),
    }
    return AttemptCall(**(defaults | changes))
