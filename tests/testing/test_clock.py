"""The virtual clock: setting, jumps and drift do not change monotonic time."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from chronos.clock import Clock
from chronos.errors import Invalid
from chronos.testing.clock import START, VirtualClock
from chronos.testing.loop import VirtualLoop, run


@pytest.mark.parametrize(
    ("when", "tz", "shown"),
    [
        ("2027-03-27T12:00", "Europe/Paris", "2027-03-27T11:00:00+00:00"),
        ("2027-03-28T12:00", "Europe/Paris", "2027-03-28T10:00:00+00:00"),
        ("2027-03-27T12:00:30.5", None, "2027-03-27T12:00:30.500000+00:00"),
        ("2027-03-27T12:00:00Z", "Europe/Paris", "2027-03-27T12:00:00+00:00"),
        ("2027-03-28T02:30", "Europe/Paris", "2027-03-28T01:30:00+00:00"),  # in the gap: later by the gap
        ("2027-10-31T02:30", "Europe/Paris", "2027-10-31T00:30:00+00:00"),  # occurs twice: the first
        (datetime(2027, 3, 27, 12), "Europe/Paris", "2027-03-27T11:00:00+00:00"),
        (datetime(2027, 3, 27, 12, tzinfo=UTC), "Europe/Paris", "2027-03-27T12:00:00+00:00"),
        (datetime(2027, 3, 27, 12, tzinfo=timezone(timedelta(hours=2))), None, "2027-03-27T10:00:00+00:00"),
    ],
)
def test_the_clock_is_set_to_an_instant_or_a_local_time(when: datetime | str, tz: str | None, shown: str) -> None:
    async def main() -> str:
        clock = VirtualClock()
        await asyncio.sleep(5)
        clock.set(when, tz)
        return clock.now.isoformat()

    assert run(main()) == shown


@pytest.mark.parametrize(
    ("when", "tz"), [("soon", None), ("2027-13-01T00:00", None), ("2027-01-01T00:00", "Mars/Base")]
)
def test_an_invalid_time_or_zone_is_rejected(when: str, tz: str | None) -> None:
    async def main() -> None:
        with pytest.raises(Invalid):
            VirtualClock().set(when, tz)

    run(main())


def test_the_clock_follows_the_loop_to_the_microsecond_for_years() -> None:
    async def main() -> list[int]:
        clock = VirtualClock()
        start_us = clock.now_us()
        seen = []
        for delay_s in (0.000001, 0.1, 3 * 365 * 86_400, 0.000001, 1 / 3):
            await asyncio.sleep(delay_s)
            seen.append(clock.now_us() - start_us)
        return seen

    years = 3 * 365 * 86_400 * 1_000_000
    assert run(main()) == [1, 100_001, years + 100_001, years + 100_002, years + 433_336]


def test_a_jump_moves_the_clock_but_not_the_loop() -> None:
    async def main() -> tuple[datetime, float]:
        clock = VirtualClock()
        asyncio.get_running_loop().call_later(10, clock.jump, timedelta(hours=-1))
        asyncio.get_running_loop().call_later(20, clock.jump, 1.5)
        await asyncio.sleep(60)
        return clock.now, asyncio.get_running_loop().time()

    assert run(main()) == (START + timedelta(seconds=61.5, hours=-1), 60.0)


def test_clocks_of_one_loop_differ_and_drift() -> None:
    async def main() -> list[datetime]:
        clocks: list[VirtualClock] = [
            VirtualClock(),
            VirtualClock(drift_ppm=100),
            VirtualClock(start=START - timedelta(seconds=2), drift_ppm=-100),
        ]
        await asyncio.sleep(86_400)
        return [clock.now for clock in clocks]

    day = START + timedelta(days=1)
    assert run(main()) == [day, day + timedelta(seconds=8.64), day - timedelta(seconds=10.64)]


def test_a_virtual_clock_needs_a_virtual_loop() -> None:
    loop = VirtualLoop()
    clock: Clock = VirtualClock(loop)
    assert clock.now_us() == int(START.timestamp()) * 1_000_000
    loop.close()

    async def main() -> None:
        with pytest.raises(Invalid, match="VirtualLoop"):
            VirtualClock()

    asyncio.run(main())
