"""The error taxonomy of the declarative scheduler: names, messages and details as its specification writes them.

``details`` has the specification's own keys. An error that stands for another one keeps it in ``details["cause"]``.
"""

from collections.abc import Mapping
from typing import Any, Self

from chronos.errors import ChronosError, Conflict, Invalid


class DeclarativeError(ChronosError):
    """Root of what the declarative scheduler raises."""

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details: dict[str, Any] = dict(details or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.details)

    def caused_by(self, cause: Exception) -> Self:
        """The same error, with what it wraps among its details."""
        self.details["cause"] = cause
        self.__cause__ = cause
        return self


def _rebuild(kind: type[DeclarativeError], message: str, details: dict[str, Any]) -> DeclarativeError:
    error = kind.__new__(kind)
    DeclarativeError.__init__(error, message, details)
    return error


class SchedulerInitializationError(DeclarativeError):
    """Something unexpected kept the scheduler from starting: a store that cannot be reached, for example."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"Cannot initialize scheduler: {cause}")
        self.caused_by(cause)


# --- registrations -------------------------------------------------------------------------------------------------


class RegistrationsNotArrayError(DeclarativeError, Invalid):
    """What was given is no list of registrations."""

    def __init__(self) -> None:
        super().__init__("Registrations must be an array")


class RegistrationShapeError(DeclarativeError, Invalid):
    """A registration is no 4-tuple of the right types."""

    def __init__(self, index: int, received: object) -> None:
        super().__init__(
            "Invalid registration shape: expected [string, string, function, Duration]",
            {"registrationIndex": index, "received": received},
        )


class InvalidRegistrationError(DeclarativeError, Invalid):
    """A registration of the right shape that makes no sense."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid registration: {field} {reason}", {"field": field, "value": value, "reason": reason})


class ScheduleDuplicateTaskError(DeclarativeError, Invalid):
    """Two registrations have the same task name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'Task with name "{name}" is already scheduled', {"taskName": name})


class SchedulerAlreadyActiveError(DeclarativeError, Conflict):
    """``initialize`` was called while the scheduler is initializing or running; nothing was changed."""

    def __init__(self, state: str) -> None:
        super().__init__(f"Cannot initialize scheduler: scheduler is already {state}", {"currentState": state})


class NegativeRetryDelayError(DeclarativeError, Invalid):
    """A task cannot be tried again before it failed."""

    def __init__(self, delay_ms: float) -> None:
        super().__init__("Retry delay must be non-negative", {"retryDelayMs": delay_ms})


# --- cron expressions ----------------------------------------------------------------------------------------------


class _CronError(DeclarativeError, Invalid):
    def __init__(self, expression: str, field: str, reason: str) -> None:
        super().__init__(
            f'Invalid cron expression "{expression}": {field} field {reason}',
            {"expression": expression, "field": field, "reason": reason},
        )


class CronExpressionInvalidError(_CronError):
    """The cron expression of a registration fails validation."""


class InvalidCronExpressionError(_CronError):
    """A text is no POSIX cron expression."""


class FieldParseError(DeclarativeError, Invalid):
    """One field of a cron expression cannot be read."""

    def __init__(self, field: str, value: str, reason: str) -> None:
        super().__init__(f"{field} field {reason}", {"fieldValue": value, "fieldName": field})


class CronCalculationError(DeclarativeError, Invalid):
    """A cron expression has no occurrence to wait for."""

    def __init__(self, expression: str, current_time: str, cause: Exception) -> None:
        super().__init__(
            f"Failed to calculate next occurrence: {cause}", {"expression": expression, "currentTime": current_time}
        )
        self.caused_by(cause)


# --- persisted state -----------------------------------------------------------------------------------------------


class TaskTryDeserializeError(DeclarativeError):
    """The persisted state of a task cannot be read."""

    def __init__(self, message: str, *, field: str, value: object, expected: str) -> None:
        super().__init__(message, {"field": field, "value": value, "expectedType": expected})


class TaskMissingFieldError(TaskTryDeserializeError):
    """A field that must be there is not."""

    def __init__(self, field: str) -> None:
        DeclarativeError.__init__(self, f"Missing required field: {field}", {"field": field})


class TaskInvalidTypeError(TaskTryDeserializeError):
    """A field has a value of another type."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        actual = type(value).__name__
        DeclarativeError.__init__(
            self,
            f"Invalid type for field '{field}': expected {expected}, got {actual}",
            {"field": field, "value": value, "expectedType": expected, "actualType": actual},
        )


class TaskInvalidValueError(TaskTryDeserializeError):
    """A field has a value that it cannot have."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        DeclarativeError.__init__(
            self,
            f"Invalid value for field '{field}': {reason}",
            {"field": field, "value": value, "reason": reason},
        )


class TaskInvalidStructureError(TaskTryDeserializeError):
    """What is persisted under the task's name is no task of this scheduler."""

    def __init__(self, message: str, value: object) -> None:
        DeclarativeError.__init__(self, message, {"value": value})
