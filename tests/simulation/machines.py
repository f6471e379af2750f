"""Machines of a simulation on one loop: each can be frozen whole, as by SIGSTOP, and goes on later as if nothing was.

Whatever is started in a machine's context belongs to it: every callback and timer that comes of it carries that
context, is put aside when its turn comes while the machine is frozen, and run when it thaws. Time goes on meanwhile.
"""

import asyncio
from contextvars import ContextVar, copy_context

from chronos.clock import Clock
from chronos.testing.loop import VirtualLoop

_MACHINE: ContextVar["Machine | None"] = ContextVar("machine", default=None)


class Machine:
    """One computer. ``cut``: it cannot reach the store. ``dead``: it is off; nothing of it happens any more.

    ``stall`` is there while its way to the store hangs, and set when that goes on.
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
        self._loop.go_on(self)


def this_machine() -> Machine | None:
    """The machine that the running code belongs to."""
    return _MACHINE.get()


class MachineLoop(VirtualLoop):
    """A virtual loop that knows which machine a callback belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen: dict[Machine, list[asyncio.Handle]] = {}  # and what waits until they thaw

    def go_on(self, machine: Machine) -> None:
        """What a machine would have done while it was frozen, it does now."""
        self._ready.extend(self.frozen.pop(machine))

    def _run_ready(self) -> None:
        if self.frozen:
            self._put_aside()
        ready = self._ready
        for _ in range(len(ready)):  # as the base does, without the way there: it is taken millions of times
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _put_aside(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            machine = handle._context.get(_MACHINE)  # type: ignore[attr-defined]
            aside = None if machine is None else self.frozen.get(machine)
            (self._ready if aside is None else aside).append(handle)
