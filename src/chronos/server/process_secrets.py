"""Hides the server's credentials from other processes, including the commands that it starts.

``/proc/PID/environ`` shows the initial environment even after a variable is unset, so that memory is overwritten. A
process that is not dumpable leaves no core file, and other processes of its user can neither read its memory or
environment nor attach to it.
"""

import ctypes
import os
import sys

from chronos.server.config import PREFIX
from chronos.server.settings import SETTINGS

_PR_SET_DUMPABLE = 4
_CLIENT_VARIABLES = ("CHRONOS_TOKEN", "CHRONOS_SERVER")  # of chronosctl; a URL may contain a password
#: Every variable that may hold a credential.
CREDENTIALS = (
    *(
        PREFIX + setting.name.upper().replace(".", "__")
        for setting in SETTINGS
        if setting.secret or setting.name == "store"
    ),
    *_CLIENT_VARIABLES,
)


def hide_credentials() -> None:
    """Remove credentials from the environment and make the process undumpable. Call it before threads start."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.getenv.restype, libc.getenv.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    for name in CREDENTIALS:
        value = os.environb.get(name.encode())
        if value is None:
            continue
        address = libc.getenv(name.encode())
        if address is not None:
            ctypes.memset(address, 0, len(value))
        del os.environ[name]
    if sys.platform == "linux":
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
