"""From a claimed execution to the call of one of its tasks: all that a runner may know, gathered in one place."""

from typing import Any

from chronos.core.detail import Detail
from chronos.core.fence import start_token
from chronos.core.job import Target
from chronos.core.lane import PYTHON
from chronos.engine.catalog import Entry
from chronos.engine.crew import Crew
from chronos.engine.runners.contract import Call, StopReason
from chronos.engine.sending import until_answered
from chronos.store.commands import Claimed


async def last_run_us(crew: Crew, entry: Entry, target: Target) -> int | None:
    """When the job ran last, which only a function that takes a context can ask for."""
    function = crew.functions.get(target.options["name"]) if target.kind == PYTHON else None
    if function is None or not function.takes_ctx:
        return None
    return await until_answered(lambda: crew.store.last_run_us(entry.job), crew.node.trouble)


def _payload(entry: Entry, detail: Detail, target: Target) -> Any:
    """What the trigger brought, else what the task says for its function, else what the job says."""
    own = target.options.get("payload") if target.kind == PYTHON else None
    return next((said for said in (detail.payload, own) if said is not None), entry.spec.payload)


def make_call(
    crew: Crew,
    claimed: Claimed,
    entry: Entry,
    detail: Detail,
    target: Target,
    *,
    task: str,
    number: int,
    started_us: int,
    timeout_us: int,
    last_us: int | None,
    starts: int = 0,
) -> Call:
    """One attempt of one task, about to be made, after so many ``starts`` under the same claim."""
    call = Call(
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
        timeout_said=entry.timeout_said(task),
        last_run_us=last_us,
        options=target.options,
        payload=_payload(entry, detail, target),
        span=detail.span,
        sink=crew.book.sink(claimed.id, task, number),
        grace_s=crew.options.grace_s,
        timeout_grace_s=crew.options.timeout_grace_s,
        memory=list(detail.memory.get(task, ())),
    )
    if crew.closing:
        call.stopping.ask(StopReason.SHUTDOWN)
    return call
