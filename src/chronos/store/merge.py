"""Merging commands of one kind into one statement's worth, and giving each its own part of the answer back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chronos.store.commands import Advance, Command, Release, Settle, Settled, Suspend

_MERGED = (Settle, Advance, Suspend, Release)


def merge(commands: Sequence[Command[Any]]) -> list[tuple[Command[Any], list[int]]]:
    """Commands to apply in this order, each with the positions of those it stands for.

    Only neighbours merge, so the order between kinds is kept; an execution is touched at most once a command.
    """
    merged: list[tuple[Command[Any], list[int]]] = []
    seen: set[bytes] = set()
    for position, command in enumerate(commands):
        if not isinstance(command, _MERGED):
            merged.append((command, [position]))
            continue
        new = [row.id for row in command.rows]
        last = merged[-1][0] if merged else None
        if last is not None and type(last) is type(command) and _fits(last, command) and seen.isdisjoint(new):
            merged[-1] = (_join(last, command), [*merged[-1][1], position])
            seen.update(new)
        else:
            merged.append((command, [position]))
            seen = set(new)
    return merged


def split(command: Command[Any], parts: Sequence[Command[Any]], answer: Any) -> list[Any]:
    """The answer of each part of a merged command."""
    if len(parts) == 1:
        return [answer]
    if isinstance(answer, Settled):
        done = set(answer.settled)
        answers: list[Any] = [
            Settled([row.id for row in part.rows if row.id in done], [], 0)
            for part in parts
            if isinstance(part, Settle)
        ]
        answers[0] = answer._replace(settled=answers[0].settled)
        return answers
    held = set(answer)
    return [[row.id for row in part.rows if row.id in held] for part in parts if isinstance(part, _MERGED)]


def size(command: Command[Any]) -> int:
    """How many rows a command brings."""
    return len(getattr(command, "rows", ())) + len(getattr(command, "delete", ())) or 1


def _fits(a: Any, b: Any) -> bool:
    if isinstance(a, Settle):
        return (a.node, a.take, a.take_lanes) == (b.node, b.take, b.take_lanes)
    return True


def _join(a: Any, b: Any) -> Command[Any]:
    joined: Callable[..., Command[Any]] = replace
    return joined(a, rows=a.rows + b.rows)
