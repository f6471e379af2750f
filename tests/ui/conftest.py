"""Servers for the browser tests, as processes of their own: the demo, and empty ones."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_ADDRESS = re.compile(r"address\s+(http://\S+)")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(slots=True)
class ServerProcess:
    """A server that a test started."""

    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        """End the server at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def _start(arguments: list[str], folder: Path) -> ServerProcess:
    process = subprocess.Popen(
        [sys.executable, "-c", "from chronos.cli.main import chronos; chronos()", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if match := _ADDRESS.search(line):
            return ServerProcess(process, match[1])
    raise AssertionError(f"the server did not start: {arguments}")


@pytest.fixture
def start_ui(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start servers in the folder of the test; all of them end with it."""
    started: list[ServerProcess] = []

    def start(*arguments: str) -> ServerProcess:
        started.append(_start(["server", *arguments], tmp_path))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def demo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the jobs and the history of the demo."""
    server = _start(["demo", "--listen", f"127.0.0.1:{free_port()}"], tmp_path_factory.mktemp("demo"))
    yield server.url
    server.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The Chromium of this machine."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    assert program is not None, "the browser tests need Chromium on PATH; install it: apt-get install chromium"
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
