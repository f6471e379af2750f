"""``chronos server`` as a process: the installed script, a real socket, its streams and signals."""

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
#: The example configuration of the product's requirements, as it stands there.
EXAMPLE = Path(__file__).parent.parent / "data" / "requirements.yaml"


def environment(**variables: str) -> dict[str, str]:
    """Return a clean environment that has only the PATH of the test run."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **variables}


def free_port() -> int:
    """Return a free port outside the ephemeral range, so that it stays free until it is used."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a ``chronos`` command until it ends."""
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
    """``chronos server`` with arguments. It listens on a free port unless they name an address."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...],
        variables: dict[str, str],
        errors: int | None = None,
        launcher: tuple[str, ...] = (),
    ) -> None:
        has_address = "--listen" in arguments or "CHRONOS_SERVER__LISTEN" in variables
        command = [*launcher, str(CHRONOS), "server", *arguments, *(() if has_address else ("--listen", "127.0.0.1:0"))]
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
        self.banner = ""
        self.url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ready(self) -> "Process":
        """Wait until the server has printed its banner."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.banner += line
            if line.startswith("  address"):
                self.url = line.split()[1]
            if line.startswith("  stop"):
                break
        assert self.url, f"the server did not start: {self.errors}"
        return self

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end and return the exit status."""
        return self._process.wait(PATIENCE_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def first_job(self) -> list[str]:
        """Return the commands for a first job, which follow the banner."""
        assert self._process.stdout is not None
        lines: list[str] = []
        while not (lines and "executions watch" in lines[-1]):
            lines.append(self._process.stdout.readline())
            assert lines[-1], "the banner has no commands"
        return [line.strip() for line in lines if line.startswith("  chronosctl")]

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def first_line(self) -> str:
        """Return the first line of the standard output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def rest(self) -> str:
        """Return the rest of the standard output, after the end."""
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
        """Return status and body."""
        return self._ask(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Return the JSON reply; an error fails the test."""
        status, text = self.try_post(path, body, **headers)
        assert status < 300, text
        return json.loads(text)

    def try_post(self, path: str, body: Any, **headers: str) -> tuple[int, str]:
        """Return status and body."""
        headers["Content-Type"] = "application/json"
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode(), headers=headers)
        return self._ask(request)

    def read(self, path: str) -> Any:
        """Return the JSON at a path."""
        status, text = self.get(path)
        assert status == 200, text
        return json.loads(text)

    def until(self, path: str, accepts: Any) -> Any:
        """Repeat a request until ``accepts`` returns true for the reply."""
        end_s = time.monotonic() + PATIENCE_S
        while not accepts(reply := self.read(path)):
            assert time.monotonic() < end_s, reply
            time.sleep(0.02)
        return reply

    def _ask(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
