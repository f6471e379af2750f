"""Which process a node is, told so that another one on the same machine can see that it is gone.

A process is named by the boot of its machine, its namespace of process numbers, its number and when it began, so that
neither a reused number nor another container is taken for it. Where that cannot be known, nobody is declared dead here:
the engine notices by heartbeats that do not come.
"""

import os
from collections.abc import Mapping
from pathlib import Path

_PROC = Path("/proc")
_WORLD, _PROCESS = "chronos/world", "chronos/process"
_STARTED = 19  # of /proc/<pid>/stat, counted after the command's name


def labels() -> dict[str, str]:
    """What a node of this process says about itself."""
    world, started = _world(), _started(os.getpid())
    return {} if world is None or started is None else {_WORLD: world, _PROCESS: f"{os.getpid()}/{started}"}


def is_this(said: Mapping[str, str]) -> bool:
    """Whether it is this process that said this about itself."""
    mine = labels()
    return bool(mine) and all(said.get(key) == value for key, value in mine.items())


def surely_gone(said: Mapping[str, str]) -> bool:
    """Whether the process that said this about itself has ended, beyond doubt."""
    world, process = said.get(_WORLD), said.get(_PROCESS, "").split("/")
    if world is None or world != _world() or len(process) != 2 or not process[0].isdigit():
        return False
    return _started(int(process[0])) != process[1]


def _world() -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process began, in ticks since the boot; None: there is none, or it is dead and only not collected yet."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[_STARTED - 1]
