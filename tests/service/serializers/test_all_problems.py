"""All problems of a job are reported at once, each with its pointer."""

import pickle
from typing import Any

import pytest

from chronos.errors import Invalid, InvalidOptions
from chronos.service.serializers import InvalidJob, read_job
from tests.support.accepted_fields import CHECKS

ECHO = {"argv": ["echo"]}


def pointers(job: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidJob) as caught:
        read_job({"name": "job", "schedule": "@daily", **job}, checks=CHECKS)
    return sorted({problem.pointer for problem in caught.value.problems})


def within(field: str, *names: str) -> list[str]:
    return sorted(f"{field}/{name}" for name in names)


@pytest.mark.parametrize(
    ("job", "wrong"),
    [
        ({"schedule": "99 * * * *", "timezone": "Mars/X"}, "/schedule /timezone"),
        (
            {"schedule": {"cron": "99 * * * *", "jitter": "soon"}, "dst": "maybe", "start": "x"},
            "/dst /schedule/cron /schedule/jitter /start",
        ),
        (
            {
                "schedule": {"every": "x", "timezone": "Mars/X"},
                "end": "y",
                "exclude": ["z", "2027-01-01", "2027-13-01"],
            },
            "/end /exclude/0 /exclude/2 /schedule/every /schedule/timezone",
        ),
        ({"schedule": 5, "timezone": "Mars/X", "exclude": "z"}, "/exclude /schedule /timezone"),
        ({"schedule": "manual", "timezone": "Mars/X", "start": "x"}, "/start /timezone"),
        ({"schedule": "@every 10ms", "start": "x"}, "/schedule /start"),
        (
            {"schedule": {"cron": "9 9", "dialect": "x", "colour": 1}},
            "/schedule/colour /schedule/cron /schedule/dialect",
        ),
        ({"schedule": "CRON_TZ=Mars/X 0 9 * * *", "timezone": "Mars/Y"}, "/schedule /timezone"),
        ({"schedule": "CRON_TZ=Mars/X 0 9 * * *", "timezone": "UTC"}, "/schedule"),
        ({"schedule": {"cron": "0 9 * * *", "every": "5m", "at": "x"}}, "/schedule/at /schedule/every"),
        ({"schedule": "@daily", "start": "2027-02-01", "end": "2027-01-01"}, "/schedule"),
        ({"schedule": "@daily", "exclude": ["* * * * *"]}, "/schedule"),
    ],
)
def test_schedules(job: dict[str, Any], wrong: str) -> None:
    assert pointers({"command": ECHO, **job}) == wrong.split()


def test_http() -> None:
    options = {
        "url": "http://127.0.0.1",
        "method": "BREW",
        "headers": {"a b": "c", "Host": "x", "Fine": "y", "Two.Lines": "x\ny"},
        "query": {"q": "{{ nope }}"},
        "body": 5,
        "json": {"a": ["{{ no.such }}", "{{ secret }}", "{{ payload.a }}"]},
        "auth": {"type": "api_key", "in": "cookie", "valu": "x"},
        "success_codes": [999],
        "retry_codes": "x",
        "redirects": 77,
        "timeout": "x",
        "bogus": 1,
    }
    headers = ("headers/Host", "headers/Two.Lines", "headers/a b")
    auth = ("auth/in", "auth/valu", "auth/value")
    others = ("bogus", "body", "json/a/0", "json/a/1", "method", "query/q", "redirects", "retry_codes")
    found = (*headers, *auth, *others, "success_codes", "timeout", "url")
    assert pointers({"http": options}) == within("/http", *found)
    assert pointers({"webhook": {}, "timeout": "x"}) == ["/timeout", "/webhook/url"]


def test_command() -> None:
    options = {
        "argv": ["", None, "{{ secret.a }}"],
        "env": {"A=B": "x", "CHRONOS_JOB": "y", "Z": ["k"], "fine": 5},
        "cwd": "here",
        "user": 7,
        "limits": {"memory": "x", "files": 1, "disk": 3, "cpu_s": 5},
        "success_codes": [300],
        "stdin": 4,
        "bogus": 1,
    }
    limits = ("limits/disk", "limits/files", "limits/memory")
    env = ("env/A=B", "env/CHRONOS_JOB", "env/Z")
    found = ("argv/0", "argv/1", "argv/2", "bogus", "cwd", "stdin", "success_codes", "user")
    assert pointers({"command": options}) == within("/command", *found, *limits, *env)
    assert pointers({"command": {"shell": "yes", "command": 4}}) == within("/command", "command", "shell")


def test_python() -> None:
    options = {"name": "", "limits": {"memory": "x", "cpu_s": 0, "disk": 1}, "bogus": 2}
    limits = ("limits/cpu_s", "limits/disk", "limits/memory")
    assert pointers({"python": options}) == within("/python", "bogus", "name", *limits)


def test_wait() -> None:
    options = {
        "for": "x",
        "until": "y",
        "schedule": "z",
        "timezone": "Mars/X",
        "signal": "",
        "timeout": "t",
        "bogus": 1,
    }
    assert pointers({"wait": options}) == within("/wait", *options)
    assert pointers({"wait": {"timezone": "Mars/X", "timeout": "1h"}}) == ["/wait", "/wait/timeout", "/wait/timezone"]


def test_tasks() -> None:
    tasks = [
        {"name": "a b", "http": {"url": "x"}, "retry": {"max_attempts": 0, "jitter": 9}, "needs": ["zz", "b", "yy"]},
        {"name": "b", "command": {"argv": []}, "http": {}, "needs": "ww", "on_failure": "x", "delivery": "y"},
        {"name": "b", "wait": {"for": "x"}, "timeout": "z", "colour": 1},
        5,
    ]
    first = within("/tasks/0", "http/url", "name", "needs/0", "needs/2", "retry/jitter", "retry/max_attempts")
    second = ["/tasks/1", *within("/tasks/1", "command/argv", "delivery", "http/url", "needs", "on_failure")]
    third = within("/tasks/2", "colour", "name", "timeout", "wait/for")
    assert pointers({"tasks": tasks}) == [*first, *second, *third, "/tasks/3"]


def test_needs_are_checked_despite_other_problems() -> None:
    circle = [{"name": "a", "needs": ["b"], "command": ECHO}, {"name": "b", "needs": ["a"], "command": ECHO}]
    assert pointers({"tasks": circle, "priority": 99}) == ["/priority", "/tasks"]
    assert pointers({"tasks": [{"needs": ["other"], "command": ECHO}], "mode": "x"}) == ["/mode", "/tasks/0/needs/0"]


def test_several_targets_in_one_task_are_reported() -> None:
    job = {"job_type": "f", "http": {}, "command": {"bogus": 1}, "tasks": [{"wait": {}}]}
    assert pointers(job) == sorted(
        ["/command", "/command/argv", "/command/bogus", "/http", "/http/url", "/tasks", "/tasks/0/wait"]
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (
            "retry",
            {
                "max_attempts": 0,
                "max_retries": -1,
                "initial_interval": "x",
                "multiplier": 0,
                "max_interval": "y",
                "jitter": 2,
                "retry_on": 3,
                "colour": 1,
            },
        ),
        ("recovery", {"strategy": "x", "max_count": -1, "max_age": "y", "after": "z", "colour": 1}),
        ("concurrency", {"limit": -9, "key": "{{ bad", "colour": 1}),
        ("placement", {"labels": 5, "fallback": "x", "colour": 1}),
        ("update", {"policy": "x", "count": 0, "duration": "y", "colour": 1}),
        ("retention", {"max_count": -1, "max_age": "x", "colour": 1}),
    ],
)
def test_settings(field: str, value: dict[str, Any]) -> None:
    assert pointers({"command": ECHO, field: value, "priority": 0}) == sorted(
        ["/priority", *within(f"/{field}", *value)]
    )


def test_hooks_tags_and_payload_problems_are_reported() -> None:
    job = {
        "after": [{"on": "x", "colour": 1}, "j", "j", 5],
        "on_start": {"http": {}, "command": {"argv": []}, "colour": 1},
        "on_complete": {"wait": {"for": "x", "until": "y"}},
        "alerts": [1, {}, 2],
        "owner": 5,
        "tags": {"a": 1, "b": "", "c": 2},
        "enabled": "yes",
        "description": 5,
    }
    after = ["/after", *within("/after", "0/colour", "0/job", "0/on", "3")]
    hooks = ["/on_start", "/on_start/colour", "/on_start/command/argv", "/on_start/http/url"]
    hooks += within("/on_complete/wait", "for", "until")
    others = ["/alerts", "/owner", "/tags/a", "/tags/c", "/enabled", "/description"]
    assert pointers({"command": ECHO, **job}) == sorted([*after, *hooks, *others])


def test_a_runner_that_stops_at_its_first_fault_is_reported() -> None:
    def check(options: Any) -> None:
        raise Invalid('custom.colours[1] is "x"')

    with pytest.raises(InvalidJob) as caught:
        read_job({"name": "job", "schedule": "@daily", "custom": {}, "priority": 0}, checks={"custom": check})
    assert [problem.pointer for problem in caught.value.problems] == ["/custom/colours/1", "/priority"]


def test_the_error_of_options_has_every_fault_and_can_be_pickled() -> None:
    with pytest.raises(InvalidOptions) as caught:
        CHECKS["http"]({"url": 5, "method": "BREW"})
    assert str(caught.value).splitlines()[0] == "http.url must be text, got a number"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.faults, str(again)) == (caught.value.faults, str(caught.value))
    assert [way for way, _ in again.faults] == [("url",), ("method",)]
