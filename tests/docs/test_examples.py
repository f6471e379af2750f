"""Every example in the documentation runs, and prints what the page says it prints."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (chronosctl schedule .*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in BLOCK.findall(page.read_text()) if language in languages]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_python_is_exempt(page: Path) -> None:
    infos = [info for info, _ in BLOCK.findall(page.read_text())]
    assert not [info for info in infos if info.startswith("python") and info != "python"]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_python_runs(page: Path) -> None:
    source = "\n".join(blocks(page, "python"))
    exec(compile(source, name(page), "exec"), {"__name__": "__docs__"})


COMMANDS = [
    pytest.param(command, output, id=f"{name(page)}-{number}")
    for page in PAGES
    for number, (command, output) in enumerate(COMMAND.findall("".join(blocks(page, "console", "sh"))), 1)
]


@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_commands_run(command: str, output: str) -> None:
    """Output shown below a command must be what it prints; a last line of ``…`` stands for the rest."""
    program, *arguments = shlex.split(command)
    result = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    if output.endswith("…\n"):
        assert result.stdout.startswith(output.removesuffix("…\n"))
    elif output:
        assert result.stdout == output
