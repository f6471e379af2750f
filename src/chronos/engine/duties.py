"""Duties of a node, and which of them keep failing.

A duty is something that a loop does with the store again and again: a heartbeat, retention, a claim. A single failure
is normal. A duty that keeps failing the same way, while other statements work, needs a person: the node reports it in
``/readyz`` until the duty succeeds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from chronos.errors import ChronosError

MIN_FAILURES_IN_A_ROW = 3  # before a duty counts as failing


@dataclass(slots=True)
class DutyFailure:
    """Consecutive failures of one duty, all of the same kind."""

    error: str  # the newest
    kind: tuple[type[ChronosError], str]
    first_s: float
    latest_s: float
    times: int = 1


class Duties:
    """Counts the failures of each duty. A duty counts as failing after ``after_s`` seconds of failures."""

    def __init__(self, now_s: Callable[[], float], after_s: float, report: Callable[[str, ChronosError], None]) -> None:
        self._now_s, self._after_s, self._report = now_s, after_s, report
        self._failures: dict[str, DutyFailure] = {}

    def count_failures(self, duty: str) -> "DutyRun":
        """Do a duty in this block. A ``ChronosError`` ends the block; it is reported, counted and not raised."""
        return DutyRun(self, duty)

    def record_failure(self, duty: str, error: ChronosError) -> None:
        """Report and count one failure. A failure of another kind restarts the count."""
        text = str(error)
        kind = type(error), text.partition("\n")[0]
        before, now_s = self._failures.get(duty), self._now_s()
        if before is not None and before.kind == kind:
            before.error, before.latest_s = text, now_s
            before.times += 1
        else:
            self._failures[duty] = DutyFailure(text, kind, now_s, now_s)
        self._report(duty, error)

    def record_success(self, duty: str) -> None:
        """Reset the count of a duty."""
        if self._failures:
            self._failures.pop(duty, None)

    @property
    def failing(self) -> dict[str, DutyFailure]:
        """The duties that have failed the same way several times in a row, over some time, by name."""
        return {
            duty: failure
            for duty, failure in self._failures.items()
            if failure.times >= MIN_FAILURES_IN_A_ROW and failure.latest_s - failure.first_s >= self._after_s
        }


class DutyRun:
    """The context manager of ``count_failures``."""

    __slots__ = ("_duties", "_duty")

    def __init__(self, duties: Duties, duty: str) -> None:
        self._duties, self._duty = duties, duty

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, ChronosError):
            self._duties.record_failure(self._duty, error)
            return True
        if error is None:
            self._duties.record_success(self._duty)
        return False
