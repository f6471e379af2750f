"""``ctx``: the context of a Python function. It describes the run and offers logs, progress and durable calls.

Durable calls (``sleep``, ``wait_for_signal``, ``step``) are counted. The n-th call meets the n-th entry of the memory::

    no entry        the first time: adds a pending entry and suspends the function (``Suspended``)
    pending entry   its time or signal has come: marks it done and continues; otherwise suspends again
    done entry      returns at once, with the recorded value

So a function that slept is called again from the top and passes its finished calls at once. Everything between durable
calls runs again: work that must happen once belongs in a ``step``.

**Sync and async.** An async function awaits these three; a sync function just calls them. The rest of a context is the
same for both.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from chronos.clock import Clock
from chronos.core.calendar import LAST_US, SECOND_US, from_us, rfc3339
from chronos.core.execution_detail import RecordedTask
from chronos.core.outcome import Waits
from chronos.core.planner import CoveredSpan
from chronos.core.schedule.interval import parse_go_duration
from chronos.errors import Conflict, Invalid
from chronos.runners.contract import AttemptCall

SLEEP, SIGNAL, STEP = "sleep", "signal", "step"
TIMEOUT = "timeout"  # the kind of a wait for a signal that did not arrive
MAX_DURABLE_CALLS = 10_000
MAX_STEP_BYTES = 1 << 20
_SCALARS = (str, int, float, bool, bytes, type(None))


class Suspended(BaseException):
    """Suspends the function until it wakes. Not an ``Exception``, so that ``except Exception`` does not catch it."""

    def __init__(self, waits: Waits) -> None:
        super().__init__(waits)
        self.waits = waits


class ReplayDiverged(Conflict):
    """A function was changed while it slept: its memory does not match its calls."""


class StepDone:
    """A result that is already known; awaiting it takes no time."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from ()
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedSpan:
    """The missed instants that one compressed run stands for."""

    from_: datetime
    to: datetime
    count: int
    exact: bool  # False: count is a lower bound


def missed_span(covered: CoveredSpan | None) -> MissedSpan | None:
    """Return the span of a run as users see it."""
    if covered is None:
        return None
    return MissedSpan(
        from_=from_us(covered.from_us), to=from_us(covered.to_us), count=covered.count, exact=covered.exact
    )


class TaskLogger:
    """Writes lines into the attempt's output, with the methods of ``logging``."""

    __slots__ = ("_clock", "_context")

    def __init__(self, context: "Context", clock: Clock) -> None:
        self._context = context
        self._clock = clock

    def debug(self, message: object, *values: object) -> None:
        self._write("DEBUG", message, values)

    def info(self, message: object, *values: object) -> None:
        self._write("INFO", message, values)

    def warning(self, message: object, *values: object) -> None:
        self._write("WARNING", message, values)

    def error(self, message: object, *values: object) -> None:
        self._write("ERROR", message, values)

    def critical(self, message: object, *values: object) -> None:
        self._write("CRITICAL", message, values)

    def _write(self, level: str, message: object, values: tuple[object, ...]) -> None:
        text = str(message)
        if values:
            try:
                text = text % (values[0] if len(values) == 1 and isinstance(values[0], dict) else values)
            except (TypeError, ValueError, KeyError):  # a log line must not fail the work
                text = f"{text} {values!r}"
        now_us = self._clock.now_us()
        self._context.write(f"{rfc3339(now_us - now_us % 1_000)} {level} {text}\n")


class Transaction:
    """SQL that commits together with the task's completion, in one transaction, or not at all.

    It runs after the task has succeeded, so it cannot return rows. The statements of a failed or suspended function are
    dropped.
    """

    __slots__ = ("_context",)

    def __init__(self, context: "Context") -> None:
        self._context = context

    def execute(self, sql: str, *values: Any) -> None:
        """Add a statement with its values, separately or in a tuple: text, numbers, booleans, bytes, None."""
        if len(values) == 1 and isinstance(values[0], tuple | list):
            values = tuple(values[0])
        for index, value in enumerate(values, 1):
            if not isinstance(value, _SCALARS):
                kind = type(value).__name__
                raise Invalid(f"value {index} of the statement is a {kind}; use text, a number, bytes or None")
        self._context.add_statement(sql, values)


class Context:
    """One attempt, as the function sees it. Times are aware UTC datetimes."""

    __slots__ = ("_abandoned", "_call", "_clock", "_is_async", "_next_index", "_on_remember", "_used_signals")

    def __init__(
        self,
        call: AttemptCall,
        clock: Clock,
        *,
        is_async: bool,
        on_remember: Callable[[int, RecordedTask], None] | None = None,
    ) -> None:
        """``is_async``: the function is async. ``on_remember`` is called with each change to the memory."""
        self._call = call
        self._clock = clock
        self._is_async = is_async
        self._on_remember = on_remember
        self._next_index = 0  # the next durable call
        self._used_signals: set[str] = set()  # each signal ends one wait
        self._abandoned = False

    # --- the run

    @property
    def execution_id(self) -> str:
        return str(UUID(bytes=self._call.execution))

    @property
    def job(self) -> str:
        return self._call.job_name

    @property
    def namespace(self) -> str:
        return self._call.namespace

    @property
    def task(self) -> str:
        return self._call.task

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self._call.number

    @property
    def task_run_id(self) -> str:
        """The id of this task within the run: the same for all of its attempts."""
        return str(UUID(bytes=self._call.task_run_id))

    @property
    def attempt_id(self) -> str:
        """The id of this attempt."""
        return str(UUID(bytes=self._call.attempt_id))

    @property
    def token(self) -> int:
        """A number that grows with each run of the job. A target that remembers the largest can reject a stale run."""
        return self._call.token

    @property
    def payload(self) -> Any:
        return self._call.payload

    @property
    def scheduled_at(self) -> datetime:
        return from_us(self._call.scheduled_us)

    @property
    def started_at(self) -> datetime:
        return from_us(self._call.started_us)

    @property
    def last_run_at(self) -> datetime | None:
        """The scheduled time of the previous run."""
        return None if self._call.last_run_us is None else from_us(self._call.last_run_us)

    @property
    def deadline(self) -> datetime | None:
        """When this attempt will be stopped; None if it has no limit."""
        return None if self._call.deadline_us is None else from_us(self._call.deadline_us)

    @property
    def span(self) -> MissedSpan | None:
        """The missed instants that a compressed recovery covers."""
        return missed_span(self._call.span)

    # --- besides the work

    @property
    def log(self) -> TaskLogger:
        return TaskLogger(self, self._clock)

    @property
    def transaction(self) -> Transaction:
        return Transaction(self)

    @property
    def canceled(self) -> bool:
        """Whether to stop now: canceled, timed out, or the grace period of a shutdown is over."""
        if self._call.stop.requested:
            self._call.stop.overrides_success = True  # a function that knows and returns has not succeeded
            return True
        return self._abandoned

    @property
    def stopping(self) -> bool:
        """Whether the node is shutting down: finish soon, or get to a good place to stop."""
        return self._call.stopping.requested

    def heartbeat(self) -> bool:
        """Return True while the work should continue. Cheap enough to call in every iteration of a loop."""
        return not self.canceled

    def progress(self, done: float, total: float | None = None) -> None:
        """Report how far the work is; shown live."""
        if not self._abandoned:
            self._call.sink.progress(_number(done), None if total is None else _number(total))

    # --- durable calls

    def sleep(self, duration: float | timedelta | str) -> StepDone:
        """Sleep for seconds, a timedelta or ``"1h30m"``. The sleep survives restarts and holds no slot."""
        length_us = to_duration_us(duration)
        index, entry = self._next_entry(SLEEP, "")
        if entry is None:
            entry = RecordedTask(
                kind=SLEEP, until_us=min(self._clock.now_us() + length_us, LAST_US), done=not length_us
            )
            self._remember(index, entry)
            if entry.done:
                return StepDone(None)
            raise self._suspend_error(entry)
        if not entry.done:
            if not self._is_due(entry):
                raise self._suspend_error(entry)
            self._remember(index, msgspec.structs.replace(entry, done=True))
        return StepDone(None)

    def wait_for_signal(self, name: str, timeout: float | timedelta | str | None = None) -> Any:
        """Wait for a signal and return its payload. Raises ``TimeoutError`` if it does not arrive in time."""
        if not name:
            raise Invalid("a signal needs a name")
        length_us = None if timeout is None else to_duration_us(timeout)
        index, entry = self._next_entry(SIGNAL, name)
        is_first = entry is None
        if entry is None:
            until_us = None if length_us is None else min(self._clock.now_us() + length_us, LAST_US)
            entry = RecordedTask(kind=SIGNAL, name=name, until_us=until_us)
            self._remember(index, entry)
        if not entry.done:
            if name in self._call.signals and name not in self._used_signals:
                self._used_signals.add(name)
                entry = RecordedTask(kind=SIGNAL, name=name, done=True, value=self._call.signals[name])
            elif self._is_due(entry) and not is_first:
                entry = msgspec.structs.replace(entry, kind=TIMEOUT, done=True)
            else:
                raise self._suspend_error(entry)
            self._remember(index, entry)
        if entry.kind == TIMEOUT and entry.until_us is not None:
            raise TimeoutError(f'the signal "{name}" did not arrive by {rfc3339(entry.until_us)}')
        return StepDone(entry.value) if self._is_async else entry.value

    def step(self, name: str, function: Callable[..., Any], *values: Any) -> Any:
        """Call a function once per task, and remember its JSON result across sleeps and retries.

        A call that raises is not remembered: the next attempt calls it again.
        """
        index, entry = self._next_entry(STEP, name)
        if entry is not None and entry.done:
            return StepDone(entry.value) if self._is_async else entry.value
        if entry is None:
            self._remember(index, RecordedTask(kind=STEP, name=name))
        if self._is_async:
            return self._step(index, name, function, values)
        value = function(*values)
        if inspect.isawaitable(value):
            if isinstance(value, Coroutine):
                value.close()
            raise Invalid(f'step "{name}" is async; make the function that calls it async too, and await the step')
        return self._record_step(index, name, value)

    async def _step(self, index: int, name: str, function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        value = function(*values)
        if isinstance(value, Awaitable):
            value = await value
        return self._record_step(index, name, value)

    def _record_step(self, index: int, name: str, value: Any) -> Any:
        try:  # the first run gets the same JSON value as later ones
            encoded = msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            kind = type(value).__name__
            raise Invalid(f'step "{name}" returned a {kind}, which cannot be stored as JSON: {error}') from None
        if len(encoded) > MAX_STEP_BYTES:
            raise Invalid(
                f'step "{name}" returned {len(encoded):,} bytes of JSON, but at most {MAX_STEP_BYTES:,} are allowed'
            )
        value = msgspec.json.decode(encoded)
        self._remember(index, RecordedTask(kind=STEP, name=name, done=True, value=value))
        return value

    def _next_entry(self, kind: str, name: str) -> tuple[int, RecordedTask | None]:
        if self._abandoned:
            raise Conflict("this attempt was abandoned; its durable calls are no longer recorded")
        index = self._next_index
        self._next_index += 1
        memory = self._call.memory
        if index >= MAX_DURABLE_CALLS:
            raise Invalid(f"a task makes at most {MAX_DURABLE_CALLS:,} durable calls; use a schedule to repeat work")
        if index >= len(memory):
            return index, None
        entry = memory[index]
        entry_kind = SIGNAL if entry.kind == TIMEOUT else entry.kind
        if entry_kind != kind or entry.name != name:
            raise ReplayDiverged(
                f"durable call {index + 1} is {_describe_durable_call(kind, name)}, but "
                f"{_describe_durable_call(entry_kind, entry.name)} was recorded: the function has changed since. "
                "Replay the execution to start it from the beginning"
            )
        return index, entry

    def _is_due(self, entry: RecordedTask) -> bool:
        return entry.until_us is not None and self._call.started_us >= entry.until_us

    def _suspend_error(self, entry: RecordedTask) -> Suspended:
        return Suspended(Waits(until_us=entry.until_us, signal=entry.name or None, resumes=True))

    def _remember(self, index: int, entry: RecordedTask) -> None:
        memory = self._call.memory
        if index < len(memory):
            memory[index] = entry
        else:
            memory.append(entry)
        if self._on_remember is not None:
            self._on_remember(index, entry)

    # --- for the runner, the logger and the transaction

    def write(self, text: str) -> None:
        """Add text to the attempt's output."""
        if not self._abandoned:
            self._call.sink.write(text)

    def add_statement(self, sql: str, values: tuple[Any, ...]) -> None:
        """Add a statement of ``Transaction``."""
        if not self._abandoned:
            self._call.statements.append((sql, values))

    def abandon(self) -> None:
        """Ignore everything that the function does from now on: its attempt is over."""
        self._abandoned = True
        self._call = replace(self._call, memory=list(self._call.memory), statements=[])


def to_duration_us(duration: float | timedelta | str) -> int:
    """Convert seconds, a timedelta or a text to microseconds, at least 0. Raises ``Invalid``."""
    if isinstance(duration, str):
        return parse_go_duration(duration)
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise Invalid(f'the duration is {duration!r}, expected seconds, a timedelta or text like "1h30m"')
    return max(0, min(round(seconds * SECOND_US), LAST_US))


def _number(value: float) -> float:
    """Convert any kind of number to a plain int or float."""
    return value if type(value) is int else float(value)


def _describe_durable_call(kind: str, name: str) -> str:
    return f'a {kind} of "{name}"' if name else f"a {kind}"
