"""Limits of a function that runs in a process: ``limits: {memory, cpu_s}`` of a target."""

import math
from typing import Any

from msgspec import Struct

from chronos.errors import Invalid
from chronos.runners import options as read
from chronos.runners.option_faults import OptionFaults


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of one call; None means no limit."""

    memory_bytes: int | None = None
    cpu_s: int | None = None  # whole seconds, as the kernel counts them


def read_limits(value: Any) -> Limits:
    """Read the limits of a target. Raises ``InvalidOptions`` with every fault."""
    if value is None:
        return Limits()
    faults = OptionFaults("python")
    memory_bytes = cpu_s = None
    if faults.add_unknown_options(("limits",), value, ("cpu_s", "memory")):
        cpu_s = faults.try_read(("limits", "cpu_s"), _cpu_s, value.get("cpu_s"))
        memory_bytes = faults.try_read(("limits", "memory"), _memory_bytes, value.get("memory"))
    faults.raise_if_any()
    return Limits(memory_bytes=memory_bytes, cpu_s=cpu_s)


def _cpu_s(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise Invalid(f"python.limits.cpu_s is {value!r}, expected a positive number of seconds")
    return math.ceil(value)


def _memory_bytes(value: Any) -> int | None:
    if value is None:
        return None
    size = read.size_bytes("python.limits.memory", value)
    if not 1 << 20 <= size < 1 << 62:
        raise Invalid(f"python.limits.memory is {value!r}; use at least 1MiB")
    return size
