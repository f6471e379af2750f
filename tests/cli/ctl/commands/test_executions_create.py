"""``chronosctl executions create``: work that runs once, without a job of its own."""

import pytest

from tests.support.cli_server import Served


def test_work_runs_and_can_be_waited_for(served: Served) -> None:
    waited = served.ctl("runs", "create", "--wait", "--reason", "asked for", "--", "echo", "hi")
    assert "status     ✓ succeeded" in waited.stdout
    assert waited.stdout.endswith("hi\n")
    [run] = served.rest("/executions")["items"]
    assert (run["job_name"].startswith("one-off-command-"), run["asked_because"]) == (True, "asked for")
    served.ctl("runs", "create", "--wait", "--retries", "0", "--", "false", code=6)


def test_a_key_starts_one_run(served: Served) -> None:
    def create() -> str:
        return served.ctl("executions", "create", "--in", "1h", "--key", "a", "--queue", "data", "--", "true").stdout

    first = create()
    assert create() == first
    run = served.rest(f"/executions/{first.strip()}")
    assert run["status"] == "waiting"
    assert served.rest(f"/jobs/{run['job_name']}")["queue"] == "data"


def test_a_dry_run_starts_nothing(served: Served) -> None:
    shown = served.ctl("runs", "create", "--dry-run", "--", "true")
    assert shown.stderr.startswith("one-off-command-")
    assert shown.stderr.endswith(" would run\n")
    assert served.rest("/executions")["items"] == []


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        ([], 2, "no target is given"),
        (["--url", "https://a.example", "--", "true"], 2, "several targets are given"),
        (["--wait-timeout", "1s", "--", "true"], 2, "--wait-timeout needs --wait"),
        (["--at", "tomorrow", "--", "true"], 1, "tomorrow"),
        (["--url", "ftp://a.example/"], 1, "ftp"),
        (["--at", "2027-01-01T00:00:00Z", "--in", "1h", "--", "true"], 1, "use one of them"),
    ],
)
def test_wrong_options_are_explained(served: Served, options: list[str], code: int, part: str) -> None:
    assert part in served.ctl("runs", "create", *options, code=code).stderr


def test_text_for_a_shell_gets_a_hint(served: Served) -> None:
    assert "--shell 'a && b'" in served.ctl("runs", "create", "--", "a && b").stderr
