"""Followers: starts the jobs that run after an ended execution, and its ``on_complete`` hook."""

from typing import Any

import msgspec
from msgspec import Struct

from chronos.core.concurrency_key import find_key_gate, key_limit
from chronos.core.events import ExecutionEnded, ProblemReported
from chronos.core.execution import Cause, Execution, Status
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.execution_report import Occurrence, Report, build_report, to_attempt_body, to_report_body
from chronos.core.fencing_token import hook_token
from chronos.core.ids import requested_execution_id
from chronos.core.job import JobState, Unreadable, UpstreamCondition
from chronos.core.outcome import Failed, Succeeded
from chronos.core.reasons import Reason, ReasonCode
from chronos.core.settings.levels import NO_LEVELS
from chronos.core.settle import End, stop
from chronos.engine.execution.attempt import run_attempt
from chronos.engine.execution.call_builder import to_hook_options
from chronos.engine.job_catalog import CatalogEntry, JobCatalog
from chronos.engine.node_context import NodeContext
from chronos.errors import Invalid, NotFound
from chronos.runners.contract import AttemptCall, HookInput
from chronos.store.commands import OutboxItem, RecordSkip, RunRow, Trigger
from chronos.store.contract import ExecutionFilter

ON_COMPLETE = "on_complete"
_MAX_HOOK_ATTEMPTS = 5
_FAILURE_STATUSES = (Status.FAILED, Status.STALE)


class _EndedBody(Struct, frozen=True, kw_only=True):
    execution: str
    job: str
    status: int


class _HookBody(Struct, frozen=True, kw_only=True):
    job: str
    version: int
    levels: int = NO_LEVELS
    scheduled_us: int
    report: Report
    cause: int = int(Cause.SCHEDULE)  # missing: written by an older release
    token: int | None = None  # None: written by a release without hook tokens


class Followers:
    """Starts follower jobs and hooks. A method that returns False wants to be called again later."""

    def __init__(self, context: NodeContext, catalog: JobCatalog) -> None:
        self._context, self._catalog = context, catalog
        self._hook_attempts: dict[bytes, int] = {}  # by outbox item

    # --- follower jobs

    async def start_followers(self, item: OutboxItem) -> bool:
        """Start the jobs that follow an ended execution, and its hook if it was canceled while it slept."""
        ended = msgspec.json.decode(item.body, type=_EndedBody)
        upstream = (await self._catalog.fetch_current([bytes.fromhex(ended.job)])).get(bytes.fromhex(ended.job))
        view = await self._context.store.execution(bytes.fromhex(ended.execution))
        if upstream is None or view is None:
            return True
        if item.id not in self._hook_attempts:
            await self._start_all(upstream, view.execution)
        return await self._run_hook_after_canceled_wait(item, view.execution)

    async def _run_hook_after_canceled_wait(self, item: OutboxItem, ended: Execution) -> bool:
        """Run the hook of an execution that was canceled while it slept.

        The store ended it, and the store knows nothing of hooks. Every other execution brings its report in its own
        item.
        """
        detail = msgspec.convert(ended.detail or {}, Detail)
        if ended.started_us is None or detail.group is None or detail.report is not None or ended.reason is None:
            return True
        key = (ended.job, ended.job_version, ended.levels)
        entry = (await self._catalog.fetch([key])).get(key)
        if entry is None or not entry.has_valid_layout:
            return True
        stopped = stop(entry.layout, detail.group, ReasonCode.CANCELED, ended.finished_us or 0, ended.reason.message)
        ended_report = build_report(entry.layout, stopped.group, End(status=ended.status, reason=ended.reason))
        hook = _HookBody(
            job=ended.job.hex(),
            version=ended.job_version,
            levels=ended.levels,
            scheduled_us=ended.scheduled_us,
            report=ended_report,
            cause=int(ended.cause),
            token=hook_token(ended.token),
        )
        return await self._run_hook(item, hook)

    async def _start_all(self, upstream: CatalogEntry, ended: Execution) -> None:
        """Start each follower, or skip it if it requires a success that did not happen."""
        followers = await self._context.store.followers(upstream.namespace, upstream.name)
        entries = await self._catalog.fetch_current([job for job, _ in followers])
        jobs = await self._context.store.jobs_by_id(list(entries))
        for job, on in followers:
            if job not in jobs or jobs[job].state is JobState.DISABLED:
                continue
            entry = entries[job]
            if isinstance(entry.spec, Unreadable):  # the other jobs that it follows are unknown
                self._catalog.report_unschedulable(entry, Invalid(entry.spec.error), self._context.clock.now_us())
            else:
                await self._start_follower(entry, on, upstream, ended)

    async def _start_follower(
        self, entry: CatalogEntry, on: UpstreamCondition, upstream: CatalogEntry, ended: Execution
    ) -> None:
        finished_us = ended.finished_us or 0
        id_ = requested_execution_id(entry.job, Cause.DEPENDENCY, finished_us, ended.id)
        if not _is_satisfied(on, ended):
            if on is UpstreamCondition.SUCCESS:
                message = f'"{upstream.name}" did not succeed: it is {ended.status.name.lower()}.'
                await self._record_skip(entry, id_, finished_us, Reason.of(ReasonCode.UPSTREAM_FAILED, message))
            return
        others = await self._other_upstreams(entry, upstream)
        if others is None:
            return
        used = tuple(sorted({ended.id.hex(), *others}))
        if len(used) > 1:  # the id must not depend on which of them ended last
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
            await self._context.store.apply(Trigger(job=entry.job, run=run, now_us=self._context.clock.now_us()))
        except NotFound:
            return  # deleted meanwhile

    async def _record_skip(self, entry: CatalogEntry, id_: bytes, scheduled_us: int, reason: Reason) -> None:
        now_us = self._context.clock.now_us()
        command = RecordSkip(
            id=id_,
            job=entry.job,
            cause=Cause.DEPENDENCY,
            scheduled_us=scheduled_us,
            code=reason.code,
            message=reason.message,
            now_us=now_us,
        )
        if await self._context.store.apply(command):
            self._context.bus.emit(
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

    async def _other_upstreams(self, entry: CatalogEntry, upstream: CatalogEntry) -> tuple[str, ...] | None:
        """Return the last executions of the other jobs that a follower waits for; None if one is not satisfied yet.

        A run uses each execution once: executions that the last run followed do not count again.
        """
        others = [after for after in entry.spec.after if after.job != upstream.name]
        if not others:
            return ()
        recent = await self._context.store.list_executions(ExecutionFilter(job=entry.job), limit=20)
        used: set[str] = set()
        for run in recent.items:
            if isinstance(run, Execution) and run.cause is Cause.DEPENDENCY and run.detail:
                used.update(run.detail.get("upstream", ()))
        others_ended: list[str] = []
        for after in others:
            job = await self._context.store.job_named(entry.namespace, after.job)
            page = (
                None
                if job is None
                else await self._context.store.list_executions(ExecutionFilter(job=job.id), limit=20)
            )
            last = next((e for e in (page.items if page else ()) if isinstance(e, Execution) and e.status.final), None)
            if last is None or last.id.hex() in used or not _is_satisfied(after.on, last):
                return None
            others_ended.append(last.id.hex())
        return tuple(others_ended)

    # --- hooks

    async def run_hook(self, item: OutboxItem) -> bool:
        """Run ``on_complete``."""
        return await self._run_hook(item, msgspec.json.decode(item.body, type=_HookBody))

    def count_hook_attempts(self, item: bytes) -> int:
        """Return how often the hook of an outbox item has been tried."""
        return self._hook_attempts.get(item, 0)

    def forget(self, item: bytes) -> None:
        """Drop the count of an outbox item that is done."""
        self._hook_attempts.pop(item, None)

    async def _run_hook(self, item: OutboxItem, hook: _HookBody) -> bool:
        job, now_us = bytes.fromhex(hook.job), self._context.clock.now_us()
        key = (job, hook.version, hook.levels)
        entry = (await self._catalog.fetch([key])).get(key)
        target = None if entry is None else entry.spec.on_complete
        if entry is None or target is None:
            return True
        attempt = self._hook_attempts[item.id] = self._hook_attempts.get(item.id, 0) + 1
        timeout_us = entry.effective.task_timeout_us
        call = AttemptCall(
            execution=item.execution,
            job=job,
            job_name=entry.name,
            namespace=entry.namespace,
            task=ON_COMPLETE,
            number=attempt,
            token=await self._read_hook_token(item) if hook.token is None else hook.token,
            scheduled_us=hook.scheduled_us,
            started_us=now_us,
            deadline_us=now_us + timeout_us if timeout_us else None,
            has_timeout=entry.has_timeout(ON_COMPLETE),
            last_run_us=None,
            options=to_hook_options(target),
            payload=await self._write_report(item.execution, entry, hook),
            hook=HookInput.REPORT,
            sink=self._context.outputs.sink(item.execution, ON_COMPLETE, attempt),
            grace_s=self._context.options.grace_s,
            timeout_grace_s=self._context.options.timeout_grace_s,
        )
        outcome = await run_attempt(self._context, call, target.kind, timeout_us)
        if isinstance(outcome, Succeeded):
            return True
        self._report_problem(f"{entry.name}: on_complete: {getattr(outcome, 'error', outcome)}")
        return attempt >= _MAX_HOOK_ATTEMPTS or (isinstance(outcome, Failed) and not outcome.worth_retrying)

    async def _write_report(self, execution: bytes, entry: CatalogEntry, hook: _HookBody) -> dict[str, Any]:
        """Return the report with everything that is on record about the execution. Retention may have deleted it."""
        view = await self._context.store.execution(execution)
        nodes = {node.number: node.name for node in await self._context.store.nodes()}
        ended = None if view is None else view.execution
        detail = Detail() if ended is None else msgspec.convert(ended.detail or {}, Detail)
        occurrence = Occurrence(
            execution=execution,
            job=entry.job,
            job_name=entry.name,
            namespace=entry.namespace,
            job_version=entry.version,
            cause=Cause(hook.cause) if ended is None else ended.cause,
            scheduled_us=hook.scheduled_us,
            node=None if ended is None or ended.node is None else nodes.get(ended.node),
            span=detail.span,
            replay_of=detail.replay_of,
        )
        attempts: dict[str, list[dict[str, Any]]] = {}
        for attempt in () if view is None else view.attempts:
            attempts.setdefault(attempt.task, []).append(to_attempt_body(attempt, nodes))
        return to_report_body(hook.report, occurrence, attempts)

    async def _read_hook_token(self, item: OutboxItem) -> int:
        """Return the token of a hook whose item does not contain it."""
        view = await self._context.store.execution(item.execution)
        return 0 if view is None else hook_token(view.execution.token)

    def _report_problem(self, error: str) -> None:
        self._context.bus.emit(ProblemReported(at_us=self._context.clock.now_us(), where="outbox", error=error))


def _is_satisfied(on: UpstreamCondition, ended: Execution) -> bool:
    match on:
        case UpstreamCondition.SUCCESS:
            return ended.status in (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS)
        case UpstreamCondition.FAILURE:
            return ended.status in _FAILURE_STATUSES
        case UpstreamCondition.COMPLETION:
            return ended.status is not Status.SKIPPED
