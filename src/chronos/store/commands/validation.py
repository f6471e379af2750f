"""Rejects values that no engine can store, before a command is sent, so that every engine answers alike.

Only commands that people cause are checked, and of those only the fields that have a column of their own. Outcomes and
output come from the node, which has cleaned them. Specs and payloads are JSON, which escapes every character.
"""

from collections.abc import Callable, Iterable
from typing import Any

from chronos.errors import Invalid
from chronos.store.commands.admission import Backfill, Enqueue, RecordSkip, Trigger
from chronos.store.commands.base import Command
from chronos.store.commands.executions import CancelExecution, Signal
from chronos.store.commands.jobs import DeleteJob, SaveJobs, SetJobState
from chronos.store.commands.maintenance import DropDeadLetters, WriteAudit
from chronos.store.commands.nodes import RegisterNode
from chronos.store.commands.tokens import CreateToken, RevokeToken

_MAX_INT64 = (1 << 63) - 1
_LONE_SURROGATE_MESSAGE = "text contains half a character (a lone surrogate), which cannot be stored; remove it"


def check_storable(command: Command[Any]) -> None:
    """Raise ``Invalid`` for text with NUL or lone surrogates, and for numbers beyond 64 bits."""
    read_fields = _READ_FIELDS.get(type(command))
    if read_fields is None:
        return
    texts, numbers = read_fields(command)
    text = "".join(part for part in texts if part)
    if "\0" in text:
        raise Invalid("text contains the character NUL, which cannot be stored; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise lone_surrogate_error() from error
    for number in numbers:
        if number is not None and not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
            raise Invalid(f"number {number} does not fit into 64 bits; use a smaller number")


def lone_surrogate_error() -> Invalid:
    """Build the error for text that failed to encode later, such as inside a spec."""
    return Invalid(_LONE_SURROGATE_MESSAGE)


_TextsAndNumbers = tuple[Iterable[str | None], Iterable[int | None]]


def _read_save_jobs(command: SaveJobs) -> _TextsAndNumbers:
    rows = command.rows
    texts: list[str | None] = [row.name for row in rows]
    texts += {row.namespace for row in rows}
    for spec in {id(row.spec): row.spec for row in rows}.values():  # many jobs share a spec
        texts.append(spec.owner)
        if spec.tags:
            texts += spec.tags
            texts += spec.tags.values()
    texts += (command.idempotency, command.actor.name, command.actor.origin)
    return texts, [command.now_us, *(row.next_us for row in rows)]


def _read_set_job_state(command: SetJobState) -> _TextsAndNumbers:
    texts = (command.note, command.actor.name, command.actor.origin, *(span.reason.message for span in command.spans))
    return texts, (command.now_us, command.next_us)


def _read_trigger(command: Trigger | Backfill | Enqueue) -> _TextsAndNumbers:
    runs = (command.run,) if isinstance(command, Trigger) else command.runs
    texts = (command.idempotency, command.actor.name, command.actor.origin)
    return texts, [command.now_us, *(us for run in runs for us in (run.scheduled_us, run.ready_us, run.wake_us))]


def _read_create_token(command: CreateToken) -> _TextsAndNumbers:
    token = command.token
    return (token.name, token.author, command.actor.name, command.actor.origin), (command.now_us, token.expires_us)


def _read_write_audit(command: WriteAudit) -> _TextsAndNumbers:
    texts = [text for line in command.lines for text in (*line[1:], line.actor.name, line.actor.origin)]
    return texts, (command.now_us,)


def _field_reader(*names: str) -> Callable[[Any], _TextsAndNumbers]:
    """Return a reader of these text fields and of the actor, if the command has one."""

    def read(command: Any) -> _TextsAndNumbers:
        actor = getattr(command, "actor", None)
        texts = [getattr(command, name) for name in names]
        return texts if actor is None else [*texts, actor.name, actor.origin], (command.now_us,)

    return read


def _read_register_node(command: RegisterNode) -> _TextsAndNumbers:
    return (command.name, *command.labels, *command.labels.values()), (command.now_us, command.slots)


_READ_FIELDS: dict[type[Command[Any]], Callable[[Any], _TextsAndNumbers]] = {
    SaveJobs: _read_save_jobs,
    SetJobState: _read_set_job_state,
    DeleteJob: _field_reader(),
    Trigger: _read_trigger,
    Backfill: _read_trigger,
    Enqueue: _read_trigger,
    RecordSkip: _field_reader("message"),
    CancelExecution: _field_reader("message"),
    Signal: _field_reader("name"),
    DropDeadLetters: _field_reader(),
    CreateToken: _read_create_token,
    RevokeToken: _field_reader("name"),
    RegisterNode: _read_register_node,
    WriteAudit: _read_write_audit,
}
