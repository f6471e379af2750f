"""Chooses the connection of a command, so that commands about one job keep their order.

    work       by hash of the job: admissions, settlements, everything about one job; SaveJobs by its first name
    control    the rest: heartbeats, claims, maintenance

Rows of ``Admit`` and ``Settle`` are independent, so these commands are split into one transaction per connection. Then,
within a node, an admission never meets a gate that a settlement has locked. Both are safe to resend if a part failed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

from chronos.store.commands import (
    Admit,
    Backfill,
    Command,
    DeleteJob,
    Enqueue,
    Reap,
    RecordSkip,
    Recover,
    SaveJobs,
    SetJobState,
    Settle,
    Settled,
    SettleWith,
    Trigger,
)

CONTROL_CONNECTION = 0
_SINGLE_JOB_COMMANDS = (Recover, RecordSkip, Trigger, Enqueue, Backfill, DeleteJob, SetJobState)


def route(command: Command[Any], connections: int) -> list[tuple[int, Command[Any]]]:
    """Return the parts of a command with their connections. ``connections`` is the number of work connections."""
    if isinstance(command, _SINGLE_JOB_COMMANDS):
        return [(_choose_connection(command.job, connections), command)]
    if isinstance(command, Admit | Settle):
        rows: dict[int, list[Any]] = {}
        for row in command.rows:
            rows.setdefault(_choose_connection(row.job, connections), []).append(row)
        if len(rows) > 1:
            return _split(command, rows)
        return [(next(iter(rows), CONTROL_CONNECTION), command)]
    if isinstance(command, SettleWith):
        return [(_choose_connection(command.row.job, connections), command)]
    if isinstance(command, SaveJobs) and command.rows:
        return [(_choose_connection(crc32(command.rows[0].name.encode()).to_bytes(4), connections), command)]
    if isinstance(command, SaveJobs) and command.delete:
        return [(_choose_connection(command.delete[0].job, connections), command)]
    return [(CONTROL_CONNECTION, command)]


def join_part_results(command: Command[Any], answers: Sequence[Any]) -> Any:
    """Return the answer of a command from the answers of its parts."""
    if isinstance(command, Settle):
        joined = Settled([], [], 0)
        for settled, started, woken, items in answers:
            joined = Settled(
                joined.settled + settled,
                joined.started_successors + started,
                joined.woken + woken,
                joined.outbox_items + items,
            )
        return joined
    return [row for answer in answers for row in answer]


def list_awaited_gates(command: Command[Any]) -> list[bytes]:
    """Return the jobs whose gates a command will lock and wait for, as far as the command names them."""
    if isinstance(command, Recover | SetJobState):
        return [part.job for part in command.parts]
    if isinstance(command, _SINGLE_JOB_COMMANDS):
        return [command.job]
    if isinstance(command, SettleWith):
        return [command.row.job]
    if isinstance(command, Settle | Reap):
        return [row.job for row in command.rows]
    if isinstance(command, Admit):
        return [row.job for row in command.rows if row.needs_gate_lock]
    if isinstance(command, SaveJobs):
        return [row.job for row in command.delete]
    return []


def _choose_connection(job: bytes, connections: int) -> int:
    return CONTROL_CONNECTION + 1 + job[-1] % connections


def _split(command: Admit | Settle, rows: dict[int, list[Any]]) -> list[tuple[int, Command[Any]]]:
    parts: list[tuple[int, Command[Any]]] = []
    take = command.take if isinstance(command, Settle) else 0
    for connection, own in rows.items():
        if isinstance(command, Admit):
            parts.append((connection, replace(command, rows=tuple(own))))
        else:
            share = min(take, len(own))
            take -= share
            parts.append((connection, replace(command, rows=tuple(own), take=share)))
    return parts
