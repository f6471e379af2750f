"""The jobs of a simulated world: every overlap policy, recovery and delivery, clock changes, slow and failing work."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from chronos.core.calendar import from_us, to_us
from chronos.core.config import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    Delivery,
    Overlap,
    Recovery,
    RecoveryStrategy,
    Retention,
    Retry,
    Settings,
    cascade,
)
from chronos.core.job import JobSpec, ScheduleSpec, Target, Task
from chronos.core.lane import lane_of
from chronos.core.planner import activation
from chronos.core.policy import gate_spec
from chronos.store.commands import JobRow
from tests.core import brute

KIND = "simulated"  # the target that the simulation runs
TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """One job, and how its work behaves."""

    name: str
    cron: str = ""
    every: timedelta | None = None
    timezone: str = "UTC"
    dst: str = "robust"
    overlap: Overlap = Overlap.SKIP
    recovery: RecoveryStrategy = RecoveryStrategy.ALL
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    attempts: int = 3
    longest_s: float = 60.0
    failing: float = 0.0

    @property
    def exclusive(self) -> bool:
        return self.overlap is not Overlap.ALLOW

    def row(self, now_us: int) -> JobRow:
        """The job to save, activated now."""
        settings = Settings(
            overlap=self.overlap,
            recovery=Recovery(strategy=self.recovery, max_count=5, max_age_us=DAY_US, after_us=5 * MINUTE_US),
            delivery=self.delivery,
            retry=Retry(max_attempts=self.attempts, initial_us=MINUTE_US),
            task_timeout_us=8 * HOUR_US,
            execution_timeout_us=24 * HOUR_US,
            retention=Retention(max_count=1_000_000, max_age_us=36_500 * DAY_US),
        )
        text = self.cron if self.every is None else f"@every {int(self.every.total_seconds())}s"
        schedule = ScheduleSpec(
            text=text, timezone=self.timezone, dst=self.dst, start_us=now_us if self.every else None
        )
        spec = JobSpec(
            schedule=schedule, tasks=(Task(name=TASK, target=Target(kind=KIND, options={})),), settings=settings
        )
        effective = cascade(settings)
        return JobRow(
            namespace="default",
            name=self.name,
            spec=spec,
            gate=gate_spec(effective, lane_of(spec, effective).text),
            next_us=activation(schedule.parse(self.name), now_us).next_us,
        )

    def calendar(self, begin_us: int, end_us: int) -> list[int]:
        """Its instants with begin < t <= end, worked out without any code of Chronos."""
        if self.every is not None:
            step_us = self.every // timedelta(microseconds=1)
            return list(range(begin_us + step_us, end_us + 1, step_us))
        until_us = end_us - end_us % DAY_US + DAY_US  # whole days, so that what is walked can be kept
        walked = _walked(self.cron, self.timezone, self.dst == "literal", from_us(begin_us), from_us(until_us))
        return [us for us in walked if us <= end_us]


@cache
def _walked(cron: str, timezone: str, literal: bool, begin: datetime, end: datetime) -> list[int]:
    return [to_us(instant.astimezone(UTC)) for instant in brute.walk(cron, timezone, begin, end, literal=literal)]


def all_jobs() -> Iterator[SimJob]:
    """One of each kind, some fifty instants a day in all."""
    yield SimJob(name="hourly", cron="0 */2 * * *", attempts=5)
    yield SimJob(name="slow-skip", cron="20 */3 * * *", longest_s=5 * 3_600)
    yield SimJob(name="slow-queue", cron="40 */4 * * *", overlap=Overlap.QUEUE, longest_s=5 * 3_600)
    yield SimJob(name="slow-replace", cron="10 */5 * * *", overlap=Overlap.REPLACE, longest_s=7 * 3_600)
    yield SimJob(name="allow", cron="5 */2 * * *", overlap=Overlap.ALLOW, longest_s=3 * 3_600, attempts=5)
    yield SimJob(name="paris", cron="30 2 * * *", timezone="Europe/Paris", recovery=RecoveryStrategy.LAST)
    yield SimJob(name="new-york", cron="30 2 * * *", timezone="America/New_York", dst="literal")
    yield SimJob(name="once-at-most", cron="15 */4 * * *", delivery=Delivery.AT_MOST_ONCE, longest_s=3_600)
    yield SimJob(name="failing", cron="25 */6 * * *", failing=0.5, overlap=Overlap.QUEUE)
    yield SimJob(name="interval", every=timedelta(minutes=250), recovery=RecoveryStrategy.BOUNDED)
    yield SimJob(name="compressed", cron="35 */6 * * *", recovery=RecoveryStrategy.COMPRESSED, longest_s=600)
    yield SimJob(name="forgetful", cron="55 */6 * * *", recovery=RecoveryStrategy.SKIP, overlap=Overlap.ALLOW)
