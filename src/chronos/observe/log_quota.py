"""The log quota: limits the lines per job and minute, so that many failures neither slow the node nor hide the rest.

Per minute, each job and each part of the node that reports problems may write a few lines and one traceback. There is
also a limit on all lines. Lines beyond the limits are counted, and the counts are logged at the end of the minute.
"""

from dataclasses import dataclass

MINUTE_US = 60_000_000
LINES_PER_SUBJECT = 20
LINES_PER_MINUTE = 3_000  # of all subjects; also bounds the memory used

LogSubject = bytes | str  # a job's id, or the name of a part of the node


@dataclass(slots=True)
class _SubjectUsage:
    """The lines of one subject in this minute."""

    lines: int = 0
    tracebacks: int = 0
    left_out: int = 0


class LogQuota:
    """Counts the lines of one minute, which begins with its first line."""

    def __init__(self, *, lines_each: int = LINES_PER_SUBJECT, lines: int = LINES_PER_MINUTE) -> None:
        self._lines_each, self._max_lines = lines_each, lines
        self._since_us: int | None = None
        self._lines = 0
        self._left_out = 0  # lines of subjects without any logged line
        self._usage: dict[LogSubject, _SubjectUsage] = {}

    def is_over(self, at_us: int) -> bool:
        """Return whether the minute has passed, or the clock went back before it."""
        return self._since_us is not None and not 0 <= at_us - self._since_us < MINUTE_US

    def take_line(self, subject: LogSubject, at_us: int) -> bool:
        """Return whether a line may be logged, and count it."""
        if self._since_us is None:
            self._since_us = at_us
        usage = self._usage.get(subject)
        if self._lines >= self._max_lines or (usage is not None and usage.lines >= self._lines_each):
            if usage is None:
                self._left_out += 1
            else:
                usage.left_out += 1
            return False
        if usage is None:
            usage = self._usage[subject] = _SubjectUsage()
        usage.lines += 1
        self._lines += 1
        return True

    def take_traceback(self, subject: LogSubject) -> bool:
        """Return whether this is the subject's first traceback in this minute, and count it."""
        usage = self._usage[subject]
        usage.tracebacks += 1
        return usage.tracebacks == 1

    def end(self) -> list[tuple[LogSubject | None, int]]:
        """End the minute. Returns the left-out lines per subject; None: all subjects without any logged line."""
        counts: list[tuple[LogSubject | None, int]] = [
            (subject, usage.left_out) for subject, usage in self._usage.items() if usage.left_out
        ]
        if self._left_out:
            counts.append((None, self._left_out))
        self._since_us, self._lines, self._left_out = None, 0, 0
        self._usage.clear()
        return counts
