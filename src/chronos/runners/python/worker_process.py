"""A worker process: calls functions one after the other on its main thread, and dies with its node.

::

    node ◄── socket pair ──► worker (main thread: the function; a second thread reads the node's messages)
                               └── guard, a fork that only waits for the node's end of the socket to close

When the node is gone for any reason, the kernel kills the worker, and the guard kills what the worker's functions
started: they share one process group. A worker is a new process, never a fork of the node, which has threads.
"""

import contextlib
import ctypes
import os
import resource
import runpy
import select
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from contextvars import copy_context
from importlib import import_module
from queue import SimpleQueue
from typing import Any, NoReturn, assert_never

from chronos.clock import SystemClock
from chronos.core.outcome import Failed, Outcome
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall, StopReason
from chronos.runners.python import stdout_capture
from chronos.runners.python.context import Context
from chronos.runners.python.function_registry import FunctionOrigin, inspect_function
from chronos.runners.python.invocation import BAD_PAYLOAD, call_sync, to_exception_outcome
from chronos.runners.python.resource_limits import Limits
from chronos.runners.python.worker_log import WorkerLog
from chronos.runners.python.worker_protocol import (
    LENGTH_BYTES,
    WORKER_MESSAGE_DECODER,
    RunMessage,
    StopMessage,
    StoppingMessage,
    ToNode,
    encode_frame,
    to_end_message,
)

MAIN = "__mp_main__"  # ``multiprocessing`` uses the same name for a program that it loads again
_PR_SET_PDEATHSIG = 1
_MAX_WRAPPERS = 10


class _NodeClock(SystemClock):
    """This machine's clock, corrected like the node's."""

    def __init__(self, now_us: int) -> None:
        self._offset_us = now_us - super().now_us()

    def now_us(self) -> int:
        return super().now_us() + self._offset_us


class Worker:
    """The worker's end of the socket."""

    def __init__(self, sock: socket.socket, main: tuple[str, str] | None) -> None:
        self._sock = sock
        self._main = main
        self._runs: SimpleQueue[tuple[RunMessage, AttemptCall, WorkerLog]] = SimpleQueue()
        self._current: AttemptCall | None = None
        self._functions: dict[FunctionOrigin, Callable[..., Any]] = {}

    def serve(self) -> NoReturn:
        """Make attempts until the node goes away or kills this process."""
        threading.Thread(target=self._listen, name="chronos-worker", daemon=True).start()
        while True:
            run, call, log = self._runs.get()
            outcome = self._run(run, call, log)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(
                    OSError, ValueError, AttributeError
                ):  # the function may have closed the stream
                    stream.flush()
            retire = isinstance(outcome, Failed) and "MemoryError" in outcome.kinds
            log.end(to_end_message(outcome, call, retire=retire))

    def send(self, message: ToNode) -> None:
        """Send a message to the node. WorkerLog sends one at a time."""
        self._sock.sendall(encode_frame(message))

    # --- one attempt

    def _run(self, run: RunMessage, call: AttemptCall, log: WorkerLog) -> Outcome:
        try:
            target = self._find(run.origin)
            function = inspect_function(run.name, target)
        except BaseException as error:  # noqa: BLE001 - importing runs user code
            return to_exception_outcome(error, call)
        try:
            arguments = function.arguments(run.payload, run.hook)
        except Invalid as error:
            return Failed(error=str(error), kinds=(BAD_PAYLOAD,), worth_retrying=False)
        if function.ctx_parameter is not None:
            context = Context(call, _NodeClock(run.now_us), is_async=False, on_remember=log.send_memory_entry)
            arguments[function.ctx_parameter] = context
        _set_limits(run.limits)
        try:
            return copy_context().run(call_sync, function, arguments, call)
        finally:
            _set_limits(Limits())

    def _find(self, origin: FunctionOrigin) -> Callable[..., Any]:
        target = self._functions.get(origin)
        if target is None:
            target = self._functions[origin] = import_function(origin, self._main)
        return target

    # --- messages of the node

    def _listen(self) -> None:
        try:
            self._handle_messages()
        finally:  # the node is gone or cannot be read: kill this group and what it started
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def _handle_messages(self) -> None:
        while body := self._receive():
            message = WORKER_MESSAGE_DECODER.decode(body)
            match message:
                case RunMessage():
                    log = WorkerLog(self.send)
                    self._current = _to_attempt_call(message, log)
                    self._runs.put((message, self._current, log))
                case StopMessage(reason=reason):
                    if self._current is not None:
                        self._current.stop.request(reason)
                case StoppingMessage():
                    if self._current is not None:
                        self._current.stopping.request(StopReason.SHUTDOWN)
                case _:
                    assert_never(message)

    def _receive(self) -> bytes:
        try:
            head = self._sock.recv(LENGTH_BYTES, socket.MSG_WAITALL)
            size = int.from_bytes(head)
            body = self._sock.recv(size, socket.MSG_WAITALL) if len(head) == LENGTH_BYTES else b""
        except OSError:
            return b""
        return body if len(body) == size else b""


def _to_attempt_call(run: RunMessage, log: WorkerLog) -> AttemptCall:
    call = AttemptCall(
        execution=run.execution,
        job=run.job,
        job_name=run.job_name,
        namespace=run.namespace,
        task=run.task,
        number=run.number,
        token=run.token,
        scheduled_us=run.scheduled_us,
        started_us=run.started_us,
        deadline_us=run.deadline_us,
        last_run_us=run.last_run_us,
        options={},
        payload=run.payload,
        span=run.span,
        sink=log,
        grace_s=run.grace_s,
        signals=run.signals,
        memory=run.memory,
    )
    if run.stopping:
        call.stopping.request(StopReason.SHUTDOWN)
    return call


def import_function(origin: FunctionOrigin, main: tuple[str, str] | None) -> Callable[..., Any]:
    """Import a function. Its name may refer to an object that wraps it, such as the result of a decorator."""
    target: Any = _load_main(main) if origin.module == "__main__" else import_module(origin.module)
    for name in origin.qualname.split("."):
        target = getattr(target, name)
    for _ in range(_MAX_WRAPPERS):
        if isinstance(target, types.FunctionType | types.MethodType):
            return target
        target = getattr(target, "function", None) or getattr(target, "__wrapped__", None)
    raise Invalid(f"{origin.module}.{origin.qualname} is not a function, nor an object with one in .function")


def _load_main(main: tuple[str, str] | None) -> types.ModuleType:
    """Load the program's main module under another name, so that its ``__main__`` block does not run."""
    if MAIN in sys.modules:
        return sys.modules[MAIN]
    if main is None:
        raise Invalid(
            "the function was defined in an interactive session, which another process cannot import; move it to a file"
        )
    kind, name = main
    content = runpy.run_module(name, run_name=MAIN) if kind == "module" else runpy.run_path(name, run_name=MAIN)
    module = types.ModuleType(MAIN)
    module.__dict__.update(content)
    sys.modules[MAIN] = module
    return module


def _set_limits(limits: Limits) -> None:
    """Set soft limits only, because the next task may have others. Memory counts from what the idle process uses."""
    memory = resource.RLIM_INFINITY
    if limits.memory_bytes is not None:
        memory = _used_bytes() + limits.memory_bytes
    cpu_s = resource.RLIM_INFINITY
    if limits.cpu_s is not None:
        cpu_s = int(time.process_time()) + limits.cpu_s
    for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, cpu_s)):
        _, hard = resource.getrlimit(kind)
        bounds = [bound for bound in (limit, hard) if bound != resource.RLIM_INFINITY]
        resource.setrlimit(kind, (min(bounds, default=resource.RLIM_INFINITY), hard))


def _used_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the node ends, even while a function holds the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the node is already gone
        os._exit(1)


def _start_guard(sock: socket.socket) -> None:
    """Fork a guard that kills this process group when the node goes away."""
    if not hasattr(select, "POLLRDHUP") or os.fork():
        return
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    poll.poll()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(fd: int, parent: int, program: tuple[str, str] | None) -> NoReturn:
    """Serve the node at the other end of a socket."""
    _die_with_parent(parent)
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    _start_guard(sock)
    stdout_capture.start_capture()
    Worker(sock, program).serve()
