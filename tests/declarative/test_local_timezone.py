"""The name of the host's time zone."""

from pathlib import Path

import pytest

from chronos.declarative.local_timezone import find_local_zone
from chronos.errors import Invalid


@pytest.mark.parametrize(
    "variable",
    ["Europe/Berlin", ":Europe/Berlin", ":/usr/share/zoneinfo/Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin"],
)
def test_the_variable_tz_comes_first(variable: str, tmp_path: Path) -> None:
    assert find_local_zone({"TZ": variable}, tmp_path) == "Europe/Berlin"


def test_the_link_localtime_comes_second(tmp_path: Path) -> None:
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/America/New_York")
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert find_local_zone({"TZ": ""}, tmp_path) == "America/New_York"


def test_the_file_timezone_comes_third(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif")
    (tmp_path / "timezone").write_text("Asia/Tokyo # here\n")
    assert find_local_zone({}, tmp_path) == "Asia/Tokyo"


def test_a_host_without_a_time_zone_is_in_utc(tmp_path: Path) -> None:
    assert find_local_zone({}, tmp_path) == "UTC"


def test_an_unnamed_or_unknown_time_zone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif")
    with pytest.raises(Invalid, match="set TZ, or pass timezone to the scheduler"):
        find_local_zone({}, tmp_path)
    with pytest.raises(Invalid, match=r'TZ=EST5EDT,M3.2.0 names the unknown time zone "EST5EDT,M3.2.0"'):
        find_local_zone({"TZ": "EST5EDT,M3.2.0"}, tmp_path)
