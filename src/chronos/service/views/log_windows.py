"""LogWindows: the log of one attempt by windows of lines, with search and totals.

A log is the text that the store kept: its beginning and its end, with a line in between that says how much was left
out. Lines and bytes are counted in that text.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from chronos.errors import Invalid
from chronos.store.commands import PROGRESS, OutputRow
from chronos.store.contract import Store

MAX_LINES = 2_000
DEFAULT_LINES = 500
MAX_LINE_BYTES = 4 << 10  # a longer line is cut, unless it is requested whole
MAX_SEARCH = 200  # characters
MAX_MATCHES = 10_000
_LEFT_OUT = re.compile(r"^… (\d+) bytes left out …$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line, without its line break."""

    number: int  # counted from 1
    at_byte: int
    text: str
    cut_bytes: int = 0  # left out at the end of a long line
    matches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """The log of one attempt, in total."""

    task: str
    attempt: int
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindow:
    """Consecutive lines of a log. ``previous_byte`` and ``next_byte`` are the starts of the windows around them."""

    task: str
    attempt: int
    lines: tuple[LogLine, ...]
    total_lines: int
    total_bytes: int
    left_out_bytes: int  # that the store did not keep
    previous_byte: int | None
    next_byte: int | None
    match_count: int | None  # of lines that match the search; None: no search
    match_lines: tuple[int, ...] = ()  # numbers of the matching lines, up to ``MAX_MATCHES``


class LogWindows:
    """Reads logs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def parts(self, execution: bytes) -> list[LogPart]:
        """Return the attempts of an execution that wrote output, by task and number."""
        texts: dict[tuple[str, int], str] = {}
        for row in await self._store.output(execution):
            if row.part != PROGRESS:
                texts[row.task, row.number] = texts.get((row.task, row.number), "") + row.text
        return [
            LogPart(task=task, attempt=number, lines=len(text.splitlines()), bytes=len(text.encode()))
            for (task, number), text in texts.items()
        ]

    async def window(
        self,
        execution: bytes,
        task: str,
        attempt: int,
        *,
        from_byte: int | None = None,
        max_lines: int = DEFAULT_LINES,
        tail: int | None = None,
        search: str | None = None,
        line: int | None = None,
        whole_lines: bool = False,
    ) -> LogWindow:
        """Return a window of the log of one attempt. Empty if the attempt wrote nothing.

        - ``from_byte``: the window starts with the line that has this byte. By default it starts with the log.
        - ``tail``: the window has the last lines instead.
        - ``line``: the window starts a little before this line instead.
        - ``search``: lines that contain this text, ignoring case, are marked and counted.
        - ``whole_lines``: long lines are not cut.

        Raises ``Invalid`` if a value is out of range, or if more than one start is given.
        """
        if sum(start is not None for start in (from_byte, tail, line)) > 1:
            raise Invalid("give only one of from_byte, tail and line")
        if not 1 <= max_lines <= MAX_LINES or not (tail is None or 1 <= tail <= MAX_LINES):
            raise Invalid(f"a window has 1 to {MAX_LINES:,} lines")
        if search is not None and not 0 < len(search) <= MAX_SEARCH:
            raise Invalid(f"a search has 1 to {MAX_SEARCH} characters")
        rows = await self._store.output(execution, task=task, number=attempt)
        text = "".join(row.text for row in rows if row.part != PROGRESS)
        log = _Log(text)
        first = log.find_first(from_byte, tail, line, max_lines)
        count = tail or max_lines
        found = [] if search is None else log.search(search)
        matching = set(found)
        return LogWindow(
            task=task,
            attempt=attempt,
            lines=tuple(
                log.line(index, matches=index + 1 in matching, whole=whole_lines)
                for index in range(first, min(first + count, len(log.lines)))
            ),
            total_lines=len(log.lines),
            total_bytes=log.size,
            left_out_bytes=sum(int(match[1]) for match in _LEFT_OUT.finditer(text)),
            previous_byte=None if first == 0 else log.starts[max(0, first - count)],
            next_byte=log.starts[first + count] if first + count < len(log.lines) else None,
            match_count=None if search is None else len(found),
            match_lines=tuple(found[:MAX_MATCHES]),
        )

    async def progress(self, execution: bytes) -> dict[tuple[str, int], str]:
        """Return the progress of each attempt that reported any, as JSON with ``done`` and ``total``."""
        return latest_progress(await self._store.output(execution))


def latest_progress(rows: Sequence[OutputRow]) -> dict[tuple[str, int], str]:
    """Return the progress in rows of output, by task and attempt."""
    return {(row.task, row.number): row.text for row in rows if row.part == PROGRESS}


class _Log:
    """The lines of a text, with the byte at which each starts."""

    def __init__(self, text: str) -> None:
        self.lines = [line.removesuffix("\r") for line in text.split("\n")]
        if self.lines[-1] == "":
            self.lines.pop()
        self.starts: list[int] = []
        self.size = 0
        for line in text.split("\n")[: len(self.lines)]:
            self.starts.append(self.size)
            self.size += len(line.encode()) + 1
        self.size = len(text.encode())

    def find_first(self, from_byte: int | None, tail: int | None, line: int | None, max_lines: int) -> int:
        """Return the index of the first line of a window."""
        if tail is not None:
            return max(0, len(self.lines) - tail)
        if line is not None:
            return max(0, min(line - 1 - max_lines // 4, len(self.lines) - max_lines))
        return max(0, bisect_right(self.starts, from_byte or 0) - 1)

    def search(self, text: str) -> list[int]:
        """Return the numbers of the lines that contain a text, ignoring case."""
        wanted = text.casefold()
        return [number for number, line in enumerate(self.lines, 1) if wanted in line.casefold()]

    def line(self, index: int, *, matches: bool, whole: bool) -> LogLine:
        text = self.lines[index]
        shown = text if whole else text.encode()[:MAX_LINE_BYTES].decode("utf-8", "ignore")
        return LogLine(
            number=index + 1,
            at_byte=self.starts[index],
            text=shown,
            cut_bytes=len(text.encode()) - len(shown.encode()),
            matches=matches,
        )
