"""Calling a user's function: whatever it does, returns or raises becomes an outcome, never an exception of ours."""

import asyncio
import contextlib
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from chronos.core.outcome import Failed, Outcome, Succeeded, to_storable_text
from chronos.runners.contract import AttemptCall
from chronos.runners.python.context import ReplayDiverged, Suspended
from chronos.runners.python.function_registry import Function
from chronos.runners.python.stdout_capture import route_prints_to

MAX_RESULT_BYTES = 1 << 20
MAX_ERROR = 2_000  # characters of an exception's text
MAX_TRACEBACK = 10_000  # characters of a traceback that is logged: its end, which says most
BAD_PAYLOAD = "bad_payload"
BAD_RESULT = "bad_result"
STOPPED = Failed(error="it was asked to stop, and did", kinds=("stopped",))

_PACKAGE = Path(__file__).parent.parent.parent
_HIDDEN_FRAME_PATHS = (str(_PACKAGE / "engine"), str(_PACKAGE / "runners"))  # their frames are left out of tracebacks
_SUCCESS_WITHOUT_RESULT = Succeeded()
_IMMUTABLE_JSON_TYPES = (str, bool)


def call_sync(function: Function, arguments: dict[str, Any], call: AttemptCall) -> Outcome:
    """Call a function that is not async, here and now, in a context of its own."""
    route_prints_to(call.sink)
    try:
        return to_success_outcome(function, function.call(**arguments), call)
    except BaseException as error:  # noqa: BLE001 - a job that says sys.exit() must not end the engine
        return to_failure_outcome(error, call)


async def call_async(function: Function, arguments: dict[str, Any], call: AttemptCall) -> Outcome:
    """Call an async function and wait for it, in the task of its attempt."""
    route_prints_to(call.sink)
    try:
        return to_success_outcome(function, await function.call(**arguments), call)
    except GeneratorExit:  # the event loop is gone
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        return to_failure_outcome(error, call)


def to_success_outcome(function: Function, result: Any, call: AttemptCall) -> Succeeded | Failed:
    """The outcome of what a function returned."""
    if result is None:
        return _SUCCESS_WITHOUT_RESULT
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        call.statements.clear()
        if isinstance(result, Coroutine):
            result.close()
        kind = type(result).__qualname__
        text = f'"{function.name}" returned a {kind}, which is not JSON: {error}'
        return Failed(error=text, kinds=(BAD_RESULT,), worth_retrying=False)
    if len(encoded) > MAX_RESULT_BYTES:
        call.statements.clear()
        text = (
            f'"{function.name}" returned {len(encoded):,} bytes of JSON, and at most {MAX_RESULT_BYTES:,} are kept: '
            "store it elsewhere and return where"
        )
        return Failed(error=text, kinds=(BAD_RESULT,), worth_retrying=False)
    # Decoded again, so that nobody changes it any more and everybody sees the JSON that is stored.
    return Succeeded(result=result if type(result) in _IMMUTABLE_JSON_TYPES else msgspec.json.decode(encoded))


def to_failure_outcome(error: BaseException, call: AttemptCall) -> Outcome:
    """The outcome of what a function raised; its traceback goes to the output."""
    call.statements.clear()
    if isinstance(error, Suspended):
        return error.waits
    if isinstance(error, asyncio.CancelledError) and call.stop.requested:
        return STOPPED
    if isinstance(error, ReplayDiverged):
        return Failed(error=str(error), kinds=("diverged",), worth_retrying=False)
    trace: str | None = None
    with contextlib.suppress(Exception):  # an exception that cannot even be shown is still only a failure
        text = _format_traceback(error)
        trace = to_storable_text(text if len(text) <= MAX_TRACEBACK else "…" + text[-MAX_TRACEBACK:])
        call.sink.write(text)
    return Failed(error=_describe_error(error), kinds=_error_kinds(type(error)), traceback=trace)


def _describe_error(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the user's own __str__
        text = "(its text could not be told)"
    name = type(error).__name__
    return f"{name}: {text}"[:MAX_ERROR] if text else name


def _error_kinds(kind: type[BaseException]) -> tuple[str, ...]:
    """``ZeroDivisionError``, ``builtins.ZeroDivisionError``, ``ArithmeticError`` …: up to ``Exception``, without it."""
    classes = [class_ for class_ in kind.__mro__ if issubclass(class_, BaseException)]
    classes_to_name = [class_ for class_ in classes if class_ not in (Exception, BaseException)] or [kind]
    return tuple(
        name for class_ in classes_to_name for name in (class_.__name__, f"{class_.__module__}.{class_.__qualname__}")
    )


def _format_traceback(error: BaseException) -> str:
    exception = traceback.TracebackException.from_exception(error, compact=True)
    current: TracebackExceptionOrNone = exception
    while current is not None:
        current.stack[:] = [frame for frame in current.stack if not frame.filename.startswith(_HIDDEN_FRAME_PATHS)]
        current = current.__cause__ or current.__context__
    return "".join(exception.format())


TracebackExceptionOrNone = traceback.TracebackException | None
