"""The servers under test, each in its own process: Chronos, and a bare one that returns a constant."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHRONOS = Path(sys.executable).with_name("chronos")
_BARE = """
from aiohttp import web

async def hello(request):
    return web.json_response({"status": "ok"})

async def main():
    app = web.Application()
    app.router.add_get("/healthz", hello)
    return app

async def serve():
    runner = web.AppRunner(await main(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"  address  http://127.0.0.1:{runner.addresses[0][1]}\\n  stop", flush=True)
    await asyncio.Event().wait()

import asyncio
asyncio.run(serve())
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that is ready."""

    url: str
    pid: int
    start_s: float  # from its start until it was ready

    def memory_mb(self, kind: str) -> float:
        """Its memory in megabytes: ``VmRSS``, or of that ``RssAnon`` (private) or ``RssFile`` (pages of files)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("cannot read the memory of the server")

    @property
    def cpu_s(self) -> float:
        """The processor time it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def chronos_server(folder: Path) -> Iterator[Served]:
    """``chronos server`` on the store in a folder."""
    command = [str(CHRONOS), "server", "--store", f"sqlite:///{folder / 'api.db'}", "--listen", "127.0.0.1:0"]
    with _served(command, folder) as served:
        yield served


@contextmanager
def bare_server(folder: Path) -> Iterator[Served]:
    """The same HTTP library without Chronos."""
    with _served([sys.executable, "-c", _BARE], folder) as served:
        yield served


@contextmanager
def _served(command: list[str], folder: Path) -> Iterator[Served]:
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = ""
            for line in process.stdout:
                if line.startswith("  address"):
                    url = line.split()[1]
                if line.startswith("  stop"):
                    break
            if not url:
                raise RuntimeError(f"{command[0]} did not start")
            yield Served(url, process.pid, time.perf_counter() - begin)
        finally:
            process.terminate()
