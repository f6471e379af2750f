"""The warning about a disk that is nearly full."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from chronos.server.disk_space import describe_shortage

Usage = namedtuple("Usage", ["total", "used", "free"])


@pytest.mark.parametrize(
    ("total_gib", "free_mib", "is_short"),
    [(100, 300, True), (100, 6_000, False), (10, 900, False), (1_000, 1_100, False)],
)
def test_a_disk_is_short_by_amount_and_by_share(
    total_gib: int, free_mib: int, is_short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = Usage(total_gib << 30, 0, free_mib << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    found = describe_shortage(f"sqlite:///{tmp_path}/jobs.db")
    assert (found is not None) == is_short
    if found is not None:
        assert "300 MiB are free" in found


@pytest.mark.parametrize("store", ["sqlite://", "postgresql://db/chronos"])
def test_only_files_have_a_disk(store: str) -> None:
    assert describe_shortage(store) is None
