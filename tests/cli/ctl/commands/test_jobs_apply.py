"""``chronosctl jobs apply``: many jobs in one change, with a plan."""

from pathlib import Path

import pytest

from tests.support.cli_server import Served

TWO = """
name: extract
schedule: "0 2 * * *"
command: {argv: ["true"]}
---
name: load
after: [extract]
command: {argv: ["true"]}
"""


def test_the_plan_is_shown_and_applied(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(TWO)
    planned = served.ctl("jobs", "apply", "-f", str(file), "--dry-run")
    assert "+ extract created, next run " in planned.stdout
    assert "plan: 2 created, 0 changed, 0 unchanged, 0 pruned" in planned.stderr
    assert served.rest("/jobs")["items"] == []
    assert "done: 2 created" in served.ctl("jobs", "apply", "-f", str(file)).stderr
    assert served.rest("/jobs/load")["owner"] == "chronosctl"
    file.write_text(TWO.replace("0 2", "0 3"))
    changed = served.ctl("jobs", "apply", "-f", str(file)).stdout
    assert "~ extract changed" in changed
    assert "    + 30 added runs until " in changed
    assert "= load unchanged" in changed
    assert served.ctl("jobs", "apply", "-f", str(file), "-o", "name").stdout == "extract\nload\n"
    assert set(served.json("jobs", "apply", "-f", str(file))) == {
        "dry_run",
        "created",
        "changed",
        "unchanged",
        "pruned",
    }


CREDENTIALS = """
name: hook
schedule: "0 2 * * *"
tasks:
  - name: call
    http:
      url: https://api.example.com/run
      auth: {type: bearer, token: tok-0123456789}
      headers: {X-Api-Key: key-0123456789}
"""


def test_applying_printed_jobs_changes_nothing(served: Served, tmp_path: Path) -> None:
    served.ctl("jobs", "apply", "-f", "-", input=CREDENTIALS)
    for output in ("yaml", "json"):
        printed = served.ctl("jobs", "get", "hook", "-o", output).stdout
        assert "***" in printed
        assert "0123456789" not in printed
        assert "= hook unchanged" in served.ctl("jobs", "apply", "-f", "-", input=printed).stdout
    listed = served.ctl("jobs", "list", "-o", "yaml").stdout
    assert "= hook unchanged" in served.ctl("jobs", "apply", "-f", "-", input=listed).stdout
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/0 2/0 3/' \"$1\"\n")
    editor.chmod(0o755)
    assert "is now v2" in served.ctl("jobs", "edit", "hook", env={"EDITOR": str(editor)}).stderr
    elsewhere = served.ctl("jobs", "apply", "-f", "-", input=printed.replace("api.example.com", "evil.org"), code=1)
    assert "hook.tasks.0.http.auth.token" in elsewhere.output
    rotated = printed.replace('"token": "***"', '"token": "tok-new"')
    assert "~ hook changed" in served.ctl("jobs", "apply", "-f", "-", input=rotated.replace("0 2", "0 3")).stdout
    assert "tasks.0.http.auth.token: changed (masked)" in served.ctl("jobs", "diff", "hook").stdout


def test_prune_deletes_jobs_of_the_same_owner(served: Served) -> None:
    served.create("mine")
    job = "{name: NAME, schedule: manual, command: {argv: ['true']}}"
    served.ctl(
        "jobs", "apply", "-f", "-", "--owner", "a", input=f"[{job.replace('NAME', 'a1')}, {job.replace('NAME', 'a2')}]"
    )
    served.ctl("jobs", "apply", "-f", "-", "--owner", "b", input=job.replace("NAME", "b1"))
    pruned = served.ctl("jobs", "apply", "-f", "-", "--owner", "a", "--prune", input=job.replace("NAME", "a1"))
    assert "- a2 pruned" in pruned.stdout
    assert served.ctl("jobs", "list", "-o", "name").stdout == "a1\nb1\nmine\n"
    assert served.ctl("jobs", "list", "--owner", "a", "-o", "name").stdout == "a1\n"


def test_a_file_may_be_a_request_body_or_a_printed_list(served: Served) -> None:
    body = "{owner: a, jobs: [{name: a1, schedule: manual, command: {argv: ['true']}}]}"
    served.ctl("jobs", "apply", "-f", "-", input=body)
    assert served.rest("/jobs/a1")["owner"] == "a"
    listed = served.ctl("jobs", "list", "-o", "yaml").stdout
    again = served.ctl("jobs", "apply", "-f", "-", input=listed)
    assert again.stdout.startswith("= a1 unchanged")
    served.ctl("jobs", "apply", "-f", "-", "--owner", "b", input=body, code=1)  # two owners


def test_jobs_of_another_owner_are_not_changed(served: Served) -> None:
    served.ctl("jobs", "apply", "-f", "-", "--owner", "a", input=TWO)
    served.ctl("jobs", "apply", "-f", "-", "--owner", "b", input=TWO, code=4)
    assert served.rest("/jobs/load")["owner"] == "a"
    served.ctl("-n", "other", "jobs", "apply", "-f", "-", "--owner", "a", "--prune", input=TWO)
    assert served.ctl("jobs", "list", "-o", "name").stdout == "extract\nload\n"


def test_files_may_name_their_owner(served: Served) -> None:
    job = "{name: NAME, owner: OWNER, schedule: manual, command: {argv: ['true']}}"
    mine, theirs = job.replace("NAME", "a").replace("OWNER", "me"), job.replace("NAME", "b").replace("OWNER", "them")
    served.ctl("jobs", "apply", "-f", "-", input=mine)
    assert served.rest("/jobs/a")["owner"] == "me"
    for owner, text in ((), f"[{mine}, {theirs}]"), (("--owner", "them"), mine):
        refused = served.ctl("jobs", "apply", "-f", "-", *owner, input=text, code=1)
        assert "several owners: me, them" in refused.stderr
    assert "0 changed, 1 unchanged" in served.ctl("jobs", "apply", "-f", "-", "--owner", "me", input=mine).stderr
    assert (
        "1 pruned" in served.ctl("jobs", "apply", "-f", "-", "--prune", input=mine.replace("name: a", "name: c")).stderr
    )


def test_one_invalid_job_rejects_all(shared: Served) -> None:
    bad = TWO.replace('"0 2 * * *"', '"0 25 * * *"')
    refused = shared.ctl("jobs", "apply", "-f", "-", input=bad, code=1)
    assert 'extract.schedule: cron field "hour" is 25' in refused.stderr
    assert shared.rest("/jobs")["items"] == []


def test_files_and_folders(served: Served, tmp_path: Path) -> None:
    job = "{name: NAME, schedule: manual, command: {argv: ['true']}}"
    for name in ("a.yaml", "b.yml", "c.json"):
        (tmp_path / name).write_text(job.replace("NAME", name[0]) if name[0] < "c" else '{"jobs": []}')
    (tmp_path / "c.json").write_text('{"jobs": [{"name": "c", "schedule": "manual", "command": {"argv": ["true"]}}]}')
    (tmp_path / "notes.txt").write_text("not a job")
    served.ctl("jobs", "apply", "-f", str(tmp_path))
    assert served.ctl("jobs", "list", "-o", "name").stdout == "a\nb\nc\n"
    unchanged = served.ctl("jobs", "apply", "-f", str(tmp_path / "a.yaml"), str(tmp_path / "b.yml"))
    assert "2 unchanged" in unchanged.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nname: b\n", 'stdin: line 2: the key "name" is given twice'),
        ("a: [", "stdin: line "),
        ("", "stdin has no jobs"),
        ("just words", "is not a job"),
        ("name: a\nschedule: manual\n", "tasks: is required"),
        ("name: a\nschedulle: manual\ncommand: {argv: ['true']}\n", "schedulle"),
        ("name: a\nschedule: manual\nenabled: yes\ncommand: {argv: ['true']}\n", "enabled: must be true or false"),
    ],
)
def test_invalid_files_are_rejected(shared: Served, text: str, message: str) -> None:
    assert message in shared.ctl("jobs", "apply", "-f", "-", input=text, code=1).stderr


def test_an_unquoted_on_is_a_key(served: Served) -> None:
    jobs = """
- {name: extract, schedule: manual, command: {argv: ["true"]}}
- name: load
  after:
    - job: extract
      on: failure
  command: {argv: ["true"]}
"""
    assert "2 created" in served.ctl("jobs", "apply", "-f", "-", input=jobs).stderr
    assert served.rest("/jobs/load")["after"] == [{"job": "extract", "on": "failure"}]
    printed = served.ctl("jobs", "get", "load", "-o", "yaml").stdout
    assert "= load unchanged" in served.ctl("jobs", "apply", "-f", "-", input=printed).stdout


def test_a_kubernetes_manifest_is_recognized(shared: Served) -> None:
    manifest = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: hello}\nspec: {schedule: '* * * * *'}\n"
    rejected = shared.ctl("jobs", "apply", "-f", "-", input=manifest, code=1).stderr
    assert "stdin: this is a Kubernetes manifest (kind: CronJob), not a Chronos job; write a job like this:" in rejected
    example = rejected.partition("like this:\n")[2]
    assert "1 created" in shared.ctl("jobs", "apply", "-f", "-", "--dry-run", input=example).stderr


def test_a_problem_names_the_file_and_the_job(shared: Served, tmp_path: Path) -> None:
    good = "{name: good, schedule: manual, command: {argv: ['true']}}"
    (tmp_path / "a.yaml").write_text(good)
    (tmp_path / "b.yaml").write_text(good.replace("good", "x").replace("manual", '"0 25 * * *"'))
    (tmp_path / "c.yaml").write_text(good.replace("good", "y") + "\n---\n" + good.replace("good", "a b"))
    refused = shared.ctl("jobs", "apply", "-f", str(tmp_path), code=1).stderr
    assert f'{tmp_path}/b.yaml: x.schedule: cron field "hour" is 25' in refused
    assert f"{tmp_path}/c.yaml: a b.name: " in refused
    assert "a.yaml" not in refused


def test_missing_files_are_reported(shared: Served, tmp_path: Path) -> None:
    missing = shared.ctl("jobs", "apply", "-f", str(tmp_path / "none.yaml"), code=1)
    assert "cannot be read: No such file or directory" in missing.stderr
    (tmp_path / "empty").mkdir()
    assert "has no files that end in" in shared.ctl("jobs", "apply", "-f", str(tmp_path / "empty"), code=1).stderr
    shared.ctl("jobs", "apply", code=2)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("alerts: [{slack: '#ops'}]", "alerts are not supported yet, so none would be sent"),
        (
            "on_start: {command: {argv: ['{{ secret.X }}']}}",
            "Chronos does not support secrets yet; write the value itself",
        ),
    ],
)
def test_unsupported_fields_are_rejected_with_a_message(served: Served, field: str, message: str) -> None:
    job = f"name: a\nschedule: manual\ncommand: {{argv: ['true']}}\n{field}\n"
    refused = served.ctl("jobs", "apply", "-f", "-", input=job, code=1)
    assert message in refused.stderr
    assert served.rest("/jobs")["items"] == []


def test_applying_warns_about_schedules(served: Served) -> None:
    text = "name: hello\nschedule: |\n  */90 * * * *\nend: 2001-01-01 09:00\ncommand: {argv: [echo]}\n"
    applied = served.ctl("jobs", "apply", "-f", "-", input=text)
    assert '    ! minute "*/90" has a step beyond its range' in applied.stderr
    assert "    ! its end, 2001-01-01T09:00:00Z, is in the past" in applied.stderr
    assert served.rest("/jobs/hello")["schedule"] == "*/90 * * * *"
