"""The engine behind a declarative scheduler. Its runner calls the callbacks, and waits for them without limit."""

import asyncio
from dataclasses import replace

from chronos.assembly import make_engine
from chronos.clock import Clock
from chronos.core.events import ClockJumped, JobUnschedulable, NodeLost, ProblemReported
from chronos.core.lane import PYTHON
from chronos.declarative import orphans
from chronos.declarative.callback_runner import CallbackRunner
from chronos.declarative.events import LOGGER
from chronos.declarative.task_jobs import FUNCTION
from chronos.engine.engine import Engine
from chronos.engine.options import EngineOptions
from chronos.runners.python.function_registry import FunctionRegistry
from chronos.store.contract import Store

#: The grace of about thirty years means no limit.
OPTIONS = EngineOptions(slots=100, grace_s=1e9, timeout_grace_s=1e9)

#: The engine logs only what may delay runs. The scheduler's own events log the runs.
_LOGGED_EVENTS = (ProblemReported, ClockJumped, JobUnschedulable, NodeLost)


async def start_engine(
    store: Store, clock: Clock, callbacks: CallbackRunner, identifier: str, task_count: int
) -> Engine:
    """Start an engine with a slot for every task, so that no task waits for another."""
    functions = FunctionRegistry()
    functions.register(FUNCTION, _placeholder)
    engine = make_engine(
        store,
        clock=clock,
        options=replace(
            OPTIONS,
            node_name=f"declarative-{identifier[:8]}",
            slots=max(OPTIONS.slots, task_count),
            labels=orphans.register(identifier),
        ),
        runners={PYTHON: callbacks},
        functions=functions,
        logger=LOGGER.name,
        logged=_LOGGED_EVENTS,
    )
    try:
        await engine.start()
    except BaseException:
        orphans.unregister(identifier)
        raise
    return engine


async def watch_engine(engine: Engine) -> None:
    """Log an error if the engine fails, because no task runs after that."""
    try:
        await engine.wait_until_stopped()
    except asyncio.CancelledError:
        return  # the scheduler stops
    except Exception:  # noqa: BLE001 - any error is logged
        LOGGER.exception("the engine failed and runs no more tasks; stop the scheduler and initialize it again")


async def _placeholder() -> None:
    """Represents the callbacks among the functions of the node, so that the node serves their lane.

    It is never called: the runner of the node calls the callbacks.
    """
