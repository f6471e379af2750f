"""Builds the call of one attempt: everything that a runner may know."""

from typing import Any

from chronos.core.execution_detail import Detail
from chronos.core.fencing_token import start_token
from chronos.core.job import Target
from chronos.core.lane import PYTHON
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_context import NodeContext
from chronos.runners.contract import AttemptCall, StopReason
from chronos.store.commands import Claimed

FORCE_AT_SHUTDOWN_S = 2.0  # from asking to killing, once the grace period of a shutdown is over


def _choose_payload(entry: CatalogEntry, detail: Detail, target: Target) -> Any:
    """Return the payload of the trigger, else the one of the function's task, else the job's."""
    if detail.payload is not None:
        return detail.payload
    own = target.options.get("payload") if target.kind == PYTHON else None
    return entry.spec.payload if own is None else own


def build_attempt_call(
    context: NodeContext,
    claimed: Claimed,
    entry: CatalogEntry,
    detail: Detail,
    target: Target,
    *,
    task: str,
    number: int,
    timeout_us: int,
    starts: int = 0,
) -> AttemptCall:
    """Build the call of an attempt. ``starts`` is the number of earlier starts under the same claim."""
    started_us = context.clock.now_us()
    call = AttemptCall(
        execution=claimed.id,
        job=claimed.job,
        job_name=entry.name,
        namespace=entry.namespace,
        task=task,
        number=number,
        token=start_token(claimed.token, starts),
        scheduled_us=claimed.scheduled_us,
        started_us=started_us,
        deadline_us=started_us + timeout_us if timeout_us else None,
        has_timeout=entry.has_timeout(task),
        last_run_us=claimed.last_run_us,
        options=target.options,
        payload=_choose_payload(entry, detail, target),
        span=detail.span,
        sink=context.outputs.sink(claimed.id, task, number),
        grace_s=context.options.grace_s,
        timeout_grace_s=context.options.timeout_grace_s,
        memory=list(detail.memory.get(task, ())),
    )
    if context.closing:
        call.stopping.request(StopReason.SHUTDOWN)
    return call
