"""Process identity: lets a node see that the process of another node on the same machine has ended.

A process is identified by its scope (the boot of its machine and its namespaces of pids and time), its pid and its
start time. So a reused pid or a process in another container is never mistaken for it. Where the system does not
provide these facts, ``has_ended`` returns False and only missing heartbeats show that a node has died.
"""

import os
from contextlib import suppress
from pathlib import Path

from chronos.core.node import Process

_PROC = Path("/proc")
_INIT_STAT = _PROC / "1" / "stat"
# Fields of /proc/<pid>/stat after the command's name.
_STATE, _THREADS, _STARTED = 0, 17, 19


def identify_this_process() -> Process | None:
    """Return the identity of this process; None if the system does not provide it."""
    scope, stat = _read_scope(), _read_stat("self")
    if scope is None or stat is None or not _INIT_STAT.exists():  # the system may hide processes of other users
        return None
    return Process(scope=scope, pid=os.getpid(), started=stat[_STARTED])


def has_ended(process: Process) -> bool:
    """Return whether a process has certainly ended. Its helpers may still be ending: see ``has_helpers``."""
    if process.scope != _read_scope() or process.pid <= 0 or not _INIT_STAT.exists():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # the process belongs to another user
    stat = _read_stat(str(process.pid))
    if stat is None:
        return False
    dead = stat[_STATE] in "ZX" and int(stat[_THREADS]) <= 1  # a zombie
    return dead or stat[_STARTED] != process.started


def to_helper_mark(process: Process | None) -> str:
    """Return the argument that marks the helpers of a process. A helper ends after everything it supervises."""
    return "" if process is None else f"chronos-helper-of-{process.pid}-{process.started}"


def has_helpers(process: Process) -> bool:
    """Return whether helpers of an ended process still exist.

    Scans twice: one scan may miss a helper that ends while it starts another one.
    """
    mark = to_helper_mark(process).encode()
    return any(_has_marked_process(mark) for _ in range(2))


def _has_marked_process(mark: bytes) -> bool:
    for name in os.listdir(_PROC):
        if name.isdecimal():
            with suppress(OSError):
                if mark in (_PROC / name / "cmdline").read_bytes():
                    return True
    return False


def _read_scope() -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespaces = [os.readlink(_PROC / "self/ns/pid")]
    except OSError:
        return None
    with suppress(OSError):  # kernels before 5.6 have no time namespaces
        namespaces.append(os.readlink(_PROC / "self/ns/time"))
    return "/".join((boot, *namespaces))


def _read_stat(name: str) -> list[str] | None:
    """Return the stat fields of a process; None if unreadable, or if /proc belongs to another pid namespace."""
    try:
        text = (_PROC / name / "stat").read_text()
    except OSError:
        return None
    if name == "self" and text.partition(" ")[0] != str(os.getpid()):
        return None
    return text.rpartition(")")[2].split()
