"""Takes over the unfinished tasks of schedulers that no longer run.

Each scheduler has an identifier. Its node carries the identifier and the identity of its process. If that process has
ended, or the scheduler was in this process and has stopped, its executions are taken over at once: the lost attempt is
recorded and the task is made ready. For nodes on other machines the engine waits for missing heartbeats.
"""

import asyncio

from chronos.clock import Clock
from chronos.core.node import Node
from chronos.engine.event_bus import EventBus
from chronos.engine.job_catalog import JobCatalog
from chronos.engine.maintenance.takeover_decision import decide_takeover
from chronos.process_identity import has_ended, identify_this_process
from chronos.store.commands import Reap
from chronos.store.contract import Store

_LABEL = "chronos/scheduler"
_BATCH_SIZE = 200
_active: dict[str, asyncio.AbstractEventLoop] = {}  # the running schedulers of this process, by identifier


def register(identifier: str) -> dict[str, str]:
    """Note that a scheduler of this process runs. Returns the labels of its node."""
    _active[identifier] = asyncio.get_running_loop()
    return {_LABEL: identifier}


def unregister(identifier: str) -> None:
    """Note that a scheduler of this process has stopped."""
    _active.pop(identifier, None)


async def take_over(store: Store, clock: Clock) -> set[bytes]:
    """Make the executions of ended schedulers ready. Returns the ids of their jobs."""
    catalog = JobCatalog(store, EventBus())
    jobs: set[bytes] = set()
    for node in await store.nodes():
        if node.stopped_us is None and _has_ended(node):
            jobs |= await _reap(store, catalog, node, clock)
    return jobs


def _has_ended(node: Node) -> bool:
    identifier = node.labels.get(_LABEL)
    if identifier is None or node.process is None:
        return False
    if node.process != identify_this_process():
        return has_ended(node.process)
    loop = _active.get(identifier)
    return loop is None or loop.is_closed()


async def _reap(store: Store, catalog: JobCatalog, node: Node, clock: Clock) -> set[bytes]:
    held = await store.running_on(node.number)
    reaped: set[bytes] = set()
    for batch in [held[i : i + _BATCH_SIZE] for i in range(0, len(held), _BATCH_SIZE)] or [[]]:
        now_us = clock.now_us()
        entries = await catalog.fetch((execution.job, execution.job_version, execution.levels) for execution in batch)
        rows = tuple(
            decide_takeover(entries[key], execution, now_us).to_row(execution)
            for execution in batch
            if (key := (execution.job, execution.job_version, execution.levels)) in entries
        )
        last = not held or batch[-1] is held[-1]
        reaped_ids = await store.apply(Reap(node=node.number, beat=node.beat, rows=rows, now_us=now_us, last=last))
        if reaped_ids is None:
            break
        reaped |= {execution.job for execution in batch if execution.id in reaped_ids}
    return reaped
