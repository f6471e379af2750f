"""Machines of a simulation on one loop. Each can be frozen as by SIGSTOP, and continue later.

Everything that is started in a machine's context belongs to it: every callback and timer carries that context. While
the machine is frozen, its callbacks are held back; they run when it thaws. Time passes meanwhile.
"""

import asyncio
from contextvars import ContextVar, copy_context

from chronos.clock import Clock
from chronos.testing.loop import VirtualLoop

_MACHINE: ContextVar["Machine | None"] = ContextVar("machine", default=None)


class Machine:
    """One computer.

    ``cut``: it cannot reach the store. ``dead``: it is off, and nothing runs on it. ``stall`` is an event while its
    connection to the store hangs; it is set when the connection continues.
    """

    def __init__(self, loop: "MachineLoop", name: str, clock: Clock) -> None:
        self.name, self.clock = name, clock
        self.dead = False
        self.cut = False
        self.stall: asyncio.Event | None = None
        self._loop = loop
        self.context = copy_context()
        self.context.run(_MACHINE.set, self)

    def freeze(self) -> None:
        self._loop.frozen[self] = []

    def thaw(self) -> None:
        self._loop.resume(self)


def this_machine() -> Machine | None:
    """The machine of the running code."""
    return _MACHINE.get()


class MachineLoop(VirtualLoop):
    """A virtual loop that knows the machine of each callback."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen: dict[Machine, list[asyncio.Handle]] = {}  # and their callbacks that are held back

    def resume(self, machine: Machine) -> None:
        """Run the callbacks that were held back while the machine was frozen."""
        self._ready.extend(self.frozen.pop(machine))

    def _run_ready(self) -> None:
        if self.frozen:
            self._hold_back()
        ready = self._ready
        for _ in range(len(ready)):  # as the base class does, inlined: this runs millions of times
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _hold_back(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            machine = handle._context.get(_MACHINE)  # type: ignore[attr-defined]
            held_back = None if machine is None else self.frozen.get(machine)
            (self._ready if held_back is None else held_back).append(handle)
