"""How much is logged of each job in a minute, so that a storm of failures neither slows the node nor hides the rest.

In each minute a job has a few lines and one traceback, and so has each part of the node that tells of trouble. All of
them together have a bound too. Lines beyond these are counted, and the counts are told when the minute is over.
"""

from dataclasses import dataclass

MINUTE_US = 60_000_000
LINES_PER_SUBJECT = 20
LINES_PER_MINUTE = 3_000  # of all together, which also bounds how much is remembered

LogSubject = bytes | str  # a job's id, or the name of a part


@dataclass(slots=True)
class _SubjectUsage:
    """What has been used of a minute."""

    lines: int = 0
    tracebacks: int = 0
    left_out: int = 0


class LogQuota:
    """The lines of one minute. A minute begins with the first line that is asked for."""

    def __init__(self, *, lines_each: int = LINES_PER_SUBJECT, lines: int = LINES_PER_MINUTE) -> None:
        self._each, self._most = lines_each, lines
        self._since_us: int | None = None
        self._lines = 0
        self._left_out = 0  # of those that had no line at all
        self._shares: dict[LogSubject, _SubjectUsage] = {}

    def is_over(self, at_us: int) -> bool:
        """Whether the minute has passed, or the clock was set back behind it."""
        return self._since_us is not None and not 0 <= at_us - self._since_us < MINUTE_US

    def take_line(self, about: LogSubject, at_us: int) -> bool:
        """Whether there is a line left; if not, it is counted."""
        if self._since_us is None:
            self._since_us = at_us
        share = self._shares.get(about)
        if self._lines >= self._most or (share is not None and share.lines >= self._each):
            if share is None:
                self._left_out += 1
            else:
                share.left_out += 1
            return False
        if share is None:
            share = self._shares[about] = _SubjectUsage()
        share.lines += 1
        self._lines += 1
        return True

    def take_traceback(self, about: LogSubject) -> bool:
        """Whether this is the first traceback in this minute."""
        share = self._shares[about]
        share.tracebacks += 1
        return share.tracebacks == 1

    def end(self) -> list[tuple[LogSubject | None, int]]:
        """End the minute: gives how many lines were left out of what; None stands for all that had no line."""
        counts: list[tuple[LogSubject | None, int]] = [
            (about, share.left_out) for about, share in self._shares.items() if share.left_out
        ]
        if self._left_out:
            counts.append((None, self._left_out))
        self._since_us, self._lines, self._left_out = None, 0, 0
        self._shares.clear()
        return counts
