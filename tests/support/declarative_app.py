"""A test bed: schedulers on a virtual clock, callbacks that do as they are told, and a record of all that happens."""

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
    """What a callback raises."""


class Bed:
    """One host: its clock, its zone, its store."""

    def __init__(self, url: str, clock: Clock, zone: str | None = "UTC") -> None:
        self.url, self.clock, self.zone = url, clock, zone
        self.events: list[SchedulerEvent] = []
        self.calls: list[tuple[str, datetime]] = []
        self.running: list[str] = []
        self.most = 0  # callbacks at once

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
        """A registration. ``fails`` says how the calls end, one after the other; later ones succeed."""
        outcomes = list(fails)

        async def callback() -> None:
            assert name not in self.running, f"{name} runs twice at once"
            self.calls.append((name, self.now()))
            self.running.append(name)
            self.most = max(self.most, len(self.running))
            try:
                if takes_s:
                    await asyncio.sleep(takes_s)
                if outcomes and outcomes.pop(0):
                    raise Oops("oops")
            finally:
                self.running.remove(name)

        return (name, cron, callback, delay)

    def times(self, name: str = "a", form: str = "%H:%M:%S") -> list[str]:
        """When a task's callback was called."""
        return [f"{at:{form}}" for called, at in self.calls if called == name]

    def told(self, *kinds: type[SchedulerEvent], since: int = 0) -> list[str]:
        """The names of events, all or of some kinds."""
        return [type(event).__name__ for event in self.events[since:] if not kinds or isinstance(event, kinds)]

    def story(self) -> list[str]:
        """What happened to tasks, and when."""
        return [f"{event.at:%H:%M:%S} {type(event).__name__}" for event in self.events if isinstance(event, TaskEvent)]

    async def until(self, when: datetime) -> None:
        """Let time pass up to an instant."""
        await asyncio.sleep((when - self.now()).total_seconds())

    async def lasting(self, registrations: Sequence[Registration], how_long: timedelta) -> Scheduler:
        """Run a scheduler for so long, and stop it."""
        scheduler = self.scheduler()
        await scheduler.initialize(list(registrations))
        await asyncio.sleep(how_long.total_seconds())
        await scheduler.stop()
        return scheduler


def simulate(
    scenario: Callable[[Bed], Coroutine[Any, Any, T]],
    url: str = "sqlite://",
    *,
    start: datetime = FRIDAY,
    zone: str | None = "UTC",
) -> T:
    """Play a scenario in virtual time."""

    async def main() -> T:
        return await scenario(Bed(url, VirtualClock(start=start), zone))

    return run(main())
