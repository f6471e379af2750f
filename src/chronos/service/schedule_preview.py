"""A schedule before it is anybody's: in words, its next runs, and what changes of the clocks will do to it."""

from dataclasses import dataclass
from typing import Any

from chronos.core.calendar import DAY_S, SECOND_US
from chronos.core.job import ScheduleSpec
from chronos.core.planner import activate_schedule, preview
from chronos.core.schedule.canonical import to_canonical
from chronos.core.schedule.dst import Oddity, find_oddities
from chronos.service.serializers import read_schedule_only

LOOK_AHEAD_US = 366 * DAY_S * SECOND_US  # how far changes of the clocks are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a schedule means, as if it came into force now."""

    spec: ScheduleSpec
    words: str
    understood_as: str | None  # what words, names and macros stand for; None: the text says it itself
    timezone: str
    next_us: tuple[int, ...]
    oddities: tuple[Oddity, ...]


def preview_schedule(data: Any, *, now_us: int, count: int = 10, key: str = "") -> Preview:
    """The preview of a schedule as a job's ``schedule`` field takes it. Raises ``InvalidJob``."""
    return preview_spec(read_schedule_only(data, key=key), now_us=now_us, count=count, key=key)


def preview_spec(spec: ScheduleSpec, *, now_us: int, count: int = 10, key: str = "") -> Preview:
    """The preview of a schedule that was read already."""
    schedule = spec.parse(key)
    activation = activate_schedule(schedule, now_us)
    return Preview(
        spec=spec,
        words=schedule.describe(),
        understood_as=to_canonical(spec.text, schedule),
        timezone=schedule.zone.name,
        next_us=preview(schedule, now_us, count),
        oddities=tuple(find_oddities(activation.schedule, now_us, now_us + LOOK_AHEAD_US)),
    )
