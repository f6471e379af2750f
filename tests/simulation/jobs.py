"""The jobs of a simulated world: every overlap policy, recovery and delivery, daylight saving, slow and failing work.

Some have several tasks, some depend on others. Updates apply at once, gracefully, or after a window.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from chronos.core.admission_policy import build_gate_spec
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
    Update,
    UpdatePolicy,
    resolve_settings,
)
from chronos.core.job import JobSpec, ScheduleSpec, Target, Task, UpstreamCondition, UpstreamJob
from chronos.core.lane import build_lane
from chronos.core.planner import activate_schedule
from chronos.store.commands import JobRow
from tests.support import brute_force_cron as brute

KIND = "simulated"  # the target that the simulation runs
_EVERY = "@every "
_UPDATES = (
    Update(policy=UpdatePolicy.IMMEDIATE),
    Update(policy=UpdatePolicy.GRACEFUL),
    Update(policy=UpdatePolicy.WINDOWED, count=2),
    Update(policy=UpdatePolicy.WINDOWED, duration_us=30 * HOUR_US),
    Update(policy=UpdatePolicy.WINDOWED, count=3, duration_us=20 * HOUR_US),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """One job, and how its work behaves. ``others`` are the cron expressions that an update may use."""

    name: str
    cron: str = ""
    others: tuple[str, ...] = ()
    every_s: int | None = None
    timezone: str = "UTC"
    dst: str = "robust"
    overlap: Overlap = Overlap.SKIP
    recovery: RecoveryStrategy = RecoveryStrategy.ALL
    recovery_after_us: int = 5 * MINUTE_US
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    attempts: int = 3
    backoff_us: int = MINUTE_US
    longest_s: float = 60.0
    failing: float = 0.0
    tasks: int = 1  # in sequence; only the last one fails
    after: tuple[UpstreamJob, ...] = ()
    update: Update = _UPDATES[0]

    @property
    def exclusive(self) -> bool:
        return self.overlap is not Overlap.ALLOW

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(f"task-{number}" for number in range(self.tasks))

    def changed(self, turn: int, update: int) -> "SimJob":
        """Another version of the job, often with another schedule and update policy."""
        crons = (self.cron, *self.others)
        return replace(
            self,
            cron=crons[turn % len(crons)],
            attempts=self.attempts + turn % 2,
            update=_UPDATES[update % len(_UPDATES)],
        )

    def spec(self, start_us: int | None = None) -> JobSpec:
        """The job definition."""
        recovery = Recovery(strategy=self.recovery, max_count=5, max_age_us=DAY_US, after_us=self.recovery_after_us)
        settings = Settings(
            overlap=self.overlap,
            recovery=recovery,
            delivery=self.delivery,
            retry=Retry(max_attempts=self.attempts, initial_us=self.backoff_us),
            task_timeout_us=8 * HOUR_US,
            execution_timeout_us=24 * HOUR_US,
            retention=Retention(max_count=1_000_000, max_age_us=36_500 * DAY_US),
            update=self.update,
        )
        text = self.cron if self.every_s is None else f"{_EVERY}{self.every_s}s"
        schedule = ScheduleSpec(text=text, timezone=self.timezone, dst=self.dst, start_us=start_us) if text else None
        tasks = tuple(Task(name=name, target=Target(kind=KIND, options={})) for name in self.task_names)
        return JobSpec(schedule=schedule, tasks=tasks, settings=settings, after=self.after)

    def row(self, now_us: int) -> JobRow:
        """The row to save, activated now."""
        spec = self.spec(None if self.every_s is None else now_us)
        schedule = None if spec.schedule is None else spec.schedule.parse(self.name)
        effective = resolve_settings(spec.settings)
        return JobRow(
            namespace="default",
            name=self.name,
            spec=spec,
            gate=build_gate_spec(effective, build_lane(spec, effective).text),
            next_us=None if schedule is None else activate_schedule(schedule, now_us).next_us,
        )


def calendar(schedule: ScheduleSpec | None, since_us: int, begin_us: int, end_us: int) -> list[int]:
    """The instants with begin < t <= end of a schedule that applies since ``since_us``, without code of Chronos."""
    if schedule is None:
        return []
    if schedule.text.startswith(_EVERY):
        step_us = int(schedule.text.removeprefix(_EVERY).removesuffix("s")) * 1_000_000
        first_us = since_us + max(1, (begin_us - since_us) // step_us + 1) * step_us
        return list(range(first_us, end_us + 1, step_us))
    day_us = begin_us - begin_us % DAY_US
    instants: list[int] = []
    while day_us <= end_us:
        day = _walk_day(schedule.text, schedule.timezone, schedule.dst == "literal", from_us(day_us))
        instants += [us for us in day if begin_us < us <= end_us]
        day_us += DAY_US
    return instants


@cache
def _walk_day(cron: str, timezone: str, literal: bool, day: datetime) -> list[int]:
    """The instants of one day. Worlds share them, so they are cached."""
    begin = day - timedelta(microseconds=1)
    end = day + timedelta(days=1, microseconds=-1)
    return [to_us(instant.astimezone(UTC)) for instant in brute.walk(cron, timezone, begin, end, literal=literal)]


def all_jobs() -> Iterator[SimJob]:
    """One job of each kind, about 25 instants per day in all. Most are at full hours, as in real crontabs."""
    yield SimJob(name="often", cron="0 */8 * * *", others=("30 */7 * * *",), attempts=5)
    yield SimJob(name="slow-skip", cron="0 */8 * * *", others=("0 1-23/9 * * *",), longest_s=10 * 3_600)
    yield SimJob(
        name="slow-queue", cron="0 */12 * * *", others=("0 3,15 * * *",), overlap=Overlap.QUEUE, longest_s=14 * 3_600
    )
    yield SimJob(name="slow-replace", cron="0 */12 * * *", overlap=Overlap.REPLACE, longest_s=14 * 3_600)
    yield SimJob(
        name="allow", cron="0 */8 * * *", others=("10 */12 * * *",), overlap=Overlap.ALLOW, longest_s=6 * 3_600
    )
    yield SimJob(
        name="paris", cron="30 2 * * *", others=("30 3 * * *",), timezone="Europe/Paris", recovery=RecoveryStrategy.LAST
    )
    yield SimJob(name="new-york", cron="30 2 * * *", timezone="America/New_York", dst="literal")
    yield SimJob(name="once-at-most", cron="0 8 * * *", delivery=Delivery.AT_MOST_ONCE, longest_s=6 * 3_600)
    yield SimJob(name="failing", cron="0 */12 * * *", others=("0 5,17 * * *",), failing=0.5, overlap=Overlap.QUEUE)
    yield SimJob(name="interval", every_s=30_000, recovery=RecoveryStrategy.BOUNDED)
    yield SimJob(
        name="compressed",
        cron="0 */6 * * *",
        others=("0 1-23/6 * * *",),
        recovery=RecoveryStrategy.COMPRESSED,
        longest_s=600,
    )
    yield SimJob(
        name="skip-missed",
        cron="0 */12 * * *",
        others=("20 9,21 * * *",),
        recovery=RecoveryStrategy.SKIP,
        overlap=Overlap.ALLOW,
    )
    yield SimJob(name="steps", cron="0 6 * * *", tasks=3, failing=0.6, attempts=2, overlap=Overlap.QUEUE)
    yield SimJob(
        name="follower", after=(UpstreamJob(job="failing", on=UpstreamCondition.SUCCESS),), overlap=Overlap.ALLOW
    )
    yield SimJob(name="successor", after=(UpstreamJob(job="once-at-most", on=UpstreamCondition.COMPLETION),))
