"""Duties of a node, and which of them keep failing.

A duty is something that a loop does with the store again and again: the heartbeat, retention, a claim. One failure
passes. A duty that fails the same way each time, while other statements work, needs a person: the node says so in
``/readyz``, until the duty succeeds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from chronos.errors import ChronosError

MIN_FAILURES_IN_A_ROW = 3  # in a row, before a duty counts as failing


@dataclass(slots=True)
class DutyFailure:
    """The failures of one duty in a row, all of the same kind."""

    error: str  # the newest
    kind: tuple[type[ChronosError], str]
    first_s: float
    latest_s: float
    times: int = 1


class Duties:
    """Counts the failures of each duty. ``after_s`` is how long a duty may fail before it counts as failing."""

    def __init__(self, now_s: Callable[[], float], after_s: float, tell: Callable[[str, ChronosError], None]) -> None:
        self._now_s, self._after_s, self._tell = now_s, after_s, tell
        self._failures: dict[str, DutyFailure] = {}

    def count_failures(self, duty: str) -> "DutyRun":
        """Do a duty in this block. A Chronos error is told and counted, ends the block, and goes no further."""
        return DutyRun(self, duty)

    def failed(self, duty: str, error: ChronosError) -> None:
        """Tell and count one failure. Another kind of failure starts the count again."""
        text = str(error)
        kind = type(error), text.partition("\n")[0]
        before, now_s = self._failures.get(duty), self._now_s()
        if before is not None and before.kind == kind:
            before.error, before.latest_s = text, now_s
            before.times += 1
        else:
            self._failures[duty] = DutyFailure(text, kind, now_s, now_s)
        self._tell(duty, error)

    def done(self, duty: str) -> None:
        """The duty was done, so whatever kept it from being done is over."""
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
    """A block in which a duty is done."""

    __slots__ = ("_duties", "_duty")

    def __init__(self, duties: Duties, duty: str) -> None:
        self._duties, self._duty = duties, duty

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, ChronosError):
            self._duties.failed(self._duty, error)
            return True
        if error is None:
            self._duties.done(self._duty)
        return False
