"""Which process a node is, so that another node on the same machine can see that the process has ended.

A process is named by its world (the boot of its machine, and the namespaces of process numbers and of time), its number
and when it began: neither a number that is used again nor another container is taken for it. Where that cannot be
known, no process has ended as far as this module says, and only heartbeats that do not come tell.
"""

import os
from contextlib import suppress
from pathlib import Path

from chronos.core.node import Process

_PROC = Path("/proc")
_INIT_STAT = _PROC / "1" / "stat"
# Of /proc/<pid>/stat, counted after the command's name.
_STATE, _THREADS, _STARTED = 0, 17, 19


def identify_this_process() -> Process | None:
    """This process; None where the system does not say enough."""
    scope, stat = _read_scope(), _read_stat("self")
    if scope is None or stat is None or not _INIT_STAT.exists():  # it may hide the processes of other users
        return None
    return Process(scope=scope, pid=os.getpid(), started=stat[_STARTED])


def has_ended(process: Process) -> bool:
    """Whether a process has ended, beyond doubt. What it started may still be about to end: see ``has_helpers``."""
    if process.scope != _read_scope() or process.pid <= 0 or not _INIT_STAT.exists():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it belongs to another user
    stat = _read_stat(str(process.pid))
    if stat is None:
        return False
    dead = stat[_STATE] in "ZX" and int(stat[_THREADS]) <= 1  # it is only not collected yet
    return dead or stat[_STARTED] != process.started


def to_helper_mark(process: Process | None) -> str:
    """An argument by which the helpers of a process are known; they end after all that they keep has ended."""
    return "" if process is None else f"chronos-helper-of-{process.pid}-{process.started}"


def has_helpers(process: Process) -> bool:
    """Whether helpers of a process that has ended are still there, and with them what they keep.

    Looks twice: a helper that ends while it starts another one may be missed by one look.
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
    with suppress(OSError):  # kernels before 5.6 have one time for all
        namespaces.append(os.readlink(_PROC / "self/ns/time"))
    return "/".join((boot, *namespaces))


def _read_stat(name: str) -> list[str] | None:
    """What the system says of a process; None: nothing, or the numbers there are not those of this process."""
    try:
        text = (_PROC / name / "stat").read_text()
    except OSError:
        return None
    if name == "self" and text.partition(" ")[0] != str(os.getpid()):
        return None
    return text.rpartition(")")[2].split()
