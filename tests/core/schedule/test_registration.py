"""Custom schedules that a program registers itself."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chronos import Conflict, Invalid, InvalidSchedule, parse_schedule, register_schedule
from chronos.core.schedule import plugins
from chronos.core.schedule.registration import register_object
from chronos.errors import UnknownSchedule

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plugins, "_registered", dict)
    before = dict(plugins.PROGRAM_SCHEDULES)
    plugins.PROGRAM_SCHEDULES.clear()
    yield
    plugins.PROGRAM_SCHEDULES.clear()
    plugins.PROGRAM_SCHEDULES.update(before)


class Steps:
    """Every ``days`` days."""

    def __init__(self, days: int = 1) -> None:
        self.days = days

    def next_after(self, instant: datetime, /) -> datetime:
        return instant + timedelta(days=self.days)


class FullMoonISS(Steps):
    pass


class Tide(Steps):
    """A factory: its argument is a port."""

    def __init__(self, port: str, *, timezone: str) -> None:
        super().__init__(len(port))
        self.port, self.timezone = port, timezone


def test_a_registered_object_is_a_schedule() -> None:
    with pytest.raises(UnknownSchedule, match="is not a known macro"):
        parse_schedule("@steps")
    register_schedule("steps", Steps(3))
    assert parse_schedule("@steps").next_after(NEW_YEAR) == datetime(2027, 1, 4, tzinfo=UTC)
    with pytest.raises(InvalidSchedule, match=r'takes no argument, got "4"'):
        parse_schedule("@steps 4")


def test_a_registered_class_gets_the_argument_and_the_zone() -> None:
    register_schedule("tide", Tide)
    tide: Any = parse_schedule("@tide Dover", timezone="Europe/London").rule.custom  # type: ignore[union-attr]
    assert (tide.port, tide.timezone) == ("Dover", "Europe/London")


def test_an_argument_in_quotes_may_contain_the_separator_of_unions() -> None:
    register_schedule("tide", Tide)
    schedule = parse_schedule('@tide "Dover; also Calais"')
    assert schedule.rule.custom.port == "Dover; also Calais"  # type: ignore[union-attr]
    both = parse_schedule('@tide "Dover; also Calais"; also @tide Oostende')
    assert [member.rule.custom.port for member in both.members] == [  # type: ignore[union-attr]
        "Dover; also Calais",
        "Oostende",
    ]
    assert parse_schedule(['@tide "a; also b"', "@daily"]).text == '@tide "a; also b"; also @daily'


def test_an_object_has_the_name_of_its_class_or_its_own() -> None:
    named = Steps()
    named.name = "every-step"  # type: ignore[attr-defined]
    assert register_object(Steps(2)) == "@steps"
    assert register_object(FullMoonISS()) == "@full-moon-iss"
    assert register_object(named) == "@every-step"
    registered = Steps(9)
    register_schedule("ninth", registered)
    assert register_object(registered) == "@ninth"


def test_an_equal_object_may_be_registered_again() -> None:
    register_schedule("steps", Steps(2))
    register_schedule("steps", Steps(2))
    assert register_object(Steps(2)) == "@steps"
    with pytest.raises(Conflict, match=r"another schedule is registered as @steps; give each"):
        register_schedule("steps", Steps(3))
    with pytest.raises(Conflict, match=r"comes from the attribute name of the object, or from its class"):
        register_object(Steps(3))
    register_schedule("tide", Tide)
    register_schedule("tide", Tide)
    with pytest.raises(Conflict):
        register_schedule("tide", Steps)
    register_schedule("made", lambda _, timezone: Steps())
    with pytest.raises(Conflict):
        register_schedule("made", lambda _, timezone: Steps(2))


def test_a_package_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_registered", lambda: {"steps": object()})
    with pytest.raises(Conflict, match="an installed package registers @steps"):
        register_schedule("steps", Steps())


@pytest.mark.parametrize("name", ["", "Full-Moon", "full moon", "@moon", "1st", "m" * 65, None, "mönd"])
def test_a_wrong_name_is_rejected(name: Any) -> None:
    with pytest.raises(Invalid, match="use lower-case letters, digits, - and _, like full-moon"):
        register_schedule(name, Steps())


@pytest.mark.parametrize("name", ["daily", "every", "reboot"])
def test_a_built_in_name_is_rejected(name: str) -> None:
    with pytest.raises(Invalid, match=f"@{name} is built in"):
        register_schedule(name, Steps())


def test_an_object_without_next_after_is_rejected() -> None:
    with pytest.raises(Invalid, match=r"which has no next_after\(instant\); add this method"):
        register_schedule("moon", 5)  # type: ignore[arg-type]
