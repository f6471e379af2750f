"""The disk under a SQLite store is full for a while."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.history import Kind
from tests.support.chaos_nodes import TIMEOUT_S, Bed, on_bed

SIZE = "16m"
pytestmark = pytest.mark.chaos


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with little room, where that can be had."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "chaos", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small disk cannot be mounted here; that needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Take all the room that is left."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (1 << 20, 1 << 12):
            try:
                while os.write(file, bytes(size)):
                    pass
            except OSError:
                continue
    finally:
        os.close(file)


def test_it_is_said_and_nothing_is_lost(tmp_path: Path, small_disk: Path) -> None:
    async def case(bed: Bed) -> None:
        node = await bed.start()
        for number in range(12):
            await bed.save(f"job-{number}", every_s=2, first_s=1, in_s=1 + number / 6)
        for for_s in (0.3, TIMEOUT_S + 3, 1.0):
            await bed.until(lambda: len(bed.running()) >= 4, "enough of them run")
            said = len(node.log("ProblemReported"))
            async with bed.wrong(Kind.FULL):
                fill(small_disk / "filler")

                def told(said: int = said) -> bool:
                    return any("full; free some space" in line["error"] for line in node.log("ProblemReported")[said:])

                await bed.until(told, "it is said in a sentence")
                await asyncio.sleep(for_s)
                (small_disk / "filler").unlink()
            healed_s = time.monotonic()

            def again(healed_s: float = healed_s) -> bool:
                return len({run.job for run in bed.runs() if run.start_s > healed_s}) == 12

            await bed.until(again, "the whole schedule runs again", 60.0)
        assert node.process.poll() is None
        assert await bed.judge(least={Kind.FULL: 3}, least_hit=12) == []

    on_bed(tmp_path, f"sqlite:///{small_disk}/chronos.db", case)
