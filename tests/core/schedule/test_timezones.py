"""Zones: their tables agree with the standard library's reading of the same database."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronos import parse_schedule
from chronos.core.calendar import DAY_S
from chronos.core.schedule import timezones
from chronos.core.schedule.timezones import Zone, get_zone, zone_names
from tests.support import brute_force_cron as brute

NAMES = sorted(zone_names())
EPOCH = datetime(1970, 1, 1)
SECONDS = st.integers(-2_500_000_000, 12_000_000_000)  # 1890 to 2350


def test_every_zone_agrees_with_zoneinfo() -> None:
    moments = [datetime(year, month, 15, 11, 7, tzinfo=UTC) for year in range(1880, 2120, 6) for month in (1, 4, 7, 10)]
    for name in NAMES:
        zone, info = get_zone(name), brute.zone(name)
        for moment in moments:
            offset = moment.astimezone(info).utcoffset()
            assert offset is not None
            assert zone.offset_at(int(moment.timestamp())) == offset.total_seconds(), (name, moment)


@settings(max_examples=300)
@given(name=st.sampled_from(NAMES), second=SECONDS)
def test_offsets_agree_with_zoneinfo(name: str, second: int) -> None:
    moment = datetime.fromtimestamp(second, UTC)
    offset = moment.astimezone(brute.zone(name)).utcoffset()
    assert offset is not None
    assert get_zone(name).offset_at(second) == offset.total_seconds()


@settings(max_examples=300)
@given(name=st.sampled_from(NAMES), wall=SECONDS)
def test_wall_to_utc_takes_the_first_pass_and_the_offset_before_a_gap(name: str, wall: int) -> None:
    reading = (EPOCH + timedelta(seconds=wall)).replace(tzinfo=brute.zone(name), fold=0)
    assert get_zone(name).to_utc(wall) == int(reading.timestamp())


@given(name=st.sampled_from(NAMES), begin=SECONDS)
def test_at_a_transition_the_offset_changes(name: str, begin: int) -> None:
    zone = get_zone(name)
    for at, before, after in zone.transitions(begin, begin + 5 * 366 * DAY_S):
        assert before != after
        assert zone.offset_at(at - 1) == before
        assert zone.offset_at(at) == after


def test_the_far_future_agrees_with_zoneinfo() -> None:
    for name in ("America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tokyo"):
        zone, info = get_zone(name), brute.zone(name)
        for year in range(2480, 9_900, 371):
            for month in range(1, 13):
                moment = datetime(year, month, 9, 1, 30, tzinfo=UTC)
                offset = moment.astimezone(info).utcoffset()
                assert offset is not None
                second = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
                assert zone.offset_at(second) == offset.total_seconds()
                assert zone.to_utc(second + zone.offset_at(second)) == second
        for at, before, after in zone.transitions(200_000_000_000, 200_100_000_000):
            assert (zone.offset_at(at - 1), zone.offset_at(at)) == (before, after)


def test_tables_stay_small_for_any_instant() -> None:
    name = "America/Halifax"
    for text in ("30 2 * * *", "0 0 29 2 1#5", "@every 1h", "P1M", "0 9 * * *"):
        schedule = parse_schedule(text, timezone=name, exclude=["2027-01-01", "* * * * 0"] if text[0] == "0" else [])
        for year in (2000, 2400, 2499, 2600, 5000, 9990, 9999):
            moment = datetime(year, 12, 30, tzinfo=UTC)
            schedule.next_after(moment)
            list(schedule.between(moment, min(moment, datetime(9999, 12, 1, tzinfo=UTC)) + timedelta(days=30)))
    assert len(get_zone(name).table[0]) < 2_500


def test_wall_to_utc_around_every_recent_transition() -> None:
    for name in NAMES[::7]:
        zone, info = get_zone(name), brute.zone(name)
        for at, before, after in zone.transitions(1_500_000_000, 1_900_000_000):
            for wall in range(at + min(before, after) - 7200, at + max(before, after) + 7200, 900):
                reading = (EPOCH + timedelta(seconds=wall)).replace(tzinfo=info, fold=0)
                assert zone.to_utc(wall) == int(reading.timestamp()), (name, reading)


@pytest.mark.parametrize("name", ["", "europe/paris", "../etc/passwd", "Europe", "UTC\n", "EST5EDT,M3.2.0", "/UTC"])
def test_inexact_names_are_rejected(name: str) -> None:
    with pytest.raises(LookupError, match="unknown time zone"):
        get_zone(name)


def test_a_zone_is_shared_even_across_processes() -> None:
    zone = get_zone("Europe/Paris")
    assert get_zone("Europe/Paris") is zone
    assert pickle.loads(pickle.dumps(zone)) is zone


def test_concurrent_first_lookups_return_the_same_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = timezones._decode
    overtaken: list[Zone] = []

    def slow(name: str, data: bytes) -> Zone:
        monkeypatch.setattr(timezones, "_decode", decode)
        overtaken.append(get_zone(name))
        return decode(name, data)

    monkeypatch.setattr(timezones, "_ZONES", {})
    monkeypatch.setattr(timezones, "_decode", slow)
    assert get_zone("Europe/Paris") is overtaken[0]


@given(name=st.sampled_from(NAMES), second=SECONDS)
def test_a_span_has_one_offset_and_the_next_another(name: str, second: int) -> None:
    zone = get_zone(name)
    offset, until = zone.span_at(second)
    assert offset == zone.offset_at(second)
    if until < timezones.FOREVER:
        assert zone.offset_at(until - 1) == offset != zone.offset_at(until)
