"""RunStats: how many runs ended per stretch of time, by outcome.

A stretch that is over never changes, so it is counted once and remembered. A request counts a bounded number of runs,
the newest stretches first. The others follow with the next requests.
"""

from collections import OrderedDict
from dataclasses import dataclass

from chronos.clock import Clock
from chronos.core.execution import Status
from chronos.errors import Invalid
from chronos.store.contract import Store
from chronos.store.overview import COUNT_CAP

MAX_BUCKETS = 1_000
_MAX_ROWS_PER_REQUEST = 100_000
_SETTLED_AFTER_US = 5_000_000  # a record with an earlier end time may be committed so much later
_MAX_REMEMBERED = 10_000  # buckets of all requests

_Key = tuple[str | None, bytes | None, int, int]  # namespace, job, width and start of a bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBucket:
    """The runs that ended in one stretch of time."""

    start_us: int
    counts: dict[Status, int] | None  # None: not counted yet; ask again
    capped: bool = False  # it has more runs than were counted


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatsAnswer:
    """Consecutive buckets, oldest first."""

    from_us: int
    to_us: int
    bucket_us: int
    buckets: tuple[RunBucket, ...]

    @property
    def complete(self) -> bool:
        """Whether every bucket is counted."""
        return all(bucket.counts is not None for bucket in self.buckets)

    @property
    def totals(self) -> dict[Status, int]:
        """The sums over all counted buckets."""
        totals: dict[Status, int] = {}
        for bucket in self.buckets:
            for status, count in (bucket.counts or {}).items():
                totals[status] = totals.get(status, 0) + count
        return totals


class RunStats:
    """Counts ended runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._remembered: OrderedDict[_Key, RunBucket] = OrderedDict()

    async def runs(
        self, from_us: int, to_us: int, bucket_us: int, *, job: bytes | None = None, namespace: str | None = None
    ) -> RunStatsAnswer:
        """Count the runs that ended from ``from_us`` to ``to_us``, per ``bucket_us``. Spans count their instants.

        The buckets are aligned to multiples of ``bucket_us``. Raises ``Invalid`` for more than 1,000 buckets.
        """
        if bucket_us <= 0 or to_us <= from_us:
            raise Invalid("the range and its buckets must be longer than nothing; give an earlier from or a later to")
        first_us = from_us // bucket_us * bucket_us
        starts_us = range(first_us, to_us, bucket_us)
        if len(starts_us) > MAX_BUCKETS:
            raise Invalid(f"{len(starts_us):,} buckets, allowed {MAX_BUCKETS:,}; use wider buckets or a shorter range")
        now_us = self._clock.now_us()
        left = _MAX_ROWS_PER_REQUEST
        buckets: list[RunBucket] = []
        for start_us in reversed(starts_us):
            key = (namespace, job, bucket_us, start_us)
            bucket = self._remembered.get(key)
            if bucket is None and start_us > now_us:
                bucket = RunBucket(start_us=start_us, counts={})
            elif bucket is None and left > 0:
                bucket, rows = await self._count(start_us, bucket_us, job, namespace)
                left -= rows
                if start_us + bucket_us < now_us - _SETTLED_AFTER_US:
                    self._remember(key, bucket)
            buckets.append(bucket or RunBucket(start_us=start_us, counts=None))
        buckets.reverse()
        return RunStatsAnswer(from_us=first_us, to_us=to_us, bucket_us=bucket_us, buckets=tuple(buckets))

    async def _count(
        self, start_us: int, bucket_us: int, job: bytes | None, namespace: str | None
    ) -> tuple[RunBucket, int]:
        found = await self._store.count_ended(start_us, start_us + bucket_us, job=job, namespace=namespace)
        capped = found.rows > COUNT_CAP
        return RunBucket(start_us=start_us, counts=found.counts, capped=capped), found.rows

    def _remember(self, key: _Key, bucket: RunBucket) -> None:
        self._remembered[key] = bucket
        while len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)
