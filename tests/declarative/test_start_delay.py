"""The start delay of 100,000 tasks: the specification allows ten minutes."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from chronos.declarative import Scheduler, SchedulerEvent, TaskRunStarted

TASKS = 100_000
ALLOWED_S = TASKS * 60 / 10_000  # the specification allows a minute per 10,000 tasks
FIVE_MINUTES = timedelta(minutes=5)
log = logging.getLogger("tests.declarative")


@dataclass
class Starts:
    """Counts starts, and how late the last one was."""

    count: int = 0
    latest: timedelta = field(default_factory=timedelta)

    def watch(self, event: SchedulerEvent) -> None:
        if isinstance(event, TaskRunStarted):
            self.count += 1
            self.latest = max(self.latest, event.late)


async def work() -> None:
    """The callback of a task."""


async def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it cannot wait for an event
            await asyncio.sleep(0.05)


def make_registrations(
    tasks: int, *minutes: datetime
) -> list[tuple[str, str, Callable[[], Awaitable[None]], timedelta]]:
    """Tasks that are all due in the same minutes of each hour."""
    cron = f"{','.join(str(minute.minute) for minute in minutes)} * * * *"
    return [(f"task {number}", cron, work, timedelta(hours=1)) for number in range(tasks)]


def find_minute_after(seconds: float) -> datetime:
    """The first minute that starts after some seconds."""
    return (datetime.now(UTC) + timedelta(seconds=seconds + 60)).replace(second=0, microsecond=0)


async def sleep_until(when: datetime) -> None:
    await asyncio.sleep((when - datetime.now(UTC)).total_seconds())


def seconds_since(started: float) -> float:
    return time.monotonic() - started


@dataclass
class Bench:
    """Schedulers with very many tasks on one store, and the durations of their steps."""

    url: str
    tasks: int
    took: dict[str, float] = field(default_factory=dict)

    async def initialize(self, step: str, *minutes: datetime) -> tuple[Scheduler, Starts]:
        starts, started = Starts(), time.monotonic()
        scheduler = Scheduler(self.url, timezone="UTC", on_event=starts.watch)
        await scheduler.initialize(make_registrations(self.tasks, *minutes))
        self.took[step] = seconds_since(started)
        return scheduler, starts

    async def wait_for_starts(self, starts: Starts, waits_s: float = 0) -> None:
        await wait_until(lambda: starts.count >= self.tasks, waits_s + ALLOWED_S)

    def report(self) -> None:
        figures = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in self.took.items())
        log.warning("%d tasks: %s; allowed %.0f s", self.tasks, figures, ALLOWED_S)
        assert max(self.took.values()) < ALLOWED_S / 2


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "chronos.declarative")  # otherwise there are 100,000 lines


@pytest.mark.bench
@pytest.mark.usefixtures("quiet")
def test_all_tasks_start_well_within_the_limit(any_url: str) -> None:
    async def main(bench: Bench) -> None:
        due = find_minute_after(TASKS / 3_000)
        scheduler, starts = await bench.initialize("initialize", due)
        await bench.wait_for_starts(starts, 120)
        bench.took["R1, after the minute's boundary"] = starts.latest.total_seconds()
        await scheduler.stop()
        for step, minutes in {"nothing changed": [due], "everything overridden": [due, due - FIVE_MINUTES]}.items():
            scheduler, _ = await bench.initialize(step, *minutes)
            await scheduler.stop()
        assert starts.count == bench.tasks

    bench = Bench(any_url, TASKS)
    asyncio.run(main(bench))
    bench.report()


@pytest.mark.bench
@pytest.mark.usefixtures("quiet")
def test_all_tasks_start_well_within_the_limit_after_a_restart(any_url: str) -> None:
    async def main(bench: Bench) -> None:
        if datetime.now(UTC).second > 10:
            await sleep_until(find_minute_after(0))
        started, now = time.monotonic(), datetime.now(UTC)
        missed = (now + timedelta(minutes=2 + TASKS // 50_000)).replace(second=0, microsecond=0)
        scheduler, starts = await bench.initialize("initialize", now, missed)
        await bench.wait_for_starts(starts)
        bench.took["first start"] = seconds_since(started)
        await scheduler.stop()
        assert datetime.now(UTC) < missed, "the first start took too long for the rest to be measured"
        await sleep_until(missed + timedelta(minutes=1))
        started = time.monotonic()
        scheduler, starts = await bench.initialize("initialize after a missed minute", now, missed)
        await bench.wait_for_starts(starts)
        bench.took["R2, after the restart"] = seconds_since(started)
        await scheduler.stop()
        assert starts.count == bench.tasks

    bench = Bench(any_url, TASKS)
    asyncio.run(main(bench))
    bench.report()
