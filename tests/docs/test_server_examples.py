"""Examples that need a server: ``console`` blocks with chronosctl, and ``http`` blocks with a request and its response.

The examples of a page run in order on one server. ``…`` stands for text that differs from run to run, and a line of
``…`` for any number of lines. A ``yaml`` block that starts with a file name (``# jobs.yaml``) is that file. In a
request, ``EXECUTION_ID`` is the ``execution_id`` of the last response that had one.
"""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.docs.test_examples import BLOCK, PAGES, name
from tests.support.cli_server import serving

COMMAND = re.compile(
    r"^\$ ((?:chronosctl (?!schedule|completion)|chronos (?!server)).*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE
)
FILE = re.compile(r"# ([\w-]+\.yaml)\n")
# Has a test of its own: tests/cli/ctl/test_help_examples.py.
ELSEWHERE = {"docs/reference/cli.md"}


def has_examples(page: Path) -> bool:
    blocks = BLOCK.findall(page.read_text())
    return any(kind == "http" or (kind == "console" and COMMAND.search(text)) for kind, text in blocks)


def matches(pattern: str, text: str) -> bool:
    """Whether a text is what the page shows."""
    lines = [".*\n" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in pattern.splitlines()]
    expression = "".join(f"(?:{line})*" if line == ".*\n" else line for line in lines)
    return re.fullmatch(expression, text) is not None


def contains(actual: Any, shown: Any) -> bool:
    """Whether a JSON value has everything that the page shows; it may have more fields."""
    if isinstance(shown, dict):
        return isinstance(actual, dict) and all(
            key in actual and contains(actual[key], value) for key, value in shown.items()
        )
    if isinstance(shown, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(shown)
            and all(contains(item, expected) for item, expected in zip(actual, shown, strict=True))
        )
    if isinstance(shown, str) and "…" in shown:
        pattern = ".*".join(re.escape(part) for part in shown.split("…"))
        return shown == "…" or (isinstance(actual, str) and re.fullmatch(pattern, actual, re.DOTALL) is not None)
    return bool(actual == shown)


class Example:
    """The examples of one page, on one server."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder, self.execution_id = url, folder, ""
        self.sent = ""

    def run(self, kind: str, text: str) -> None:
        if kind == "yaml" and (file := FILE.match(text)):
            (self.folder / file[1]).write_text(text)
        elif kind == "console":
            for command, output in COMMAND.findall(text):
                self.run_command(command, output)
        elif kind == "http" and text.startswith("HTTP/"):
            self.check_response(text)
        elif kind == "http":
            self.sent = text

    def run_command(self, command: str, shown: str) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "CHRONOS_SERVER": self.url, "CHRONOS_TOKEN": "", "NO_COLOR": "1"}
        result = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        fails = any(line.startswith("✗") for line in shown.splitlines())
        assert (result.returncode != 0) == fails, f"{command}\n{result.stdout}"
        assert not shown or matches(shown, result.stdout), f"$ {command}\n{result.stdout}"

    def check_response(self, text: str) -> None:
        assert self.sent, "a response without a request"
        head, _, body = self.sent.partition("\n\n")
        line, *headers = head.strip().splitlines()
        method, path = line.replace("EXECUTION_ID", self.execution_id).split()
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc)
        connection.request(method, path, body.encode() or None, dict(header.split(": ", 1) for header in headers))
        response = connection.getresponse()
        received = response.read().decode()
        connection.close()
        self.sent = ""
        head, _, body = text.partition("\n\n")
        line, *headers = head.strip().splitlines()
        assert line.startswith(f"HTTP/1.1 {response.status} "), received  # Python 3.13 has other words for 422
        for key, value in (header.split(": ", 1) for header in headers):
            assert matches(value + "\n", response.headers.get(key, "") + "\n"), f"{key}: {response.headers.get(key)}"
        if body.strip():
            actual = json.loads(received)
            assert contains(actual, json.loads(body)), json.dumps(actual, indent=1, ensure_ascii=False)
            self.execution_id = actual.get("execution_id", self.execution_id)


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    with serving() as served:
        yield Example(served.url, tmp_path)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if has_examples(page) and name(page) not in ELSEWHERE], ids=name
)
def test_examples_of_a_page_run(page: Path, example: Example) -> None:
    for kind, text in BLOCK.findall(page.read_text()):
        example.run(kind, text)
    assert not example.sent, "a request without a response"


def test_shown_text_is_compared() -> None:
    assert matches("a …\n…\nz\n", "a b\nc\nd\nz\n")
    assert not matches("a …\nz\n", "a b\nc\nz\n")
    assert contains({"a": [1], "b": {"c": "run 7"}}, {"b": {"c": "run …"}})
    assert not contains({"a": [1, 2]}, {"a": [1]})
