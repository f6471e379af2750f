"""Previews a schedule: in words, its next runs, and the effects of daylight saving changes."""

from dataclasses import dataclass
from typing import Any

from chronos.core.calendar import DAY_S, SECOND_US
from chronos.core.job import ScheduleSpec
from chronos.core.planner import activate_schedule, preview
from chronos.core.schedule.canonical import to_canonical
from chronos.core.schedule.dst import Oddity, find_oddities
from chronos.core.schedule.surprises import Surprise, find_surprises
from chronos.service.serializers import read_schedule_only

LOOK_AHEAD_US = 366 * DAY_S * SECOND_US  # the range searched for daylight saving changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The meaning of a schedule if it started now."""

    spec: ScheduleSpec
    words: str
    understood_as: str | None  # the expression that words, names and macros stand for; None: the text itself
    timezone: str
    next_us: tuple[int, ...]
    oddities: tuple[Oddity, ...]
    surprises: tuple[Surprise, ...]


def preview_schedule(data: Any, *, now_us: int, count: int = 10, key: str = "") -> Preview:
    """Preview a schedule in the form of a job's ``schedule`` field. Raises ``InvalidJob``."""
    return preview_spec(read_schedule_only(data, now_us=now_us, key=key), now_us=now_us, count=count, key=key)


def preview_spec(spec: ScheduleSpec, *, now_us: int, count: int = 10, key: str = "") -> Preview:
    """Preview a schedule that is already read."""
    schedule = spec.parse(key)
    activation = activate_schedule(schedule, now_us)
    return Preview(
        spec=spec,
        words=schedule.describe(),
        understood_as=to_canonical(schedule),
        timezone=schedule.zone.name,
        next_us=preview(schedule, now_us, count),
        oddities=tuple(find_oddities(activation.schedule, now_us, now_us + LOOK_AHEAD_US)),
        surprises=tuple(find_surprises(schedule, spec.dialect, now_us)),
    )
