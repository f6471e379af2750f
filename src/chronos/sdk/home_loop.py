"""The home loop: the event loop that an app's store and engine belong to, and how every call gets there.

Calls come from anywhere: a script without a loop, a thread of a web server, a coroutine on another loop. Each call is
carried to the home loop::

    async with app:  ──► the home loop is that loop
    anything else    ──► the home loop runs in a thread of its own, started with the first call

Each method of the SDK is written once, as a coroutine. ``on_home_loop`` carries it to the home loop. ``blocking`` makes
the method of the same name without the leading ``a``, which waits for the result. (The coroutine of ``wait`` is
``await_``, because ``await`` is a Python keyword.)
"""

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from chronos.errors import ChronosError

P = ParamSpec("P")
R = TypeVar("R")


class WrongLoop(ChronosError, RuntimeError):
    """A blocking call on the event loop that it would wait for."""


CoroutineFactory = Callable[[], Coroutine[Any, Any, R]]


class HomeLoop:
    """The event loop of one app.

    ``on_release`` runs on the loop before the app leaves it, and closes everything that belongs to the loop.
    """

    def __init__(self, on_release: CoroutineFactory[None]) -> None:
        self._on_release = on_release
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._opening = threading.Lock()
        self._closing = threading.Lock()  # held while waiting for the loop, so never taken on it

    async def run(self, make_coroutine: CoroutineFactory[R]) -> R:
        """Run a coroutine on the home loop, from any loop."""
        loop = self._open_loop()
        if loop is asyncio.get_running_loop():
            return await make_coroutine()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(make_coroutine(), loop))

    def run_blocking(self, make_coroutine: CoroutineFactory[R], async_call: str) -> R:
        """Run a coroutine on the home loop and wait for it.

        ``async_call`` is the call to await instead. ``WrongLoop`` names it when this thread runs the home loop.
        """
        loop = self._open_loop()
        _check_not_on_loop(loop, async_call)
        return _run_and_wait(make_coroutine, loop)

    async def adopt_running_loop(self) -> None:
        """Make the running loop the home loop, and end the thread of the previous one."""
        running_loop = asyncio.get_running_loop()
        loop = self._current_loop()
        if loop is running_loop:
            return
        if loop is not None and self._thread is None:
            raise WrongLoop("this app already runs on another event loop; stop it there first")
        if loop is not None:
            await asyncio.to_thread(self.close)
        self._loop, self._thread, self._process = running_loop, None, os.getpid()

    async def release(self, make_coroutine: CoroutineFactory[None] | None = None) -> None:
        """Close everything that belongs to the home loop, from any loop.

        ``make_coroutine`` replaces ``on_release``.
        """
        loop = self._current_loop()
        if loop is None:
            return
        if loop is not asyncio.get_running_loop():
            await asyncio.to_thread(self.close, make_coroutine)
            return
        await (make_coroutine or self._on_release)()
        if self._thread is None:
            self._loop = None

    def close(self, make_coroutine: CoroutineFactory[None] | None = None, async_call: str = "app.astop()") -> None:
        """Close everything and end the thread of the home loop. Must not be called on the home loop."""
        with self._closing:
            loop = self._current_loop()
            if loop is None:
                return
            _check_not_on_loop(loop, async_call)
            _run_and_wait(make_coroutine or self._on_release, loop)
            with self._opening:
                thread, self._loop, self._thread = self._thread, None, None
            if thread is not None:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                _open_home_loops.discard(self)

    def _current_loop(self) -> asyncio.AbstractEventLoop | None:
        """The home loop, unless it is closed or belongs to the process that this one was forked from."""
        if self._loop is None or self._loop.is_closed() or self._process != os.getpid():
            return None
        return self._loop

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            loop = self._current_loop()
            if loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                self._thread = threading.Thread(target=_run_loop, args=(loop,), name="chronos-home-loop", daemon=True)
                self._thread.start()
                _close_at_exit(self)
            return loop


class OnHomeLoop:
    """Base of the objects whose coroutines run on the home loop of their app."""

    _home: HomeLoop

    def _format_call(self, method: str) -> str:
        """A call of this method as a user would write it, for messages."""
        return f"{method}(…)"


H = TypeVar("H", bound=OnHomeLoop)
Method = Callable[Concatenate[H, P], Coroutine[Any, Any, R]]


def on_home_loop(method: Method[H, P, R]) -> Method[H, P, R]:
    """Decorate a coroutine method so that it runs on the home loop."""

    @functools.wraps(method)
    async def run(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._home.run(lambda: method(self, *args, **kwargs))

    return run


def blocking(method: Method[H, P, R]) -> Callable[Concatenate[H, P], R]:
    """Make the method that waits for a coroutine method; its name has no leading ``a``."""
    name = method.__name__
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        _check_arguments(self._format_call(call.__name__), signature, self, *args, **kwargs)
        bound_method: Callable[P, Coroutine[Any, Any, R]] = getattr(self, name)  # a subclass may override it
        return self._home.run_blocking(lambda: bound_method(*args, **kwargs), self._format_call(name))

    call.__name__ = name.removeprefix("a").removesuffix("_")
    call.__qualname__ = method.__qualname__.replace(f".{name}", f".{call.__name__}")
    return call


def _check_arguments(called: str, signature: inspect.Signature, /, *args: Any, **kwargs: Any) -> None:
    """Raise ``TypeError`` for arguments that do not fit, with the call as the user wrote it."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{called} {error}") from None


class LoopResult(Generic[R]):
    """A property whose value is the result of a coroutine method without arguments."""

    def __init__(self, method: Callable[[Any], Coroutine[Any, Any, R]]) -> None:
        self._call = blocking(method)
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type[OnHomeLoop]) -> Self: ...

    @overload
    def __get__(self, instance: OnHomeLoop, owner: type[OnHomeLoop]) -> R: ...

    def __get__(self, instance: OnHomeLoop | None, owner: type[OnHomeLoop]) -> Self | R:
        return self if instance is None else self._call(instance)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _run_and_wait(make_coroutine: CoroutineFactory[R], loop: asyncio.AbstractEventLoop) -> R:
    future = asyncio.run_coroutine_threadsafe(make_coroutine(), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _check_not_on_loop(loop: asyncio.AbstractEventLoop, async_call: str) -> None:
    try:
        running_loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running_loop is loop:
        raise WrongLoop(
            f"this call would block the event loop that it waits for; in a coroutine, write: await {async_call}"
        )


_open_home_loops: set[HomeLoop] = set()
_registered: list[bool] = []


def _close_at_exit(home: HomeLoop) -> None:
    """Close a home loop when the interpreter exits.

    ``atexit`` is too late: ``concurrent.futures`` ends its threads before, and the last writes need them. Its own hook
    calls the functions that were registered last first.
    """
    if not _registered:
        _registered.append(True)
        threading._register_atexit(_close_all)  # type: ignore[attr-defined]
    _open_home_loops.add(home)


def _close_all() -> None:
    for home in list(_open_home_loops):
        home.close()
