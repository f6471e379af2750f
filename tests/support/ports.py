"""Statements of programs that were written for other schedulers, each with its port.

A port shows that a statement works in Chronos with the change that a page for its users documents, or that it is
refused with a message.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from queue import Queue
from textwrap import dedent
from threading import Event as ThreadEvent
from typing import Any
from zoneinfo import ZoneInfo

from chronos import Chronos
from chronos.testing import Harness

PAGES = Path(__file__).parents[2] / "docs" / "migrating"
Check = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement: the original, the text of the page that documents its change, and the check of its port."""

    original: str
    documented: str
    works: bool
    check: Check


@dataclass(slots=True)
class PortedProgram:
    """The statements of a program, in order. ``page`` is the page for users of its scheduler."""

    page: str
    statements: list[Statement] = field(default_factory=list)

    def works(self, original: str, documented: str) -> Callable[[Check], Check]:
        """Add a statement that works, with a documented change."""
        return self._add(original, documented, works=True)

    def refused(self, original: str, documented: str) -> Callable[[Check], Check]:
        """Add a statement that has no port. Its check shows the message."""
        return self._add(original, documented, works=False)

    def _add(self, original: str, documented: str, *, works: bool) -> Callable[[Check], Check]:
        def add(check: Check) -> Check:
            self.statements.append(Statement(original=original, documented=documented, works=works, check=check))
            return check

        return add

    @property
    def undocumented(self) -> list[str]:
        """The changes that the page does not have."""
        text = (PAGES / self.page).read_text()
        return [statement.documented for statement in self.statements if statement.documented not in text]


def noop() -> None:
    """The function of a job."""


def count_at_once(app: Chronos, requested: int, **options: Any) -> int:
    """Request runs that wait for each other, and return how many of them are under way at once."""
    may_end, started = ThreadEvent(), Queue[None]()

    def work() -> None:
        started.put(None)
        may_end.wait(60)

    job = app.job(name="work", **options)(work)
    with app:
        runs = [job.trigger() for _ in range(requested)]
        expected = sum(run.status in ("ready", "running") for run in runs)
        for _ in range(min(expected, 20)):
            started.get(timeout=60)
        count = sum(run.status == "running" for run in runs)
        may_end.set()
    return count


def run_program(source: str, folder: Path) -> str:
    """Run a program and return its output."""
    path = folder / "program.py"
    path.write_text(dedent(source))
    ended = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def runs_of(
    app: Chronos, job: str, by: str = "1 day", *, start: str = "2027-01-01T00:00", tz: str = "UTC"
) -> list[str]:
    """Return when a job runs after a Friday midnight, in the zone: ``Fri 01 09:00:00``."""
    harness = Harness()
    try:
        harness.load(app)
        harness.clock.set(start, tz=tz)
        runs = harness.advance(by).get(job, [])
        assert {run.status for run in runs} <= {"succeeded"}
        return [_format(run.scheduled_at, tz) for run in runs]
    finally:
        harness.close()


def schedule_of(options: dict[str, Any], by: str = "1 day", *, tz: str = "UTC") -> list[str]:
    """Return when a job with these options runs."""
    app = Chronos("sqlite://", timezone=tz)
    app.job(name="job", **options)(noop)
    return runs_of(app, "job", by, tz=tz)


def _format(instant: datetime, tz: str) -> str:
    return f"{instant.astimezone(ZoneInfo(tz)):%a %d %H:%M:%S}"
