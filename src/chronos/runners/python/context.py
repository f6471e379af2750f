"""``ctx``: what a Python function may know about its run, and do beside its work.

Durable calls (``sleep``, ``wait_for_signal``, ``step``) are counted. The n-th of a function meets the n-th entry of
its memory::

    no entry        first time here: a pending entry is left, and the function is put down (``Suspended``)
    pending entry   its time or its signal came: it is done, and the function goes on; else it is put down again
    done entry      passed at once, with the value it had

So a function that slept is called again from its top and runs through what it has done already. All between its
durable calls is done again: what must happen once belongs into a ``step``.

**Sync and async.** In an async function these three are awaited, in a plain one they are just called; the rest of a
context is the same for both.
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
TIMEOUT = "timeout"  # a signal that was waited for and did not come
MAX_DURABLE_CALLS = 10_000
MAX_STEP_BYTES = 1 << 20
_SCALARS = (str, int, float, bool, bytes, type(None))


class Suspended(BaseException):
    """The function is put down until it wakes; not an ``Exception``, so that no ``except Exception`` holds it up."""

    def __init__(self, waits: Waits) -> None:
        super().__init__(waits)
        self.waits = waits


class ReplayDiverged(Conflict):
    """A function was changed while it slept: what it remembers is not what it does."""


class StepDone:
    """An answer that is there already: awaiting it takes no time."""

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
    exact: bool  # False: at least so many


def missed_span(covered: CoveredSpan | None) -> MissedSpan | None:
    """The span of a run, as users see it."""
    if covered is None:
        return None
    return MissedSpan(
        from_=from_us(covered.from_us), to=from_us(covered.to_us), count=covered.count, exact=covered.exact
    )


class TaskLogger:
    """Writes lines into the attempt's output, under the names that ``logging`` has."""

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
            except (TypeError, ValueError, KeyError):  # a log line never fails the work
                text = f"{text} {values!r}"
        now_us = self._clock.now_us()
        self._context.write(f"{rfc3339(now_us - now_us % 1_000)} {level} {text}\n")


class Transaction:
    """SQL that commits together with the task's completion, in one transaction, or not at all.

    It runs when the task has succeeded, so nothing can be read from it; what a failed or sleeping function left here
    is forgotten.
    """

    __slots__ = ("_context",)

    def __init__(self, context: "Context") -> None:
        self._context = context

    def execute(self, sql: str, *values: Any) -> None:
        """Add a statement with its values, one by one or in a tuple: text, numbers, true and false, bytes, None."""
        if len(values) == 1 and isinstance(values[0], tuple | list):
            values = tuple(values[0])
        for index, value in enumerate(values, 1):
            if not isinstance(value, _SCALARS):
                kind = type(value).__name__
                raise Invalid(f"value {index} of the statement is a {kind}: give text, a number, bytes or None")
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
        """``awaited``: the function is async. ``remembered`` hears of each change to the memory."""
        self._call = call
        self._clock = clock
        self._is_async = is_async
        self._on_remember = on_remember
        self._next_index = 0  # of the next durable call
        self._used_signals: set[str] = set()  # signals: one is good for one wait
        self._abandoned = False

    # --- what run this is

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
        """Its number, from 1."""
        return self._call.number

    @property
    def token(self) -> int:
        """Grows with each run of the job: a target that remembers the largest can refuse a late one."""
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
        """The scheduled instant of the run before this one."""
        return None if self._call.last_run_us is None else from_us(self._call.last_run_us)

    @property
    def deadline(self) -> datetime | None:
        """When this attempt will be stopped; None: it has no limit."""
        return None if self._call.deadline_us is None else from_us(self._call.deadline_us)

    @property
    def span(self) -> MissedSpan | None:
        """What a compressed recovery covers."""
        return missed_span(self._call.span)

    # --- beside the work

    @property
    def log(self) -> TaskLogger:
        return TaskLogger(self, self._clock)

    @property
    def transaction(self) -> Transaction:
        return Transaction(self)

    @property
    def canceled(self) -> bool:
        """Whether to end now: canceled, out of time, or its node is going down and the grace period is over."""
        if self._call.stop.requested:
            self._call.stop.overrides_success = True  # who knows and returns gave up, and did not succeed
            return True
        return self._abandoned

    @property
    def stopping(self) -> bool:
        """Whether the node shuts down: finish soon, or come to a good index to stop."""
        return self._call.stopping.requested

    def heartbeat(self) -> bool:
        """Say "alive"; True while the work should go on. Cheap enough for every turn of a loop."""
        return not self.canceled

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the work is; shown live."""
        if not self._abandoned:
            self._call.sink.progress(_number(done), None if total is None else _number(total))

    # --- durable calls

    def sleep(self, duration: float | timedelta | str) -> StepDone:
        """Sleep for seconds, a timedelta or ``"1h30m"``, across restarts, holding no slot and no memory."""
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
        """Wait until somebody sends the signal; gives its payload. Raises ``TimeoutError`` when it does not come."""
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
            raise TimeoutError(f'the signal "{name}" did not come until {rfc3339(entry.until_us)}')
        return StepDone(entry.value) if self._is_async else entry.value

    def step(self, name: str, function: Callable[..., Any], *values: Any) -> Any:
        """Call a function once in the life of the task, and remember its JSON result over sleeps and retries.

        One that raises is not remembered: the next attempt calls it again.
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
            raise Invalid(f'step "{name}" is async: make the function that takes it async too, and await the step')
        return self._record_step(index, name, value)

    async def _step(self, index: int, name: str, function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        value = function(*values)
        if isinstance(value, Awaitable):
            value = await value
        return self._record_step(index, name, value)

    def _record_step(self, index: int, name: str, value: Any) -> Any:
        try:  # what the first run gets is what later ones will remember: JSON
            encoded = msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            kind = type(value).__name__
            raise Invalid(f'step "{name}" gave a {kind}, which cannot be remembered as JSON: {error}') from None
        if len(encoded) > MAX_STEP_BYTES:
            raise Invalid(f'step "{name}" gave {len(encoded):,} bytes of JSON, allowed {MAX_STEP_BYTES:,}')
        value = msgspec.json.decode(encoded)
        self._remember(index, RecordedTask(kind=STEP, name=name, done=True, value=value))
        return value

    def _next_entry(self, kind: str, name: str) -> tuple[int, RecordedTask | None]:
        if self._abandoned:
            raise Conflict("this attempt has been given up: nothing more of it is remembered")
        index = self._next_index
        self._next_index += 1
        memory = self._call.memory
        if index >= MAX_DURABLE_CALLS:
            raise Invalid(f"a task makes at most {MAX_DURABLE_CALLS:,} durable calls: let a schedule repeat it instead")
        if index >= len(memory):
            return index, None
        entry = memory[index]
        entry_kind = SIGNAL if entry.kind == TIMEOUT else entry.kind
        if entry_kind != kind or entry.name != name:
            raise ReplayDiverged(
                f"durable call {index + 1} is {_describe_durable_call(kind, name)}, and was "
                f"{_describe_durable_call(entry_kind, entry.name)} when it was remembered: "
                "the function has changed since. Replay the execution to start it from the beginning"
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

    # --- for the runner, and for what hangs on a context

    def write(self, text: str) -> None:
        """Add to the attempt's output."""
        if not self._abandoned:
            self._call.sink.write(text)

    def add_statement(self, sql: str, values: tuple[Any, ...]) -> None:
        """See ``Transaction``."""
        if not self._abandoned:
            self._call.statements.append((sql, values))

    def abandon(self) -> None:
        """The attempt is over and its function is not: from now on nothing it does counts."""
        self._abandoned = True
        self._call = replace(self._call, memory=list(self._call.memory), statements=[])


def to_duration_us(duration: float | timedelta | str) -> int:
    """Whole microseconds of seconds, a timedelta or a text; at least 0. Raises ``Invalid``."""
    if isinstance(duration, str):
        return parse_go_duration(duration)
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise Invalid(f'a duration is {duration!r}, expected seconds, a timedelta or text like "1h30m"')
    return max(0, min(round(seconds * SECOND_US), LAST_US))


def _number(value: float) -> float:
    """A plain number, whatever kind of number somebody counts with."""
    return value if type(value) is int else float(value)


def _describe_durable_call(kind: str, name: str) -> str:
    return f'a {kind} of "{name}"' if name else f"a {kind}"
