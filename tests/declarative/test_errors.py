"""The errors of the specification: every class, its message and the keys of its details."""

import pickle

import pytest

from chronos import declarative
from chronos.declarative import (
    DeclarativeError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
)
from chronos.declarative import errors as e
from chronos.errors import ChronosError

CAUSE = ValueError("why")
TAXONOMY: list[tuple[DeclarativeError, str, dict[str, object]]] = [
    (e.RegistrationsNotArrayError(), "Registrations must be an array", {}),
    (
        e.RegistrationShapeError(3, "x"),
        "Invalid registration shape: expected [string, string, function, Duration]",
        {"registrationIndex": 3, "received": "x"},
    ),
    (
        e.InvalidRegistrationError("name", "", "must be a non-empty string"),
        "Invalid registration: name must be a non-empty string",
        {"field": "name", "value": "", "reason": "must be a non-empty string"},
    ),
    (e.ScheduleDuplicateTaskError("a"), 'Task with name "a" is already scheduled', {"taskName": "a"}),
    (
        e.SchedulerAlreadyActiveError("running"),
        "Cannot initialize scheduler: scheduler is already running",
        {"currentState": "running"},
    ),
    (
        e.CronExpressionInvalidError("x", "minute", "is x"),
        'Invalid cron expression "x": minute field is x',
        {"expression": "x", "field": "minute", "reason": "is x"},
    ),
    (e.NegativeRetryDelayError(-5), "Retry delay must be non-negative", {"retryDelayMs": -5}),
    (
        e.InvalidCronExpressionError("x", "minute", "is x"),
        'Invalid cron expression "x": minute field is x',
        {"expression": "x", "field": "minute", "reason": "is x"},
    ),
    (e.FieldParseError("minute", "x", "is x"), "minute field is x", {"fieldValue": "x", "fieldName": "minute"}),
    (
        e.CronCalculationError("0 0 30 2 *", "now", CAUSE),
        "Failed to calculate next occurrence: why",
        {"expression": "0 0 30 2 *", "currentTime": "now", "cause": CAUSE},
    ),
    (
        e.TaskTryDeserializeError("no", field="f", value=1, expected="str"),
        "no",
        {"field": "f", "value": 1, "expectedType": "str"},
    ),
    (e.TaskMissingFieldError("f"), "Missing required field: f", {"field": "f"}),
    (
        e.TaskInvalidTypeError("f", 1, "str"),
        "Invalid type for field 'f': expected str, got int",
        {"field": "f", "value": 1, "expectedType": "str", "actualType": "int"},
    ),
    (
        e.TaskInvalidValueError("f", -1, "must be non-negative"),
        "Invalid value for field 'f': must be non-negative",
        {"field": "f", "value": -1, "reason": "must be non-negative"},
    ),
    (e.TaskInvalidStructureError("no object", 7), "no object", {"value": 7}),
]


@pytest.mark.parametrize(("error", "message", "details"), TAXONOMY, ids=lambda value: type(value).__name__)
def test_messages_and_details(error: DeclarativeError, message: str, details: dict[str, object]) -> None:
    assert str(error) == message
    assert error.details == details
    assert getattr(declarative, type(error).__name__) is type(error)
    assert isinstance(error, ChronosError)


@pytest.mark.parametrize("error", [error for error, _, details in TAXONOMY if "cause" not in details])
def test_errors_can_be_pickled(error: DeclarativeError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.details) == (type(error), str(error), error.details)


def test_the_taxonomy_is_complete() -> None:
    extra = {"DeclarativeError", "SchedulerInitializationError"}
    exported = {name for name in declarative.__all__ if name.endswith("Error")}
    assert {type(error).__name__ for error, _, _ in TAXONOMY} == exported - extra


@pytest.mark.parametrize(
    "child", [TaskMissingFieldError, TaskInvalidTypeError, TaskInvalidValueError, TaskInvalidStructureError]
)
def test_errors_of_unreadable_state_share_a_base_class(child: type[Exception]) -> None:
    assert issubclass(child, TaskTryDeserializeError)
