"""The errors of the declarative scheduler. Names, messages and details are those of its specification.

``details`` has the keys of the specification. An error that wraps another one keeps it in ``details["cause"]``.
"""

from collections.abc import Mapping
from typing import Any, Self

from chronos.errors import ChronosError, Conflict, Invalid


class DeclarativeError(ChronosError):
    """Root of the errors that the declarative scheduler raises."""

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details: dict[str, Any] = dict(details or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.details)

    def caused_by(self, cause: Exception) -> Self:
        """Set the wrapped error, also in the details, and return this one."""
        self.details["cause"] = cause
        self.__cause__ = cause
        return self


def _rebuild(kind: type[DeclarativeError], message: str, details: dict[str, Any]) -> DeclarativeError:
    error = kind.__new__(kind)
    DeclarativeError.__init__(error, message, details)
    return error


class SchedulerInitializationError(DeclarativeError):
    """The scheduler cannot start for another reason: an unreachable store, for example."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"Cannot initialize scheduler: {cause}")
        self.caused_by(cause)


# --- registrations -------------------------------------------------------------------------------------------------


class RegistrationsNotArrayError(DeclarativeError, Invalid):
    """The registrations are not a list."""

    def __init__(self) -> None:
        super().__init__("Registrations must be an array")


class RegistrationShapeError(DeclarativeError, Invalid):
    """A registration is not a 4-tuple of the right types."""

    def __init__(self, index: int, received: object) -> None:
        super().__init__(
            "Invalid registration shape: expected [string, string, function, Duration]",
            {"registrationIndex": index, "received": received},
        )


class InvalidRegistrationError(DeclarativeError, Invalid):
    """A field of a registration has an invalid value."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid registration: {field} {reason}", {"field": field, "value": value, "reason": reason})


class ScheduleDuplicateTaskError(DeclarativeError, Invalid):
    """Two registrations have the same task name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'Task with name "{name}" is already scheduled', {"taskName": name})


class SchedulerAlreadyActiveError(DeclarativeError, Conflict):
    """``initialize`` was called while the scheduler is initializing or running. Nothing was changed."""

    def __init__(self, state: str) -> None:
        super().__init__(f"Cannot initialize scheduler: scheduler is already {state}", {"currentState": state})


class NegativeRetryDelayError(DeclarativeError, Invalid):
    """The retry delay of a registration is negative."""

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
    """A text is not a POSIX cron expression."""


class FieldParseError(DeclarativeError, Invalid):
    """One field of a cron expression is invalid."""

    def __init__(self, field: str, value: str, reason: str) -> None:
        super().__init__(f"{field} field {reason}", {"fieldValue": value, "fieldName": field})


class CronCalculationError(DeclarativeError, Invalid):
    """A cron expression never matches."""

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
    """The persisted state lacks a required field."""

    def __init__(self, field: str) -> None:
        DeclarativeError.__init__(self, f"Missing required field: {field}", {"field": field})


class TaskInvalidTypeError(TaskTryDeserializeError):
    """A field of the persisted state has the wrong type."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        actual = type(value).__name__
        DeclarativeError.__init__(
            self,
            f"Invalid type for field '{field}': expected {expected}, got {actual}",
            {"field": field, "value": value, "expectedType": expected, "actualType": actual},
        )


class TaskInvalidValueError(TaskTryDeserializeError):
    """A field of the persisted state has an invalid value."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        DeclarativeError.__init__(
            self,
            f"Invalid value for field '{field}': {reason}",
            {"field": field, "value": value, "reason": reason},
        )


class TaskInvalidStructureError(TaskTryDeserializeError):
    """The job with the task's name is not a task of this scheduler."""

    def __init__(self, message: str, value: object) -> None:
        DeclarativeError.__init__(self, message, {"value": value})
