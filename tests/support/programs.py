"""Programs beside Python that some tests use."""

import os
import shutil


def find_program(name: str) -> str | None:
    """Return the path of a program, also if only administrators have its folder in ``PATH``; None if it is missing."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))
