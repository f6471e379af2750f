"""The ``wait`` target: a durable wait. The runner only returns the time or signal; a wait holds no slot."""

from collections.abc import Mapping
from typing import Any

from chronos.core.calendar import LAST_US
from chronos.core.outcome import Failed, Outcome, Waits
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.parser import parse_schedule
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.errors import Invalid, InvalidSchedule
from chronos.runners import options as read
from chronos.runners.contract import AttemptCall
from chronos.runners.option_faults import OptionFaults

_KNOWN_OPTIONS = ("until", "for", "schedule", "timezone", "signal", "timeout")
_WAIT_CONDITIONS = ("until", "for", "schedule", "signal")
_DURATION_OPTIONS = ("for", "timeout")


class WaitRunner:
    """Waits for the earliest of a time, a duration, the next instant of a schedule, and a signal."""

    def check(self, options: Mapping[str, Any]) -> None:
        faults = OptionFaults("wait")
        if not faults.add_unknown_options((), options, _KNOWN_OPTIONS):
            faults.raise_if_any()
        if not any(name in options for name in _WAIT_CONDITIONS):
            faults.add((), f"wait needs at least one of {', '.join(_WAIT_CONDITIONS)}")
        if "timeout" in options and "signal" not in options:
            faults.add(("timeout",), 'wait.timeout limits the wait for a signal; without "signal" use "for"')
        if "timezone" in options and not ("schedule" in options or "until" in options):
            faults.add(("timezone",), "wait.timezone applies to schedule or until; add one of them or remove it")
        if (
            "signal" in options
            and faults.try_read(("signal",), read.text, "wait.signal", options["signal"], limit=200) == ""
        ):
            faults.add(("signal",), "wait.signal is empty; give the signal a name")
        zone = faults.try_read(("timezone",), _read_zone, options) or get_zone("UTC")
        if "until" in options:
            faults.try_read(("until",), _read_until_us, options, zone)
        if "schedule" in options:
            faults.try_read(("schedule",), _check_schedule, options, zone)
        for name in _DURATION_OPTIONS:
            if name in options:
                faults.try_read((name,), read.duration_us, f"wait.{name}", options[name])
        faults.raise_if_any()

    async def run(self, call: AttemptCall) -> Outcome:
        try:
            self.check(call.options)
            times_us = _read_times_us(call.options, call.started_us)
        except Invalid as error:
            return Failed(error=str(error), kinds=("wait",), worth_retrying=False)
        if "schedule" in call.options:
            next_us = _read_schedule(call.options, _read_zone(call.options)).next_us(call.started_us)
            if next_us is None:
                return Failed(
                    error="wait.schedule has no instant after the start of this wait",
                    kinds=("wait",),
                    worth_retrying=False,
                )
            times_us.append(next_us)
        return Waits(until_us=min(times_us, default=None), signal=call.options.get("signal"))

    async def close(self) -> None:
        """No-op: there is nothing to release."""


def _read_times_us(options: Mapping[str, Any], started_us: int) -> list[int]:
    """Return the end of the wait by each of its times."""
    times_us = [_read_until_us(options, _read_zone(options))] if "until" in options else []
    durations_us = [read.duration_us(f"wait.{name}", options[name]) for name in _DURATION_OPTIONS if name in options]
    return times_us + [min(started_us + duration_us, LAST_US) for duration_us in durations_us]


def _read_until_us(options: Mapping[str, Any], zone: Zone) -> int:
    text = read.text("wait.until", options["until"], limit=256)
    at_us = parse_instant(text, zone)
    if at_us is None:
        raise Invalid(f'wait.until is "{text}", which is not a date and time; write it like 2027-01-01T09:00:00Z')
    return at_us


def _read_schedule(options: Mapping[str, Any], zone: Zone) -> Schedule:
    text = read.text("wait.schedule", options["schedule"], limit=256)
    try:
        return parse_schedule(text, timezone=zone.name)
    except InvalidSchedule as error:
        raise error.named("wait.schedule") from None


def _check_schedule(options: Mapping[str, Any], zone: Zone) -> None:
    if _read_schedule(options, zone).next_us(0) is None:
        raise Invalid("wait.schedule never fires; use a schedule with a future instant")


def _read_zone(options: Mapping[str, Any]) -> Zone:
    name = read.text("wait.timezone", options["timezone"], limit=256) if "timezone" in options else ""
    try:
        return get_zone(name or "UTC")
    except LookupError as error:
        raise Invalid(f"wait.timezone: {error.args[0]}") from None
