"""Custom schedules in a program: objects with ``next_after``, and what programs without them do with their jobs."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from chronos import Chronos, Invalid, parse_schedule
from chronos.core.schedule import plugins
from chronos.testing.harness import Harness

HOUR = timedelta(hours=1)


class OddHours:
    """Every odd hour, UTC."""

    def next_after(self, instant: datetime, /) -> datetime:
        hour = instant.replace(minute=0, second=0, microsecond=0) + HOUR
        return hour if hour.hour % 2 else hour + HOUR


class Soon:
    """Every tenth of a second."""

    def next_after(self, instant: datetime, /) -> datetime:
        tenth = instant.microsecond // 100_000 * 100_000
        return instant.replace(microsecond=tenth) + timedelta(milliseconds=100)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(plugins.PROGRAM_SCHEDULES)
    yield
    plugins.PROGRAM_SCHEDULES.clear()
    plugins.PROGRAM_SCHEDULES.update(before)


def test_an_object_is_a_schedule() -> None:
    app = Chronos("sqlite://")

    @app.job(schedule=OddHours())
    def odd() -> None: ...

    @app.job(schedule=[OddHours(), "0 12 * * *"], end="2027-01-01T15:00:00Z")
    def both() -> None: ...

    harness = Harness()
    harness.load(app)
    runs = harness.advance("1 day")
    assert [run.scheduled_at.hour for run in runs["odd"]] == list(range(1, 24, 2))
    assert [run.scheduled_at.hour for run in runs["both"]] == [1, 3, 5, 7, 9, 11, 12, 13, 15]
    harness.close()
    with app:
        info = odd.info()
        assert (info.schedule, info.note) == ("@odd-hours", "")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (parse_schedule("@daily"), "schedule is a parsed schedule; give the text that was parsed"),
        (type("Daily", (OddHours,), {})(), "@daily is built in; choose another name"),
        (type("Odd", (OddHours,), {"name": "Odd Hours"})(), "use lower-case letters, digits, - and _"),
        (5, "must be text"),
    ],
)
def test_a_wrong_object_is_rejected_where_it_is_declared(schedule: Any, message: str) -> None:
    app = Chronos("sqlite://")
    with pytest.raises(Invalid) as caught:
        app.job(name="job", schedule=schedule)(lambda: None)
    assert message in str(caught.value)
    assert app.scheduled_jobs() == []


def test_a_program_without_the_schedule_leaves_the_job_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    writer = Chronos(url)
    assert writer.webhook("moonlit", "https://example.com/", schedule=Soon()).info().note == ""
    writer.stop()
    plugins.PROGRAM_SCHEDULES.clear()

    reader = Chronos(url)
    other_ran = Event()

    @reader.job(every="100ms")
    def other() -> None:
        other_ran.set()

    caplog.set_level(logging.INFO, logger="chronos")
    with reader:
        assert other_ran.wait(10)
        job = reader.get("moonlit")
        info = job.info()
        assert (info.schedule, info.state) == ("@soon", "active")
        assert info.note == (
            "its schedule @soon is not registered here, so only programs that register it, or have its package, "
            "run the job by its schedule"
        )
        assert job.executions() == []
        job.pause()
        with pytest.raises(Invalid, match="its schedule @soon is not registered here"):
            job.resume()
    [line] = [record for record in caplog.records if "left alone" in record.getMessage()]
    assert line.levelno == logging.INFO
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_schedule_that_is_registered_later_is_scheduled(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    ran, other_ran = Event(), Event()

    def work() -> None:
        ran.set()

    writer = Chronos(url)
    assert writer.job(name="work", schedule=Soon())(work).info().next_run is not None
    writer.stop()
    plugins.PROGRAM_SCHEDULES.clear()

    late = Chronos(url)
    late.job(name="other", every="100ms")(other_ran.set)
    with late:
        assert other_ran.wait(10)
        assert not ran.is_set()
        late.job(name="work", schedule=Soon())(work)
        assert ran.wait(10)
