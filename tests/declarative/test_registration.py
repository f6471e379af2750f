"""Valid and invalid registrations, and the order in which they are checked."""

import functools
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chronos.declarative import (
    CronCalculationError,
    CronExpressionInvalidError,
    FieldParseError,
    InvalidCronExpressionError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
)
from chronos.declarative.registration import read_registrations
from tests.support.declarative_app import MINUTE, SchedulerHost, simulate

SHAPE = "Invalid registration shape: expected [string, string, function, Duration]"


async def work() -> None:
    """The callback of a task."""


async def needs_argument(task: str) -> None:
    """Not a callback: it has a parameter."""


class Worker:
    async def __call__(self) -> None:
        """The callback of a task."""

    async def method(self) -> None:
        """The callback of a task."""


VALID = ("a", "* * * * *", work, MINUTE)


@pytest.mark.parametrize("value", [None, "abc", 7, {"a": VALID}, {VALID}, (item for item in [VALID]), object()])
def test_registrations_are_a_list(value: Any) -> None:
    with pytest.raises(RegistrationsNotArrayError) as caught:
        read_registrations(value)
    assert str(caught.value) == "Registrations must be an array"
    assert caught.value.details == {}


@pytest.mark.parametrize(
    "item",
    [
        None,
        "abcd",
        [],
        ("a", "* * * * *", work),
        (*VALID, 1),
        (1, "* * * * *", work, MINUTE),
        ("a", None, work, MINUTE),
        ("a", "* * * * *", "work", MINUTE),
        ("a", "* * * * *", None, MINUTE),
        ("a", "* * * * *", work, 60),
        ("a", "* * * * *", work, None),
        {"name": "a"},
    ],
)
def test_a_registration_has_four_parts_of_the_right_types(item: Any) -> None:
    with pytest.raises(RegistrationShapeError) as caught:
        read_registrations([VALID, item])
    assert str(caught.value) == SHAPE
    assert caught.value.details == {"registrationIndex": 1, "received": item}


@pytest.mark.parametrize("container", [tuple, list])
def test_lists_and_tuples_are_arrays(container: Any) -> None:
    [registration] = read_registrations(container([container(VALID)]))
    fields = (registration.name, registration.expression, registration.callback, registration.retry_delay_us)
    assert fields == ("a", "* * * * *", work, 60_000_000)


@pytest.mark.parametrize("name", ["x", " ", "ü", "日" * 300, "a/b\\c\n\t\"'", "null", "\U0001f600"])
def test_a_name_is_any_text(name: str) -> None:
    assert read_registrations([(name, *VALID[1:])])[0].name == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "must be a non-empty string"),
        ("a\0b", "must not contain a NUL or half of a surrogate pair"),
        ("\ud800", "must not contain a NUL or half of a surrogate pair"),
        ("x" * 1_001, "must not be longer than 1000 bytes, got 1001"),
    ],
)
def test_an_invalid_name_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidRegistrationError) as caught:
        read_registrations([(name, *VALID[1:])])
    assert str(caught.value) == f"Invalid registration: name {reason}"
    assert caught.value.details == {"field": "name", "value": name, "reason": reason}


def test_names_are_unique() -> None:
    with pytest.raises(ScheduleDuplicateTaskError) as caught:
        read_registrations([VALID, ("b", *VALID[1:]), ("a", "nonsense", work, MINUTE)])
    assert str(caught.value) == 'Task with name "a" is already scheduled'
    assert caught.value.details == {"taskName": "a"}


@pytest.mark.parametrize("callback", [work, Worker(), Worker().method, functools.partial(needs_argument, "a")])
def test_any_async_callable_without_arguments_is_a_callback(callback: Any) -> None:
    assert read_registrations([("a", "* * * * *", callback, MINUTE)])[0].callback is callback


@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        (lambda: None, "must be an async function"),
        (print, "must be an async function"),
        (Worker, "must be an async function"),
        (needs_argument, "must take no arguments"),
    ],
)
def test_a_callback_is_an_async_function_without_arguments(callback: Any, reason: str) -> None:
    with pytest.raises(InvalidRegistrationError) as caught:
        read_registrations([("a", "* * * * *", callback, MINUTE)])
    assert caught.value.details == {"field": "callback", "value": callback, "reason": reason}


def test_a_delay_is_not_negative() -> None:
    with pytest.raises(NegativeRetryDelayError) as caught:
        read_registrations([(*VALID[:3], timedelta(milliseconds=-1500))])
    assert str(caught.value) == "Retry delay must be non-negative"
    assert caught.value.details == {"retryDelayMs": -1500}


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(microseconds=1), timedelta(days=36_525)])
def test_a_delay_may_be_zero_or_long(delay: timedelta) -> None:
    assert read_registrations([(*VALID[:3], delay)])[0].retry_delay_us == delay // timedelta(microseconds=1)


def test_the_length_of_a_delay_is_bounded() -> None:
    with pytest.raises(InvalidRegistrationError, match="retryDelay must not be longer than 100 years"):
        read_registrations([(*VALID[:3], timedelta.max)])


def test_an_invalid_expression_raises_with_field_and_reason() -> None:
    with pytest.raises(CronExpressionInvalidError) as caught:
        read_registrations([("a", "0 25 * * *", work, MINUTE)])
    error = caught.value
    assert str(error) == 'Invalid cron expression "0 25 * * *": hour field is 25, allowed 0–23'
    cause = error.details.pop("cause")
    assert error.details == {"expression": "0 25 * * *", "field": "hour", "reason": "is 25, allowed 0–23"}
    assert isinstance(cause, InvalidCronExpressionError)
    assert isinstance(cause.details["cause"], FieldParseError)
    assert error.__cause__ is cause


def test_the_first_fault_of_the_first_registration_is_raised() -> None:
    faults: list[tuple[Any, type[Exception]]] = [
        (("a", 1, None, None), RegistrationShapeError),
        (("", "x", print, timedelta(-1)), InvalidRegistrationError),
        (("dup", "x", print, timedelta(-1)), ScheduleDuplicateTaskError),
        (("c", "x", print, timedelta(-1)), CronExpressionInvalidError),
        (("c", "* * * * *", print, timedelta(-1)), InvalidRegistrationError),
        (("c", "* * * * *", work, timedelta(-1)), NegativeRetryDelayError),
    ]
    for item, error in faults:
        with pytest.raises(error):
            read_registrations([("dup", *VALID[1:]), item, ("", 0, 0, 0)])


def test_an_expression_that_never_matches_cannot_be_calculated(url: str, tmp_path: Path) -> None:
    async def scenario(host: SchedulerHost) -> None:
        with pytest.raises(CronCalculationError) as caught:
            await host.scheduler().initialize([host.task("a"), host.task("b", "0 0 31 2,4,6 *")])
        error = caught.value
        assert str(error).startswith("Failed to calculate next occurrence: ")
        assert str(error) == f"Failed to calculate next occurrence: {error.details['cause']}"
        assert error.details.keys() == {"expression", "currentTime", "cause"}
        assert error.details["expression"] == "0 0 31 2,4,6 *"
        assert error.details["currentTime"] == "2027-01-01T10:00:30+00:00"
        assert isinstance(error.details["cause"], Exception)
        assert os.listdir(tmp_path) == []

    simulate(scenario, url)
