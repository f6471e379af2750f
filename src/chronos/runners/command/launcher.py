"""CommandLauncher: the node's side of the ``supervisor``. Starts it on first use and sends it commands."""

import array
import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chronos.process_identity import identify_this_process, to_helper_mark
from chronos.runners.command import supervisor

_KILL_TIMEOUT_S = 10.0  # a process that survives longer hangs in a driver


class CommandLauncher:
    """Starts the supervisor process on first use, and again if it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._send_lock = asyncio.Lock()

    async def start(self, request: dict[str, Any], streams: Sequence[int]) -> "RunningCommand":
        """Start a command on these three streams. Raises ``OSError`` if the supervisor cannot be started."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        sending = asyncio.ensure_future(self._send(json.dumps(request).encode(), [*streams, theirs.fileno()]))
        running = RunningCommand(ours)
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:  # finish sending: half a request would corrupt the next one
            await asyncio.wait([sending])
            if sending.exception() is None:
                await running.kill()
            running.close()
            raise
        except OSError:
            running.close()
            raise
        finally:
            theirs.close()
        return running

    async def close(self) -> None:
        """Stop the supervisor. Monitors stay until their commands have ended."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
        self._socket = self._process = None

    async def _send(self, body: bytes, fds: list[int]) -> None:
        loop = asyncio.get_running_loop()
        async with self._send_lock:
            if self._process is None or self._socket is None or self._process.poll() is not None:
                self._start_supervisor()
            assert self._socket is not None
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            while True:
                try:
                    self._socket.sendmsg([len(body).to_bytes(4)], rights)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.001)
            await loop.sock_sendall(self._socket, body)

    def _start_supervisor(self) -> None:
        if self._socket is not None:
            self._socket.close()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(supervisor.__file__)), to_helper_mark(identify_this_process())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours


class RunningCommand:
    """A command that a monitor runs for the node."""

    __slots__ = ("_buffer", "_control")

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._buffer = b""

    async def wait_started(self) -> dict[str, Any]:
        """Return ``{"pid": …}``, or ``{"failed": stage, "errno": …, "error": …}`` if it could not start."""
        return await self._receive_message()

    async def wait_ended(self) -> dict[str, Any]:
        """Return ``{"exit": code, "processes": whether it had too many}`` once nothing of it is left."""
        while "pid" in (message := await self._receive_message()):
            pass
        return message

    def terminate(self) -> None:
        """Send SIGTERM to its process group."""
        self._send_order(supervisor.TERMINATE)

    async def kill(self) -> None:
        """Kill all of it and wait until nothing is left."""
        self._send_order(supervisor.KILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILL_TIMEOUT_S):
                await self.wait_ended()

    def close(self) -> None:
        """Close the control socket.

        A monitor whose command still runs takes this for the end of the node and kills it.
        """
        self._control.close()

    def _send_order(self, order: bytes) -> None:
        with suppress(OSError):  # the command has ended
            self._control.send(order)

    async def _receive_message(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        while b"\n" not in self._buffer:
            try:
                chunk = await loop.sock_recv(self._control, 4096)
            except OSError:
                chunk = b""
            if not chunk:
                return {"lost": True}
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
