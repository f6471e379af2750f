"""Supervisor: a small, single-threaded, stdlib-only program that keeps commands from outliving the node.

::

    node ──socket──► supervisor ──fork──► monitor ──fork, exec──► the command ──► everything that it starts
      └────────────── one control socket per command ──► monitor

The supervisor starts once and only forks monitors: forking it is cheap, and safe because it has no threads. Each
monitor has one command. On Linux it is a subreaper, so everything that the command leaves behind, detached or not,
becomes its child. The monitor kills all its children when the command ends, when the node asks, or when the control
socket closes because the node was killed. It repeats this until no child is left. If the monitor itself is killed, the
kernel kills the command.

On other systems only the command's process group is killed.
"""

import array
import contextlib
import ctypes
import errno
import json
import os
import pwd
import resource
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

FD_COUNT = 4  # stdin, stdout, stderr, control
TERMINATE = b"T"
KILL = b"K"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_LINUX = sys.platform.startswith("linux")
_FIRST_COUNT_INTERVAL_S = 0.02  # between counts of processes, in the first second
_LATER_COUNT_INTERVAL_S = 0.1
_KILL_INTERVAL_S = 0.005
_MAX_ERROR_CHARS = 500  # as JSON it fits into one read of the pipe
_LIMITS = {
    "cpu_s": resource.RLIMIT_CPU,
    "memory": resource.RLIMIT_AS,
    "file_size": resource.RLIMIT_FSIZE,
    "files": resource.RLIMIT_NOFILE,
}


def serve_start_requests(requests: socket.socket) -> None:
    """Fork a monitor for each request, until the node is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # monitors report on their own
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # the node decides when to stop
    while True:
        head, fds = _receive(requests)
        if len(head) < 4:  # the node closed the socket or was killed
            return
        body = _read_exactly(requests, int.from_bytes(head))
        if os.fork() == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), requests.detach())  # a closed descriptor 0 would be reused
            _run_monitor(json.loads(body), fds)
        for fd in fds:
            os.close(fd)


def _receive(requests: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    head, ancillary, _, _ = requests.recvmsg(4, socket.CMSG_SPACE(FD_COUNT * fds.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])  # a cut-off descriptor is left out
    for fd in fds:
        os.set_inheritable(fd, False)  # the command gets its three streams only
    return head, list(fds)


def _read_exactly(requests: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = requests.recv(min(1 << 16, length - len(data)))
        if not chunk:  # the node was killed while it sent the request
            raise SystemExit(0)
        data += chunk
    return bytes(data)


def _run_monitor(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """Run one command to its end, and kill the processes that it leaves behind."""
    stdin, stdout, stderr, control_fd = fds
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wake_reader, wake_writer = os.pipe()  # each SIGCHLD writes a byte, so that select() returns
    os.set_blocking(wake_writer, False)
    os.set_blocking(wake_reader, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if _LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        pid = _spawn(request, stdin, stdout, stderr)
    except _NotStarted as error:
        _send_message(control, {"failed": error.stage, "errno": error.errno_number, "error": error.text})
        os._exit(0)
    for fd in (stdin, stdout, stderr):
        os.close(fd)
    _send_message(control, {"pid": pid})
    too_many = _watch(pid, control, wake_reader, request["processes"])
    code = _kill_leftovers(pid)
    _send_message(control, {"exit": code, "processes": too_many})
    os._exit(0)


def _watch(pid: int, control: socket.socket, wake_reader: int, max_processes: int) -> bool:
    """Wait until the command has ended. Return whether it was killed because it had too many processes."""
    started_s, too_many, killed = time.monotonic(), False, False
    while not _has_ended(pid):
        wait_s = (
            None
            if killed or not _LINUX
            else _FIRST_COUNT_INTERVAL_S
            if time.monotonic() - started_s < 1
            else _LATER_COUNT_INTERVAL_S
        )
        sources: list[int] = [wake_reader] if killed else [control.fileno(), wake_reader]
        ready, _, _ = select.select(sources, [], [], wait_s)
        if wake_reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_reader, 4096)
        if control.fileno() in ready:
            if _receive_order(control) == TERMINATE:
                _signal_group(pid, signal.SIGTERM)
            else:  # KILL, or the node is gone
                killed = True
        elif not killed and _LINUX and len(list_descendants(os.getpid())) > max_processes:
            too_many = killed = True
        if killed:
            _signal_group(pid, signal.SIGKILL)
            _kill_descendants()
    return too_many


def _receive_order(control: socket.socket) -> bytes:
    try:
        return control.recv(1)
    except OSError:
        return b""


def _has_ended(pid: int) -> bool:
    """Return whether the command has ended. It is not reaped yet, so that its pid and group id are not reused."""
    if not hasattr(os, "waitid"):
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            _reaped_statuses[pid] = status
        return ended_pid == pid
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if ended.si_pid == pid:
            return True
        os.waitpid(ended.si_pid, 0)  # a process that the command left behind
    return False


def _kill_leftovers(pid: int) -> int:
    """Kill until nothing of the command is left, and return its exit code."""
    _signal_group(pid, signal.SIGKILL)
    status = _reaped_statuses[pid] if pid in _reaped_statuses else os.waitpid(pid, 0)[1]
    while _LINUX:
        _kill_descendants()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(_KILL_INTERVAL_S)
    return os.waitstatus_to_exitcode(status)


def _kill_descendants() -> None:
    """Kill processes that left the group. All are stopped first, so that none forks while another is killed."""
    if not _LINUX:
        return
    pids = list_descendants(os.getpid())
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signum)


def _signal_group(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)


def list_descendants(root: int) -> list[int]:
    """Return the children of a process, their children, and so on.

    It may miss a process that is just being forked: call it until it returns none.
    """
    if not os.path.exists(f"/proc/{root}/task/{root}/children"):  # the kernel does not list children
        return _list_descendants_by_parent(root)
    pids: list[int] = []
    pending = [root]
    while pending:
        parent = pending.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                    children_of_parent = [int(pid) for pid in file.read().split()]
                pids.extend(children_of_parent)
                pending.extend(children_of_parent)
    return pids


def _list_descendants_by_parent(root: int) -> list[int]:
    """Like ``list_descendants``, on kernels that do not list children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                parent = file.read().rpartition(b") ")[2].split(None, 2)[1]  # a program's name may contain ")"
                children.setdefault(int(parent), []).append(int(name))
    pids: list[int] = []
    pending = [root]
    while pending:
        children_of_parent = children.get(pending.pop(), [])
        pids.extend(children_of_parent)
        pending.extend(children_of_parent)
    return pids


class _NotStarted(Exception):
    """The command could not be started. ``errno_number`` is 0 for errors of other kinds."""

    def __init__(self, stage: str, errno_number: int, text: str) -> None:
        self.stage = stage
        self.errno_number = errno_number
        self.text = text


def _spawn(request: dict[str, Any], stdin: int, stdout: int, stderr: int) -> int:
    """Start the command. Errors before its exec come back through a pipe, which the exec closes."""
    error_reader, error_writer = os.pipe()
    monitor_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        stage = ["set up"]  # what the child is doing; ``_prepare_and_exec`` changes it, and an error names it
        try:
            _prepare_and_exec(request, (stdin, stdout, stderr), monitor_pid, stage)
        except BaseException as error:  # noqa: BLE001 - a child must never return into the monitor's code
            errno_number = error.errno if isinstance(error, OSError) else None
            text = f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]
            os.write(error_writer, json.dumps([stage[0], errno_number or 0, text]).encode())
        finally:
            os._exit(127)
    os.close(error_writer)
    failure = os.read(error_reader, 4096)
    os.close(error_reader)
    if failure:  # nothing, if the exec closed the pipe
        os.waitpid(pid, 0)
        raise _NotStarted(*json.loads(failure))
    return pid


def _prepare_and_exec(
    request: dict[str, Any], streams: tuple[int, int, int], monitor_pid: int, stage: list[str]
) -> None:
    """Turn the forked child into the command. ``stage[0]`` is set to the current stage, for error messages.

    Nothing is imported from here on, even if the user does not change: another user may not be allowed to read Python's
    files, and must not decide what is loaded.
    """
    sys.meta_path.clear()
    paths = _list_candidate_paths(request["argv"][0], request["env"])
    os.setsid()
    for signum in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):  # SIGKILL, SIGSTOP and reserved signals
            signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for target, fd in enumerate(streams):
        os.dup2(fd, target)
    limits = request["limits"]
    stage[0] = "limits"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    user = request["user"]
    if "processes" in limits:
        uid = pwd.getpwnam(user).pw_uid if user else os.getuid()
        _lower_rlimit(resource.RLIMIT_NPROC, _count_user_threads(uid) + limits["processes"])
    if user is not None:
        stage[0] = "user"
        entry = pwd.getpwnam(user)
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    stage[0] = "cwd"
    if request["cwd"] is not None:
        os.chdir(request["cwd"])
    stage[0] = "limits"
    for name, kind in _LIMITS.items():
        if name in limits:
            # The soft limit of CPU time sends SIGXCPU; the hard limit, one second later, kills.
            _lower_rlimit(kind, limits[name], hard_extra=1 if name == "cpu_s" else 0)
    if _LINUX:  # last, because changing the user resets it
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)  # setuid programs and file capabilities grant nothing
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != monitor_pid:  # the monitor died before PDEATHSIG was set
            os._exit(127)
    stage[0] = "exec"
    _execute(paths, request["argv"], request["env"])


def _list_candidate_paths(program: str, env: dict[str, str]) -> list[str]:
    """Return the paths where a program may be, in the order of ``PATH``."""
    if "/" in program:
        return [program]
    return [os.path.join(folder, program) for folder in env.get("PATH", os.defpath).split(os.pathsep)]


def _execute(paths: list[str], argv: list[str], env: dict[str, str]) -> NoReturn:
    """Execute the first of these programs that can be executed.

    ``os.execvpe`` does the same, but imports a module.
    """
    failure: OSError | None = None
    for path in paths:
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            failure = failure or error
    raise failure or missing


def _lower_rlimit(kind: int, limit: int, *, hard_extra: int = 0) -> None:
    """Lower a soft limit, and the hard limit to ``hard_extra`` more; never raise them."""
    hard = resource.getrlimit(kind)[1]
    new_hard = limit + hard_extra if hard == resource.RLIM_INFINITY else min(hard, limit + hard_extra)
    resource.setrlimit(kind, (min(limit, new_hard), new_hard))


def _count_user_threads(uid: int) -> int:
    """Return the number of threads of a user: the kernel's limit counts all of them."""
    if not _LINUX:
        return 0
    count = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno() or errno.EINVAL, "prctl")


def _send_message(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(message).encode() + b"\n")


_reaped_statuses: dict[int, int] = {}  # for systems without waitid, where checking a process reaps it
_libc = ctypes.CDLL(None, use_errno=True)

if __name__ == "__main__":
    serve_start_requests(socket.socket(fileno=0))
