"""The error tree: every error that Chronos raises on purpose, and how a caller should react to it."""

import re
from collections.abc import Sequence
from typing import Any

_SCHEDULE_NAME = re.compile(r"@[a-z][a-z0-9_-]*")


class ChronosError(Exception):
    """Root of every error raised on purpose."""


class NotFound(ChronosError, LookupError):
    """The object does not exist, or the caller may not see it."""


class Conflict(ChronosError):
    """The object changed or already exists. Read it again, then decide."""


class Invalid(ChronosError, ValueError):
    """The request is invalid. Sending it again does not help."""


class InvalidOptions(Invalid):
    """Options of a target that could never run, with every fault at once.

    Each item of ``faults`` is the path of an option (``("headers", "a b")``; empty: all of them) and its fault.
    """

    def __init__(self, faults: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(message for _, message in self.faults))

    def __reduce__(self) -> tuple[Any, ...]:
        return InvalidOptions, (self.faults,)


class Unavailable(ChronosError):
    """A temporary failure. The caller may safely send the same request again."""


class QueueFull(Unavailable):
    """Too many executions are waiting. Try again when some of them have run."""


class StoreUnavailable(Unavailable):
    """The store is unreachable, locked, full or read-only."""


class StoreBusy(StoreUnavailable):
    """Too many changes are waiting to be written, so this one was rejected. Try again soon."""


class StoreReadOnly(ChronosError):
    """The store can only be read here, because a program uses it. Make the change there, or stop the program."""


class StoreBroken(ChronosError):
    """The store is unusable: corrupt, not durable, or with a newer or foreign schema. An operator must repair it."""


class InvalidSchedule(Invalid):
    """A schedule that cannot be parsed, or that could never fire.

    * ``expression``: the text as written.
    * ``reason``: the fault.
    * ``field``: the part at fault (``"hour"``), or None.
    * ``position``: the offset of the faulty text in the expression, or None.
    * ``hint``: the fix, or None.

    The message combines them and puts a caret under the faulty text.
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
        """Copy the error under another subject than "schedule"."""
        return self._like(self.expression, self.position, subject)

    def within(self, expression: str, offset: int) -> "InvalidSchedule":
        """Copy the error for a longer text that contains the faulty expression at ``offset``."""
        return self._like(expression, None if self.position is None else self.position + offset, self.subject)

    def translated(self, expression: str) -> "InvalidSchedule":
        """Copy the error for the words that were translated to the faulty expression. The hint shows it."""
        error = self._like(expression, None, self.subject)
        error.hint = f'understood as "{self.expression}"' + (f"; {self.hint}" if self.hint else "")
        return error

    def _like(self, expression: str, position: int | None, subject: str) -> "InvalidSchedule":
        return type(self)(
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
        return _rebuild, (type(self), self.expression, self.reason), self.__dict__

    def __str__(self) -> str:
        return self._message()


class UnknownSchedule(InvalidSchedule):
    """A schedule with a name (``@moon``) that this process does not know. Another program may have registered it."""

    @property
    def name(self) -> str:
        """The name, with its ``@``."""
        found = _SCHEDULE_NAME.search(self.subject)
        return self.expression if found is None else found[0]


class MissingSchedule(Invalid):
    """The schedule of a stored job is not registered in this process, so the job is left to other programs.

    ``name`` is the name of the schedule, with its ``@``.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"its schedule {name} is not registered here, so only programs that register it, or have its package, "
            "run the job by its schedule"
        )
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return MissingSchedule, (self.name,)


_CARET_LIMIT = 256


def _rebuild(kind: type[InvalidSchedule], expression: str, reason: str) -> InvalidSchedule:
    """Make the error that ``pickle`` then fills with the instance's dict."""
    return kind(expression, reason)
