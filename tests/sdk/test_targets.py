"""Kinds of targets from other packages, in jobs and in groups."""

from pathlib import Path
from typing import Any

import pytest

from chronos import Chronos, Invalid

PACKAGE = """
from chronos.core.outcome import Succeeded
from chronos.errors import Invalid

class Pigeon:
    def check(self, options):
        if "loft" not in options:
            raise Invalid("pigeon.loft is missing")

    async def run(self, call):
        call.sink.write("coo\\n")
        return Succeeded(result=f"{call.options['loft']}, attempt {call.number}")

    async def close(self):
        pass
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chronos:
    (tmp_path / "loft_of_pigeons.py").write_text(PACKAGE)
    info = tmp_path / "loft_of_pigeons-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loft-of-pigeons\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[chronos.runners]\npigeon = loft_of_pigeons:Pigeon\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return Chronos("sqlite://")


def test_jobs_and_tasks_use_a_target_of_another_package(app: Chronos) -> None:
    news = app.target("news", "pigeon", {"loft": "attic"}, cron="@daily")
    post = app.group("post")
    post.target("fly", "pigeon", {"loft": "roof"})
    with app:
        run = news.trigger()
        assert run.result(20) == "attic, attempt 1"
        assert run.log == "coo\n"
        assert post.trigger().wait(20).tasks[0].result == "roof, attempt 1"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("pigeon", {}, r"pigeon\.loft is missing"),
        ("pigeon", None, r"pigeon\.loft is missing"),
        ("pigeon", 5, "the options of pigeon are 5"),
        ("falcon", {}, "falcon"),
    ],
)
def test_wrong_options_of_a_target_are_refused(app: Chronos, kind: str, options: Any, message: str) -> None:
    with pytest.raises(Invalid, match=f"(?s)job news: .*{message}"):
        app.target("news", kind, options)
