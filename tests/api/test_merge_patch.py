"""Merge patches: a target of any kind replaces the tasks of a job."""

from pathlib import Path

import pytest

from tests.support.api_server import V1, World, in_world

_RUNNER = """
class Pigeon:
    def check(self, options): ...
    async def close(self): ...
"""


@pytest.fixture
def _pigeon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that provides the target kind ``pigeon``."""
    (tmp_path / "loft.py").write_text(_RUNNER)
    info = tmp_path / "loft-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loft\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[chronos.runners]\npigeon = loft:Pigeon\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("_pigeon")
@pytest.mark.parametrize(
    ("field", "kind", "options"),
    [
        ("pigeon", "pigeon", {"to": "Paris"}),
        ("webhook", "http", {"url": "https://api.example.org/"}),
        ("wait", "wait", {"for": "1h"}),
    ],
)
def test_a_patch_with_a_target_replaces_the_tasks(field: str, kind: str, options: dict[str, str]) -> None:
    async def case(world: World) -> None:
        await world.create("digest")
        changed = await world.call("PATCH", f"{V1}/jobs/digest", {field: options})
        assert changed.status == 200, changed.body
        assert changed.json["tasks"] == [{"name": "main", kind: options}]

    in_world(case)
