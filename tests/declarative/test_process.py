"""Whether another process is gone: only where that is beyond doubt."""

import os
import signal
import subprocess
import sys

import pytest

from chronos.declarative import process

MINE = process.labels()
pytestmark = pytest.mark.skipif(not MINE, reason="this system does not say which process is which")


def test_this_process_is_here() -> None:
    assert process.is_this(MINE)
    assert not process.surely_gone(MINE)


def test_a_process_is_gone_when_it_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        said = {**MINE, "chronos/process": f"{other.pid}/{process._started(other.pid)}"}
        assert not process.is_this(said)
        assert not process.surely_gone(said)
        os.kill(other.pid, signal.SIGKILL)
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert process.surely_gone(said)  # dead, though nobody has asked how it ended
    assert process.surely_gone(said)


def test_a_number_that_is_used_again_is_another_process() -> None:
    assert process.surely_gone({**MINE, "chronos/process": f"{os.getpid()}/1"})


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"chronos/process": MINE.get("chronos/process", "")},
        {**MINE, "chronos/world": "another machine, or container"},
        {**MINE, "chronos/process": "no number"},
        {**MINE, "chronos/process": ""},
    ],
)
def test_where_it_cannot_be_known_nobody_is_gone(said: dict[str, str]) -> None:
    assert not process.is_this(said)
    assert not process.surely_gone(said)
