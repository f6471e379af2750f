"""Slots: counts the slots of a node, in total and per queue."""

from collections import Counter
from collections.abc import Mapping


class Slots:
    """Counters only. The caller must not take more than is free."""

    def __init__(self, total: int, queue_limits: Mapping[str, int]) -> None:
        self._total, self._queue_limits = total, queue_limits
        self._taken = 0
        self._taken_by_queue: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._total

    @property
    def taken(self) -> int:
        return self._taken

    def free(self, queue: str | None = None) -> int:
        """Return how many slots are free, for one queue or in total."""
        free = self._total - self._taken
        if queue is not None and queue in self._queue_limits:
            free = min(free, self._queue_limits[queue] - self._taken_by_queue[queue])
        return max(0, free)

    def take(self, queue: str) -> None:
        self._taken += 1
        if queue in self._queue_limits:
            self._taken_by_queue[queue] += 1

    def give(self, queue: str) -> None:
        self._taken -= 1
        if queue in self._queue_limits:
            self._taken_by_queue[queue] -= 1

    def hold(self, count: int) -> None:
        """Hold slots for work that is about to arrive, of any queue."""
        self._taken += count

    def release_held(self, count: int) -> None:
        self._taken -= count
