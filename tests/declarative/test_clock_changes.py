"""Daylight saving: skipped minutes do not run, repeated ones run twice, without a restart."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from chronos.core.calendar import from_us, to_us
from chronos.declarative import scheduler_engine
from chronos.declarative.posix_cron import parse_cron_expression, to_schedule_spec
from tests.support.declarative_app import MINUTE, SchedulerHost, simulate

pytestmark = pytest.mark.usefixtures("rare_housekeeping")

SPRING = {
    "Europe/Berlin": datetime(2027, 3, 28, 1, 0, tzinfo=UTC),  # 02:00 becomes 03:00
    "America/New_York": datetime(2027, 3, 14, 7, 0, tzinfo=UTC),
    "Australia/Sydney": datetime(2027, 10, 2, 16, 0, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2027, 10, 2, 15, 30, tzinfo=UTC),  # 02:00 becomes 02:30
}
AUTUMN = {
    "Europe/Berlin": datetime(2027, 10, 31, 1, 0, tzinfo=UTC),  # 03:00 becomes 02:00
    "America/New_York": datetime(2027, 11, 7, 6, 0, tzinfo=UTC),  # 02:00 becomes 01:00
    "Australia/Sydney": datetime(2027, 4, 3, 16, 0, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2027, 4, 3, 15, 0, tzinfo=UTC),  # 02:00 becomes 01:30
}


def local_times(host: SchedulerHost, name: str = "a") -> list[str]:
    zone = ZoneInfo(host.zone or "UTC")
    return [f"{at.astimezone(zone):%d %H:%M}" for called, at in host.calls if called == name]


@pytest.mark.parametrize("zone", SPRING)
def test_a_minute_that_does_not_exist_does_not_run_that_day(zone: str) -> None:
    change = SPRING[zone]
    minute = 15 if zone == "Australia/Lord_Howe" else 30

    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron=f"{minute} 2 * * *")], timedelta(hours=50))
        first, second = (f"{(change + timedelta(days=days)).astimezone(ZoneInfo(zone)):%d}" for days in (-1, 1))
        assert local_times(host) == [f"{first} 02:{minute}", f"{second} 02:{minute}"]

    simulate(scenario, start=change - timedelta(hours=25), zone=zone)


@pytest.mark.parametrize("zone", AUTUMN)
def test_a_minute_that_occurs_twice_runs_twice(zone: str) -> None:
    change = AUTUMN[zone]
    repeated = (change + MINUTE).astimezone(ZoneInfo(zone))

    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron=f"{repeated.minute} {repeated.hour} * * *")], timedelta(hours=30))
        day = f"{repeated:%d %H:%M}"
        assert local_times(host)[:2] == [day, day]
        gap = host.calls[1][1] - host.calls[0][1]
        assert gap == (timedelta(minutes=30) if zone == "Australia/Lord_Howe" else timedelta(hours=1))
        assert len(host.calls) == 3  # the third is on the next day

    simulate(scenario, start=change - timedelta(hours=2), zone=zone)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_a_task_every_quarter_of_an_hour_runs_through_both_changes(zone: str) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="0,15,30,45 * * * *")], timedelta(hours=6) - MINUTE)
        assert [at for _, at in host.calls] == [start + timedelta(minutes=15 * n) for n in range(24)]

    for start in (SPRING[zone] - timedelta(hours=3), AUTUMN[zone] - timedelta(hours=3)):
        simulate(scenario, start=start, zone=zone)


def test_the_time_zone_is_that_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="30 9 * * *")], timedelta(hours=24))
        assert host.times() == ["04:00:00"]  # Kolkata is five and a half hours ahead

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    simulate(scenario, zone=None)


CRONS = ["30 2 * * *", "0,30 1-3 * * 0", "15 2 28 3,10 *", "59 23 1,15 * 5", "0-5 2 * 3-4,10-11 0"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_occurrences_of_a_year_match_the_standard_library(zone: str) -> None:
    """The standard library converts every minute of a year to local time; the schedule has the same occurrences."""
    begin, end = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    walls: dict[tuple[int, int], list[tuple[datetime, datetime]]] = defaultdict(list)
    for at in _minutes(begin, end):
        wall = at.astimezone(ZoneInfo(zone))
        walls[wall.hour, wall.minute].append((at, wall))
    for cron in CRONS:
        schedule = to_schedule_spec(cron, parse_cron_expression(cron), zone).parse("a")
        occurrences = []
        at_us = schedule.next_us(to_us(begin) - 1)
        while at_us is not None and at_us < to_us(end):
            occurrences.append(from_us(at_us))
            at_us = schedule.next_us(at_us)
        minute, hour, *days = cron.split()
        times = [reading for reading in walls if _matches(hour, reading[0]) and _matches(minute, reading[1])]
        assert occurrences == sorted(at for time in times for at, wall in walls[time] if _on_day(days, wall))


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_year_of_runs_on_the_engine(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(
        scheduler_engine.OPTIONS,
        tick_s=43_200,
        lookahead_s=90_000,
        heartbeat_s=43_200,
        heartbeat_timeout_s=432_000,
        reaper_s=43_200,
    )
    monkeypatch.setattr(scheduler_engine, "OPTIONS", options)

    async def scenario(host: SchedulerHost) -> None:
        await host.run_for([host.task(cron="30 * * * *"), host.task("b", "30 2 * * *")], timedelta(days=365))
        assert [at for name, at in host.calls if name == "a"] == list(_minutes(start, start + timedelta(days=365)))[
            30::60
        ]
        hours = [at.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M") for name, at in host.calls if name == "b"]
        # Both skip 02:30 in spring. In autumn Berlin repeats it, and New York repeats 01:30.
        assert len(hours) == (365 if zone == "Europe/Berlin" else 364)

    start = datetime(2027, 1, 1, 8, tzinfo=UTC)
    simulate(scenario, start=start, zone=zone)


def _minutes(begin: datetime, end: datetime) -> list[datetime]:
    return [begin + MINUTE * n for n in range((end - begin) // MINUTE)]


def _on_day(fields: list[str], wall: datetime) -> bool:
    day, month, weekday = fields
    by_day, by_weekday = _matches(day, wall.day), _matches(weekday, wall.isoweekday() % 7)
    days = by_day or by_weekday if day != "*" != weekday else by_day and by_weekday
    return _matches(month, wall.month) and days


@cache
def _matches(field: str, value: int) -> bool:
    if field == "*":
        return True
    parts = [part.split("-") for part in field.split(",")]
    return any(int(part[0]) <= value <= int(part[-1]) for part in parts)
