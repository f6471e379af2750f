"""What must follow an outcome: followers of a job, and its ``on_complete``. At least once, by any node that can.

Items are taken, dealt with, and only then acknowledged. One that fails is tried again with growing pauses, a few times
for a hook, without end for what the store itself must be told.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from chronos.core.concurrency_key import find_key_gate, key_limit
from chronos.core.events import ExecutionEnded, ProblemReported
from chronos.core.execution import Cause, Execution, Status
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.execution_report import Report, build_report, to_report_body
from chronos.core.fencing_token import hook_token
from chronos.core.ids import requested_execution_id
from chronos.core.job import JobState, Target, Unreadable, UpstreamCondition
from chronos.core.lane import Lane
from chronos.core.outcome import Failed, Succeeded
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settle import End, stop
from chronos.engine.execution.attempt import run_attempt
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.node_context import NodeContext
from chronos.engine.store_retry import apply_with_retry
from chronos.engine.wakeup import Wakeup
from chronos.errors import ChronosError, Invalid, NotFound, Unavailable
from chronos.runners.contract import AttemptCall
from chronos.store.commands import AckOutbox, OutboxItem, RecordSkip, RunRow, TakeOutbox, Trigger
from chronos.store.contract import ExecutionFilter

ON_COMPLETE = "on_complete"
_TAKE_LIMIT = 100  # that are taken at a time
_MAX_ITEMS_IN_PROGRESS = 1_000  # that are dealt with at a time
_MAX_PAUSE_DOUBLINGS = 6  # the pause between tries is doubled so many times
_MAX_WAIT_TICKS = 5
_MAX_HOOK_ATTEMPTS = 5
_FAILURE_STATUSES = (Status.FAILED, Status.STALE)


class _EndedBody(Struct, frozen=True, kw_only=True):
    execution: str
    job: str
    status: int


class _HookBody(Struct, frozen=True, kw_only=True):
    job: str
    version: int
    scheduled_us: int
    report: Report
    token: int | None = None  # None: written by a release that did not say


class Outbox:
    """One node's share of what follows. Each item is dealt with by itself: none waits for a slow one."""

    def __init__(self, crew: NodeContext, catalog: JobCatalog) -> None:
        self._crew, self._catalog = crew, catalog
        self._wakeup = Wakeup()
        self._in_progress: dict[bytes, asyncio.Task[None]] = {}
        self._tries: dict[bytes, int] = {}  # of hooks
        self._error_counts: dict[bytes, int] = {}  # of items that nobody can do anything with
        self._left: set[bytes] = set()  # that failed, for whoever comes after this node
        self._again = True  # what the store says is this node's may not be known here
        self._closing = asyncio.Event()
        self._over = asyncio.Event()

    def take_soon(self) -> None:
        """Something was put in."""
        self._wakeup.wake()

    async def finish(self, within_s: float) -> None:
        """Deal with what is there now, and no more; what fails or takes longer is left for the next start, or another
        node.
        """
        self._closing.set()
        self._wakeup.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._over.wait()

    def end_grace_period(self) -> None:
        """Do not wait for what is under way."""
        self._over.set()

    async def run(self) -> None:
        """Deal with it until cancelled."""
        try:
            while True:
                closing = self._closing.is_set()  # before it looks: it then sees all there is
                more = await self._begin()
                if closing and not more and not self._in_progress:
                    self._over.set()
                    return
                if not more:
                    await self._wakeup.wait(self._crew.options.tick_s * _MAX_WAIT_TICKS)
        finally:
            left = tuple(self._in_progress.values())
            for dealing in left:
                dealing.cancel()
            if left:  # else there may be no loop any more: a node that was abandoned is collected anywhere
                await asyncio.gather(*left, return_exceptions=True)

    async def _begin(self) -> bool:
        """Begin with a handful; True: there may be more to begin with at once."""
        room = min(_TAKE_LIMIT, _MAX_ITEMS_IN_PROGRESS - len(self._in_progress))
        if not self._crew.node.may_start or room <= 0:
            return False
        functions = self._crew.functions.names
        targets = tuple(Lane(functions=(name,)).text for name in functions) if self._crew.options.works else ()
        again, self._again = self._again, False
        limit = room + (len(self._in_progress) + len(self._left) if again else 0)  # these are among what it holds
        take = TakeOutbox(node=self._crew.node.number, limit=limit, targets=targets, include_held=again)
        try:
            items = await self._crew.store.apply(take)
        except ChronosError as error:
            self._again = True
            self._crew.node.duties.failed("outbox", error)
            return False
        self._crew.node.duties.done("outbox")
        new = [item for item in items if item.id not in self._in_progress and item.id not in self._left]
        for item in new:
            self._in_progress[item.id] = asyncio.create_task(self._deal(item))
        return len(new) >= room

    async def _deal(self, item: OutboxItem) -> None:
        """Until it is done, or better left to whoever comes after this node."""
        node = self._crew.node.number
        try:
            while not await self._handle_once(item):
                await self._pause(item.id)
                if self._closing.is_set():
                    self._left.add(item.id)
                    return
                if self._crew.node.number != node or not self._crew.node.may_start:
                    self._again = True  # it may be another's by now
                    return
        finally:
            del self._in_progress[item.id]
            self._wakeup.wake()

    async def _pause(self, item: bytes) -> None:
        failures = self._tries.get(item, 0) + self._error_counts.get(item, 0)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._crew.options.tick_s * 2 ** min(failures, _MAX_PAUSE_DOUBLINGS)):
                await self._closing.wait()

    async def _handle_once(self, item: OutboxItem) -> bool:
        """Whether it is done, or not worth another try, and will not come again."""
        try:
            if not await self._tell(item):
                return False
            await apply_with_retry(self._crew.store, AckOutbox(ids=(item.id,)), self._crew.node.trouble)
        except Unavailable as error:
            self._trouble(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is this one's own trouble
            self._error_counts[item.id] = self._error_counts.get(item.id, 0) + 1
            self._trouble(f"{item.kind} of {item.execution.hex()}: {type(error).__name__}: {error}")
            return False
        self._tries.pop(item.id, None)
        self._error_counts.pop(item.id, None)
        return True

    async def _tell(self, item: OutboxItem) -> bool:
        """Whoever it is for; False: to be tried again."""
        match item.kind:
            case "ended":
                return await self._ended(item, msgspec.json.decode(item.body, type=_EndedBody))
            case "hook":
                return await self._hook(item, msgspec.json.decode(item.body, type=_HookBody))
            case _:
                return True  # of a later version, for consumers that this one does not know

    # --- followers

    async def _ended(self, item: OutboxItem, ended: _EndedBody) -> bool:
        """An execution that somebody wants to hear of: those that follow its job, and the job's own hook."""
        upstream = (await self._catalog.current([bytes.fromhex(ended.job)])).get(bytes.fromhex(ended.job))
        view = await self._crew.store.execution(bytes.fromhex(ended.execution))
        if upstream is None or view is None:
            return True
        if item.id not in self._tries:
            await self._followers(upstream, view.execution)
        return await self._run_hook_of_canceled_sleeper(item, view.execution)

    async def _run_hook_of_canceled_sleeper(self, item: OutboxItem, ended: Execution) -> bool:
        """What is canceled while it sleeps is ended by the store, which knows no hooks; all else brings its report."""
        detail = msgspec.convert(ended.detail or {}, Detail)
        if ended.started_us is None or detail.group is None or detail.report is not None or ended.reason is None:
            return True
        pair = (ended.job, ended.job_version)
        entry = (await self._catalog.fetch([pair])).get(pair)
        if entry is None or not entry.has_valid_layout:
            return True
        stopped = stop(entry.layout, detail.group, ReasonCode.CANCELED, ended.finished_us or 0, ended.reason.message)
        over = build_report(entry.layout, stopped.group, End(status=ended.status, reason=ended.reason))
        hook = _HookBody(
            job=ended.job.hex(),
            version=ended.job_version,
            scheduled_us=ended.scheduled_us,
            report=over,
            token=hook_token(ended.token),
        )
        return await self._hook(item, hook)

    async def _followers(self, upstream: CatalogEntry, ended: Execution) -> None:
        """Jobs that follow another: they run, or are skipped when they needed it to succeed."""
        found = await self._crew.store.followers(upstream.namespace, upstream.name)
        entries = await self._catalog.current([job for job, _ in found])
        jobs = await self._crew.store.jobs_by_id(list(entries))
        for job, on in found:
            if job not in jobs or jobs[job].state is JobState.DISABLED:
                continue
            entry = entries[job]
            if isinstance(entry.spec, Unreadable):  # what else it waits for is not known
                self._catalog.broken(entry, Invalid(entry.spec.error), self._crew.clock.now_us())
            else:
                await self._follow(entry, on, upstream, ended)

    async def _follow(
        self, entry: CatalogEntry, on: UpstreamCondition, upstream: CatalogEntry, ended: Execution
    ) -> None:
        finished_us = ended.finished_us or 0
        id_ = requested_execution_id(entry.job, Cause.DEPENDENCY, finished_us, ended.id)
        if not _is_satisfied(on, ended):
            if on is UpstreamCondition.SUCCESS:
                message = f'"{upstream.name}" did not succeed: it is {ended.status.name.lower()}.'
                await self._skip(entry, id_, finished_us, Reason.of(ReasonCode.UPSTREAM_FAILED, message))
            return
        others = await self._others(entry, upstream)
        if others is None:
            return
        used = tuple(sorted({ended.id.hex(), *others}))
        if len(used) > 1:  # whichever of them ended last, it is the same run
            id_ = requested_execution_id(entry.job, Cause.DEPENDENCY, 0, "".join(used).encode())
        run = RunRow(
            id_,
            Cause.DEPENDENCY,
            finished_us,
            finished_us,
            write_detail(Detail(upstream=used)),
            find_key_gate(entry.effective, namespace=entry.namespace, name=entry.name, payload=entry.spec.payload),
            key_limit(entry.effective) if entry.effective.key is not None else 0,
        )
        try:
            await self._crew.store.apply(Trigger(job=entry.job, run=run, now_us=self._crew.clock.now_us()))
        except NotFound:
            return  # deleted meanwhile

    async def _skip(self, entry: CatalogEntry, id_: bytes, scheduled_us: int, reason: Reason) -> None:
        now_us = self._crew.clock.now_us()
        command = RecordSkip(
            id=id_,
            job=entry.job,
            cause=Cause.DEPENDENCY,
            scheduled_us=scheduled_us,
            code=reason.code,
            message=reason.message,
            now_us=now_us,
        )
        if await self._crew.store.apply(command):
            self._crew.bus.emit(
                ExecutionEnded(
                    at_us=now_us,
                    execution=id_,
                    job=entry.job,
                    status=Status.SKIPPED,
                    code=reason.code,
                    duration_us=0,
                    message=reason.message,
                )
            )

    async def _others(self, entry: CatalogEntry, upstream: CatalogEntry) -> tuple[str, ...] | None:
        """The last executions of the other jobs that it follows too; None: one of them has not ended anew as it must.

        A run uses each execution once: what the last run followed does not count again.
        """
        others = [after for after in entry.spec.after if after.job != upstream.name]
        if not others:
            return ()
        before = await self._crew.store.list_executions(ExecutionFilter(job=entry.job), limit=20)
        used: set[str] = set()
        for run in before.items:
            if isinstance(run, Execution) and run.cause is Cause.DEPENDENCY and run.detail:
                used.update(run.detail.get("upstream", ()))
        found = []
        for after in others:
            job = await self._crew.store.job_named(entry.namespace, after.job)
            page = (
                None if job is None else await self._crew.store.list_executions(ExecutionFilter(job=job.id), limit=20)
            )
            last = next((e for e in (page.items if page else ()) if isinstance(e, Execution) and e.status.final), None)
            if last is None or last.id.hex() in used or not _is_satisfied(after.on, last):
                return None
            found.append(last.id.hex())
        return tuple(found)

    # --- hooks

    async def _hook(self, item: OutboxItem, hook: _HookBody) -> bool:
        job, now_us = bytes.fromhex(hook.job), self._crew.clock.now_us()
        entry = (await self._catalog.fetch([(job, hook.version)])).get((job, hook.version))
        target = None if entry is None else entry.spec.on_complete
        if entry is None or target is None:
            return True
        tries = self._tries[item.id] = self._tries.get(item.id, 0) + 1
        timeout_us = entry.effective.task_timeout_us
        call = AttemptCall(
            execution=item.execution,
            job=job,
            job_name=entry.name,
            namespace=entry.namespace,
            task=ON_COMPLETE,
            number=tries,
            token=await self._read_hook_token(item) if hook.token is None else hook.token,
            scheduled_us=hook.scheduled_us,
            started_us=now_us,
            deadline_us=now_us + timeout_us if timeout_us else None,
            timeout_said=entry.timeout_said(ON_COMPLETE),
            last_run_us=None,
            options=_to_hook_options(target),
            payload=to_report_body(hook.report),
            sink=self._crew.book.sink(item.execution, ON_COMPLETE, tries),
            grace_s=self._crew.options.grace_s,
            timeout_grace_s=self._crew.options.timeout_grace_s,
        )
        outcome = await run_attempt(self._crew, call, target.kind, timeout_us)
        if isinstance(outcome, Succeeded):
            return True
        self._trouble(f"{entry.name}: on_complete: {getattr(outcome, 'error', outcome)}")
        return tries >= _MAX_HOOK_ATTEMPTS or (isinstance(outcome, Failed) and not outcome.worth_retrying)

    async def _read_hook_token(self, item: OutboxItem) -> int:
        """The token of a hook whose item does not say it."""
        view = await self._crew.store.execution(item.execution)
        return 0 if view is None else hook_token(view.execution.token)

    def _trouble(self, error: str) -> None:
        self._crew.bus.emit(ProblemReported(at_us=self._crew.clock.now_us(), where="outbox", error=error))


def _to_hook_options(hook: Target) -> Mapping[str, Any]:
    """A hook's options: a webhook that says nothing of its request is sent the report, and a GET would leave it out."""
    if hook.kind == "http" and not {"method", "body", "json"} & hook.options.keys():
        return {**hook.options, "method": "POST"}
    return hook.options


def _is_satisfied(on: UpstreamCondition, ended: Execution) -> bool:
    match on:
        case UpstreamCondition.SUCCESS:
            return ended.status in (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS)
        case UpstreamCondition.FAILURE:
            return ended.status in _FAILURE_STATUSES
        case UpstreamCondition.COMPLETION:
            return ended.status is not Status.SKIPPED
