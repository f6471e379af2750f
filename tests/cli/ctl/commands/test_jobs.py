"""``chronosctl jobs`` against a real server: output, changes and errors."""

import json
import tempfile
from pathlib import Path

import pytest

from chronos.cli.ctl.commands.jobs import READ_ONLY_FIELDS
from chronos.service.serializers import job as shapes
from tests.support.cli_server import Served


def test_a_created_job_is_listed_and_shown(served: Served) -> None:
    created = served.ctl("jobs", "create", "hello", "--every", "1h", "--tag", "team=ops", "--", "echo", "hi")
    assert created.stdout == "hello\n"
    assert "created, next run" in created.stderr
    job = served.rest("/jobs/hello")
    assert job["tasks"][0]["command"]["argv"] == ["echo", "hi"]
    assert job["tags"] == {"team": "ops"}
    assert served.json("jobs", "list") == served.rest("/jobs")
    assert served.json("jobs", "get", "hello") == job
    table = served.ctl("jobs", "list").stdout.splitlines()
    assert table[0].split() == ["NAME", "STATE", "SCHEDULE", "LAST", "NEXT"]
    assert table[1].split()[:4] == ["hello", "active", "@every", "1h"]
    assert served.ctl("jobs", "list", "-o", "name").stdout == "hello\n"
    assert "team=ops" in served.ctl("jobs", "list", "-o", "wide").stdout
    assert json.loads(served.ctl("jobs", "list", "-o", "jsonl").stdout) == served.rest("/jobs")["items"][0]
    assert served.ctl("jobs", "list", "-o", "yaml").stdout.startswith("items:\n- id: ")
    assert "schedule   @every 1h" in served.ctl("jobs", "get", "hello").stdout


@pytest.mark.parametrize(
    ("options", "schedule"),
    [
        (["--cron", "0 9 * * 1-5", "--timezone", "Europe/Paris"], "0 9 * * 1-5"),
        (["--every", "90s"], "@every 1m30s"),
        (["--at", "2099-01-01T00:00:00Z"], "2099-01-01T00:00:00Z"),
        (["--in", "2h"], "in 2 hours"),
        (["--schedule", "every weekday at 9am"], "every weekday at 9am"),
        (["--schedule", "manual"], "manual"),
    ],
)
def test_schedule_options(served: Served, options: list[str], schedule: str) -> None:
    served.ctl("jobs", "create", "job", *options, "--", "true")
    job = served.rest("/jobs/job")
    saved = job["schedule"]
    assert saved == schedule or schedule in saved.values()
    assert job.get("timezone") == ("Europe/Paris" if "--timezone" in options else None)


def test_create_warns_about_clock_changes(served: Served) -> None:
    night = ["--cron", "30 2 * * *", "--timezone", "Europe/Paris"]
    for options in ([*night, "--dry-run"], night):
        created = served.ctl("jobs", "create", "night", *options, "--", "true")
        assert created.stdout == "night\n"
        assert "! 02:30 Europe/Paris does not exist on " in created.stderr
    assert served.ctl("jobs", "create", "day", "--cron", "0 9 * * *", "--", "true").stderr.startswith("created")


def test_target_options(served: Served) -> None:
    served.ctl(
        "jobs", "create", "hook", "--every", "1h", "--url", "http://example.com/", "--method", "PUT", "--json", "[1]"
    )
    served.ctl("jobs", "create", "call", "--every", "1h", "--function", "app.digest", "--payload", '{"a": 1}')
    assert served.rest("/jobs/hook")["tasks"][0]["http"] == {"url": "http://example.com/", "method": "PUT", "json": [1]}
    call = served.rest("/jobs/call")
    assert (call["tasks"][0]["python"], call["payload"]) == ({"name": "app.digest"}, {"a": 1})


def test_other_options_of_create(served: Served) -> None:
    options = ["--retries", "2", "--task-timeout", "5m", "--overlap", "queue", "--description", "Says hi", "--disabled"]
    served.ctl("jobs", "create", "hello", "--every", "1h", *options, "--", "true")
    job = served.rest("/jobs/hello")
    assert (job["retry"]["max_attempts"], job["task_timeout"], job["overlap"]) == (3, "5m", "queue")
    assert (job["description"], job["state"]) == ("Says hi", "disabled")


def test_create_now_runs_once_and_wait_returns_its_result(served: Served) -> None:
    done = served.ctl("jobs", "create", "ok", "--now", "--wait", "--", "echo", "hi")
    assert "✓ succeeded" in done.stdout
    failed = served.ctl("jobs", "create", "bad", "--now", "--wait", "--retries", "0", "--", "false", code=6)
    assert "✗ bad failed" in failed.stderr
    assert "chronosctl executions logs " in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", "true"], "the job has no schedule"),
        (["--now", "--every", "1h", "--", "true"], "--every and --now cannot be combined"),
        (["--now"], "no target is given"),
        (["--now", "--url", "http://example.com", "--", "true"], "several targets are given"),
        (["--now", "--json", "1", "--", "true"], "--json needs --url"),
        (["--every", "1h", "--wait", "--", "true"], "--wait needs --now"),
        (["--now", "--payload", "{", "--", "true"], "not valid JSON"),
        (["--now", "--wait", "--wait-timeout", "soon", "--", "true"], 'invalid duration "soon"; use 30s, 5m or 1h30m'),
    ],
)
def test_invalid_options_of_create_are_rejected(shared: Served, arguments: list[str], message: str) -> None:
    assert message in shared.ctl("jobs", "create", "job", *arguments, code=2).stderr


def test_a_bad_cron_expression_is_pointed_at(shared: Served) -> None:
    refused = shared.ctl("jobs", "create", "job", "--cron", "0 25 * * *", "--", "true", code=1)
    assert refused.stderr == '✗ cron field "hour" is 25, allowed 0–23\n    0 25 * * *\n      ^^\n'


def test_several_errors_are_listed(shared: Served) -> None:
    refused = shared.ctl("jobs", "create", "job", "--cron", "0 25 * * *", "--task-timeout", "x", "--", "true", code=1)
    assert "the request is invalid:" in refused.stderr
    assert "task_timeout" in refused.stderr


def test_exit_codes(served: Served) -> None:
    served.create()
    assert "did you mean" in served.ctl("jobs", "get", "helo", code=3).stderr
    served.ctl("jobs", "create", "hello", "--now", "--", "true", code=4)
    served.ctl("executions", "get", "ghost", code=3)
    away = served.ctl("--server", "http://127.0.0.1:9", "jobs", "list", code=5)
    assert "http://127.0.0.1:9 cannot be reached: Connection refused\n  start a server: chronos server" in away.stderr
    served.ctl("jobs", "list", "--server", "ftp://x", code=1)
    served.ctl("jobs", "list", "--server", "http://x:y", code=1)


def test_dry_runs_change_nothing(served: Served) -> None:
    served.create("hello", schedule="0 0 * * *")
    served.create("bad", "false")
    failed = served.run("bad")
    before = served.rest("/jobs"), served.rest("/executions"), served.rest("/dead-letters")
    commands = [
        ["jobs", "create", "new", "--now", "--", "true"],
        ["jobs", "set", "hello", "priority=8"],
        ["jobs", "run", "hello"],
        ["jobs", "run", "hello", "--wait"],
        ["jobs", "pause", "hello"],
        ["jobs", "resume", "hello"],
        ["jobs", "disable", "hello"],
        ["jobs", "enable", "hello"],
        ["jobs", "delete", "hello"],
        ["jobs", "rollback", "hello", "1"],
        ["jobs", "backfill", "hello", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z"],
        ["executions", "replay", failed],
        ["dlq", "replay", failed],
        ["dlq", "discard", failed],
    ]
    for command in commands:
        tried = [*command[:2], "--dry-run", *command[2:]]
        assert "would" in served.ctl(*tried).stderr, command
        served.ctl(*tried[:3], "-o", "json", *tried[3:])
    assert before == (served.rest("/jobs"), served.rest("/executions"), served.rest("/dead-letters"))


def test_pause_resume_disable_enable(served: Served) -> None:
    served.create("hello", schedule="0 0 * * *")
    for verb, state in (("pause", "paused"), ("resume", "active"), ("disable", "disabled"), ("enable", "active")):
        assert served.ctl("jobs", verb, "hello").stdout == "hello\n"
        assert served.rest("/jobs/hello")["state"] == state
    assert served.json("jobs", "pause", "hello", "--reason", "audit") == served.rest("/jobs/hello")
    assert "paused (audit)" in served.ctl("jobs", "get", "hello").stdout
    assert served.ctl("jobs", "list", "--state", "paused", "-o", "name").stdout == "hello\n"
    assert "no jobs" in served.ctl("jobs", "list", "--state", "active").stderr


def test_run_starts_an_execution(served: Served) -> None:
    served.create("greet", "sh", "-c", 'echo "$CHRONOS_EXECUTION_ID"; exit 3')
    first = served.ctl("jobs", "run", "greet", "--key", "a").stdout
    assert served.ctl("jobs", "run", "greet", "--key", "a").stdout == first
    failed = served.ctl("jobs", "run", "greet", "--wait", "--timeout", "120s", code=6)
    assert "✕ failed" in failed.stdout
    assert set(served.json("jobs", "run", "greet", "--reason", "why not")) == {"execution_id", "status", "created"}
    served.ctl("jobs", "run", "ghost", code=3)
    delayed = served.json("jobs", "run", "greet", "--at", "2099-01-01T00:00:00Z")
    assert delayed["status"] == "waiting"
    served.ctl("executions", "cancel", delayed["execution_id"])


def test_wait_stops_after_its_timeout(served: Served) -> None:
    served.create("slow", "sleep", "600")
    stopped = served.ctl("jobs", "run", "slow", "--wait", "--timeout", "100ms", code=1)
    assert "has not ended after 0.1 s" in stopped.stderr


def test_forbid_means_skip(served: Served) -> None:
    served.ctl("jobs", "create", "hello", "--every", "1h", "--overlap", "forbid", "--", "true")
    assert served.rest("/jobs/hello")["overlap"] == "skip"


def test_a_missing_job_points_to_the_list(served: Served) -> None:
    assert (
        served.ctl("jobs", "get", "ghost", code=3).stderr
        == '✗ job "ghost" not found in the namespace "default"\n  list the jobs: chronosctl jobs list\n'
    )
    served.create()
    assert "chronosctl jobs list" not in served.ctl("jobs", "get", "helo", code=3).stderr
    assert "chronosctl jobs versions hello" in served.ctl("jobs", "get", "hello", "--version", "9", code=3).stderr


def test_a_payload_file_that_cannot_be_read_is_named(shared: Served, tmp_path: Path) -> None:
    missing = shared.ctl("jobs", "run", "x", "--payload", "@none.json", code=2).stderr
    assert "none.json cannot be read: No such file or directory" in missing
    (tmp_path / "bad.json").write_text("{")
    invalid = shared.ctl("jobs", "run", "x", "--payload", f"@{tmp_path}/bad.json", code=2).stderr
    assert f"{tmp_path}/bad.json is not valid JSON: " in invalid


def test_payloads_from_files(served: Served, tmp_path: Path) -> None:
    served.create("cat", "cat")
    file = tmp_path / "payload.json"
    file.write_text('{"n": 1}')
    run = served.ctl("jobs", "run", "cat", "--payload", f"@{file}").stdout.strip()
    assert served.rest(f"/executions/{run}")["payload"] == {"n": 1}
    run = served.ctl("jobs", "run", "cat", "--payload", "@-", input="[2]").stdout.strip()
    assert served.rest(f"/executions/{run}")["payload"] == [2]


def test_next_prints_future_runs(served: Served) -> None:
    served.create("yearly", schedule="0 0 1 1 *")
    assert served.json("jobs", "next", "yearly", "--count", "3") == served.rest("/jobs/yearly/next?count=3")
    assert len(served.ctl("jobs", "next", "yearly", "--count", "3").stdout.splitlines()) == 3
    assert len(served.ctl("jobs", "next", "yearly", "--count", "3", "-o", "jsonl").stdout.splitlines()) == 3
    served.create("never")
    assert "has no future runs" in served.ctl("jobs", "next", "never").stderr


def test_versions_diff_and_rollback(served: Served) -> None:
    served.create("etl", schedule="0 0 * * *")
    served.ctl("jobs", "edit", "etl", env={"EDITOR": "sed -i s/hi/ho/"})
    served.ctl("jobs", "edit", "etl", env={"EDITOR": "sed -i 's/0 0/0 6/'"})
    assert served.json("jobs", "versions", "etl") == served.rest("/jobs/etl/versions?limit=100")
    assert [row.split()[0] for row in served.ctl("jobs", "versions", "etl").stdout.splitlines()[1:]] == [
        "v3",
        "v2",
        "v1",
    ]
    assert served.json("jobs", "get", "etl", "--version", "1") == served.rest("/jobs/etl/versions/1")
    assert "echo" in served.ctl("jobs", "get", "etl", "--version", "1").stdout
    assert served.json("jobs", "diff", "etl", "1", "3")["fields"] == served.rest("/jobs/etl/diff?from=1&to=3")["fields"]
    shown = served.ctl("jobs", "diff", "etl").stdout
    assert "etl from v2 to v3" in shown
    assert "schedule: 0 0 * * * → 0 6 * * *" in shown
    assert "added runs until" in shown
    assert "is now v4, with the definition of v1" in served.ctl("jobs", "rollback", "etl", "1").stderr
    assert served.rest("/jobs/etl")["tasks"][0]["command"]["argv"] == ["echo", "hi"]
    served.ctl("jobs", "rollback", "etl", "9", code=3)


@pytest.fixture
def drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of drafts that the server rejected."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_edit_keeps_a_rejected_draft(served: Served, drafts: Path) -> None:
    served.create("etl", schedule="0 0 * * *")
    assert "nothing changed" in served.ctl("jobs", "edit", "etl", env={"EDITOR": "true"}).stderr
    planned = served.ctl("jobs", "edit", "etl", "--dry-run", env={"EDITOR": "sed -i s/hi/ho/"})
    assert "would be changed: v2" in planned.stderr
    broken = served.ctl("jobs", "edit", "etl", env={"EDITOR": "sed -i 's/0 0/0 25/'"}, code=1)
    assert 'cron field "hour" is 25' in broken.stderr
    [file] = drafts.iterdir()
    assert f"your text is saved in {file}" in broken.stderr
    assert served.rest("/jobs/etl")["version"] == 1


def test_edit_does_not_overwrite_a_newer_version(served: Served, drafts: Path) -> None:
    served.create("etl", schedule="0 0 * * *")
    editor = drafts / "editor.sh"
    body = '{"schedule": "0 3 * * *"}'
    editor.write_text(
        f"sed -i 's/0 0/0 6/' $1\n"
        f"curl -sf -X PATCH -H 'Content-Type: application/json' -d '{body}' {served.url}/api/v1/jobs/etl > /dev/null\n"
    )
    stale = served.ctl("jobs", "edit", "etl", env={"EDITOR": f"sh {editor}"}, code=4)
    assert (
        "✗ etl changed since you read it (you have v1, it is v2, by anonymous)\n  chronosctl jobs diff etl 1 2\n"
        in (stale.stderr)
    )


def test_backfill(served: Served) -> None:
    served.create("daily", schedule="0 0 * * *")
    requested = served.ctl(
        "jobs",
        "backfill",
        "daily",
        "--from",
        "2026-01-01T00:00:00Z",
        "--to",
        "2026-01-03T00:00:00Z",
        "--reason",
        "lost",
    )
    assert len(requested.stdout.splitlines()) == 3
    assert "3 runs requested" in requested.stderr
    invalid = served.ctl("jobs", "backfill", "daily", "--from", "yesterday", "--to", "today", code=1)
    assert "the request is invalid:\n  from: " in invalid.stderr


def test_a_backfill_waits_for_room_in_the_queue(served: Served) -> None:
    job = {"name": "small", "schedule": "0 * * * *", "queue_max": 1, "command": {"argv": ["true"]}}
    served.ctl("jobs", "apply", "-f", "-", input=json.dumps(job))
    range_ = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T05:00:00Z")
    would = served.json("jobs", "backfill", "small", *range_, "--dry-run")
    assert would == {"dry_run": True, "count": 6, "next_from": None}
    asked = served.json("jobs", "backfill", "small", *range_)
    assert (asked["count"], len(set(asked["execution_ids"])), asked["next_from"]) == (6, 6, None)


def test_delete(served: Served) -> None:
    served.create()
    assert served.ctl("jobs", "delete", "hello").stdout == "hello\n"
    served.ctl("jobs", "get", "hello", code=3)


def test_namespaces(served: Served) -> None:
    served.create()
    served.ctl("-n", "billing", "jobs", "create", "invoice", "--schedule", "manual", "--", "true")
    assert served.ctl("jobs", "list", "-o", "name").stdout == "hello\n"
    assert served.ctl("jobs", "list", "-n", "billing", "-o", "name").stdout == "invoice\n"
    assert served.ctl("jobs", "list", "-A", "-o", "name").stdout == "invoice\nhello\n"
    assert served.ctl("ns", "-o", "name").stdout == "billing\ndefault\n"
    assert served.json("ns") == served.rest("/namespaces")
    served.ctl("-n", "billing", "jobs", "run", "invoice", "--wait")


def test_lists_have_limits(served: Served) -> None:
    for number in range(5):
        served.create(f"job-{number}")
    cut = served.ctl("jobs", "list", "--limit", "2")
    assert len(cut.stdout.splitlines()) == 3
    assert "showing the first 2" in cut.stderr
    assert len(served.json("jobs", "list", "--all")["items"]) == 5
    assert served.json("jobs", "list", "--limit", "2") == served.rest("/jobs?limit=2")
    assert served.ctl("jobs", "list", "-q", "b-3", "-o", "name").stdout == "job-3\n"


def test_edit_leaves_out_the_fields_that_the_server_adds() -> None:
    assert {*READ_ONLY_FIELDS, "diff"} == shapes.READ_ONLY_FIELDS
