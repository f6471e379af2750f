"""The schedule of a job in words, with its zone."""

from dataclasses import dataclass
from functools import lru_cache

from chronos.core.job import Job, ScheduleSpec, Unreadable
from chronos.core.schedule.canonical import to_canonical
from chronos.core.schedule.schedule import Schedule
from chronos.errors import InvalidSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWords:
    """A schedule as people read it."""

    words: str  # with the zone at the end, as ``describe`` returns them
    phrase: str  # the words without the zone
    zone: str
    text: str  # as it was written
    understood_as: str | None  # the expression that words, names and macros stand for; None: the text itself


def describe_schedule(job: Job) -> ScheduleWords | None:
    """Return the schedule of a job in words; None if it has none, or one that cannot be read."""
    if isinstance(job.spec, Unreadable) or job.spec.schedule is None:
        return None
    spec = job.spec.schedule
    try:
        return _describe_shared(spec) if spec.is_name_independent else _describe(spec, spec.parse(job.name))
    except InvalidSchedule:
        return None


@lru_cache(maxsize=4_096)
def _describe_shared(spec: ScheduleSpec) -> ScheduleWords:
    return _describe(spec, spec.parse(""))


def _describe(spec: ScheduleSpec, schedule: Schedule) -> ScheduleWords:
    words, zone = schedule.describe(), schedule.zone.name
    return ScheduleWords(
        words=words,
        phrase=words.removesuffix(f", {zone}"),
        zone=zone,
        text=spec.text,
        understood_as=to_canonical(schedule),
    )
