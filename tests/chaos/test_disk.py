"""The disk of a SQLite store is full for a while."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.history import Kind
from tests.support.chaos_nodes import TIMEOUT_S, Cluster, run_on_cluster

SIZE = "16m"
pytestmark = pytest.mark.chaos


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a small file system. Skips where it cannot be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "chaos", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot mount a small file system; that needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(path: Path) -> None:
    """Use all the free space."""
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


def test_a_full_disk_is_reported_and_nothing_is_lost(tmp_path: Path, small_disk: Path) -> None:
    async def case(cluster: Cluster) -> None:
        node = await cluster.start()
        for number in range(12):
            await cluster.save_job(f"job-{number}", every_s=2, first_s=1, in_s=1 + number / 6)
        for full_s in (0.3, TIMEOUT_S + 3, 1.0):
            await cluster.wait_until(lambda: len(cluster.running()) >= 4, "enough jobs run")
            reported = len(node.log("ProblemReported"))
            async with cluster.disturbed(Kind.FULL):
                fill_disk(small_disk / "filler")

                def is_reported(reported: int = reported) -> bool:
                    return any(
                        "full; free some space" in line["error"] for line in node.log("ProblemReported")[reported:]
                    )

                await cluster.wait_until(is_reported, "the full disk is reported")
                await asyncio.sleep(full_s)
                (small_disk / "filler").unlink()
            healed_s = time.monotonic()

            def all_run_again(healed_s: float = healed_s) -> bool:
                return len({run.job for run in cluster.runs() if run.start_s > healed_s}) == 12

            await cluster.wait_until(all_run_again, "the whole schedule runs again", 60.0)
        assert node.process.poll() is None
        assert await cluster.check(min_faults={Kind.FULL: 3}, min_in_flight=12) == []

    run_on_cluster(tmp_path, f"sqlite:///{small_disk}/chronos.db", case)
