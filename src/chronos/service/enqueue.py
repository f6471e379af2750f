"""EnqueueService: creates many runs of one job, 500 per command."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chronos.clock import Clock
from chronos.core.execution import Cause
from chronos.core.execution_detail import Detail
from chronos.core.job import DEFAULT_NAMESPACE, Job, ensure_readable
from chronos.core.node import Actor
from chronos.errors import Invalid, QueueFull
from chronos.service.backpressure import Backpressure
from chronos.service.jobs import JobService
from chronos.service.run_requests import log_admitted, to_run_row, to_stored_payload
from chronos.service.start_times import choose_start_times
from chronos.store.commands import SYSTEM, Enqueue, RunRow, Triggered
from chronos.store.contract import Store

MAX_ENQUEUED = 10_000  # runs per request
RUNS_PER_COMMAND = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Runs of one job that are requested and not created yet."""

    job: Job
    runs: tuple[RunRow, ...]
    now_us: int

    def to_commands(self, idempotency: str | None = None, actor: Actor = SYSTEM) -> Iterator[Enqueue]:
        """Yield the commands that create the runs. Each has a part of the idempotency key."""
        for start in range(0, len(self.runs), RUNS_PER_COMMAND):
            runs = self.runs[start : start + RUNS_PER_COMMAND]
            key = None if idempotency is None else f"{idempotency}:{start}"
            yield Enqueue(job=self.job.id, runs=runs, now_us=self.now_us, idempotency=key, actor=actor)


class EnqueueService:
    """Creates runs in bulk. ``new_request`` returns unique ids."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        jobs: JobService,
        backpressure: Backpressure,
        *,
        new_request: Callable[[], bytes],
    ) -> None:
        self._store, self._clock, self._jobs, self._backpressure = store, clock, jobs, backpressure
        self._new_request = new_request

    async def run(
        self,
        ref: str | Job,
        payloads: Sequence[Any],
        *,
        at_us: int | None = None,
        delay: str | None = None,
        expires: str | None = None,
        idempotency: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        actor: Actor = SYSTEM,
    ) -> list[Triggered]:
        """Create one run per payload, in order. Times are as in ``ExecutionService.trigger``.

        Up to ``RUNS_PER_COMMAND`` runs are created together or not at all. The same ``idempotency`` key with the same
        number of payloads returns the same executions. Raises ``NotFound``, ``Invalid`` and
        ``QueueFull``.
        """
        request = await self.prepare(ref, payloads, at_us=at_us, delay=delay, expires=expires, namespace=namespace)
        answers: list[Triggered] = []
        for command in request.to_commands(idempotency, actor):
            answers += await self._submit(command, request.job)
        return answers

    async def prepare(
        self,
        ref: str | Job,
        payloads: Sequence[Any],
        *,
        at_us: int | None = None,
        delay: str | None = None,
        expires: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> RunRequest:
        """Build the runs of a request without creating them. Raises ``NotFound`` and ``Invalid``."""
        if len(payloads) > MAX_ENQUEUED:
            raise Invalid(f"{len(payloads):,} payloads are given, allowed {MAX_ENQUEUED:,}; send them in parts")
        job = ref if isinstance(ref, Job) else await self._jobs.get(ref, namespace)
        now_us = self._clock.now_us()
        times = choose_start_times(now_us, at_us=at_us, delay=delay, expires=expires)
        effective = await self._jobs.effective_settings(job)
        runs = tuple(
            to_run_row(
                job=job.id,
                namespace=job.namespace,
                name=job.name,
                spec=ensure_readable(job.spec),
                effective=effective,
                cause=Cause.MANUAL,
                request=self._new_request(),
                now_us=now_us,
                scheduled_us=times.scheduled_us,
                wake_us=times.wake_us,
                detail=Detail(payload=to_stored_payload(payload), expires_us=times.expires_us),
            )
            for payload in payloads
        )
        return RunRequest(job=job, runs=runs, now_us=now_us)

    async def _submit(self, command: Enqueue, job: Job) -> list[Triggered]:
        reserved = await self._backpressure.reserve(len(command.runs))
        created = 0
        try:
            if reserved < len(command.runs):
                raise QueueFull(f"only {reserved} more runs may wait (queue.max_pending); try again later")
            answers = await self._store.apply(command)
            created = sum(answer.created for answer in answers)
        finally:
            self._backpressure.release(reserved, created)
        for answer in answers:
            if answer.created:
                log_admitted(job, answer.id, Cause.MANUAL, answer.status)
        return answers
