"""Creating a job that exists is a conflict, even with the same definition."""

from tests.support.cli_server import Served


def test_creating_a_job_twice_is_a_conflict(served: Served) -> None:
    arguments = ("jobs", "create", "hello", "--every", "1h", "--", "echo", "hi")
    served.ctl(*arguments)
    again = served.ctl(*arguments, code=4)
    assert 'a job named "hello" exists already' in again.stderr
    assert again.stdout == ""
    assert served.rest("/jobs/hello")["version"] == 1


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
