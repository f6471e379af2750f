"""A job's schedule as JSON: text, lists of texts, objects, and what each problem points at."""

from typing import Any

import pytest

from chronos.core.job import ScheduleSpec
from chronos.service.serializers import InvalidJob, read_job
from chronos.service.serializers.schedule import write_schedule
from tests.support.service_world import CHECKS, shape

INSTANTS = ["2030-01-01 18:33", "2031-01-01"]


def read(schedule: Any, **fields: Any) -> ScheduleSpec:
    spec = read_job(shape(schedule=schedule, **fields), checks=CHECKS).spec.schedule
    assert spec is not None
    return spec


def problems(schedule: Any, **fields: Any) -> dict[str, str]:
    with pytest.raises(InvalidJob) as caught:
        read(schedule, **fields)
    return {problem.pointer: problem.message for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("schedule", "text", "dialect", "written"),
    [
        ("0 9 * * 1-5\n", "0 9 * * 1-5", "auto", "0 9 * * 1-5"),
        (["0 9 * * *"], "0 9 * * *", "auto", "0 9 * * *"),
        (["0 9 * * *\n", " @daily"], "0 9 * * *; also @daily", "auto", ["0 9 * * *", "@daily"]),
        ("@hourly; also @daily", "@hourly; also @daily", "auto", ["@hourly", "@daily"]),
        ({"cron": "0 9 * * Monday-Sunday"}, "0 9 * * Monday-Sunday", "auto", "0 9 * * Monday-Sunday"),
        ({"cron": "0 0 9 * * * 2030"}, "0 0 9 * * * 2030", "auto", "0 0 9 * * * 2030"),
        ({"cron": ["0 9 * * *", "@daily"]}, "0 9 * * *; also @daily", "auto", ["0 9 * * *", "@daily"]),
        (
            {"cron": ["0 0 9 ? * 2", "0 0 9 ? * 3"], "dialect": "quartz"},
            "0 0 9 ? * 2; also 0 0 9 ? * 3",
            "quartz",
            {"cron": ["0 0 9 ? * 2", "0 0 9 ? * 3"], "dialect": "quartz"},
        ),
        ({"at": ["2030-01-01 18:33", "2031-01-01"]}, "2030-01-01 18:33; also 2031-01-01", "auto", INSTANTS),
        ({"every": "5m to 10m"}, "@every 5m to 10m", "auto", "@every 5m to 10m"),
        ({"every": "1d"}, "@every 24h", "auto", "@every 24h"),
    ],
)
def test_schedules_are_read_stored_and_written(schedule: Any, text: str, dialect: str, written: Any) -> None:
    spec = read(schedule)
    assert (spec.text, spec.dialect) == (text, dialect)
    assert write_schedule(spec, follows=False) == {"schedule": written}
    assert read(written) == spec
    spec.parse("job")


def test_a_window_applies_to_every_expression() -> None:
    spec = read(["0 9 * * *", "@every 5h"], start="2027-01-01 08:00", end="2027-02-01", timezone="Europe/Paris")
    assert write_schedule(spec, follows=False) == {
        "schedule": ["0 9 * * *", "@every 5h"],
        "timezone": "Europe/Paris",
        "start": "2027-01-01T07:00:00Z",
        "end": "2027-01-31T23:00:00Z",
    }
    assert spec.parse("job").describe() == (
        "Daily at 09:00, from 2027-01-01T07:00:00Z, until 2027-01-31T23:00:00Z, Europe/Paris; "
        "also every 5 hours, from 2027-01-01T07:00:00Z, until 2027-01-31T23:00:00Z, Europe/Paris"
    )


def test_every_problem_of_a_list_is_found_at_its_place() -> None:
    found = problems(["0 25 * * *", "@daily", "0 99 * * *"])
    assert list(found) == ["/schedule/0", "/schedule/2"]
    assert "is 25" in found["/schedule/0"]
    assert list(problems({"cron": ["@daily", "every day"]})) == ["/schedule/cron/1"]
    assert list(problems(["@daily", "@every 10ms", "every 5 to 9 milliseconds"])) == ["/schedule/1", "/schedule/2"]
    assert list(problems(["@daily", 5, None])) == ["/schedule/1", "/schedule/2"]


@pytest.mark.parametrize(
    ("schedule", "pointer", "says"),
    [
        ([], "/schedule", "has 0 expressions, allowed 1 to 100"),
        (["@daily"] * 101, "/schedule", "has 101 expressions, allowed 1 to 100"),
        (["@daily", "now"], "/schedule/1", 'is "now", which cannot be in a list'),
        (["@daily", "@daily; also @hourly"], "/schedule/1", "make each expression an item"),
        ({"every": ["1m", "2m"]}, "/schedule/every", "must be text"),
        ({"every": "10m to 5m"}, "/schedule/every", "not longer at its end"),
        ({"every": "5m to soon"}, "/schedule/every", "soon"),
        ({"every": "50ms to 5s"}, "/schedule/every", "the shortest interval of a job is 100ms"),
        ({"in": "5m to 10m"}, "/schedule/in", "5m to 10m"),
        ({"cron": "P1D"}, "/schedule/cron", "expected 5"),
        ({"cron": "0 0 9 1 * 2", "dialect": "quartz"}, "/schedule/cron", "restricts both"),
        ({"cron": 5}, "/schedule/cron", "must be text, or a list of texts"),
    ],
)
def test_wrong_schedules_are_rejected(schedule: Any, pointer: str, says: str) -> None:
    found = problems(schedule)
    assert says in found[pointer], found
