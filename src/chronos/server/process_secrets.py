"""Keeps the server's credentials away from what it starts: out of its environment, and its memory out of dumps.

``/proc/PID/environ`` shows the memory that a process began with, whatever it unset since; so that memory is
overwritten. A process that is not dumpable leaves no core file, and other processes of its user can neither read its
memory or environment nor attach to it.
"""

import ctypes
import os
import sys

from chronos.server.config import PREFIX
from chronos.server.settings import SETTINGS

_PR_SET_DUMPABLE = 4
_CLIENT_VARIABLES = ("CHRONOS_TOKEN", "CHRONOS_SERVER")  # for chronosctl; an address may hold a password
#: Every variable that may hold a credential.
CREDENTIALS = (
    *(PREFIX + one.name.upper().replace(".", "__") for one in SETTINGS if one.secret or one.name == "store"),
    *_CLIENT_VARIABLES,
)


def hide_credentials() -> None:
    """Take credentials out of this process's environment, and close its memory to others. Call it before threads."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.getenv.restype, libc.getenv.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    for name in CREDENTIALS:
        value = os.environb.get(name.encode())
        if value is None:
            continue
        place = libc.getenv(name.encode())
        if place is not None:
            ctypes.memset(place, 0, len(value))
        del os.environ[name]
    if sys.platform == "linux":
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
