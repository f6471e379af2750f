"""The README shows the real output of its commands and of its program."""

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.test_examples import ROOT, blocks
from tests.docs.test_server_examples import matches

README = ROOT / "README.md"


def test_the_server_prints_what_the_readme_shows(tmp_path: Path) -> None:
    [shown] = [text for text in blocks(README, "console") if text.startswith("$ make run")]
    program = Path(sys.executable).with_name("chronos")
    with subprocess.Popen(
        [program, "server", "--listen", "127.0.0.1:0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(3)]
        server.terminate()
        rest = server.stdout.read()
    assert server.returncode == 0
    printed = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", "".join([*lines, rest]))
    assert matches(shown.partition("\n")[2], printed), printed


def test_the_program_prints_what_the_readme_shows() -> None:
    [program], [shown] = blocks(README, "python"), blocks(README, "text")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == shown


def test_the_readme_fits_two_screens() -> None:
    assert len(README.read_text().splitlines()) < 110
