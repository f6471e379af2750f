"""Builds the call of one attempt: everything that a runner may know."""

from collections.abc import Mapping
from typing import Any

from chronos.core.execution_detail import Detail
from chronos.core.execution_report import Occurrence, to_occurrence_body
from chronos.core.fencing_token import start_token
from chronos.core.job import Target
from chronos.core.lane import PYTHON
from chronos.engine.job_catalog import CatalogEntry
from chronos.engine.node_context import NodeContext
from chronos.runners.contract import AttemptCall, HookInput, StopReason
from chronos.store.commands import Claimed

FORCE_AT_SHUTDOWN_S = 2.0  # from asking to killing, once the grace period of a shutdown is over


def _choose_payload(entry: CatalogEntry, detail: Detail, target: Target) -> Any:
    """Return the payload of the trigger, else the one of the function's task, else the job's."""
    if detail.payload is not None:
        return detail.payload
    own = target.options.get("payload") if target.kind == PYTHON else None
    return entry.spec.payload if own is None else own


def to_hook_options(hook: Target) -> Mapping[str, Any]:
    """Return a hook's options.

    A webhook without a method or body is sent as POST, because GET would drop the input of the hook.
    """
    if hook.kind == "http" and not {"method", "body", "json"} & hook.options.keys():
        return {**hook.options, "method": "POST"}
    return hook.options


def build_on_start_call(
    context: NodeContext, claimed: Claimed, entry: CatalogEntry, detail: Detail, hook: Target, *, task: str
) -> AttemptCall:
    """Build the call of ``on_start``. Its input is the occurrence, with the payload of the run."""
    call = build_attempt_call(
        context, claimed, entry, detail, hook, task=task, number=1, timeout_us=entry.effective.task_timeout_us
    )
    occurrence = Occurrence(
        execution=claimed.id,
        job=claimed.job,
        job_name=entry.name,
        namespace=entry.namespace,
        job_version=entry.version,
        cause=claimed.cause,
        scheduled_us=claimed.scheduled_us,
        node=context.options.node_name,
        span=detail.span,
        replay_of=detail.replay_of,
    )
    call.payload = {**to_occurrence_body(occurrence), "payload": call.payload}
    call.options, call.hook = to_hook_options(hook), HookInput.OCCURRENCE
    return call


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
