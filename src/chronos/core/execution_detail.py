"""What an execution carries beside its columns, as JSON: what it was given, how far its tasks came, what came of it.

An execution of one task that succeeds at its first try without a payload or a result carries nothing: its row says all.
"""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from chronos.core.execution_report import Report
from chronos.core.planner import CoveredSpan
from chronos.core.reasons import ReasonCode
from chronos.core.task_group import TaskGroup


class RecordedTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One durable step of a Python task that is over, or is being waited for: it is not done again after a wake-up."""

    kind: str  # sleep, signal, step
    name: str = ""
    until_us: int | None = None
    done: bool = False
    value: Any = None


class Detail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON of an execution. What stands at its default is left out."""

    payload: Any = None
    span: CoveredSpan | None = None  # of a compressed recovery
    replay_of: str | None = None  # the execution, in hex
    reason: str | None = None  # why somebody asked for it
    upstream: tuple[str, ...] = ()  # the executions that it follows, in hex
    carried: dict[str, Any] | None = None  # a replay from its failed tasks: results of those that succeeded before
    greeted: bool = False  # ``on_start`` has been run
    group: TaskGroup | None = None
    memory: dict[str, tuple[RecordedTask, ...]] = {}  # by task
    signals: dict[str, Any] = {}  # that came and were not used yet; the store adds to it
    result: Any = None  # of a single task, or by task
    report: Report | None = None


NO_DETAIL = Detail()
GROUP_JSON_KEY = '"group":'  # in the JSON of a detail that may tell where tasks stand
_DECODER = msgspec.json.Decoder(Detail)
_ENCODER = msgspec.json.Encoder()


def read_detail(text: str | None) -> Detail:
    """The detail of a stored execution."""
    return NO_DETAIL if text is None else _DECODER.decode(text)


def write_detail(detail: Detail) -> str | None:
    """Its JSON; None when there is nothing to say."""
    return None if detail == NO_DETAIL else _ENCODER.encode(detail).decode()


def close_detail(text: str | None, code: ReasonCode, now_us: int, message: str | None = None) -> str | None:
    """The detail of an execution that ends without the node that would settle it: its open tasks end with it.

    None: it tells of no tasks, or cannot be read, and stays as it is.
    """
    if text is None or GROUP_JSON_KEY not in text:
        return None
    try:
        detail = read_detail(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if detail.group is None:
        return None
    return write_detail(replace(detail, group=detail.group.close(code, now_us, message)))
