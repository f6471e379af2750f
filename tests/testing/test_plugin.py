"""The pytest plugin in a project of its own: async tests run, or say what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

MARKED = """
import pytest
from chronos import Chronos

app = Chronos("sqlite://")

@app.job(cron="0 * * * *")
async def hourly(): ...

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_hours(chronos):
    chronos.load(app)
    assert len((await chronos.aadvance("2 hours"))["hourly"]) == 2
"""
UNMARKED = """
async def test_hours(chronos):
    ...
"""
OR_PLAIN = "or write a plain function, because the fixture has its own event loop"


def run_pytest(folder: Path, source: str, *options: str) -> str:
    (folder / "test_jobs.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout


@pytest.mark.parametrize(
    ("source", "options", "answer"),
    [
        (MARKED, (), "1 passed"),
        (UNMARKED, (), f"nothing runs this async test; mark it with @pytest.mark.anyio, {OR_PLAIN}"),
        (
            UNMARKED,
            ("-p", "no:anyio"),
            "nothing runs this async test; install pytest-asyncio or anyio, and mark it with @pytest.mark.asyncio or "
            f"@pytest.mark.anyio, {OR_PLAIN}",
        ),
    ],
    ids=["marked", "unmarked", "missing"],
)
def test_async_tests(tmp_path: Path, source: str, options: tuple[str, ...], answer: str) -> None:
    assert answer in run_pytest(tmp_path, source, *options)
