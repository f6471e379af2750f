"""The wait target: it returns a time or a signal to wait for."""

import asyncio
from typing import Any

import pytest

from chronos.core.calendar import rfc3339
from chronos.core.outcome import Failed, Outcome, Waits
from chronos.errors import Invalid
from chronos.runners.wait import WaitRunner
from tests.support.target_calls import STARTED_US, make_call


def run(options: dict[str, Any]) -> Outcome:
    runner = WaitRunner()
    runner.check(options)
    return asyncio.run(runner.run(make_call(options)))


@pytest.mark.parametrize(
    ("options", "until"),
    [
        ({"until": "2027-02-01T00:00:00Z"}, "2027-02-01T00:00:00Z"),
        ({"until": "2027-02-01T00:00:00", "timezone": "Europe/Paris"}, "2027-01-31T23:00:00Z"),
        ({"until": "2020-01-01T00:00:00Z"}, "2020-01-01T00:00:00Z"),
        ({"for": "1h30m"}, "2027-01-15T09:30:01.500000Z"),
        ({"for": 90}, "2027-01-15T08:01:31.500000Z"),
        ({"schedule": "0 9 * * *"}, "2027-01-15T09:00:00Z"),
        ({"schedule": "0 9 * * *", "timezone": "Asia/Tokyo"}, "2027-01-16T00:00:00Z"),
        ({"schedule": "@every 10m"}, "2027-01-15T08:10:01.500000Z"),
        ({"schedule": "tomorrow at noon"}, "2027-01-16T12:00:00Z"),
        ({"for": "2h", "schedule": "0 9 * * *"}, "2027-01-15T09:00:00Z"),
        ({"for": "1000000h", "until": "2028-01-01T00:00:00Z"}, "2028-01-01T00:00:00Z"),
    ],
)
def test_the_earliest_time_ends_the_wait(options: dict[str, Any], until: str) -> None:
    outcome = run(options)
    assert isinstance(outcome, Waits)
    assert outcome.until_us is not None
    assert (rfc3339(outcome.until_us), outcome.signal, outcome.resumes) == (until, None, False)


def test_waits_for_signals() -> None:
    assert run({"signal": "approved"}) == Waits(signal="approved")
    assert run({"signal": "approved", "timeout": "1h"}) == Waits(signal="approved", until_us=STARTED_US + 3_600_000_000)


def test_a_schedule_that_is_over_fails_for_good() -> None:
    outcome = run({"schedule": "2020-01-01T00:00:00Z"})
    assert isinstance(outcome, Failed)
    assert not outcome.worth_retrying


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "one of until, for, schedule, signal"),
        ({"untill": "x"}, 'no option "untill"; did you mean "until"?'),
        ({"until": "tomorrow"}, 'is "tomorrow", which is not a date and time'),
        ({"until": 5}, "wait.until must be text, got a number"),
        ({"for": "1 fortnight"}, "wait.for"),
        ({"for": "-1s"}, "is negative"),
        ({"schedule": "0 0 30 2 *"}, "wait.schedule"),
        ({"schedule": "gibberish"}, "wait.schedule"),
        ({"schedule": "0 9 * * *", "timezone": "Mars/Base"}, "Mars/Base"),
        ({"until": "2027-01-01T00:00:00", "timezone": "Mars/Base"}, "Mars/Base"),
        ({"for": "1h", "timezone": "UTC"}, "applies to schedule or until"),
        ({"signal": ""}, "is empty"),
        ({"for": "1h", "timeout": "1h"}, 'without "signal" use "for"'),
    ],
)
def test_invalid_waits_are_rejected(options: dict[str, Any], error: str) -> None:
    with pytest.raises(Invalid) as raised:
        WaitRunner().check(options)
    assert error in str(raised.value)
