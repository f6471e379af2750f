"""Cron: microseconds per next occurrence and per parse, compared with cronsim and croniter on the same expressions."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from croniter import croniter
from cronsim import CronSim

from bench import Row
from chronos import Schedule, parse_schedule
from tests.support.brute_force_cron import zone

EXPRESSIONS = [
    ("* * * * *", "UTC"),
    ("*/5 * * * *", "UTC"),
    ("0 9 * * 1-5", "UTC"),
    ("0 0 1 * *", "UTC"),
    ("0 0 29 2 *", "UTC"),
    ("30 2 * * *", "America/New_York"),
]
START = datetime(2026, 11, 15, 12, 3, 7, tzinfo=UTC)
STEPS = 12  # 48 years for 29 February
ROUNDS = 9


def run() -> list[Row]:
    """One row per expression, for next and for parse."""
    return [*(_next(*each) for each in EXPRESSIONS), *(_parse(*each) for each in EXPRESSIONS)]


def _next(text: str, zone_name: str) -> Row:
    schedule = parse_schedule(text, timezone=zone_name)
    local = START.astimezone(zone(zone_name))
    return Row(
        case=f"next   {text}  {zone_name}",
        unit="µs",
        ours=_per_step(lambda: _walk(schedule), walks=200),
        others={
            "cronsim": _per_step(lambda: CronSim(text, local), walks=20),
            "croniter": _per_step(lambda: croniter(text, local, datetime), walks=20),
        },
    )


def _parse(text: str, zone_name: str) -> Row:
    local = START.astimezone(zone(zone_name))
    return Row(
        case=f"parse  {text}  {zone_name}",
        unit="µs",
        ours=_best_us(lambda: [parse_schedule(text, timezone=zone_name) for _ in range(200)]) / 200,
        others={
            "cronsim": _best_us(lambda: [CronSim(text, local) for _ in range(200)]) / 200,
            "croniter": _best_us(lambda: [croniter(text, local, datetime) for _ in range(50)]) / 50,
        },
    )


def _walk(schedule: Schedule) -> Iterator[datetime]:
    instant: datetime | None = START
    while instant is not None:
        instant = schedule.next_after(instant)
        if instant is not None:
            yield instant


def _per_step(start: Callable[[], Iterator[datetime]], *, walks: int) -> float:
    """Microseconds per step of an iterator, without its creation."""

    def measure() -> float:
        iterators = [start() for _ in range(walks)]
        started = time.thread_time()
        for iterator in iterators:
            for _ in range(STEPS):
                next(iterator)
        return time.thread_time() - started

    return min(measure() for _ in range(ROUNDS)) / walks / STEPS * 1e6


def _best_us(run: Callable[[], object]) -> float:
    """CPU time of this thread, the best of a few rounds, which a busy machine cannot distort."""

    def measure() -> float:
        started = time.thread_time()
        run()
        return time.thread_time() - started

    return min(measure() for _ in range(ROUNDS)) * 1e6
