"""The ``command`` target: runs one program, and leaves nothing of it behind.

The ``supervisor`` starts and watches it. This module turns options into a start request, and the end into an outcome.
"""

import asyncio
import errno
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from chronos.core.outcome import Failed, Outcome, Succeeded
from chronos.errors import Invalid, NotFound
from chronos.runners.command import options as options_of
from chronos.runners.command.launcher import CommandLauncher, RunningCommand
from chronos.runners.command.options import NO_RULES, CommandRules
from chronos.runners.command.output_reader import OutputReader
from chronos.runners.contract import AttemptCall
from chronos.runners.secret_mask import SecretMask
from chronos.runners.templates import Renderer, SecretLookup, no_secrets

_DRAIN_TIMEOUT_S = 1.0
_PERMANENT_START_ERRNOS = (
    errno.ENOENT,
    errno.EACCES,
    errno.ENOEXEC,
    errno.ENOTDIR,
    errno.E2BIG,
    errno.EPERM,
    errno.EISDIR,
)


class CommandRunner:
    """Runs programs. A node has one; its ``rules`` apply to every command."""

    def __init__(self, *, secrets: SecretLookup = no_secrets, rules: CommandRules = NO_RULES) -> None:
        self._secrets = secrets
        self._rules = rules
        self._launcher = CommandLauncher()

    def check(self, options: Mapping[str, Any]) -> None:
        options_of.check(options, self._rules, has_secrets=self._secrets is not no_secrets)

    async def run(self, call: AttemptCall) -> Outcome:
        mask = SecretMask()
        renderer = Renderer(call, self._secrets, mask)
        try:
            request = options_of.build_start_request(call, renderer, mask, self._rules)
            stdin = options_of.build_stdin(call, renderer)
            if stdin is not None and b"@" in stdin:
                mask.add_urls(stdin.decode("utf-8", "replace"))
        except NotFound as error:
            return Failed(error=str(error), kinds=("secret",))
        except Invalid as error:
            return Failed(error=mask(str(error)), kinds=("command",), worth_retrying=False)
        try:
            return await self._start(call, request, stdin, mask)
        except OSError as error:  # this machine is out of descriptors, processes or memory
            return Failed(error=f"the command could not be started: {error.strerror or error}", kinds=("start",))

    async def close(self) -> None:
        await self._launcher.close()

    async def _start(
        self, call: AttemptCall, request: dict[str, Any], stdin: bytes | None, mask: SecretMask
    ) -> Outcome:
        outputs: list[OutputReader] = []
        child_fds: list[int] = [_open_stdin(stdin)]
        try:
            for _ in range(2):
                read_fd, write_fd = os.pipe()
                child_fds.append(write_fd)
                outputs.append(OutputReader(read_fd, call.sink.write, mask))
            running = await self._launcher.start(request, child_fds)
        except BaseException:
            for output in outputs:
                output.close()
            raise
        finally:
            for fd in child_fds:
                os.close(fd)
        try:
            return await _await_outcome(call, request, running, outputs)
        except asyncio.CancelledError:
            await running.kill()
            raise
        finally:
            running.close()
            for output in outputs:
                output.close()


async def _await_outcome(
    call: AttemptCall, request: dict[str, Any], running: RunningCommand, outputs: list[OutputReader]
) -> Outcome:
    started = await running.wait_started()
    if "failed" in started:
        return _to_start_failure(request, started)
    call.stop.on_request(running.terminate)
    ended = await running.wait_ended()
    # After SIGTERM, an exit code of success only means that the command ended cleanly.
    call.stop.overrides_success = call.stop.requested
    for output in outputs:
        await output.finish(_DRAIN_TIMEOUT_S)
    if "exit" not in ended:
        return Failed(error="the process that watched the command was killed, and the command with it", kinds=("lost",))
    code: int = ended["exit"]
    call.detail["exit_code"] = code
    if ended["processes"]:
        error = f"killed: it had more than {request['processes']} processes at once (limits.processes)"
        return Failed(error=error, kinds=("processes", "exit"))
    if code in options_of.read_success_codes(call.options):
        return Succeeded()
    last = " ".join(outputs[1].last_text.split()[-30:])[-200:]
    error = _describe_exit(code, request) + (f": {last}" if last else "")
    return Failed(error=error, kinds=(f"exit_{code}", "exit"))


def _describe_exit(code: int, request: dict[str, Any]) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if -code == signal.SIGXCPU:
        return f"killed by {name}: it used more than {request['limits'].get('cpu_s')} s of CPU (limits.cpu_s)"
    if -code == signal.SIGXFSZ:
        max_bytes = request["limits"].get("file_size")
        return f"killed by {name}: it wrote a file of more than {max_bytes} bytes (limits.file_size)"
    return f"killed by {name}"


def _to_start_failure(request: dict[str, Any], started: Mapping[str, Any]) -> Failed:
    stage, number = started["failed"], started["errno"]
    program, reason = request["argv"][0], os.strerror(number) if number else started["error"]
    match stage, number:
        case "exec", errno.ENOENT:
            error = f'program "{program}" not found; give its full path, or set PATH in env'
        case "exec", errno.EACCES | errno.EPERM:
            error = f'"{program}" is not executable; make it executable, or run it with its interpreter'
        case "exec", errno.ENOEXEC:
            error = f'"{program}" is not executable code; a script needs a first line such as #!/bin/sh'
        case "exec", errno.E2BIG:
            error = "the arguments and environment are too long; pass large values through stdin"
        case "cwd", _:
            error = f'cannot change to the directory "{request["cwd"]}": {reason}'
        case _:
            error = f"the command could not be started ({stage}): {reason}"
    return Failed(error=error, kinds=("start",), worth_retrying=number not in _PERMANENT_START_ERRNOS)


def _open_stdin(stdin: bytes | None) -> int:
    """Return a file with the command's input. Nothing has to be fed to it, so nothing can block."""
    if stdin is None:
        return os.open(os.devnull, os.O_RDONLY)
    if sys.platform == "linux":
        fd = os.memfd_create("stdin")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    with open(fd, "wb", closefd=False) as file:
        file.write(stdin)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
