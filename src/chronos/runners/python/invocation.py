"""Calls a user's function, and turns its result or exception into an outcome."""

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
MAX_ERROR_CHARS = 2_000  # of an exception's text
MAX_TRACEBACK_CHARS = 10_000  # of a logged traceback; its end is the most useful part
BAD_PAYLOAD = "bad_payload"
BAD_RESULT = "bad_result"
STOPPED = Failed(error="the function stopped on request", kinds=("stopped",))

_PACKAGE = Path(__file__).parent.parent.parent
_HIDDEN_FRAME_PATHS = (str(_PACKAGE / "engine"), str(_PACKAGE / "runners"))  # their frames are left out of tracebacks
_SUCCESS_WITHOUT_RESULT = Succeeded()
_IMMUTABLE_JSON_TYPES = (str, bool)


def call_sync(function: Function, arguments: dict[str, Any], call: AttemptCall) -> Outcome:
    """Call a sync function here and now, in its own context."""
    route_prints_to(call.sink)
    try:
        return to_result_outcome(function, function.call(**arguments), call)
    except BaseException as error:  # noqa: BLE001 - a job that calls sys.exit() must not end the engine
        return to_exception_outcome(error, call)


async def call_async(function: Function, arguments: dict[str, Any], call: AttemptCall) -> Outcome:
    """Call an async function and await it, in the task of its attempt."""
    route_prints_to(call.sink)
    try:
        return to_result_outcome(function, await function.call(**arguments), call)
    except GeneratorExit:  # the event loop is gone
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        return to_exception_outcome(error, call)


def to_result_outcome(function: Function, result: Any, call: AttemptCall) -> Succeeded | Failed:
    """Return the outcome for a returned value."""
    if result is None:
        return _SUCCESS_WITHOUT_RESULT
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        call.statements.clear()  # its SQL must not commit with a failure
        if isinstance(result, Coroutine):
            result.close()
        kind = type(result).__qualname__
        text = f'"{function.name}" returned a {kind}, which is not JSON: {error}; return JSON values only'
        return Failed(error=text, kinds=(BAD_RESULT,), worth_retrying=False)
    if len(encoded) > MAX_RESULT_BYTES:
        call.statements.clear()  # as above
        text = (
            f'"{function.name}" returned {len(encoded):,} bytes of JSON, but at most {MAX_RESULT_BYTES:,} are allowed; '
            "store the data elsewhere and return its location"
        )
        return Failed(error=text, kinds=(BAD_RESULT,), worth_retrying=False)
    # Decoded again, so that the function cannot change it and every reader sees the stored JSON.
    return Succeeded(result=result if type(result) in _IMMUTABLE_JSON_TYPES else msgspec.json.decode(encoded))


def to_exception_outcome(error: BaseException, call: AttemptCall) -> Outcome:
    """Return the outcome for a raised exception. Its traceback goes to the output."""
    call.statements.clear()  # as above
    if isinstance(error, Suspended):
        return error.waits
    if isinstance(error, asyncio.CancelledError) and call.stop.requested:
        return STOPPED
    if isinstance(error, ReplayDiverged):
        return Failed(error=str(error), kinds=("diverged",), worth_retrying=False)
    trace: str | None = None
    with contextlib.suppress(Exception):  # an exception that cannot be formatted is still only a failure
        text = _format_traceback(error)
        trace = to_storable_text(text if len(text) <= MAX_TRACEBACK_CHARS else "…" + text[-MAX_TRACEBACK_CHARS:])
        call.sink.write(text)
    return Failed(error=_describe_error(error), kinds=_error_kinds(type(error)), traceback=trace)


def _describe_error(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the user's own __str__
        text = "(its __str__ failed)"
    name = type(error).__name__
    return f"{name}: {text}"[:MAX_ERROR_CHARS] if text else name


def _error_kinds(kind: type[BaseException]) -> tuple[str, ...]:
    """Return ``ZeroDivisionError``, ``builtins.ZeroDivisionError``, ``ArithmeticError`` …: up to, but without,
    ``Exception``.
    """
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
