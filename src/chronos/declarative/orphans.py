"""Tasks that were started by an instance which is gone, and had not finished.

Each scheduler has an identifier, which its node carries together with its process. Whatever a node holds whose process
has ended, or whose scheduler in this very process is no more, is taken over at once: the lost try is recorded and the
task made ready to start again. About other machines only their heartbeats can tell; the engine listens to those.
"""

import asyncio

from chronos.clock import Clock
from chronos.core.config import NOTHING_SET
from chronos.core.node import Node
from chronos.engine.event_bus import EventBus
from chronos.engine.job_catalog import JobCatalog
from chronos.engine.maintenance.takeover import decide_takeover
from chronos.process_identity import has_ended, identify_this_process
from chronos.store.commands import Reap
from chronos.store.contract import Store

_SCHEDULER = "chronos/scheduler"
_BATCH = 200
_living: dict[str, asyncio.AbstractEventLoop] = {}  # the schedulers of this process, by identifier


def enter(identifier: str) -> dict[str, str]:
    """A scheduler of this process begins to run; answers the labels of its node."""
    _living[identifier] = asyncio.get_running_loop()
    return {_SCHEDULER: identifier}


def leave(identifier: str) -> None:
    """It has stopped."""
    _living.pop(identifier, None)


async def take_over(store: Store, clock: Clock) -> set[bytes]:
    """Make ready what instances that are gone have left running; answers the jobs."""
    catalog = JobCatalog(store, NOTHING_SET, EventBus())
    jobs: set[bytes] = set()
    for node in await store.nodes():
        if node.stopped_us is None and _gone(node):
            jobs |= await _reap(store, catalog, node, clock)
    return jobs


def _gone(node: Node) -> bool:
    identifier = node.labels.get(_SCHEDULER)
    if identifier is None or node.process is None:
        return False
    if node.process != identify_this_process():
        return has_ended(node.process)
    loop = _living.get(identifier)
    return loop is None or loop.is_closed()


async def _reap(store: Store, catalog: JobCatalog, node: Node, clock: Clock) -> set[bytes]:
    held = await store.held_by(node.number)
    reaped: set[bytes] = set()
    for batch in [held[i : i + _BATCH] for i in range(0, len(held), _BATCH)] or [[]]:
        now_us = clock.now_us()
        entries = await catalog.fetch((execution.job, execution.job_version) for execution in batch)
        rows = tuple(
            decide_takeover(entries[of], execution, now_us).to_row(execution)
            for execution in batch
            if (of := (execution.job, execution.job_version)) in entries
        )
        last = not held or batch[-1] is held[-1]
        done = await store.apply(Reap(node=node.number, beat=node.beat, rows=rows, now_us=now_us, last=last))
        if done is None:
            break
        reaped |= {execution.job for execution in batch if execution.id in done}
    return reaped
