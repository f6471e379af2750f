"""Declarative schedulers on a virtual clock, callbacks with scripted outcomes, and a record of calls and events."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from chronos.clock import Clock
from chronos.core.calendar import from_us
from chronos.declarative import Scheduler, SchedulerEvent
from chronos.declarative.events import TaskEvent
from chronos.testing.clock import VirtualClock
from chronos.testing.loop import run

T = TypeVar("T")
Registration = tuple[str, str, Callable[[], Awaitable[None]], timedelta]
FRIDAY = datetime(2027, 1, 1, 10, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Oops(Exception):
    """The error that failing callbacks raise."""


class SchedulerHost:
    """A host with a clock, a time zone and a store, on which schedulers run."""

    def __init__(self, url: str, clock: Clock, zone: str | None = "UTC") -> None:
        self.url, self.clock, self.zone = url, clock, zone
        self.events: list[SchedulerEvent] = []
        self.calls: list[tuple[str, datetime]] = []
        self.running: list[str] = []
        self.max_running = 0  # most callbacks at the same time

    def now(self) -> datetime:
        return from_us(self.clock.now_us())

    def scheduler(self) -> Scheduler:
        return Scheduler(self.url, self.clock, self.zone, self.events.append)

    def task(
        self,
        name: str = "a",
        cron: str = "* * * * *",
        *,
        delay: timedelta = MINUTE,
        fails: Sequence[bool] = (),
        takes_s: float = 0,
    ) -> Registration:
        """Make a registration. ``fails`` has the outcome of each call in order; later calls succeed."""
        outcomes = list(fails)

        async def callback() -> None:
            assert name not in self.running, f"{name} runs twice at once"
            self.calls.append((name, self.now()))
            self.running.append(name)
            self.max_running = max(self.max_running, len(self.running))
            try:
                if takes_s:
                    await asyncio.sleep(takes_s)
                if outcomes and outcomes.pop(0):
                    raise Oops("oops")
            finally:
                self.running.remove(name)

        return (name, cron, callback, delay)

    def times(self, name: str = "a", form: str = "%H:%M:%S") -> list[str]:
        """The times at which the callback of a task was called."""
        return [f"{at:{form}}" for called, at in self.calls if called == name]

    def event_names(self, *kinds: type[SchedulerEvent], since: int = 0) -> list[str]:
        """The names of all events, or of those of some kinds."""
        return [type(event).__name__ for event in self.events[since:] if not kinds or isinstance(event, kinds)]

    def task_history(self) -> list[str]:
        """The events of tasks, with their times."""
        return [f"{event.at:%H:%M:%S} {type(event).__name__}" for event in self.events if isinstance(event, TaskEvent)]

    async def sleep_until(self, when: datetime) -> None:
        """Sleep until an instant."""
        await asyncio.sleep((when - self.now()).total_seconds())

    async def run_for(self, registrations: Sequence[Registration], duration: timedelta) -> Scheduler:
        """Run a scheduler for a time, then stop it."""
        scheduler = self.scheduler()
        await scheduler.initialize(list(registrations))
        await asyncio.sleep(duration.total_seconds())
        await scheduler.stop()
        return scheduler


def simulate(
    scenario: Callable[[SchedulerHost], Coroutine[Any, Any, T]],
    url: str = "sqlite://",
    *,
    start: datetime = FRIDAY,
    zone: str | None = "UTC",
) -> T:
    """Run a scenario in virtual time."""

    async def main() -> T:
        return await scenario(SchedulerHost(url, VirtualClock(start=start), zone))

    return run(main())
