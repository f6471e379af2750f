"""How much one transaction takes: so many rows, and so much text in them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from chronos.store.commands.admission import Backfill, Trigger
from chronos.store.commands.base import Command
from chronos.store.commands.executions import (
    Advance,
    AdvanceRow,
    AdvanceWith,
    OutputRow,
    Release,
    ReleaseRow,
    Settle,
    SettleRow,
    SettleWith,
    Signal,
    Suspend,
    SuspendRow,
    WriteOutput,
)

MAX_BATCH_ROWS = 500
MAX_BATCH_CHARACTERS = 1 << 20  # characters

T = TypeVar("T")


def count_characters(command: Command[Any]) -> int:
    """About how many characters a command brings, as far as they may be many; jobs are bounded by their request."""
    match command:
        case Settle() | Advance() | Suspend() | Release():
            return sum(map(count_run_characters, command.rows))
        case WriteOutput():
            return sum(map(count_output_characters, command.rows))
        case SettleWith() | AdvanceWith():
            return count_run_characters(command.row)
        case Trigger():
            return len(command.run.detail or "")
        case Backfill():
            return sum(len(run.detail or "") for run in command.runs)
        case Signal():
            return len(command.payload)
        case _:
            return 0


def count_run_characters(row: SettleRow | AdvanceRow | SuspendRow | ReleaseRow) -> int:
    """Of a row that says what became of an execution."""
    text = len(row.detail or "")
    for attempt in row.attempts:
        text += len(attempt.error or "") + len(attempt.detail or "")
    return text


def count_output_characters(row: OutputRow) -> int:
    """Of a row of output."""
    return len(row.text)


def take_one_batch(items: Iterable[T], text: Callable[[T], int]) -> Iterator[T]:
    """The first of some rows, or what holds them, that go into one command: one at least."""
    total = 0
    for place, item in enumerate(items):
        total += text(item)
        if place and (total > MAX_BATCH_CHARACTERS or place == MAX_BATCH_ROWS):
            return
        yield item
