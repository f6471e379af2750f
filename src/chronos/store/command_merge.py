"""Merging commands of one kind into one statement's worth, and giving each its own part of the answer back.

Of saved jobs only new ones without a key merge; of recovered gaps those that were judged at one time; of jobs that are
switched, and of what left the outbox, all. Should one of them be refused, each of them is applied by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from chronos.store.commands import (
    NEW,
    AckOutbox,
    Admitted,
    Advance,
    Backfill,
    Command,
    Recover,
    Release,
    SaveJobs,
    SetJobState,
    Settle,
    Settled,
    Suspend,
)

_MERGEABLE_BY_ROWS = (Settle, Advance, Suspend, Release)


def merge_commands(commands: Sequence[Command[Any]]) -> list[tuple[Command[Any], list[int]]]:
    """Commands to apply in this order, each with the positions of those it stands for.

    Only neighbours merge, so the order between kinds is kept; an execution or job is touched at most once a command.
    """
    groups: list[list[int]] = []
    seen: set[Any] | None = None  # by the last of them; None: it does not merge
    for position, command in enumerate(commands):
        new = _merge_keys(command)
        first = commands[groups[-1][0]] if groups else None
        if new is None or seen is None or not _can_merge(first, command) or not seen.isdisjoint(new):
            groups.append([position])
            seen = None if new is None else set(new)
        else:
            groups[-1].append(position)
            seen.update(new)
    return [(_join_commands([commands[position] for position in group]), group) for group in groups]


def split_result(command: Command[Any], parts: Sequence[Command[Any]], answer: Any) -> list[Any]:
    """The answer of each part of a merged command."""
    if len(parts) == 1:
        return [answer]
    if isinstance(command, SaveJobs):
        rows = iter(answer)
        return [list(islice(rows, len(part.rows))) for part in parts if isinstance(part, SaveJobs)]
    if isinstance(command, SetJobState):
        return list(answer)
    if isinstance(command, AckOutbox):
        return [None] * len(parts)
    if isinstance(command, Recover):
        of: dict[bytes, list[Admitted]] = {}
        for row in answer:
            of.setdefault(row.job, []).append(row)
        return [of.get(part.job, []) for part in parts if isinstance(part, Recover)]
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
    return [[row.id for row in part.rows if row.id in held] for part in parts if isinstance(part, _MERGEABLE_BY_ROWS)]


def count_rows(command: Command[Any]) -> int:
    """How many rows a command brings."""
    if isinstance(command, Recover):
        return sum(len(part.runs) + len(part.spans) for part in command.parts) or 1
    if isinstance(command, Backfill):
        return len(command.runs) or 1
    return len(getattr(command, "rows", ())) + len(getattr(command, "delete", ())) or 1


def _merge_keys(command: Command[Any]) -> list[Any] | None:
    """What a command that merges with others is about; None: it does not."""
    if isinstance(command, _MERGEABLE_BY_ROWS):
        return [row.id for row in command.rows]
    if isinstance(command, AckOutbox):
        return list(command.ids)
    if isinstance(command, Recover | SetJobState):
        return [part.job for part in command.parts]
    if not isinstance(command, SaveJobs) or command.delete:
        return None
    rows = command.rows
    if command.idempotency is not None or [row.expect for row in rows].count(NEW) < len(rows):
        return None
    return [(row.namespace, row.name) for row in rows]


def _can_merge(a: Any, b: Any) -> bool:
    """Whether a command merges with one before it, both of them of those that do."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Settle):
        return (a.node, a.take, a.take_lanes) == (b.node, b.take, b.take_lanes)
    if isinstance(a, Recover | SetJobState) and b.others:
        return False
    return not isinstance(a, Recover) or bool(a.now_us == b.now_us)


def _join_commands(commands: Sequence[Any]) -> Command[Any]:
    first: Command[Any] = commands[0]
    if len(commands) == 1:
        return first
    joined: Callable[..., Command[Any]] = replace
    if isinstance(first, SaveJobs | Recover | SetJobState):
        return joined(first, others=(*first.others, *commands[1:]))
    if isinstance(first, AckOutbox):
        return joined(first, ids=tuple(id_ for command in commands for id_ in command.ids))
    return joined(first, rows=tuple(row for command in commands for row in command.rows))
