"""``chronosctl jobs set``: single fields of a job, of its target, and of one of several tasks."""

import json
from typing import Any

import pytest

from tests.support.cli_server import Served

TWO_TASKS = {
    "name": "etl",
    "schedule": "manual",
    "tasks": [{"name": "read", "command": {"argv": ["cat"]}}, {"name": "write", "command": {"argv": ["tee"]}}],
}


def set_fields(served: Served, name: str, *settings: str) -> dict[str, Any]:
    """Change a job and return it."""
    served.ctl("jobs", "set", name, *settings)
    job: dict[str, Any] = served.rest(f"/jobs/{name}")
    return job


def test_fields_are_set_and_removed(served: Served) -> None:
    served.create()
    job = set_fields(served, "hello", "priority=8", "retry.max_attempts=5", "tags.a.b=2027", "description=Says hi: ho")
    assert (job["priority"], job["retry"]["max_attempts"], job["tags"]) == (8, 5, {"a.b": "2027"})
    assert job["description"] == "Says hi: ho"
    job = set_fields(served, "hello", "description-", "tags.a.b-", "enabled=false")
    assert "description" not in job
    assert not job.get("tags")
    assert job["state"] == "disabled"


def test_the_target_of_a_single_task_is_changed(served: Served) -> None:
    served.create("hello", "echo", "hi")
    job = set_fields(served, "hello", 'command.argv=["echo", "ho"]', "command.env.LEVEL=1", "command.cwd=/")
    assert job["tasks"][0]["command"] == {"argv": ["echo", "ho"], "env": {"LEVEL": "1"}, "cwd": "/"}
    assert "cwd" not in set_fields(served, "hello", "command.cwd-")["tasks"][0]["command"]


def test_credentials_survive_a_change(served: Served) -> None:
    options = ("--url", "http://example.com/a", "--auth", "bearer:abc")
    served.ctl("jobs", "create", "hook", "--schedule", "manual", *options)
    job = set_fields(served, "hook", "http.headers.X-Colour=blue")
    assert job["tasks"][0]["http"]["auth"] == {"type": "bearer", "token": "***"}
    refused = served.ctl("jobs", "set", "hook", "http.url=http://other.example.com/", code=1)
    assert "token" in refused.stderr  # it would go to another host


def test_a_task_is_changed_by_its_name(served: Served) -> None:
    served.ctl("jobs", "apply", "-f", "-", input=json.dumps(TWO_TASKS))
    tasks = set_fields(served, "etl", "tasks.write.command.env.A=b", "tasks.write.task_timeout=9s")["tasks"]
    assert (tasks[1]["command"]["env"], tasks[1]["task_timeout"]) == ({"A": "b"}, "9s")
    assert tasks[0] == TWO_TASKS["tasks"][0]
    unclear = served.ctl("jobs", "set", "etl", "command.cwd=/", code=2)
    assert "etl has the tasks read, write; write tasks.NAME.command.cwd" in unclear.stderr
    assert "has the tasks read, write" in served.ctl("jobs", "set", "etl", "tasks.x.command.cwd=/", code=2).stderr


def test_the_version_says_whether_something_changed(served: Served) -> None:
    served.create()
    assert served.ctl("jobs", "set", "hello", "priority=8").stderr == "is now v2\n"
    assert served.ctl("jobs", "set", "hello", "priority=8").stderr == "nothing changed\n"
    assert served.ctl("jobs", "set", "hello", "priority=9", "--dry-run").stderr.startswith("would be changed: v3")
    assert served.rest("/jobs/hello")["priority"] == 8


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        (["prio=8"], 1, 'prio: unknown field; did you mean "priority"?'),
        (["priority=high"], 1, "priority"),
        (["name=other"], 1, "name"),
        (["priority"], 2, '"priority" is not a setting; write KEY=VALUE, or KEY- to remove it'),
        (["=8"], 2, "is not a setting"),
        (["a..b=8"], 2, "is not a setting"),
        (["priority=1", "priority=2"], 2, '"priority" is set twice'),
        (["http.url=http://example.com"], 2, '"http.url": the target of hello is command, not http'),
        ([], 2, "KEY=VALUE"),
    ],
)
def test_invalid_settings_change_nothing(served: Served, settings: list[str], code: int, message: str) -> None:
    served.create()
    assert message in served.ctl("jobs", "set", "hello", *settings, code=code).stderr
    assert served.rest("/jobs/hello")["version"] == 1


def test_an_unknown_job_is_not_found(shared: Served) -> None:
    shared.ctl("jobs", "set", "ghost", "priority=8", code=3)


def test_a_schedule_takes_over_as_the_command_says(served: Served) -> None:
    served.create("yearly", "true", schedule="0 0 1 1 *")
    gentle = served.json("jobs", "set", "yearly", "schedule=0 1 1 1 *", "--update", "graceful", "--dry-run")
    assert gentle["next_run_at"].endswith("-01-01T00:00:00Z")
    assert served.json("jobs", "set", "yearly", "schedule=0 1 1 1 *")["next_run_at"].endswith("-01-01T01:00:00Z")
    back = served.json("jobs", "rollback", "yearly", "1", "--update", "graceful", "--dry-run")
    assert back["next_run_at"].endswith("-01-01T01:00:00Z")
