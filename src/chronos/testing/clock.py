"""A clock that a test sets, on a loop whose time is virtual.

Wall time and monotonic time are two things, as in the real world: ``asyncio.sleep`` waits by the loop, which only goes
forward; ``now_us`` is what the wall says, and somebody may set it. Several clocks may share a loop, each with its own
offset and drift: the nodes of a simulation.
"""

import asyncio
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

from chronos.core.calendar import from_us, to_us
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid
from chronos.testing.loop import VirtualLoop

START = datetime(2027, 1, 1, tzinfo=UTC)  # a Friday
_MICROSECOND = timedelta(microseconds=1)


class VirtualClock:
    """Shows ``start`` when its loop is at zero, and goes ``drift_ppm`` microseconds a second too fast."""

    def __init__(self, loop: VirtualLoop | None = None, *, start: datetime = START, drift_ppm: int = 0) -> None:
        running = loop or asyncio.get_running_loop()
        if not isinstance(running, VirtualLoop):
            raise Invalid("a virtual clock needs a VirtualLoop; run the test with chronos.testing.loop.run")
        self.loop = running
        self._base_us = to_us(start)
        self._drift_ppm = drift_ppm

    def now_us(self) -> int:
        """What the wall says."""
        return self._base_us + (self._elapsed_us() if self._drift_ppm else self.loop.now_us)

    @property
    def now(self) -> datetime:
        """What the wall says, in UTC."""
        return from_us(self.now_us())

    def outside(self) -> AbstractContextManager[None]:
        """While entered, time stands still: the real world is waited for."""
        return self.loop.outside()

    def set(self, when: datetime | str, tz: str | None = None) -> None:
        """Set the wall clock, as a person would; no time passes.

        ``when`` is a datetime or ISO 8601 text. One without an offset is the wall time of the zone ``tz``, or of UTC;
        one that a change of the clocks leaves out moves later by the gap, one that occurs twice is the first.
        """
        self._base_us = to_instant_us(when, tz) - self._elapsed_us()

    def until_us(self, when: datetime | str, tz: str | None = None) -> int:
        """How long it takes until the clock shows this."""
        return to_instant_us(when, tz) - self.now_us()

    def jump(self, by: timedelta | float) -> None:
        """Set the wall clock forward, or back, by a timedelta or so many seconds; no time passes."""
        seconds = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._base_us += seconds // _MICROSECOND

    def _elapsed_us(self) -> int:
        return self.loop.now_us + self.loop.now_us * self._drift_ppm // 1_000_000


def to_instant_us(when: datetime | str, tz: str | None = None) -> int:
    """The instant that somebody means, in microseconds. Raises ``Invalid``."""
    text = when if isinstance(when, str) else when.isoformat()
    try:
        zone = get_zone(tz or "UTC")
    except LookupError as error:
        raise Invalid(str(error.args[0])) from None
    found = parse_instant(text, zone)
    if found is None:
        raise Invalid(f'"{text}" is no date and time; write it like 2027-03-27T12:00 or 2027-03-27T12:00:00Z')
    return found
