"""PythonRunner: runs registered functions. Async ones run on the event loop, others in threads or processes."""

import asyncio
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any, assert_never

from chronos.clock import Clock
from chronos.core.outcome import Failed, Outcome
from chronos.errors import Invalid
from chronos.runners.contract import AttemptCall
from chronos.runners.option_faults import OptionFaults
from chronos.runners.python.context import Context
from chronos.runners.python.function_registry import Function, FunctionRegistry, Isolation
from chronos.runners.python.invocation import BAD_PAYLOAD, STOPPED, call_async, call_sync
from chronos.runners.python.process_pool import ProcessPool
from chronos.runners.python.resource_limits import Limits, read_limits
from chronos.runners.python.thread_pool import ThreadPool


class PythonRunner:
    """The runner of ``python`` targets. ``inline`` runs every function on the loop, for tests with virtual time."""

    def __init__(
        self, functions: FunctionRegistry, *, threads: int, processes: int, clock: Clock, inline: bool = False
    ) -> None:
        self._functions = functions
        self._clock = clock
        self._inline = inline
        self._threads = ThreadPool(threads)
        self._processes = ProcessPool(processes, clock=clock)
        self._abandoned_tasks: set[asyncio.Task[Any]] = set()
        self._abandoned_tasks_total = 0

    @property
    def abandoned(self) -> int:
        """How many functions ignored a stop and were abandoned, in total."""
        return self._threads.abandoned + self._abandoned_tasks_total

    @property
    def abandoned_threads(self) -> int:
        """How many threads of abandoned functions still run."""
        return self._threads.abandoned_running

    @property
    def abandoned_running(self) -> int:
        """How many of the abandoned functions still run."""
        return self._threads.abandoned_running + len(self._abandoned_tasks)

    def check(self, options: Mapping[str, Any]) -> None:
        """Check that the options name a function. Which nodes have it is not checked here."""
        faults = OptionFaults("python")
        if not faults.add_unknown_options((), options, ("limits", "name", "payload")):
            faults.raise_if_any()
        name = options.get("name")
        if not isinstance(name, str) or not name:
            faults.add(("name",), f"python.name must be the name of a registered function, got {name!r}")
        if options.get("limits") is not None:
            limits = faults.try_read((), read_limits, options["limits"])
            function = self._functions.get(name) if isinstance(name, str) else None
            if function is not None and limits != Limits() and function.isolation is not Isolation.PROCESS:
                faults.add(("limits",), f'python.limits needs a process; register "{name}" with isolation="process"')
        faults.raise_if_any()

    async def run(self, call: AttemptCall) -> Outcome:
        """Make the attempt."""
        name = call.options["name"]
        function = self._functions.get(name)
        if function is None:
            return Failed(error=f'this node has no function "{name}"', kinds=("no_function",))
        if call.stop.requested:
            return STOPPED
        context: Context | None = None
        arguments: dict[str, Any] = {}
        if not function.ignores_input:
            try:
                arguments = function.arguments(call.payload, call.hook)
            except Invalid as error:
                return Failed(error=str(error), kinds=(BAD_PAYLOAD,), worth_retrying=False)
            if function.ctx_parameter is not None:
                context = Context(call, self._clock, is_async=function.is_async)
                arguments[function.ctx_parameter] = context
        if function.is_async:
            return await self._run_on_loop(function, arguments, call, context)
        if self._inline:
            return copy_context().run(call_sync, function, arguments, call)
        match function.isolation:
            case Isolation.INLINE:
                return copy_context().run(call_sync, function, arguments, call)
            case Isolation.THREAD:
                return await self._run_in_thread(function, arguments, call, context)
            case Isolation.PROCESS:
                with self._clock.outside():
                    return await self._processes.run(function, call)
            case _:
                assert_never(function.isolation)

    async def close(self) -> None:
        """Let idle threads end and kill the processes."""
        self._threads.close()
        await self._processes.close()

    async def _run_on_loop(
        self, function: Function, arguments: dict[str, Any], call: AttemptCall, context: Context | None
    ) -> Outcome:
        """Run the function in this task, which is cancelled when the attempt must stop."""
        task = asyncio.current_task()
        assert task is not None
        stop = call.stop

        def cancel() -> None:
            if task.cancel():
                stop.overrides_success = True  # the function will see the cancellation

        def abandon() -> None:
            self._abandoned_tasks_total += 1
            self._abandoned_tasks.add(task)
            task.add_done_callback(self._abandoned_tasks.discard)
            if context is not None:
                context.abandon()

        stop.on_request(cancel)
        call.on_abandon = abandon
        return await call_async(function, arguments, call)

    async def _run_in_thread(
        self, function: Function, arguments: dict[str, Any], call: AttemptCall, context: Context | None
    ) -> Outcome:
        variables = copy_context()
        try:
            with self._clock.outside():
                return await self._threads.run(lambda: variables.run(call_sync, function, arguments, call), call.stop)
        except asyncio.CancelledError:
            if context is not None:
                context.abandon()
            raise
