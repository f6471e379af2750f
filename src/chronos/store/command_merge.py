"""Merges neighbouring commands of one kind into one, and splits the answer of the merged command.

    Settle, Advance, Suspend, Release    merge by rows; Settle only with the same node and ``take``
    SaveJobs                             merge if all jobs are new and without idempotency key
    Recover                              merge with the same ``now_us``
    SetJobState, AckOutbox               always merge

If a merged command is rejected, the engine applies its parts one by one.
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
    Enqueue,
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
    """Return the commands to apply, in order, each with the positions of the commands merged into it.

    - Ordered: only neighbours merge, so the order of kinds is kept.
    - Bounded: a merged command contains each execution or job at most once.
    """
    groups: list[list[int]] = []
    seen: set[Any] | None = None  # keys of the last group; None: it does not merge
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
    """Return the answer of each part of a merged command."""
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
        admitted: dict[bytes, list[Admitted]] = {}
        for row in answer:
            admitted.setdefault(row.job, []).append(row)
        return [admitted.get(part.job, []) for part in parts if isinstance(part, Recover)]
    if isinstance(answer, Settled):
        done = set(answer.settled)
        answers: list[Any] = [
            Settled([row.id for row in part.rows if row.id in done], [], 0)
            for part in parts
            if isinstance(part, Settle)
        ]
        answers[0] = answer._replace(settled=answers[0].settled)
        return answers
    changed = set(answer)
    return [
        [row.id for row in part.rows if row.id in changed] for part in parts if isinstance(part, _MERGEABLE_BY_ROWS)
    ]


def count_rows(command: Command[Any]) -> int:
    """Return the number of rows of a command, at least 1."""
    if isinstance(command, Recover):
        return sum(len(part.runs) + len(part.spans) for part in command.parts) or 1
    if isinstance(command, Backfill | Enqueue):
        return len(command.runs) or 1
    return len(getattr(command, "rows", ())) + len(getattr(command, "delete", ())) or 1


def _merge_keys(command: Command[Any]) -> list[Any] | None:
    """Return the executions or jobs of a mergeable command, or None."""
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
    """Whether two mergeable commands may be merged."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Settle):
        return (a.node, a.take, a.take_lanes) == (b.node, b.take, b.take_lanes)
    if isinstance(a, Recover | SetJobState) and b.merged:
        return False
    return not isinstance(a, Recover) or bool(a.now_us == b.now_us)


def _join_commands(commands: Sequence[Any]) -> Command[Any]:
    first: Command[Any] = commands[0]
    if len(commands) == 1:
        return first
    joined: Callable[..., Command[Any]] = replace
    if isinstance(first, SaveJobs | Recover | SetJobState):
        return joined(first, merged=(*first.merged, *commands[1:]))
    if isinstance(first, AckOutbox):
        return joined(first, ids=tuple(id_ for command in commands for id_ in command.ids))
    return joined(first, rows=tuple(row for command in commands for row in command.rows))
