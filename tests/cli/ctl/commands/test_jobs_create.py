"""``chronosctl jobs create``: every setting of a job, a file for ``jobs apply``, hints and conflicts."""

from pathlib import Path

import pytest
import yaml

from tests.support.cli_server import Served

FULL = (
    *("--cron", "0 9 * * *", "--timezone", "Europe/Paris", "--start", "2027-01-01", "--end", "2028-01-01"),
    *("--exclude", "2027-12-25", "--jitter", "5m", "--url", "http://example.com/x", "--method", "PUT"),
    *("--header", "X-Colour: blue", "--auth", "bearer:abc", "--body", "hi", "--payload", "[1]", "--tag", "team=a"),
    *("--retries", "4", "--retry-interval", "3s", "--retry-on", "http_5xx", "--timeout", "1m"),
    *("--execution-timeout", "2h", "--overlap", "allow", "--concurrency", "3", "--concurrency-key", "{{ payload.a }}"),
    *("--recovery", "all", "--queue", "data", "--priority", "7", "--label", "region=eu", "--delivery", "at_most_once"),
    *("--set", "retention.max_count=5", "--set", "tags.year=2027", "--description", "All of it", "--disabled"),
    *("--owner", "chronosctl"),
)
SHOWN = {
    "description": "All of it",
    "tags": {"team": "a", "year": "2027"},
    "schedule": "0 9 * * *",
    "timezone": "Europe/Paris",
    "start": "2026-12-31T23:00:00Z",
    "end": "2027-12-31T23:00:00Z",
    "exclude": ["2027-12-25"],
    "jitter": "5m",
    "payload": [1],
    "retry": {"max_attempts": 5, "initial_interval": "3s", "retry_on": ["http_5xx"]},
    "task_timeout": "1m",
    "execution_timeout": "2h",
    "overlap": "allow",
    "concurrency": {"limit": 3, "key": "{{ payload.a }}"},
    "recovery": "all",
    "queue": "data",
    "priority": 7,
    "placement": {"labels": {"region": "eu"}},
    "delivery": "at_most_once",
    "retention": {"max_count": 5},
    "enabled": False,
}


def test_creating_a_job_twice_is_a_conflict(served: Served) -> None:
    arguments = ("jobs", "create", "hello", "--every", "1h", "--", "echo", "hi")
    served.ctl(*arguments)
    again = served.ctl(*arguments, code=4)
    assert 'a job named "hello" exists already' in again.stderr
    assert again.stdout == ""
    assert served.rest("/jobs/hello")["version"] == 1


def test_every_setting_reaches_the_job(served: Served) -> None:
    served.ctl("jobs", "create", "full", *FULL)
    job = served.rest("/jobs/full")
    assert {field: job.get(field) for field in SHOWN} == SHOWN
    assert job["tasks"][0]["http"] == {
        "url": "http://example.com/x",
        "method": "PUT",
        "headers": {"X-Colour": "blue"},
        "auth": {"type": "bearer", "token": "***"},
        "body": "hi",
    }


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_dry_run_prints_a_file_for_apply(served: Served, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"full.{form}"
    file.write_text(served.ctl("jobs", "create", "full", *FULL, "--dry-run", "-o", form).stdout)
    assert served.rest("/jobs")["items"] == []
    served.ctl("jobs", "apply", "-f", str(file))
    applied = served.rest("/jobs/full")
    served.ctl("jobs", "delete", "full")
    served.ctl("jobs", "create", "full", *FULL)
    created = served.rest("/jobs/full")
    for job in (applied, created):
        for changing in ("id", "created_at", "updated_at"):
            del job[changing]
    assert applied == created


def test_a_file_for_apply_names_its_namespace(served: Served) -> None:
    made = served.ctl("-n", "eu", "jobs", "create", "x", "--every", "1h", "--dry-run", "-o", "yaml", "--", "true")
    assert yaml.safe_load(made.stdout)["namespace"] == "eu"
    served.ctl("jobs", "apply", "-f", "-", input=made.stdout)
    assert served.rest("/jobs/x?namespace=eu")["name"] == "x"


def test_a_dry_run_checks_the_file(shared: Served) -> None:
    refused = shared.ctl("jobs", "create", "x", "--cron", "0 25 * * *", "--dry-run", "-o", "yaml", "--", "true", code=1)
    assert refused.stdout == ""


def test_a_job_may_follow_others(served: Served) -> None:
    served.create("a")
    served.create("b")
    served.ctl("jobs", "create", "c", "--after", "a", "--after", "b:failure", "--", "true")
    assert served.rest("/jobs/c")["after"] == [{"job": "a", "on": "success"}, {"job": "b", "on": "failure"}]
    served.ctl("jobs", "create", "d", "--after", "ghost", "--", "true", code=1)


def test_a_shell_runs_a_line(served: Served) -> None:
    options = ("--shell", 'echo "$A" && pwd', "--env", "A=b=c", "--cwd", "/")
    done = served.ctl("jobs", "create", "line", "--now", "--wait", *options)
    assert "b=c\n/\n" in served.ctl("executions", "logs", served.rest("/executions")["items"][0]["id"]).stdout
    assert "succeeded" in done.stdout


@pytest.mark.parametrize("argv", [["echo hi && echo there"], ["echo", "hi", "&&", "echo", "there"], ["ls|wc"]])
def test_a_line_for_a_shell_gets_a_hint(shared: Served, argv: list[str]) -> None:
    hinted = shared.ctl("jobs", "create", "x", "--every", "1h", "--dry-run", "--", *argv)
    assert f"! the command runs without a shell; if it needs one, write: --shell '{' '.join(argv)}'" in hinted.stderr


@pytest.mark.parametrize("argv", [["true"], ["sh", "-c", "a && b"], ["echo", "a|b", "1 > 0"]])
def test_an_ordinary_command_gets_no_hint(shared: Served, argv: list[str]) -> None:
    assert "shell" not in shared.ctl("jobs", "create", "x", "--every", "1h", "--dry-run", "--", *argv).stderr


def test_credentials_may_come_from_a_file(shared: Served, tmp_path: Path) -> None:
    (tmp_path / "auth").write_text("basic:ana:se:cret\n")
    options = ("--url", "http://example.com", "--auth", f"@{tmp_path / 'auth'}")
    made = shared.ctl("jobs", "create", "x", "--every", "1h", *options, "--dry-run", "-o", "yaml")
    assert yaml.safe_load(made.stdout)["http"]["auth"] == {"type": "basic", "username": "ana", "password": "se:cret"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "http://example.com", "--auth", "digest:hush"], "✗ invalid --auth; use basic:USER:PASSWORD, "),
        (["--url", "http://example.com", "--auth", "basic:hush"], "✗ invalid --auth; use basic:USER:PASSWORD, "),
        (["--url", "http://example.com", "--auth", "@/nowhere"], "/nowhere cannot be read"),
        (["--url", "http://example.com", "--header", "X"], '--header "X" has no value; write NAME:VALUE'),
        (["--url", "http://example.com", "--env", "A=b"], "--env needs a command or --shell"),
        (["--header", "A: b", "--auth", "bearer:x", "--", "true"], "--header and --auth need --url"),
        (["--env", "A=1", "--env", "A=2", "--", "true"], "--env A is given twice"),
        (["--after", "a:done", "--", "true"], '"done" is not an outcome; use success, failure, completion'),
        (["--set", "priority", "--", "true"], '"priority" is not a setting; write KEY=VALUE'),
        (["--priority", "11", "--", "true"], "--priority"),
        (["--wait-timeout", "1s", "--", "true"], "--wait-timeout needs --wait"),
        (["--shell", "a", "--", "true"], "several targets are given"),
    ],
)
def test_invalid_settings_are_refused(shared: Served, arguments: list[str], message: str) -> None:
    refused = shared.ctl("jobs", "create", "x", "--every", "1h", *arguments, code=2)
    assert message in refused.stderr
    assert "hush" not in refused.stderr


def test_several_expressions_and_warnings(served: Served) -> None:
    command = ("--", "echo", "hi")
    created = served.ctl("jobs", "create", "union", "--cron", "0 9 * * *", "--cron", "*/90 * * * *", *command)
    assert '! minute "*/90" has a step beyond its range' in created.stderr
    assert created.stderr.count("!") == 1
    assert served.rest("/jobs/union")["schedule"] == ["0 9 * * *", "*/90 * * * *"]
    served.ctl("jobs", "create", "words", "--schedule", "@daily", "--schedule", "Mondays at 17:30", *command)
    listed = served.ctl("jobs", "list").stdout
    assert "0 9 * * *; also */90 * * * *" in listed
    assert "@daily; also Mondays at 17:30" in listed
    dry = served.ctl("jobs", "create", "dry", "--cron", "0 12 ? * 2", "--dry-run", *command)
    assert '! weekday "2" means Tue here and Mon in Quartz' in dry.stderr
    wrong = served.ctl("jobs", "create", "wrong", "--cron", "0 9 * * *", "--cron", "0 25 * * *", *command, code=1)
    assert "is 25, allowed 0–23" in wrong.stderr
