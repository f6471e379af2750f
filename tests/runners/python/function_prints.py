"""Functions that print. Worker processes import them from here."""

import io
import sys
import threading
from contextvars import copy_context

from chronos.runners.python.context import Context
from chronos.runners.python.stdout_capture import StdoutStandIn

MUCH = 12_000_000  # characters; with escapes more than fit into one message


def speaks(ctx: Context) -> None:
    print("one", 2)
    ctx.log.info("logged")
    print("half a line", end="")
    print(", and the rest", flush=True)
    print("to stderr", file=sys.stderr)
    sys.stdout.writelines(["a", "b\n"])


def hello() -> None:
    print("hello")


def umlauts() -> None:
    print("Füße", flush=True)


def much() -> None:
    stand_in = sys.stdout
    assert isinstance(stand_in, StdoutStandIn)
    there, stand_in.stream = stand_in.stream, io.StringIO()  # keep it off the terminal
    print("\x01" * MUCH)
    stand_in.stream = there


_left: list[threading.Thread] = []
_go_on = threading.Event()


def leaves_a_thread() -> None:
    def stays() -> None:
        _go_on.wait(60)
        print("too late")

    _left.append(threading.Thread(target=copy_context().run, args=(stays,), daemon=True))
    _left[0].start()


def hello_beside_it() -> None:
    """Print after the leftover thread has printed."""
    _go_on.set()
    _left[0].join()
    print("hello")
