"""Process identity: a process counts as ended only if that is certain."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from chronos.core.node import Process
from chronos.process_identity import has_ended, has_helpers, identify_this_process, to_helper_mark

THIS_PROCESS = identify_this_process()
pytestmark = pytest.mark.skipif(THIS_PROCESS is None, reason="this system does not identify processes")
MINE = THIS_PROCESS or Process(scope="", pid=0, started="")
PRINT_IDENTITY = """
from chronos.process_identity import identify_this_process
print(identify_this_process().pid, identify_this_process().started, flush=True)
input()
"""


def test_this_process_has_not_ended() -> None:
    assert identify_this_process() == MINE
    assert MINE.pid == os.getpid()
    assert not has_ended(MINE)


def test_a_killed_process_has_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PRINT_IDENTITY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        pid, started = other.stdout.readline().split()
        process = replace(MINE, pid=int(pid), started=started)
        assert not has_ended(process)
        os.kill(other.pid, signal.SIGKILL)
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(process)  # a zombie
    assert has_ended(process)


def test_a_reused_pid_is_another_process() -> None:
    assert has_ended(replace(MINE, started="1"))


@pytest.mark.parametrize(
    "process",
    [replace(MINE, scope="another machine, or container", started="1"), replace(MINE, pid=0), replace(MINE, pid=-1)],
)
def test_a_process_of_another_scope_or_an_invalid_pid_has_not_ended(process: Process) -> None:
    assert not has_ended(process)


def test_helpers_of_a_process_are_found_while_they_run() -> None:
    parent = replace(MINE, pid=2**22 + 1, started="12345")
    assert not has_helpers(parent)
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()", to_helper_mark(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as helper:
        assert helper.stdout is not None
        helper.stdout.readline()
        assert has_helpers(parent)
        helper.kill()
    assert not has_helpers(parent)
