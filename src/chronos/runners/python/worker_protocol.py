"""Messages between a node and its worker processes: JSON after a four-byte length, over a socket pair."""

import base64
from typing import Any

import msgspec
from msgspec import Struct

from chronos.core.execution_detail import RecordedTask
from chronos.core.outcome import Canceled, Failed, Lost, Outcome, Released, Succeeded, TimedOut, Waits
from chronos.core.planner import CoveredSpan
from chronos.runners.contract import AttemptCall, HookInput, StopReason
from chronos.runners.python.function_registry import FunctionOrigin
from chronos.runners.python.resource_limits import Limits

LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = 64 << 20


class RunMessage(Struct, frozen=True, kw_only=True, tag=True):
    """Tells a worker to make this attempt."""

    name: str  # of the function, as jobs name it
    origin: FunctionOrigin
    limits: Limits
    execution: bytes
    job: bytes
    job_name: str
    namespace: str
    task: str
    number: int
    token: int
    scheduled_us: int
    started_us: int
    deadline_us: int | None
    last_run_us: int | None
    payload: Any
    hook: HookInput | None
    span: CoveredSpan | None
    signals: dict[str, Any]
    memory: list[RecordedTask]
    grace_s: float
    stopping: bool
    now_us: int  # on the node's clock, which follows the store's


class StopMessage(Struct, frozen=True, kw_only=True, tag=True):
    """Asks the running function to stop."""

    reason: StopReason


class StoppingMessage(Struct, frozen=True, kw_only=True, tag=True):
    """Tells a worker that the node shuts down."""


class WroteMessage(Struct, frozen=True, kw_only=True, tag=True):
    text: str


class ProgressMessage(Struct, frozen=True, kw_only=True, tag=True):
    done: float
    total: float | None


class RememberMessage(Struct, frozen=True, kw_only=True, tag=True):
    index: int
    entry: RecordedTask


class EndMessage(Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """How an attempt ended: a result, an error or a wait. An empty message is a success without a result."""

    result: Any = None
    error: str | None = None
    kinds: tuple[str, ...] = ()
    worth_retrying: bool = True
    waits: bool = False
    until_us: int | None = None
    signal: str | None = None
    statements: list[tuple[str, list[Any]]] = []
    traceback: str | None = None
    noticed_stop: bool = False  # it knew that it should stop
    retire: bool = False  # the process should not be reused


ToWorker = RunMessage | StopMessage | StoppingMessage
ToNode = WroteMessage | ProgressMessage | RememberMessage | EndMessage

_ENCODER = msgspec.json.Encoder()
WORKER_MESSAGE_DECODER: msgspec.json.Decoder[ToWorker] = msgspec.json.Decoder(ToWorker)
NODE_MESSAGE_DECODER: msgspec.json.Decoder[ToNode] = msgspec.json.Decoder(ToNode)


def encode_frame(message: ToWorker | ToNode) -> bytes:
    """Return the bytes of a message."""
    body = _ENCODER.encode(message)
    return len(body).to_bytes(LENGTH_BYTES) + body


def to_run_message(name: str, origin: FunctionOrigin, limits: Limits, call: AttemptCall, now_us: int) -> RunMessage:
    """Build the message that tells a worker about a call."""
    return RunMessage(
        name=name,
        origin=origin,
        limits=limits,
        execution=call.execution,
        job=call.job,
        job_name=call.job_name,
        namespace=call.namespace,
        task=call.task,
        number=call.number,
        token=call.token,
        scheduled_us=call.scheduled_us,
        started_us=call.started_us,
        deadline_us=call.deadline_us,
        last_run_us=call.last_run_us,
        payload=call.payload,
        hook=call.hook,
        span=call.span,
        signals=dict(call.signals),
        memory=call.memory,
        grace_s=call.grace_s,
        stopping=call.stopping.requested,
        now_us=now_us,
    )


def to_end_message(outcome: Outcome, call: AttemptCall, *, retire: bool) -> EndMessage:
    """Build the message of an outcome."""
    statements = [(sql, [_encode_sql_value(value) for value in values]) for sql, values in call.statements]
    match outcome:
        case Succeeded():
            return EndMessage(
                result=outcome.result, statements=statements, noticed_stop=call.stop.overrides_success, retire=retire
            )
        case Failed():
            worth_retrying, trace = outcome.worth_retrying, outcome.traceback
            return EndMessage(
                error=outcome.error, kinds=outcome.kinds, worth_retrying=worth_retrying, traceback=trace, retire=retire
            )
        case Waits():
            return EndMessage(waits=True, until_us=outcome.until_us, signal=outcome.signal, retire=retire)
        case TimedOut() | Canceled() | Lost() | Released():
            raise AssertionError(f"a function cannot end as {outcome!r}; only its node decides that")


def to_outcome(message: EndMessage, call: AttemptCall) -> Outcome:
    """Return the outcome of a message. The statements of a success are added to the call."""
    if message.waits:
        return Waits(until_us=message.until_us, signal=message.signal, resumes=True)
    if message.error is not None:
        worth_retrying, trace = message.worth_retrying, message.traceback
        return Failed(error=message.error, kinds=message.kinds, worth_retrying=worth_retrying, traceback=trace)
    call.stop.overrides_success = call.stop.overrides_success or message.noticed_stop
    call.statements.extend(
        (sql, tuple(_decode_sql_value(value) for value in values)) for sql, values in message.statements
    )
    return Succeeded(result=message.result)


def _encode_sql_value(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _decode_sql_value(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
