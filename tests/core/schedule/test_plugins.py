"""Custom schedules of other packages: found by entry point, created with their argument, and validated."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from chronos import InvalidSchedule, parse_schedule
from chronos.core.schedule import plugins

MODULE = """
from datetime import UTC, datetime, timedelta, tzinfo

FIRST = datetime(2027, 1, 7, 20, 24, tzinfo=UTC)
MONTH = timedelta(days=29, hours=12, minutes=44)

class Moon:
    def next_after(self, instant):
        return FIRST + MONTH * max(0, (instant - FIRST) // MONTH + 1)

moon = Moon()

class At:
    def __init__(self, argument, *, timezone):
        if not argument.isdigit():
            raise ValueError(f'takes an hour, got "{argument}"')
        self.hour, self.timezone = int(argument), timezone
    def next_after(self, instant):
        found = instant.replace(hour=self.hour, minute=0, second=0, microsecond=0)
        return found if found > instant else found + timedelta(days=1)

class Ends:
    def __init__(self, argument, *, timezone): pass
    def next_after(self, instant):
        return FIRST if instant < FIRST else None

class Nowhere(tzinfo):
    def utcoffset(self, instant):
        raise LookupError("no such place")

class Wrong:
    def __init__(self, argument, *, timezone):
        self.answer = argument
    def next_after(self, instant):
        match self.answer:
            case "stuck": return instant
            case "naive": return datetime(2030, 1, 1)
            case "text": return "2030-01-01"
            case "nowhere": return datetime(2030, 1, 1, tzinfo=Nowhere())
            case "raises": raise RuntimeError("no such luck")
            case "far": return datetime.max.replace(tzinfo=UTC)

def none(argument, *, timezone):
    return None

def breaks(argument, *, timezone):
    raise OSError("the almanac is gone")
"""
ENTRY_POINTS = """[chronos.schedules]
full-moon = almanac:moon
at = almanac:At
ends = almanac:Ends
wrong = almanac:Wrong
none = almanac:none
breaks = almanac:breaks
number = almanac:MONTH
lost = almanac:nothing
gone = no_such_module:thing
daily = almanac:moon
every = almanac:moon
"""
NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


def install_package(folder: Path) -> None:
    """Install a package with custom schedules in a folder."""
    (folder / "almanac.py").write_text(MODULE)
    info = folder / "almanac-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: almanac\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


@pytest.fixture(autouse=True)
def almanac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install_package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._registered.cache_clear()
    yield
    plugins._registered.cache_clear()


def test_an_object_computes_the_instants() -> None:
    schedule = parse_schedule("@full-moon")
    assert schedule.next_after(NEW_YEAR) == datetime(2027, 1, 7, 20, 24, tzinfo=UTC)
    assert len(list(schedule.between(NEW_YEAR, NEW_YEAR + timedelta(days=365)))) == 13


def test_a_class_receives_the_argument_and_the_zone() -> None:
    schedule = parse_schedule("CRON_TZ=Asia/Tokyo @at \t 14 ")
    assert schedule.next_after(NEW_YEAR) == datetime(2027, 1, 1, 14, tzinfo=UTC)
    assert schedule.rule.custom.timezone == "Asia/Tokyo"  # type: ignore[union-attr]


def test_a_custom_schedule_can_end() -> None:
    schedule = parse_schedule("@ends")
    first = schedule.next_after(NEW_YEAR)
    assert first is not None
    assert schedule.next_after(first) is None


def test_window_jitter_and_exclusions_apply_to_custom_schedules() -> None:
    schedule = parse_schedule(
        "@at 14", start="2027-01-02T00:00:00Z", end="2027-01-05T00:00:00Z", exclude=["2027-01-03"], jitter="1m", key="a"
    )
    assert [run.day for run in schedule.between(NEW_YEAR, NEW_YEAR + timedelta(days=30))] == [2, 4]
    assert schedule.due_us(0) in range(60_000_001)


@pytest.mark.parametrize("text", ["@full-moon", "@at 14"])
def test_a_custom_schedule_reads_back_from_its_description(text: str) -> None:
    schedule = parse_schedule(text, timezone="Europe/Paris", end="2030-01-01T00:00:00Z")
    assert schedule.describe() == f'Schedule "{text}", until 2030-01-01T00:00:00Z, Europe/Paris'
    assert parse_schedule(schedule.describe()) == schedule
    assert parse_schedule(f'as the schedule "{text}", until 2030-01-01T00:00:00Z, Europe/Paris') == schedule
    assert schedule != parse_schedule("@at 15", timezone="Europe/Paris", end="2030-01-01T00:00:00Z")


def test_a_package_cannot_replace_a_built_in_macro() -> None:
    assert parse_schedule("@daily").next_after(NEW_YEAR) == NEW_YEAR + timedelta(days=1)
    assert parse_schedule("@every 2h").next_after(NEW_YEAR) == NEW_YEAR + timedelta(hours=2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@full-moon tonight", 'takes no argument, got "tonight"'),
        ("@at noon", 'takes an hour, got "noon"'),
        ("@none", "is a NoneType without next_after"),
        ("@breaks", "could not be created: OSError: the almanac is gone"),
        ("@number", "could not be created: TypeError: 'datetime.timedelta' object is not callable"),
        ("@lost", "could not be loaded from almanac:nothing"),
        ("@gone", "could not be loaded from no_such_module:thing: ModuleNotFoundError"),
        ("@Full-Moon", "is not a known macro"),
        ("@half-moon", "is not a known macro"),
    ],
)
def test_an_invalid_custom_schedule_is_rejected_by_the_parser(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_schedule(text)
    assert caught.value.reason.startswith(reason)


def test_the_error_for_an_unknown_name_lists_the_known_names() -> None:
    with pytest.raises(InvalidSchedule, match=r"known: .*@ends, @every, @full-moon, "):
        parse_schedule("@half-moon")


@pytest.mark.parametrize("dialect", ["posix", "iso8601"])
def test_strict_dialects_reject_custom_schedules(dialect: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse_schedule("@full-moon", dialect=dialect)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("stuck", "returned 2027-01-01T00:00:00+00:00, expected an instant after 2027-01-01T00:00:00+00:00"),
        ("naive", "expected a datetime with a time zone"),
        ("text", "returned '2030-01-01', expected a datetime with a time zone"),
        ("raises", "failed in next_after: RuntimeError: no such luck"),
        ("nowhere", "failed in next_after: LookupError: no such place"),
    ],
)
def test_an_invalid_answer_is_rejected(answer: str, reason: str) -> None:
    next_after: Callable[[datetime], object] = parse_schedule(f"@wrong {answer}").next_after
    with pytest.raises(InvalidSchedule, match=r'"@wrong"') as caught:
        next_after(NEW_YEAR)
    assert reason in caught.value.reason


def test_custom_schedules_at_the_ends_of_the_calendar() -> None:
    before = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))  # before the first year of UTC
    assert parse_schedule("@at 14").next_after(before) == datetime(1, 1, 1, 14, tzinfo=UTC)
    assert parse_schedule("@wrong far").next_after(NEW_YEAR) is not None
