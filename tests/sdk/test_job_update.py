"""Changing and comparing a saved job, and previewing its schedule, on a store and on a server alike."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from chronos import Chronos, Invalid, NotFound
from chronos.sdk import job_options
from chronos.sdk.job_update import UpdateOptions
from tests.support.cli_server import serving


@pytest.fixture(params=["store", "server"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chronos]:
    options: dict[str, Any] = {"timezone": "Europe/Paris"}
    if request.param == "store":
        app = Chronos(f"sqlite:///{tmp_path / 'jobs.db'}", **options)
        yield app
        app.stop(grace=0)
        return
    with serving() as served:
        app = Chronos(served.url, **options)
        yield app
        app.stop()


def work(amount: int = 1) -> int:
    return amount


def test_keywords_replace_what_a_job_has(app: Chronos) -> None:
    job = app.job(cron="0 9 * * *", retries=3, retry={"initial_interval": "10s"}, payload={"amount": 2}, tags=["a"])(
        work
    )
    info = job.update(
        cron="0 10 * * *", retries=5, payload={}, tags={"team": "b"}, description="Works", overlap="queue"
    )
    assert (info.schedule, info.timezone, info.version) == ("0 10 * * *", "Europe/Paris", 2)
    assert (info.payload, info.tags, info.description) == ({}, {"team": "b"}, "Works")
    assert info.settings == {"retry": {"max_attempts": 6, "initial_interval": "10s"}, "overlap": "queue"}
    assert job.info() == info


def test_none_removes_a_setting(app: Chronos) -> None:
    job = app.job(cron="0 9 * * *", timeout="10s", end="2099-01-01", description="Works", retries=2)(work)
    info = job.update(timeout=None, end=None, description=None, retry=None)
    assert (info.settings, info.end, info.description) == ({}, None, "")
    info = job.update(schedule=None)
    assert (info.schedule, info.timezone, info.next_run, info.state) == (None, None, None, "active")
    info = job.update(every=timedelta(minutes=5))
    assert (info.schedule, info.timezone) == ("@every 5m", "Europe/Paris")


def test_settings_of_a_schedule_change_without_the_schedule(app: Chronos) -> None:
    job = app.job(cron="0 9 * * *")(work)
    info = job.update(timezone="Asia/Tokyo", jitter="5m", exclude=["2099-12-25"])
    assert (info.schedule, info.timezone) == ("0 9 * * *", "Asia/Tokyo")
    assert (info.definition["jitter"], info.definition["exclude"]) == ("5m", ["2099-12-25"])
    info = job.update(schedule={"cron": "0 8 * * *", "timezone": "UTC"})
    assert (info.schedule, info.timezone) == ("0 8 * * *", "UTC")


def test_the_target_of_a_webhook_or_command_changes(app: Chronos) -> None:
    ping = app.webhook("ping", "https://example.com/a", json={"a": 1}, every="1h", headers={"X-Team": "a"})
    info = ping.update(url="https://example.com/b", body="text", headers=None)
    assert info.tasks[0]["http"] == {"url": "https://example.com/b", "body": "text"}
    backup = app.command("backup", ["true"], env={"A": "1"})
    info = backup.update(argv=("echo", "b"), cwd="/tmp")
    assert info.tasks[0]["command"] == {"argv": ["echo", "b"], "env": {"A": "1"}, "cwd": "/tmp"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "job work: nothing to change is given"),
        ({"cron": "0 25 * * *"}, "job work: .*hour"),
        ({"crom": "0 9 * * *"}, 'job work: unknown keyword "crom"; did you mean cron?'),
        ({"name": "other"}, 'job work: unknown keyword "name"'),
        ({"cron": "0 9 * * *", "every": "1h"}, "job work: cron and every are given"),
        ({"url": "https://example.com"}, 'job work: "url" applies to webhooks and commands only'),
        ({"on_complete": print}, "job work: on_complete must be a target here"),
        ({"retries": -1}, "job work: retries is -1"),
        ({"timeout": "30x"}, "job work: timeout: "),
    ],
)
def test_a_wrong_change_changes_nothing(app: Chronos, options: dict[str, Any], message: str) -> None:
    job = app.job(cron="0 9 * * *")(work)
    with pytest.raises(Invalid, match=message):
        job.update(**options)
    assert job.info().version == 1


def test_a_change_warns_about_what_may_surprise(app: Chronos, caplog: pytest.LogCaptureFixture) -> None:
    job = app.job(cron="0 9 * * *")(work)
    job.update(cron="*/90 * * * *")
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith('job "work": minute "*/90" has a step beyond its range')


def test_a_change_of_an_unknown_job_is_refused(app: Chronos) -> None:
    with pytest.raises(NotFound, match="nothing"):
        app.get("nothing").update(every="1h")


def test_a_change_outlasts_a_start_in_the_same_program(app: Chronos) -> None:
    job = app.job(every="1h")(work)
    job.update(every="5m")
    with app:
        assert job.info().schedule == "@every 5m"
        job.rollback(1)
    with app:
        assert job.info().schedule == "@every 1h"


def test_a_declaration_counts_again_in_the_next_program(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    for _ in range(2):
        app = Chronos(url)
        job = app.job(every="1h")(work)
        with app:
            assert job.info().schedule == "@every 1h"
            job.update(every="5m")


def test_versions_are_listed_compared_and_restored(app: Chronos) -> None:
    job = app.job(cron="0 9 * * *")(work)
    job.update(cron="0 10 * * *", priority=7)
    versions = job.versions()
    assert [version.version for version in versions] == [2, 1]
    assert (versions[1].definition["schedule"], versions[0].definition["priority"]) == ("0 9 * * *", 7)
    assert versions[0].saved_at >= versions[1].saved_at
    assert [version.version for version in job.versions(limit=1)] == [2]
    diff = job.diff()
    assert {change.pointer: (change.old, change.new) for change in diff.fields} == {
        "/schedule": ("0 9 * * *", "0 10 * * *"),
        "/priority": (None, 7),
    }
    assert (diff.from_, diff.to, diff.whole) == (1, 2, True)
    assert diff.added.count == diff.canceled.count >= 29
    assert diff.added.first[0].astimezone().utcoffset() is not None
    assert job.diff(from_=2, to=1).fields[0].new == "0 9 * * *"
    info = job.rollback(1)
    assert (info.version, info.schedule, info.settings) == (3, "0 9 * * *", {})
    for wrong in (lambda: job.diff(9, 10), lambda: job.rollback(9)):
        with pytest.raises(NotFound, match="version 9"):
            wrong()
    with pytest.raises(Invalid, match="version is 0"):
        job.rollback(0)


def test_a_preview_says_what_a_schedule_means(app: Chronos) -> None:
    job = app.job(cron="30 2 * * *")(work)
    preview = job.preview(count=3)
    assert (preview.words, preview.timezone) == ("Daily at 02:30, Europe/Paris", "Europe/Paris")
    assert len(preview.next) == 3
    assert preview.next[0] == job.next_run
    assert len(preview.warnings) == 2  # the clocks change twice per year
    assert all(warning.at is not None and warning.message for warning in preview.warnings)
    job.pause()
    assert job.preview(count=3).next == preview.next
    follower = app.job(name="follower", after=work)(lambda: None)
    assert follower.preview().words == "After work"
    assert app.job(name="idle")(lambda: None).preview().words == "Only when triggered"
    with pytest.raises(Invalid, match="count is 0"):
        job.preview(count=0)


def test_update_takes_the_keywords_of_every_kind_of_job() -> None:
    kinds = (job_options.JobOptions, job_options.HttpOptions, job_options.CommandOptions)
    keywords = {keyword for kind in kinds for keyword in get_type_hints(kind)}
    assert get_type_hints(UpdateOptions).keys() == keywords | {"url", "argv"}
