"""Machines of a simulation on one loop: each can be frozen whole, as by SIGSTOP, and goes on later as if nothing was.

Whatever is started in a machine's context belongs to it: every callback and timer that comes of it passes through here,
is put aside while the machine is frozen, and run when it thaws. Time goes on meanwhile.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVarTuple, Unpack

from chronos.clock import Clock
from chronos.testing.loop import VirtualLoop

Ts = TypeVarTuple("Ts")
_MACHINE: ContextVar["Machine | None"] = ContextVar("machine", default=None)


class Machine:
    """One computer. ``cut``: it cannot reach the store. ``dead``: it is off; nothing of it happens any more."""

    def __init__(self, loop: "MachineLoop", name: str, clock: Clock) -> None:
        self.name, self.clock = name, clock
        self.dead = False
        self.cut = False
        self._loop = loop
        self._frozen = False
        self._parked: list[tuple[list[asyncio.Handle], Callable[..., Any], tuple[Any, ...], Context]] = []
        self.context = copy_context()
        self.context.run(_MACHINE.set, self)

    def freeze(self) -> None:
        self._frozen = True

    def thaw(self) -> None:
        self._frozen = False
        parked, self._parked = self._parked, []
        for handle, callback, args, context in parked:
            if not handle[0].cancelled():
                self._loop.call_soon(callback, *args, context=context)

    def run(
        self, handle: list[asyncio.Handle], callback: Callable[..., Any], args: tuple[Any, ...], context: Context
    ) -> None:
        """A callback of this machine, in its turn."""
        if self._frozen:
            self._parked.append((handle, callback, args, context))
        else:
            callback(*args)


def this_machine() -> Machine | None:
    """The machine that the running code belongs to."""
    return _MACHINE.get()


class MachineLoop(VirtualLoop):
    """A virtual loop that knows which machine a callback belongs to."""

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        machine = _MACHINE.get() if context is None else context.get(_MACHINE)
        if machine is None:
            return super().call_soon(callback, *args, context=context)
        context = copy_context() if context is None else context
        handle: list[asyncio.Handle] = []
        handle.append(super().call_soon(machine.run, handle, callback, args, context, context=context))
        return handle[0]

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        machine = _MACHINE.get() if context is None else context.get(_MACHINE)
        if machine is None:
            return super().call_at(when, callback, *args, context=context)
        context = copy_context() if context is None else context
        handle: list[asyncio.Handle] = []
        timer = super().call_at(when, machine.run, handle, callback, args, context, context=context)
        handle.append(timer)
        return timer
