"""Limits on the rows and the characters of one batch, and functions that measure commands."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from chronos.store.commands.admission import Backfill, Enqueue, Trigger
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
MAX_BATCH_CHARACTERS = 1 << 20

T = TypeVar("T")


def count_characters(command: Command[Any]) -> int:
    """Return the approximate number of characters of a command. Commands with little or bounded text count as 0."""
    match command:
        case Settle() | Advance() | Suspend() | Release():
            return sum(map(count_run_characters, command.rows))
        case WriteOutput():
            return sum(map(count_output_characters, command.rows))
        case SettleWith() | AdvanceWith():
            return count_run_characters(command.row)
        case Trigger():
            return len(command.run.detail or "")
        case Backfill() | Enqueue():
            return sum(len(run.detail or "") for run in command.runs)
        case Signal():
            return len(command.payload)
        case _:
            return 0


def count_run_characters(row: SettleRow | AdvanceRow | SuspendRow | ReleaseRow) -> int:
    """Return the number of characters of the detail and the attempts of one row."""
    characters = len(row.detail or "")
    for attempt in row.attempts:
        characters += len(attempt.error or "") + len(attempt.detail or "")
    return characters


def count_output_characters(row: OutputRow) -> int:
    return len(row.text)


def take_one_batch(items: Iterable[T], count_item: Callable[[T], int]) -> Iterator[T]:
    """Yield the first items that fit into one command, at least one. ``count_item`` counts the characters of one."""
    total = 0
    for index, item in enumerate(items):
        total += count_item(item)
        if index and (total > MAX_BATCH_CHARACTERS or index == MAX_BATCH_ROWS):
            return
        yield item
