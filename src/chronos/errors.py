"""The one error tree: every error that Chronos raises on purpose, and what its caller can do about it."""

from collections.abc import Sequence
from typing import Any


class ChronosError(Exception):
    """Root of every error raised on purpose."""


class NotFound(ChronosError, LookupError):
    """There is no such thing, or none that the caller may see."""


class Conflict(ChronosError):
    """The thing is not as the caller believes: it changed, or exists already. Read it again, then decide."""


class Invalid(ChronosError, ValueError):
    """What was asked for makes no sense; asking again will not help."""


class InvalidOptions(Invalid):
    """Options with which a target could never run: everything that is wrong with them at once.

    ``faults`` has the way to each option (``("headers", "a b")``, empty for all of them) and what is wrong with it.
    """

    def __init__(self, faults: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(message for _, message in self.faults))

    def __reduce__(self) -> tuple[Any, ...]:
        return InvalidOptions, (self.faults,)


class Unavailable(ChronosError):
    """Not now. Nothing was lost or half done that the same request, sent again, would not set right."""


class QueueFull(Unavailable):
    """Too much is waiting already; try again when some of it has run."""


class StoreUnavailable(Unavailable):
    """The store cannot be reached, is locked, full or read-only."""


class StoreBusy(StoreUnavailable):
    """Too many changes wait to be written; this one was not. Try again soon."""


class StoreBroken(ChronosError):
    """The store must not be used as it is: corrupt, of a newer or foreign schema, not durable. Needs a person."""


class InvalidSchedule(Invalid):
    """A schedule that cannot be understood, or that could never fire.

    ``expression`` is the text as given, ``field`` the part at fault (``"hour"``) or None, ``reason`` what is
    wrong with it, ``position`` the offset of the offending text within the expression or None. The message
    puts these together, with a caret under the offending text, and ends in what to do where that is known.
    """

    def __init__(
        self,
        expression: str,
        reason: str,
        *,
        subject: str = "schedule",
        field: str | None = None,
        position: int | None = None,
        length: int = 1,
        hint: str | None = None,
    ) -> None:
        self.expression = expression
        self.reason = reason
        self.subject = subject
        self.field = field
        self.position = position
        self.length = length
        self.hint = hint
        super().__init__(self._message())

    def named(self, subject: str) -> "InvalidSchedule":
        """The same error of something that is called otherwise."""
        return self._like(self.expression, self.position, subject)

    def within(self, expression: str, offset: int) -> "InvalidSchedule":
        """The same error, seen from the longer text whose part at ``offset`` was at fault."""
        return self._like(expression, None if self.position is None else self.position + offset, self.subject)

    def translated(self, expression: str) -> "InvalidSchedule":
        """The same error of the words that were translated to what is at fault, which the hint then shows."""
        error = self._like(expression, None, self.subject)
        error.hint = f'understood as "{self.expression}"' + (f"; {self.hint}" if self.hint else "")
        return error

    def _like(self, expression: str, position: int | None, subject: str) -> "InvalidSchedule":
        return InvalidSchedule(
            expression,
            self.reason,
            subject=subject,
            field=self.field,
            position=position,
            length=self.length,
            hint=self.hint,
        )

    def _message(self) -> str:
        subject = f'{self.subject} field "{self.field}"' if self.field else self.subject
        lines = [f"{subject} {self.reason}"]
        if self.position is not None and len(self.expression) <= _CARET_LIMIT and self.expression.isprintable():
            lines.append(f"    {self.expression}")
            lines.append(f"    {' ' * self.position}{'^' * max(1, self.length)}")
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.expression, self.reason), self.__dict__

    def __str__(self) -> str:
        return self._message()


_CARET_LIMIT = 256


def _rebuild(expression: str, reason: str) -> InvalidSchedule:
    """Unpickling: keyword-only arguments are restored from the instance's dict afterwards."""
    return InvalidSchedule(expression, reason)
