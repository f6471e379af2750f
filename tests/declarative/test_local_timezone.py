"""Which zone the host is in."""

from pathlib import Path

import pytest

from chronos.declarative.local_timezone import local_zone
from chronos.errors import Invalid


@pytest.mark.parametrize(
    "said",
    ["Europe/Berlin", ":Europe/Berlin", ":/usr/share/zoneinfo/Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin"],
)
def test_tz_goes_first(said: str, tmp_path: Path) -> None:
    assert local_zone({"TZ": said}, tmp_path) == "Europe/Berlin"


def test_then_the_link_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/America/New_York")
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert local_zone({"TZ": ""}, tmp_path) == "America/New_York"


def test_then_its_name(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif")
    (tmp_path / "timezone").write_text("Asia/Tokyo # here\n")
    assert local_zone({}, tmp_path) == "Asia/Tokyo"


def test_a_machine_that_says_nothing_is_in_utc(tmp_path: Path) -> None:
    assert local_zone({}, tmp_path) == "UTC"


def test_a_zone_without_a_name_is_an_error_that_helps(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif")
    with pytest.raises(Invalid, match="set TZ, or give the scheduler a timezone"):
        local_zone({}, tmp_path)
    with pytest.raises(Invalid, match=r'TZ=EST5EDT,M3.2.0 names the zone "EST5EDT,M3.2.0"'):
        local_zone({"TZ": "EST5EDT,M3.2.0"}, tmp_path)
