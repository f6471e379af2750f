"""When a requested run may start: now, later, and no longer."""

from dataclasses import dataclass

from chronos.core.calendar import rfc3339
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid, InvalidSchedule
from chronos.service.serializers.object_reader import read_duration_us


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimes:
    """The instants of a requested run. ``wake_us`` and ``expires_us`` are None for a run without delay or limit."""

    scheduled_us: int | None = None  # the instant that it stands for; None: the time of the request
    wake_us: int | None = None
    expires_us: int | None = None


def choose_start_times(
    now_us: int, *, at_us: int | None = None, delay: str | None = None, expires: str | None = None
) -> StartTimes:
    """Read when a run may start. Raises ``Invalid``.

    - ``at_us``: a past instant is what the run stands for, and it starts now. A future one delays it until then.
    - ``delay``: a duration from now on.
    - ``expires``: an instant, or a duration from now on. The run does not start from then on.
    """
    if at_us is not None and delay is not None:
        raise Invalid("at and delay both say when to start; use one of them")
    if delay is not None:
        at_us = now_us + _read_duration(delay, "delay")
    expires_us = None if expires is None else _read_instant_or_duration(expires, now_us)
    start_us = now_us if at_us is None else max(now_us, at_us)
    if expires_us is not None and expires_us <= start_us:
        raise Invalid(
            f"expires is {rfc3339(expires_us)}, but the run starts at {rfc3339(start_us)} at the earliest; "
            "choose a later time"
        )
    return StartTimes(scheduled_us=at_us, wake_us=start_us if start_us > now_us else None, expires_us=expires_us)


def _read_instant_or_duration(text: str, now_us: int) -> int:
    instant_us = parse_instant(text, get_zone("UTC"))
    if instant_us is not None:
        return instant_us
    try:
        return now_us + read_duration_us(text)
    except InvalidSchedule:
        raise Invalid(
            f'invalid expires "{text}"; use a duration like 10m, or a time like 2027-01-01T09:00:00Z'
        ) from None


def _read_duration(text: str, argument: str) -> int:
    try:
        return read_duration_us(text)
    except InvalidSchedule as error:
        raise Invalid(f"{argument}: {error}") from None
