"""Outbox items that create runs: a program puts them into its own transaction, and a node delivers them.

Only nodes that ask for the target take them, so a node of an earlier release does not.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from chronos.core.execution import Cause
from chronos.store.commands import Enqueue, RunRow

ENQUEUE_ITEM = "enqueue"  # the kind and the target of these items


class _Run(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    scheduled_us: int
    ready_us: int
    detail: str | None = None
    key: str | None = None
    key_limit: int = 0
    wake_us: int | None = None


class _Body(Struct, frozen=True, kw_only=True):
    job: str
    runs: tuple[_Run, ...]


class Statement(NamedTuple):
    """A statement with ``$1`` placeholders, and its arguments: texts and integers."""

    sql: str
    args: tuple[str | int, ...]


@runtime_checkable
class EnqueuesInTransactions(Protocol):
    """A store whose database the program may use too, so that runs are enqueued in the program's own transaction."""

    def enqueue_statement(self, command: Enqueue) -> Statement:
        """Return the statement that puts a command into the outbox."""


def write_item(command: Enqueue) -> str:
    """Format the body of an item."""
    runs = tuple(
        _Run(
            id=run.id.hex(),
            scheduled_us=run.scheduled_us,
            ready_us=run.ready_us,
            detail=run.detail,
            key=None if run.key is None else run.key.hex(),
            key_limit=run.key_limit,
            wake_us=run.wake_us,
        )
        for run in command.runs
    )
    return msgspec.json.encode(_Body(job=command.job.hex(), runs=runs)).decode()


def read_item(body: str, now_us: int) -> Enqueue:
    """Read the command of an item."""
    item = msgspec.json.decode(body, type=_Body)
    return Enqueue(job=bytes.fromhex(item.job), runs=tuple(map(_to_row, item.runs)), now_us=now_us)


def _to_row(run: _Run) -> RunRow:
    key: Any = None if run.key is None else bytes.fromhex(run.key)
    return RunRow(
        bytes.fromhex(run.id),
        Cause.MANUAL,
        run.scheduled_us,
        run.ready_us,
        run.detail,
        key,
        run.key_limit,
        run.wake_us,
    )
