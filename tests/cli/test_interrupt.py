"""Ctrl-C ends the programs with 130, however often it is pressed."""

import signal
import subprocess
import sys

_PROGRAM = """
import atexit, os, signal, threading
from chronos.cli import main

@main.chronosctl.command()
def waits():
    print("ready", flush=True)
    threading.Event().wait()

atexit.register(os.kill, os.getpid(), signal.SIGINT)
main.chronosctl(["waits"])
"""


def test_a_second_ctrl_c_at_the_end_is_ignored() -> None:
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    process.wait(60)
    process.stdout.close()
    assert process.returncode == 130
