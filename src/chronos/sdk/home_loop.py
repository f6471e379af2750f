"""The loop that an app lives on, and how everything else reaches it.

A store and an engine belong to one event loop. Calls come from anywhere: a script without any loop, a thread of a web
server, a coroutine on another loop. So an app has a home, and every call goes there::

    async with app:  ──► the home is that loop
    anything else    ──► the home is a loop in a thread of its own (the portal), opened with the first call

What the app offers is written once, as a coroutine. ``at_home`` takes it to the home loop, ``blocking`` makes the
method of the same name without its leading ``a``, which waits for the answer. (``await_`` is ``wait``'s: Python has the
word without the underscore.)
"""

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from chronos.errors import ChronosError

P = ParamSpec("P")
R = TypeVar("R")


class WrongLoop(ChronosError, RuntimeError):
    """A call that would block the loop it waits for."""


Make = Callable[[], Coroutine[Any, Any, R]]


class HomeLoop:
    """Where one app lives. ``leaving`` runs on a loop before it is left: it lets go of all that belongs to the loop."""

    def __init__(self, leaving: Make[None]) -> None:
        self._leaving = leaving
        self._loop: asyncio.AbstractEventLoop | None = None
        self._portal: threading.Thread | None = None
        self._process = os.getpid()
        self._opening = threading.Lock()
        self._closing = threading.Lock()  # held while the loop is waited for, so never taken on it

    async def visit(self, make: Make[R]) -> R:
        """Run a coroutine at home, whatever loop this is."""
        loop = self._open()
        if loop is asyncio.get_running_loop():
            return await make()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(make(), loop))

    def call(self, make: Make[R], twin: str) -> R:
        """Run a coroutine at home and wait for it. ``twin`` is what to await instead, where this cannot wait."""
        loop = self._open()
        _refuse_to_block(loop, twin)
        return _wait_for(make, loop)

    async def settle(self) -> None:
        """Make the running loop the home; the portal is closed for it."""
        here = asyncio.get_running_loop()
        known = self._known()
        if known is here:
            return
        if known is not None and self._portal is None:
            raise WrongLoop("this app runs on another event loop already; stop it there first")
        if known is not None:
            await asyncio.to_thread(self.close)
        self._loop, self._portal, self._process = here, None, os.getpid()

    async def leave(self, make: Make[None] | None = None) -> None:
        """Let go of everything, from any loop. ``make`` is run instead of ``leaving``."""
        loop = self._known()
        if loop is None:
            return
        if loop is not asyncio.get_running_loop():
            await asyncio.to_thread(self.close, make)
            return
        await (make or self._leaving)()
        if self._portal is None:
            self._loop = None

    def close(self, make: Make[None] | None = None, twin: str = "app.astop()") -> None:
        """Let go of everything and end the portal, from any other thread than the home's."""
        with self._closing:
            loop = self._known()
            if loop is None:
                return
            _refuse_to_block(loop, twin)
            _wait_for(make or self._leaving, loop)
            with self._opening:
                portal, self._loop, self._portal = self._portal, None, None
            if portal is not None:
                loop.call_soon_threadsafe(loop.stop)
                portal.join()
                _open_homes.discard(self)

    def _known(self) -> asyncio.AbstractEventLoop | None:
        """The home; neither a loop that was closed, nor that of the process which this one was forked from."""
        if self._loop is None or self._loop.is_closed() or self._process != os.getpid():
            return None
        return self._loop

    def _open(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            loop = self._known()
            if loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                self._portal = threading.Thread(target=_run, args=(loop,), name="chronos-portal", daemon=True)
                self._portal.start()
                _close_at_exit(self)
            return loop


class OnHomeLoop:
    """Something of an app: its coroutines run at the app's home."""

    _home: HomeLoop

    def _called(self, method: str) -> str:
        """How a user would write a call of this method, for messages."""
        return f"{method}(…)"


H = TypeVar("H", bound=OnHomeLoop)
Method = Callable[Concatenate[H, P], Coroutine[Any, Any, R]]


def at_home(method: Method[H, P, R]) -> Method[H, P, R]:
    """The same coroutine, run at home."""

    @functools.wraps(method)
    async def visit(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._home.visit(lambda: method(self, *args, **kwargs))

    return visit


def blocking(method: Method[H, P, R]) -> Callable[Concatenate[H, P], R]:
    """The method that waits for what the coroutine of the same name, with a leading ``a``, gives."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        make: Callable[P, Coroutine[Any, Any, R]] = getattr(self, name)  # a subclass may have its own
        return self._home.call(lambda: make(*args, **kwargs), self._called(name))

    call.__name__ = name.removeprefix("a").removesuffix("_")
    call.__qualname__ = method.__qualname__.replace(f".{name}", f".{call.__name__}")
    return call


class LoopResult(Generic[R]):
    """A property whose value is what a coroutine without arguments gives."""

    def __init__(self, method: Callable[[Any], Coroutine[Any, Any, R]]) -> None:
        self._ask = blocking(method)
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, housed: None, owner: type[OnHomeLoop]) -> Self: ...

    @overload
    def __get__(self, housed: OnHomeLoop, owner: type[OnHomeLoop]) -> R: ...

    def __get__(self, housed: OnHomeLoop | None, owner: type[OnHomeLoop]) -> Self | R:
        return self if housed is None else self._ask(housed)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _wait_for(make: Make[R], loop: asyncio.AbstractEventLoop) -> R:
    future = asyncio.run_coroutine_threadsafe(make(), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _refuse_to_block(loop: asyncio.AbstractEventLoop, twin: str) -> None:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return
    if here is loop:
        raise WrongLoop(f"this would wait for the loop that it blocks; inside a coroutine write: await {twin}")


_open_homes: set[HomeLoop] = set()
_registered: list[bool] = []


def _close_at_exit(home: HomeLoop) -> None:
    """``concurrent.futures`` ends its threads before functions of ``atexit`` run, and the last writes need them.

    So this uses the hook that ``concurrent.futures`` uses itself: what was registered later is called earlier.
    """
    if not _registered:
        _registered.append(True)
        threading._register_atexit(_close_all)  # type: ignore[attr-defined]
    _open_homes.add(home)


def _close_all() -> None:
    for home in list(_open_homes):
        home.close()
