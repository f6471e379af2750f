"""UpcomingRuns: the next scheduled times of a job, on the clock of its zone, with the effects of clock changes."""

from dataclasses import dataclass
from itertools import islice

from chronos.clock import Clock
from chronos.core.calendar import DAY_S, SECOND_US
from chronos.core.job import Job, JobState, Unreadable
from chronos.core.planner import MAX_PREVIEW
from chronos.core.schedule.dst import Oddity, find_oddities
from chronos.core.schedule.occurrences import walk
from chronos.core.schedule.timezones import Zone
from chronos.core.schedule_change import resolve_instants
from chronos.errors import InvalidSchedule

_FOREVER_US = 1 << 62
_YEAR_US = 366 * DAY_S * SECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingRun:
    """One scheduled time."""

    at_us: int
    wall_us: int  # the reading of the clock in the schedule's zone, as microseconds since 1970
    offset_s: int  # seconds east of UTC
    clock_changed: bool  # the offset differs from that of the run before
    note: str | None  # the effect of a clock change on this run, as a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """The next scheduled times of a job."""

    zone: str
    runs: tuple[UpcomingRun, ...]  # none unless the job is active
    clock_changes: tuple[Oddity, ...]  # effects of clock changes within a year


class UpcomingRuns:
    """Computes the next scheduled times of jobs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def of(self, job: Job, count: int = 10) -> Upcoming:
        """Return the next scheduled times of a job, at most ``MAX_PREVIEW``."""
        if isinstance(job.spec, Unreadable) or job.spec.schedule is None:
            return Upcoming(zone="UTC", runs=(), clock_changes=())
        try:
            schedule = job.spec.schedule.parse(job.name)
        except InvalidSchedule:
            return Upcoming(zone="UTC", runs=(), clock_changes=())
        now_us = self._clock.now_us()
        oddities = find_oddities(schedule, now_us, now_us + _YEAR_US)
        instants = resolve_instants(job.spec, job.name)
        times_us: tuple[int, ...] = ()
        if instants is not None and job.state is JobState.ACTIVE:
            times_us = tuple(islice(walk(instants, job.next_us, _FOREVER_US), min(count, MAX_PREVIEW)))
        return Upcoming(
            zone=schedule.zone.name,
            runs=_to_runs(times_us, schedule.zone, oddities, now_us),
            clock_changes=tuple(oddities),
        )


def _to_runs(times_us: tuple[int, ...], zone: Zone, oddities: list[Oddity], now_us: int) -> tuple[UpcomingRun, ...]:
    notes = {oddity.at_us: oddity.message for oddity in oddities}
    before_s = zone.offset_at(now_us // SECOND_US)
    runs = []
    for at_us in times_us:
        offset_s = zone.offset_at(at_us // SECOND_US)
        runs.append(
            UpcomingRun(
                at_us=at_us,
                wall_us=at_us + offset_s * SECOND_US,
                offset_s=offset_s,
                clock_changed=offset_s != before_s,
                note=notes.get(at_us),
            )
        )
        before_s = offset_s
    return tuple(runs)
