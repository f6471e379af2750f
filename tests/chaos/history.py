"""The true history: the runs that the work itself recorded, and the faults that the test caused.

Times in seconds are monotonic; all processes of the machine share that clock.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

from chronos.core.calendar import to_us


@dataclass(slots=True, kw_only=True)
class Run:
    """One attempt, as its work recorded it. Without an end it was killed, or still runs."""

    job: str
    execution: bytes
    scheduled_us: int
    attempt: int
    token: int
    pid: int
    alone: bool
    start_s: float
    start_us: int  # by the machine's clock
    end_s: float | None = None


class Kind(Enum):
    """A kind of fault that a test causes."""

    KILL = "kill -9 of a node"
    FREEZE = "SIGSTOP of a node"
    TERM = "SIGTERM of a node"
    CUT = "a connection cut before the answer arrived"
    OUTAGE = "an unreachable database"
    FULL = "a full disk"
    JUMP = "a clock that was set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault and its duration. ``in_flight`` runs were running when it began."""

    kind: Kind
    from_s: float
    to_s: float
    in_flight: int

    def overlaps(self, from_s: float, to_s: float) -> bool:
        return self.from_s <= to_s and from_s <= self.to_s


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a log that another process writes."""
    if not path.exists():
        return []
    text = path.read_bytes()
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


def read_runs(lines: Iterable[dict[str, Any]]) -> list[Run]:
    """The runs in some lines, in the order of their starts."""
    runs: dict[tuple[str, int, int], Run] = {}
    repeated: list[Run] = []  # a claim that started twice
    for line in lines:
        key = line["execution_id"], line["token"], line["attempt"]
        if line["event"] == "end":
            runs[key].end_s = line["at_s"]
            continue
        run = Run(
            job=line["job"],
            execution=UUID(line["execution_id"]).bytes,
            scheduled_us=to_us(datetime.fromisoformat(line["scheduled_at"])),
            attempt=line["attempt"],
            token=line["token"],
            pid=line["pid"],
            alone=line["alone"],
            start_s=line["at_s"],
            start_us=line["wall_us"],
        )
        if key in runs:
            repeated.append(run)
        else:
            runs[key] = run
    return sorted([*runs.values(), *repeated], key=lambda run: run.start_s)
