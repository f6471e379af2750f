"""Execution detail: the JSON next to the columns of an execution: payload, task states, result.

An execution of one task that succeeds at the first attempt, without payload or result, has no detail.
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
    """A durable step of a Python task, finished or waited for. It is not repeated when the task resumes."""

    kind: str  # sleep, signal, step
    name: str = ""
    until_us: int | None = None
    done: bool = False
    value: Any = None


class Detail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON of an execution, without default values."""

    payload: Any = None
    span: CoveredSpan | None = None  # the missed instants of a compressed recovery
    replay_of: str | None = None  # the id of the execution, in hex
    reason: str | None = None  # why it was requested
    expires_us: int | None = None  # it does not start from then on
    upstream: tuple[str, ...] = ()  # ids of the upstream executions, in hex
    carried: dict[str, Any] | None = None  # for a replay of some tasks: results of tasks that succeeded before
    chosen: tuple[str, ...] | None = None  # for a replay of chosen tasks: the only tasks that run
    greeted: bool = False  # ``on_start`` has run
    group: TaskGroup | None = None
    memory: dict[str, tuple[RecordedTask, ...]] = {}  # by task
    signals: dict[str, Any] = {}  # received and not used yet; the store adds to it
    result: Any = None  # of the single task, or by task
    report: Report | None = None


NO_DETAIL = Detail()
GROUP_JSON_KEY = '"group":'  # in the JSON of every detail that has task states
_DECODER = msgspec.json.Decoder(Detail)
_ENCODER = msgspec.json.Encoder()


def read_detail(text: str | None) -> Detail:
    """Parse the detail of a stored execution."""
    return NO_DETAIL if text is None else _DECODER.decode(text)


def write_detail(detail: Detail) -> str | None:
    """Format a detail as JSON; None if it is empty."""
    return None if detail == NO_DETAIL else _ENCODER.encode(detail).decode()


def close_detail(text: str | None, code: ReasonCode, now_us: int, message: str | None = None) -> str | None:
    """Close the open tasks in the detail of an execution that the store ends without a node.

    Returns None if the detail has no tasks or cannot be read; it then stays unchanged.
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
