"""How much of a machine one function in a process may use: ``limits: {memory, cpu_s}`` of a target."""

import math
from typing import Any

from msgspec import Struct

from chronos.errors import Invalid
from chronos.runners import options as read
from chronos.runners.option_faults import OptionFaults


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None: without limit."""

    memory_bytes: int | None = None
    cpu_s: int | None = None  # whole seconds, as the kernel counts them


def read_limits(given: Any) -> Limits:
    """The limits of a target's option. Raises ``InvalidOptions``, naming what is wrong."""
    if given is None:
        return Limits()
    faults = OptionFaults("python")
    memory_bytes = cpu_s = None
    if faults.note_unknown_options(("limits",), given, ("cpu_s", "memory")):
        cpu_s = faults.of(("limits", "cpu_s"), _cpu_s, given.get("cpu_s"))
        memory_bytes = faults.of(("limits", "memory"), _memory_bytes, given.get("memory"))
    faults.close()
    return Limits(memory_bytes=memory_bytes, cpu_s=cpu_s)


def _cpu_s(given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e9:
        raise Invalid(f"python.limits.cpu_s is {given!r}, expected seconds above zero")
    return math.ceil(given)


def _memory_bytes(given: Any) -> int | None:
    if given is None:
        return None
    found = read.size_bytes("python.limits.memory", given)
    if not 1 << 20 <= found < 1 << 62:
        raise Invalid(f"python.limits.memory is {given!r}, with which nothing runs: give at least 1MiB")
    return found
