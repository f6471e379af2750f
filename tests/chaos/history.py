"""What really happened: the runs that the work itself wrote down, and what was done to the nodes.

Times in seconds are the machine's monotonic ones, which all of its processes share.
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
    """One try, as its work saw it. Without an end it was killed, or still goes on."""

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
    """What was done to the system."""

    KILL = "kill -9 of a node"
    FREEZE = "SIGSTOP of a node"
    TERM = "SIGTERM of a node"
    CUT = "a connection cut while an answer was on its way"
    OUTAGE = "a database that was away"
    FULL = "a full disk"
    JUMP = "a clock that was set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something was not well from one time to another; ``in_flight`` runs were under way when it began."""

    kind: Kind
    from_s: float
    to_s: float
    in_flight: int

    def meets(self, from_s: float, to_s: float) -> bool:
        return self.from_s <= to_s and from_s <= self.to_s


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log that somebody else writes."""
    if not path.exists():
        return []
    text = path.read_bytes()
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


def runs_of(lines: Iterable[dict[str, Any]]) -> list[Run]:
    """The runs that some lines tell of, by their start."""
    runs: dict[tuple[str, int, int], Run] = {}
    more: list[Run] = []  # the same claim a second time
    for line in lines:
        key = line["execution_id"], line["token"], line["attempt"]
        if line["what"] == "end":
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
            more.append(run)
        else:
            runs[key] = run
    return sorted([*runs.values(), *more], key=lambda run: run.start_s)
