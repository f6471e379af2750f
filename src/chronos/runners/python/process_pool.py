"""ProcessPool: worker processes for functions that must be killable.

They are bounded, reused, and ended when idle or worn. A stop is requested by a message. A kill is SIGKILL to the
worker's process group. The attempt is over only when the process has been reaped, so nothing of it runs beside its
successor.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections import deque
from types import ModuleType
from typing import assert_never

import msgspec

from chronos.clock import Clock
from chronos.core.outcome import Failed, Outcome
from chronos.process_identity import identify_this_process, to_helper_mark
from chronos.runners.contract import AttemptCall
from chronos.runners.python.function_registry import Function
from chronos.runners.python.invocation import STOPPED
from chronos.runners.python.resource_limits import Limits, read_limits
from chronos.runners.python.worker_protocol import (
    LENGTH_BYTES,
    MAX_MESSAGE_BYTES,
    NODE_MESSAGE_DECODER,
    EndMessage,
    ProgressMessage,
    RememberMessage,
    StopMessage,
    StoppingMessage,
    WroteMessage,
    encode_frame,
    to_outcome,
    to_run_message,
)

CRASHED = "crashed"  # the ``retry_on`` kind of an attempt whose process died
IDLE_S = 60.0
MAX_USES = 1_000
_BOOT = (
    "import json, sys\n"
    "fd, parent, path, program, _ = json.loads(sys.argv.pop())\n"
    "sys.path[:] = path\n"
    "from chronos.runners.python.worker_process import main\n"
    "main(fd, parent, program)\n"
)


class _WorkerHandle:
    """The node's end of one worker process."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.process = process
        self.uses = 0
        self.retire = False
        self.timer: asyncio.TimerHandle | None = None
        self.reaped = asyncio.create_task(self._reap())

    @classmethod
    async def start(cls) -> "_WorkerHandle":
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                fd = theirs.fileno()
                argument = json.dumps(
                    [fd, os.getpid(), sys.path, _find_main_program(), to_helper_mark(identify_this_process())]
                )
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    _BOOT,
                    argument,
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(fd,),
                    start_new_session=True,
                )
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        return cls(process, reader, writer)

    async def run(self, function: Function, limits: Limits, call: AttemptCall, now_us: int) -> Outcome:
        """Make one attempt. Returns an outcome even if the process dies."""
        assert function.origin is not None
        self.uses += 1
        self._send_message(encode_frame(to_run_message(function.name, function.origin, limits, call, now_us)))
        running = True

        def send_stop() -> None:
            if running and call.stop.reason is not None:
                self._send_message(encode_frame(StopMessage(reason=call.stop.reason)))

        def send_stopping() -> None:
            if running:
                self._send_message(encode_frame(StoppingMessage()))

        call.stop.on_request(send_stop)
        call.stopping.on_request(send_stopping)
        try:
            while (message := await self._receive()) is not None:
                match message:
                    case WroteMessage():
                        call.sink.write(message.text)
                    case ProgressMessage():
                        call.sink.progress(message.done, message.total)
                    case RememberMessage():
                        call.memory[message.index : message.index + 1] = [message.entry]
                    case EndMessage():
                        self.retire = message.retire
                        return to_outcome(message, call)
                    case _:
                        assert_never(message)
        finally:
            running = False
        code = await asyncio.shield(self.end())
        call.detail["exit_code"] = code
        return _to_crash_failure(code, limits)

    async def end(self) -> int:
        """Kill the worker and everything that it started. Returns its exit code."""
        if self.timer is not None:
            self.timer.cancel()
        if self.process.returncode is None:
            _kill_group(self.process.pid)
        return await self.reaped

    async def _reap(self) -> int:
        code = await self.process.wait()
        _kill_group(
            self.process.pid
        )  # what the function left running; the group id is not reused while any of it lives
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        return code

    def _send_message(self, message: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(message)

    async def _receive(self) -> WroteMessage | ProgressMessage | RememberMessage | EndMessage | None:
        """Return the next message of the worker; None if it is gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES))
            if size > MAX_MESSAGE_BYTES:
                return None
            return NODE_MESSAGE_DECODER.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):  # gone, or it sent garbage
            return None


class ProcessPool:
    """Hands out worker processes, and waits for a free one if all are busy."""

    def __init__(self, size: int, *, clock: Clock, idle_s: float = IDLE_S, max_uses: int = MAX_USES) -> None:
        self._size = size
        self._clock = clock
        self._idle_s = idle_s
        self._max_uses = max_uses
        self._idle: list[_WorkerHandle] = []
        self._workers: set[_WorkerHandle] = set()
        self._places_taken = 0  # workers, including those that are being started
        self._waiting: deque[asyncio.Future[bool]] = deque()  # True: a place is free; False: a stop was requested
        self._ending_tasks: set[asyncio.Task[int]] = set()
        self._closed = False

    async def run(self, function: Function, call: AttemptCall) -> Outcome:
        """Make one attempt in a process. If cancelled, kills the process before it raises ``CancelledError``."""
        limits = read_limits(call.options.get("limits"))
        worker = await self._take(call)
        if worker is None:
            return STOPPED
        try:
            outcome = await worker.run(function, limits, call, self._clock.now_us())
        except BaseException:
            await self._end(worker)
            raise
        if worker.process.returncode is not None or worker.retire or worker.uses >= self._max_uses:
            await self._end(worker)
        else:
            self._give_back(worker)
        return outcome

    async def close(self) -> None:
        """Kill every worker and wait until they are gone."""
        self._closed = True
        for worker in list(self._workers):
            await self._end(worker)
        while self._ending_tasks:
            await asyncio.wait(self._ending_tasks)

    async def _take(self, call: AttemptCall) -> _WorkerHandle | None:
        while not self._idle and self._places_taken >= self._size:
            place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            call.stop.on_request(lambda place=place: None if place.done() else place.set_result(False))  # type: ignore[misc]
            if not place.done():
                self._waiting.append(place)
            try:
                if not await place:
                    return None
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._wake()  # pass the free place on
                raise
        if call.stop.requested or self._closed:
            self._wake()
            return None
        while self._idle:
            worker = self._idle.pop()
            if worker.timer is not None:
                worker.timer.cancel()
            if worker.process.returncode is None:
                return worker
            await self._end(worker)
        self._places_taken += 1
        try:
            worker = await _WorkerHandle.start()
        except BaseException:
            self._free()
            raise
        self._workers.add(worker)
        return worker

    def _give_back(self, worker: _WorkerHandle) -> None:
        self._idle.append(worker)
        worker.timer = asyncio.get_running_loop().call_later(self._idle_s, self._retire, worker)
        self._wake()

    def _retire(self, worker: _WorkerHandle) -> None:
        if worker in self._idle:
            self._idle.remove(worker)  # now, so that no call takes it before it has ended
            task = asyncio.create_task(self._end(worker))
            self._ending_tasks.add(task)
            task.add_done_callback(self._ending_tasks.discard)

    async def _end(self, worker: _WorkerHandle) -> int:
        if worker in self._idle:
            self._idle.remove(worker)
        if worker not in self._workers:
            return await asyncio.shield(worker.end())
        self._workers.discard(worker)
        try:
            return await asyncio.shield(worker.end())
        finally:
            self._free()

    def _free(self) -> None:
        self._places_taken -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(True)
                return


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _to_crash_failure(code: int, limits: Limits) -> Failed:
    if code >= 0:
        text = f"its process ended by itself with exit code {code}"
    elif -code == signal.SIGXCPU and limits.cpu_s is not None:
        text = f"its process was killed by SIGXCPU: it used more than {limits.cpu_s} s of CPU"
    elif -code == signal.SIGKILL:
        text = "its process was killed by SIGKILL, perhaps because the machine ran out of memory"
    else:
        text = f"its process was killed by {_signal_name(-code)}"
    return Failed(error=text, kinds=(CRASHED,))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _find_main_program() -> tuple[str, str] | None:
    """Return how to load this program's main module again: a module name or a path; None if it has neither."""
    module: ModuleType | None = sys.modules.get("__main__")
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.name:
        return "module", str(spec.name)
    path = getattr(module, "__file__", None)
    return ("path", os.path.abspath(path)) if path else None
