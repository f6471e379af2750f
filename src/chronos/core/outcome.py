"""How one try of a task ends: a closed union, so that every place which decides about outcomes decides about all."""

from dataclasses import dataclass, field
from typing import Any, assert_never

from chronos.core.config import EffectiveSettings
from chronos.core.credentials import hide_userinfo
from chronos.core.execution import AttemptStatus

TIMEOUT = "timeout"  # what ``retry_on`` calls an attempt that took too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The work is done; ``result`` is JSON."""

    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The work failed. ``kinds`` are the names under which ``retry_on`` may list it (``ValueError``, ``http_503``)."""

    error: str
    kinds: tuple[str, ...] = ()
    worth_retrying: bool = True  # False: its target knows that another try would fail too
    retry_after_us: int | None = None  # how long to wait before another try, where its target knows; else the backoff
    traceback: str | None = field(default=None, compare=False)  # of a function that raised; for the log, not stored

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", to_storable_text(hide_userinfo(self.error)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """It took longer than one attempt may."""

    error: str = "it took longer than its task timeout allows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled:
    """It was stopped, cooperatively or not."""

    error: str | None = None

    def __post_init__(self) -> None:
        if self.error is not None:
            object.__setattr__(self, "error", to_storable_text(hide_userinfo(self.error)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Its worker died, or was declared dead; nobody knows how far it came."""

    error: str = "the worker that ran it died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """It was put down unfinished, because its node shuts down: no attempt is spent."""

    error: str = "the node that ran it shut down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """It sleeps until a time or a signal, whichever comes first, and needs no worker meanwhile.

    ``resumes``: the task goes on when it wakes (``ctx.sleep``). Otherwise waking was all it had to do: it has
    succeeded, or timed out when a signal was awaited and the time came first.
    """

    until_us: int | None = None
    signal: str | None = None
    resumes: bool = False

    def __post_init__(self) -> None:
        if self.until_us is None and self.signal is None:
            raise ValueError("a wait needs a time or a signal, or it would never end")


def to_storable_text(text: str) -> str:
    """Text that every store takes: NUL and lone surrogates, as file names can have them, are written as escapes."""
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


Outcome = Succeeded | Failed | TimedOut | Canceled | Lost | Released | Waits


def attempt_status(outcome: Outcome) -> AttemptStatus | None:
    """How the attempt is recorded; None: it has not ended."""
    match outcome:
        case Succeeded():
            return AttemptStatus.SUCCEEDED
        case Failed():
            return AttemptStatus.FAILED
        case TimedOut():
            return AttemptStatus.TIMED_OUT
        case Canceled():
            return AttemptStatus.CANCELED
        case Lost():
            return AttemptStatus.LOST
        case Released() | Waits():
            return None
        case _:
            assert_never(outcome)


def is_worth_retrying(effective: EffectiveSettings, outcome: Failed | TimedOut) -> bool:
    """Whether this failure is tried again: ``retry_on`` decides by its names; where it is empty, the target does."""
    match outcome:
        case Failed():
            kinds = outcome.kinds
            worth = outcome.worth_retrying
        case TimedOut():
            kinds = (TIMEOUT,)
            worth = True
        case _:
            assert_never(outcome)
    return not set(kinds).isdisjoint(effective.retry_on) if effective.retry_on else worth
