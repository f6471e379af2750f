"""Settings of the interpreter for a process that does nothing but run Chronos."""

import gc
import sys

#: Python lets a thread that waits for the interpreter have it after 5 ms, unless the other one gives it up before. The
#: store's writer needs it for some microseconds between two statements, many times a second.
_SWITCH_S = 0.0002
_COLLECT_AFTER = (50_000, 20, 20)  # objects made, and younger generations looked through


def share_quickly() -> None:
    """Threads that need the interpreter for a moment do not wait long for those that have much to do."""
    sys.setswitchinterval(_SWITCH_S)


def settle_memory() -> None:
    """What is there when all has started stays; and what comes makes thousands of objects, few of them in circles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
