"""Behaviours: how long an invented attempt takes, what it writes and how it ends. Pure and deterministic."""

from dataclasses import dataclass
from hashlib import blake2b

from chronos.core.config import DAY_US, HOUR_US

FOREVER_US = -(10**18)  # as the end of a trouble: it lasts until the demo is stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A period in which attempts of one task fail. Times count back from the start of the demo."""

    error: str
    from_us: int = 30 * DAY_US
    to_us: int = FOREVER_US
    task: str = "main"
    attempts: int = 1_000  # that many attempts of a run fail; the next one succeeds
    share: float = 1.0  # of the runs
    response: int | None = None  # status of the HTTP response; None: no response

    def holds(self, *, task: str, before_us: int, number: int, draw: float) -> bool:
        """Return whether it makes an attempt fail, ``before_us`` before the start of the demo."""
        in_period = self.to_us <= before_us <= self.from_us
        return in_period and task == self.task and number <= self.attempts and draw < self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What the attempts of one job do."""

    usual_s: float = 2.0
    slow_share: float = 0.02  # of the attempts
    slow_factor: float = 4.0
    lines: tuple[str, ...] = ()
    result: object = None
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What one attempt does. ``trouble`` is None if it succeeds."""

    duration_s: float
    trouble: Trouble | None


def decide_act(behaviour: Behaviour, *, job: str, task: str, scheduled_us: int, number: int, before_us: int) -> Act:
    """Decide what one attempt does, ``before_us`` before the start of the demo."""
    run_draw = _draw(job, task, scheduled_us)
    attempt_draw = _draw(job, task, scheduled_us, number)
    trouble = next(
        (
            trouble
            for trouble in behaviour.troubles
            if trouble.holds(task=task, before_us=before_us, number=number, draw=run_draw)
        ),
        None,
    )
    is_slow = _draw(job, task, scheduled_us, "slow") < behaviour.slow_share
    factor = (0.75 + attempt_draw / 2) * (behaviour.slow_factor if is_slow else 1.0)
    return Act(duration_s=behaviour.usual_s * factor, trouble=trouble)


def _draw(*parts: object) -> float:
    """A number from 0 to 1 that depends only on the parts."""
    digest = blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def hours(count: float) -> int:
    """Microseconds of some hours."""
    return round(count * HOUR_US)


def days(count: float) -> int:
    """Microseconds of some days."""
    return round(count * DAY_US)
