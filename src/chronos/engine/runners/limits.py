"""How much of a machine one function in a process may use: ``limits: {memory, cpu_s}`` of a target."""

import math
from typing import Any

from msgspec import Struct

from chronos.engine.runners import options as read
from chronos.errors import Invalid


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None: without limit."""

    memory_bytes: int | None = None
    cpu_s: int | None = None  # whole seconds, as the kernel counts them


def read_limits(given: Any) -> Limits:
    """The limits of a target's option. Raises ``Invalid``, naming what is wrong."""
    if given is None:
        return Limits()
    read.check_known("python.limits", given, ("cpu_s", "memory"))
    memory, cpu_s = given.get("memory"), given.get("cpu_s")
    if cpu_s is not None and (isinstance(cpu_s, bool) or not isinstance(cpu_s, int | float) or not 0 < cpu_s < 1e9):
        raise Invalid(f"python.limits.cpu_s is {cpu_s!r}, expected seconds above zero")
    memory_bytes = None if memory is None else read.size_bytes("python.limits.memory", memory)
    if memory_bytes is not None and not 1 << 20 <= memory_bytes < 1 << 62:
        raise Invalid(f"python.limits.memory is {memory!r}, with which nothing runs: give at least 1MiB")
    return Limits(memory_bytes=memory_bytes, cpu_s=None if cpu_s is None else math.ceil(cpu_s))
