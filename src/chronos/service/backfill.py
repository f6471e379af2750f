"""BackfillService: runs the instants of a past range, 500 per command."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from chronos.clock import Clock
from chronos.core.calendar import rfc3339
from chronos.core.execution import Cause
from chronos.core.execution_detail import Detail
from chronos.core.ids import requested_execution_id
from chronos.core.job import DEFAULT_NAMESPACE, Job
from chronos.core.node import Actor
from chronos.core.schedule.occurrences import walk
from chronos.core.schedule_change import resolve_instants
from chronos.errors import Invalid, QueueFull
from chronos.service.backpressure import Backpressure
from chronos.service.jobs import JobService
from chronos.service.run_requests import log_admitted, to_run_row, to_stored_reason
from chronos.store.commands import SYSTEM, Backfill, RunRow
from chronos.store.contract import Store

MAX_BACKFILL = 10_000  # instants per request
_INSTANTS_PER_COMMAND = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """The executions that a backfill created. ``next_us`` is where to continue if the queue was full or the time was
    up.
    """

    ids: tuple[bytes, ...]
    next_us: int | None


class BackfillService:
    """Runs backfills. ``new_request`` returns unique ids."""

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
        from_us: int,
        to_us: int,
        *,
        reason: str | None = None,
        idempotency: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        actor: Actor = SYSTEM,
        within_us: int | None = None,
    ) -> BackfillResult:
        """Run the instants of a past range, both ends included, oldest first.

        - Stops when the queue is full, after ``MAX_BACKFILL`` instants, or after ``within_us``; see ``next_us``.
        - The same ``idempotency`` key returns the same executions.
        - Raises ``NotFound`` and ``Invalid``; ``QueueFull`` if not even the first instant fits.
        """
        job = ref if isinstance(ref, Job) else await self._jobs.get(ref, namespace)
        instants_us = self._instants(job, from_us, to_us)
        request = idempotency.encode() if idempotency is not None else self._new_request()
        started_us = self._clock.now_us()
        template = to_run_row(
            job=job.id,
            namespace=job.namespace,
            name=job.name,
            spec=job.spec,
            effective=await self._jobs.effective_settings(job),
            cause=Cause.BACKFILL,
            request=request,
            now_us=started_us,
            detail=Detail(reason=to_stored_reason(reason)),
        )
        ids: list[bytes] = []
        while chunk_us := list(islice(instants_us, min(_INSTANTS_PER_COMMAND, MAX_BACKFILL))):
            is_out_of_time = within_us is not None and self._clock.now_us() - started_us >= within_us
            if ids and (is_out_of_time or len(ids) >= MAX_BACKFILL):
                return BackfillResult(ids=tuple(ids), next_us=chunk_us[0])
            runs = [
                template._replace(
                    id=requested_execution_id(job.id, Cause.BACKFILL, started_us, request, scheduled_us),
                    scheduled_us=scheduled_us,
                )
                for scheduled_us in chunk_us
            ]
            try:
                created_ids = await self._submit(job, runs, idempotency, actor)
            except QueueFull:
                if not ids:
                    raise
                created_ids = []
            ids += created_ids
            if len(created_ids) < len(runs):
                return BackfillResult(ids=tuple(ids), next_us=chunk_us[len(created_ids)])
        return BackfillResult(ids=tuple(ids), next_us=None)

    def would_run(self, job: Job, from_us: int, to_us: int) -> tuple[int, int | None]:
        """Return how many instants one request would run, and where to continue. Raises ``Invalid``."""
        instants = list(islice(self._instants(job, from_us, to_us), MAX_BACKFILL + 1))
        return min(len(instants), MAX_BACKFILL), instants[MAX_BACKFILL] if len(instants) > MAX_BACKFILL else None

    def _instants(self, job: Job, from_us: int, to_us: int) -> Iterator[int]:
        instants = resolve_instants(job.spec, job.name)
        if instants is None:
            raise Invalid(f'"{job.name}" has no schedule to backfill; trigger it instead')
        if from_us > to_us or to_us > self._clock.now_us():
            raise Invalid("invalid range; a backfill starts and ends in the past, and starts before it ends")
        first_us = instants.next_us(from_us - 1)
        if first_us is None or first_us > to_us:
            raise Invalid(
                f'"{job.name}" has no scheduled times from {rfc3339(from_us)} to {rfc3339(to_us)}; choose another range'
            )
        return iter(walk(instants, first_us, to_us))

    async def _submit(self, job: Job, runs: Sequence[RunRow], idempotency: str | None, actor: Actor) -> Sequence[bytes]:
        """Create the runs that fit, in order. Returns the ids of new and earlier runs. Raises ``QueueFull``."""
        queue_full: QueueFull | None = None
        try:
            reserved = await self._backpressure.reserve(len(runs))
        except QueueFull as error:
            if idempotency is None:
                raise
            queue_full, reserved = error, 0  # runs that the key created earlier need no capacity
        command = Backfill(
            job=job.id,
            runs=tuple(runs),
            now_us=self._clock.now_us(),
            idempotency=idempotency,
            actor=actor,
            room=reserved,
        )
        created = 0
        try:
            answer = await self._store.apply(command)
            created = len(answer.statuses)
        finally:
            self._backpressure.release(reserved, created)
        new = {run.id for run in runs}
        for id_, status in zip((one for one in answer.ids if one in new), answer.statuses, strict=False):
            log_admitted(job, id_, Cause.BACKFILL, status)
        if not answer.ids:
            raise queue_full or QueueFull(
                f'the queue of "{job.name}" is full (queue_max); try again when some runs have finished'
            )
        return answer.ids
