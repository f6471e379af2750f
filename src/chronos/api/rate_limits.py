"""Rate limits per client. Memory is bounded: only the most recent clients are kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from chronos.api.errors import TooManyRequests
from chronos.core.calendar import SECOND_US

MAX_CLIENTS = 10_000

V = TypeVar("V")


class RecentlyUsedMap(Generic[V]):
    """A bounded map that drops the least recently used entry when it is full."""

    def __init__(self, capacity: int = MAX_CLIENTS) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, and mark it as recently used."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> None:
        """Set the value of a key."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)

    def drop(self, key: Hashable) -> None:
        self._values.pop(key, None)

    def drop_where(self, matches: Callable[[Hashable], bool]) -> None:
        """Drop all entries whose keys match."""
        for key in [key for key in self._values if matches(key)]:
            del self._values[key]

    def clear(self) -> None:
        self._values.clear()

    def __len__(self) -> int:
        return len(self._values)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_us: int


class RateLimit:
    """A token bucket per client. It refills at ``per_s`` tokens per second and holds one second's worth, at least one.

    ``per_s`` None means no limit.
    """

    def __init__(self, per_s: float | None) -> None:
        self._per_s = per_s
        self._capacity = max(1.0, per_s or 0.0)
        self._buckets: RecentlyUsedMap[_Bucket] = RecentlyUsedMap()

    @property
    def is_limited(self) -> bool:
        return self._per_s is not None

    def take(self, client: str, now_us: int) -> None:
        """Take a token of the client. Raises ``TooManyRequests`` if its bucket is empty."""
        if self._per_s is None:
            return
        bucket = self._buckets.get(client) or _Bucket(self._capacity, now_us)
        elapsed_s = max(0, now_us - bucket.filled_us) / SECOND_US
        bucket.tokens = min(self._capacity, bucket.tokens + elapsed_s * self._per_s)
        bucket.filled_us = now_us
        self._buckets.put(client, bucket)
        if bucket.tokens < 1:
            wait_s = (1 - bucket.tokens) / self._per_s if self._per_s else 60.0
            limit = f"{self._per_s:g} requests per second (queue.submit_rate)"
            raise TooManyRequests(f"more than {limit} that save jobs or start runs; try again later", wait_s)
        bucket.tokens -= 1
