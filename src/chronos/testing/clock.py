"""The virtual clock: a wall clock that a test sets, on a loop with virtual time.

Wall time and monotonic time differ, as in the real world. ``asyncio.sleep`` follows the loop, which only goes forward;
``now_us`` is the wall clock, which a test may set. Several clocks may share a loop, each with its own offset and drift,
such as the nodes of a simulation.
"""

import asyncio
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta

from chronos.core.calendar import from_us, to_us
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.timezones import get_zone
from chronos.core.schedule.words import read_words
from chronos.errors import Invalid, InvalidSchedule
from chronos.service.serializers.object_reader import read_duration_us
from chronos.testing.loop import VirtualLoop

START = datetime(2027, 1, 1, tzinfo=UTC)  # a Friday
_MICROSECOND = timedelta(microseconds=1)


class VirtualClock:
    """Shows ``start`` when its loop is at zero, and runs fast by ``drift_ppm`` microseconds per second."""

    def __init__(self, loop: VirtualLoop | None = None, *, start: datetime = START, drift_ppm: int = 0) -> None:
        running = loop or asyncio.get_running_loop()
        if not isinstance(running, VirtualLoop):
            raise Invalid("a VirtualClock needs a VirtualLoop; run the test with chronos.testing.loop.run")
        self.loop = running
        self._base_us = to_us(start)
        self._drift_ppm = drift_ppm

    def now_us(self) -> int:
        """Return the wall time in microseconds since 1970 UTC."""
        return self._base_us + (self._elapsed_us() if self._drift_ppm else self.loop.now_us)

    @property
    def now(self) -> datetime:
        """The wall time, in UTC."""
        return from_us(self.now_us())

    def outside(self) -> AbstractContextManager[None]:
        """Mark a block that waits for the real world. Virtual time stands still meanwhile."""
        return self.loop.outside()

    def set(self, when: datetime | str, tz: str | None = None) -> None:
        """Set the wall clock, as an operator would. No time passes.

        ``when`` is a datetime or ISO 8601 text. Without an offset it is local time in the zone ``tz``, or UTC. A local
        time that a daylight saving change skips moves later by the gap; of two equal ones the first is meant.
        """
        self._base_us = to_instant_us(when, tz) - self._elapsed_us()

    def until_us(self, when: datetime | str, tz: str | None = None) -> int:
        """Return how long it takes until the clock shows ``when``."""
        return to_instant_us(when, tz) - self.now_us()

    def jump(self, by: timedelta | float | str) -> None:
        """Set the wall clock forward or back by a timedelta, by seconds, or forward by a text. No time passes."""
        delta = timedelta(seconds=by) if isinstance(by, int | float) else to_duration(by)
        self._base_us += delta // _MICROSECOND

    def _elapsed_us(self) -> int:
        return self.loop.now_us + self.loop.now_us * self._drift_ppm // 1_000_000


def to_instant_us(when: datetime | str, tz: str | None = None) -> int:
    """Convert a datetime or text to microseconds since 1970. Raises ``Invalid``."""
    text = when if isinstance(when, str) else when.isoformat()
    try:
        zone = get_zone(tz or "UTC")
    except LookupError as error:
        raise Invalid(str(error.args[0])) from None
    instant_us = parse_instant(text, zone)
    if instant_us is None:
        raise Invalid(f'invalid date and time "{text}"; use 2027-03-27T12:00 or 2027-03-27T12:00:00Z')
    return instant_us


def to_duration(by: timedelta | str) -> timedelta:
    """Convert a timedelta or a text such as ``1h30m``, ``1 day`` or ``90 minutes``. Raises ``Invalid``."""
    if isinstance(by, timedelta):
        return by
    if isinstance(by, str):
        with suppress(InvalidSchedule):
            return timedelta(microseconds=read_duration_us(by.strip()))
        with suppress(InvalidSchedule):
            delay = read_words(f"in {by.strip()}").delay
            if delay is not None and delay.second_of_day is None:
                return timedelta(days=delay.days, microseconds=delay.us)
    raise Invalid(f'invalid duration "{by}"; use days=1, hours=2, a timedelta or text like "1h30m" or "1 day"')
