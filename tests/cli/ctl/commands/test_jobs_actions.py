"""Bulk actions of ``chronosctl jobs``: selection, output and confirmation."""

import json

import pytest

from tests.support.cli_server import Served


@pytest.fixture
def many(served: Served) -> Served:
    for name, tags in (("bill-a", "team=billing,stage=live"), ("bill-b", "team=billing"), ("data-a", "team=data")):
        options = [word for tag in tags.split(",") for word in ("--tag", tag)]
        served.ctl("jobs", "create", name, "--every", "1h", *options, "--", "true")
    return served


def states(served: Served) -> dict[str, str]:
    return {job["name"]: job["state"] for job in served.rest("/jobs")["items"]}


def test_bulk_pause_disable_enable_resume(many: Served) -> None:
    would = many.ctl("jobs", "pause", "-l", "team=billing", "--dry-run")
    assert would.stdout.splitlines()[1].split(maxsplit=1) == ["bill-a", "would be paused"]
    assert would.stderr == "2 jobs would be paused, 0 unchanged\n"
    assert set(states(many).values()) == {"active"}
    done = many.ctl("jobs", "pause", "--selector", "team=billing", "--tag", "stage=live", "--reason", "moving")
    assert done.stdout == "NAME    RESULT\nbill-a  paused\n"
    assert done.stderr == "1 job paused, 0 unchanged\n"
    assert many.rest("/jobs/bill-a")["note"] == "moving"
    assert many.ctl("jobs", "disable", "--prefix", "bill", "-o", "name").stdout == "bill-a\nbill-b\n"
    assert many.ctl("jobs", "enable", "--state", "disabled", "-q", "-a").stderr == "1 job enabled, 0 unchanged\n"
    assert states(many) == {"bill-a": "active", "bill-b": "disabled", "data-a": "active"}
    assert many.json("jobs", "resume", "--prefix", "data") == {
        "action": "resume",
        "dry_run": False,
        "matched": 1,
        "done": 0,
        "unchanged": 1,
        "failed": 0,
        "results": [
            {
                "id": many.rest("/jobs/data-a")["id"],
                "namespace": "default",
                "name": "data-a",
                "result": "unchanged",
            }
        ],
    }


def test_list_takes_the_same_options(many: Served) -> None:
    assert many.ctl("jobs", "list", "-l", "team=billing", "-l", "stage", "-o", "name").stdout == "bill-a\n"
    assert many.ctl("jobs", "list", "--prefix", "data", "-o", "name").stdout == "data-a\n"


def test_jobs_that_fail_are_reported(many: Served) -> None:
    many.ctl("jobs", "disable", "bill-b")
    paused = many.ctl("jobs", "pause", "--all", code=1)
    assert 'bill-b  failed: cannot pause "bill-b", which is disabled; enable it first' in paused.stdout
    assert paused.stderr == "✗ 1 of 3 jobs could not be paused; 2 jobs paused, 0 unchanged\n"
    none = many.ctl("jobs", "pause", "-l", "team=none")
    assert (none.stdout, none.stderr) == ("", "no job matches\n0 jobs paused, 0 unchanged\n")


def test_bulk_run(many: Served) -> None:
    triggered = many.ctl("jobs", "run", "-l", "team=billing", "--key", "k", "--payload", "[1]")
    rows = [line.split() for line in triggered.stdout.splitlines()]
    assert rows[0] == ["NAME", "RESULT", "EXECUTION"]
    assert many.rest(f"/executions/{rows[1][-1]}")["payload"] == [1]
    assert triggered.stderr == "2 jobs triggered, 0 unchanged\n"
    again = many.ctl("jobs", "run", "-l", "team=billing", "--key", "k", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["execution_id"] for line in again] == [row[-1] for row in rows[1:]]
    assert "need the NAME" in many.ctl("jobs", "run", "--all", "--wait", code=2).stderr


def test_bulk_delete_asks_first(many: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []
    monkeypatch.setattr("chronos.cli.ctl.commands.jobs_actions.confirm", questions.append)
    many.ctl("jobs", "delete", "--prefix", "bill", "--dry-run")
    many.ctl("jobs", "delete", "--prefix", "none")
    assert not questions
    many.ctl("jobs", "delete", "--prefix", "data", "--yes")
    assert many.ctl("jobs", "delete", "-l", "team=billing").stderr == "2 jobs deleted, 0 unchanged\n"
    assert questions == ["Delete 2 jobs?"]
    assert states(many) == {}


def test_actions_in_all_namespaces(many: Served) -> None:
    many.ctl("jobs", "create", "far", "--every", "1h", "-n", "there", "--", "true")
    assert many.ctl("jobs", "pause", "--all", "-n", "there", "-o", "name").stdout == "far\n"
    assert many.ctl("jobs", "pause", "--all", "-A").stderr == "3 jobs paused, 1 unchanged\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no job is named"),
        (["-A"], "no job is named"),
        (["hello", "--all"], "cannot be combined"),
        (["hello", "-l", "a"], "cannot be combined"),
        (["hello", "-A"], "cannot be combined"),
        (["--all", "--prefix", "a"], "cannot be combined"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "pause", "resume", "enable", "disable", "delete"])
def test_invalid_selections_are_rejected(shared: Served, verb: str, arguments: list[str], message: str) -> None:
    assert message in shared.ctl("jobs", verb, *arguments, code=2).stderr
