"""A server process: the installed program, a real socket on a free port, its streams and signals."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHRONOS = Path(sys.executable).with_name("chronos")
PATIENCE_S = 60.0
#: The example configuration of the product's requirements, unchanged.
EXAMPLE = Path(__file__).parent.parent / "data" / "requirements.yaml"


def environment(**variables: str) -> dict[str, str]:
    """An environment with only the path of the current one."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **variables}


def free_port() -> int:
    """A port that stays free: it is outside the range from which the system chooses ports."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [CHRONOS, *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


class Process:
    """``chronos server`` with these arguments. It listens on a free port unless they name one."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...],
        variables: dict[str, str],
        errors: int | None = None,
        launcher: tuple[str, ...] = (),
    ) -> None:
        named = "--listen" in arguments or "CHRONOS_SERVER__LISTEN" in variables
        command = [*launcher, str(CHRONOS), "server", *arguments, *(() if named else ("--listen", "127.0.0.1:0"))]
        self._errors = folder / f"stderr-{time.monotonic_ns()}"
        with self._errors.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(**variables),
                stdout=subprocess.PIPE,
                stderr=file if errors is None else errors,
                text=True,
            )
        self.greeting = ""
        self.url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ready(self) -> "Process":
        """Wait until the server has printed its greeting."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.greeting += line
            if line.startswith("  address"):
                self.url = line.split()[1]
            if line.startswith("  stop"):
                break
        assert self.url, f"the server did not start: {self.errors}"
        return self

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end. Returns the exit status."""
        return self._process.wait(PATIENCE_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def first_job(self) -> list[str]:
        """The commands that the greeting suggests to a new user."""
        assert self._process.stdout is not None
        lines: list[str] = []
        while not (lines and "executions watch" in lines[-1]):
            lines.append(self._process.stdout.readline())
            assert lines[-1], "the greeting suggests nothing"
        return [line.strip() for line in lines if line.startswith("  chronosctl")]

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def first_line(self) -> str:
        """Read the first line of standard output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def rest(self) -> str:
        """The remaining output, after the end."""
        assert self._process.stdout is not None
        return self._process.stdout.read()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    # --- requests

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """GET a path. Returns the status and the body."""
        return self._send(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """POST a JSON value, and assert success."""
        headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode(), headers=headers)
        status, text = self._send(request)
        assert status < 300, text
        return json.loads(text)

    def read(self, path: str) -> Any:
        """GET a JSON value, and assert success."""
        status, text = self.get(path)
        assert status == 200, text
        return json.loads(text)

    def until(self, path: str, condition: Any) -> Any:
        """GET a path until its value meets a condition."""
        end_s = time.monotonic() + PATIENCE_S
        while not condition(answer := self.read(path)):
            assert time.monotonic() < end_s, answer
            time.sleep(0.02)
        return answer

    def _send(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
