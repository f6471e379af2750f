"""Outcomes of an attempt: a closed union, so that a ``match`` over outcomes is checked to be exhaustive."""

from dataclasses import dataclass, field
from typing import Any, assert_never

from chronos.core.config import EffectiveSettings
from chronos.core.credentials import hide_userinfo
from chronos.core.execution import AttemptStatus

TIMEOUT = "timeout"  # the name of a timed-out attempt in ``retry_on``


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The attempt succeeded; ``result`` is JSON."""

    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt failed. ``kinds`` are its names in ``retry_on`` (``ValueError``, ``http_503``)."""

    error: str
    kinds: tuple[str, ...] = ()
    worth_retrying: bool = True  # False: the target knows that another attempt would fail too
    retry_after_us: int | None = None  # the delay that the target asks for; None: the backoff
    traceback: str | None = field(default=None, compare=False)  # of a Python function that raised; logged, not stored

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", to_storable_text(hide_userinfo(self.error)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The attempt exceeded its task timeout."""

    error: str = "the attempt exceeded its task timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled:
    """The attempt was stopped, cooperatively or not."""

    error: str | None = None

    def __post_init__(self) -> None:
        if self.error is not None:
            object.__setattr__(self, "error", to_storable_text(hide_userinfo(self.error)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The node died, or was declared dead. How far the attempt got is unknown."""

    error: str = "the node that ran it died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The attempt was stopped unfinished, because its node shuts down. It does not count as an attempt."""

    error: str = "the node that ran it shut down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The task waits for a time or a signal, whichever comes first, without a slot.

    ``resumes``: the task continues after the wait (``ctx.sleep``). Otherwise the wait was all its work: the task has
    succeeded, or timed out if it waited for a signal and the time came first.
    """

    until_us: int | None = None
    signal: str | None = None
    resumes: bool = False

    def __post_init__(self) -> None:
        if self.until_us is None and self.signal is None:
            raise ValueError("a wait needs until_us or a signal")


def to_storable_text(text: str) -> str:
    """Escape NUL and lone surrogates, which file names can contain and stores reject."""
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()


Outcome = Succeeded | Failed | TimedOut | Canceled | Lost | Released | Waits


def attempt_status(outcome: Outcome) -> AttemptStatus | None:
    """Return the recorded status of an attempt; None if it has not ended."""
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
    """Return whether a failure may be retried: ``retry_on`` decides by its names; if that is empty, the target does."""
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
