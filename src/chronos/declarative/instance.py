"""The engine's node behind a scheduler: its runner is the callbacks, its lane its own, its patience without limit."""

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

#: Callbacks are waited for without limit, which is some thirty years here.
OPTIONS = EngineOptions(slots=100, grace_s=1e9, timeout_grace_s=1e9)

#: What the engine logs: what may make runs late. The runs themselves are told by the scheduler's own events.
_LOGGED = (ProblemReported, ClockJumped, JobUnschedulable, NodeLost)


async def start_engine(store: Store, clock: Clock, callbacks: CallbackRunner, identifier: str, tasks: int) -> Engine:
    """A running engine with a slot for every task, so that none waits for another."""
    functions = FunctionRegistry()
    functions.register(FUNCTION, _stands_in)
    engine = make_engine(
        store,
        clock=clock,
        options=replace(
            OPTIONS,
            node_name=f"declarative-{identifier[:8]}",
            slots=max(OPTIONS.slots, tasks),
            labels=orphans.enter(identifier),
        ),
        runners={PYTHON: callbacks},
        functions=functions,
        logger=LOGGER.name,
        logged=_LOGGED,
    )
    try:
        await engine.start()
    except BaseException:
        orphans.leave(identifier)
        raise
    return engine


async def mind(engine: Engine) -> None:
    """Say so when the engine breaks: nothing would run any more."""
    try:
        await engine.failed()
    except asyncio.CancelledError:
        return  # as it is stopped
    except Exception:  # noqa: BLE001 - whatever it was, it goes to the log
        LOGGER.exception("the engine broke, and no task runs any more; stop the scheduler")


async def _stands_in() -> None:
    """Stands for the callbacks among the functions of the node, which makes their lane its own.

    It is never called: the node's runner calls the callbacks.
    """
