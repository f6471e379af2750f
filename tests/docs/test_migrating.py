"""The pages for users of other schedulers: the example before the move is valid, and means the same after it."""

import re
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

from tests.docs.test_examples import ROOT, blocks

PAGES = ROOT / "docs" / "migrating"


def jobs_after(page: Path) -> list[dict[str, object]]:
    [text] = [text for text in blocks(page, "yaml") if text.startswith("# jobs.yaml")]
    return list(yaml.safe_load_all(text))


def test_the_crontab_and_the_jobs_have_the_same_schedules() -> None:
    page = PAGES / "cron.md"
    [crontab] = blocks(page, "text")
    [zone] = re.findall(r"^CRON_TZ=(\S+)$", crontab, re.MULTILINE)
    lines = [line for line in crontab.splitlines() if line[0].isdigit() or line[0] == "*"]
    schedules = [" ".join(line.split()[:5]) for line in lines]
    assert [(job["schedule"], job["timezone"]) for job in jobs_after(page)] == [(text, zone) for text in schedules]


def test_the_cron_job_and_the_job_have_the_same_settings() -> None:
    page = PAGES / "kubernetes-cronjob.md"
    [before] = [yaml.safe_load(text) for text in blocks(page, "yaml") if text.startswith("apiVersion")]
    [after] = jobs_after(page)
    spec, job = before["spec"], before["spec"]["jobTemplate"]["spec"]
    assert (after["name"], after["schedule"]) == (before["metadata"]["name"], spec["schedule"])
    assert after["timezone"] == spec["timeZone"]
    assert after["retry"] == {"max_attempts": job["backoffLimit"] + 1, "initial_interval": "10s"}
    assert (job["activeDeadlineSeconds"], after["execution_timeout"]) == (1800, "30m")


@pytest.mark.parametrize("page", ["apscheduler.md", "celery-beat.md"])
def test_the_program_before_the_move_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for the libraries, which are not installed."""
    [source] = blocks(PAGES / page, "py")
    for module in set(re.findall(r"^from ([\w.]+) import", source, re.MULTILINE)):
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), MagicMock())
    exec(compile(source, page, "exec"), {"__name__": "__docs__"})


def test_the_loop_before_the_move_is_valid() -> None:
    [source] = blocks(PAGES / "schedule.md", "py")
    assert "while True:" in source  # it never ends, so it is not run
    compile(source, "schedule.md", "exec")
