"""How much a node works on at once: so many slots in all, and of some queues at most so many."""

from collections import Counter
from collections.abc import Mapping


class Slots:
    """Counts; taking what is not free is a mistake of the caller."""

    def __init__(self, total: int, of_queue: Mapping[str, int]) -> None:
        self._total, self._queue_limits = total, of_queue
        self._taken = 0
        self._taken_by_queue: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._total

    @property
    def taken(self) -> int:
        return self._taken

    def free(self, queue: str | None = None) -> int:
        """How many more could be taken, of one queue or of any."""
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
        """Keep slots for work that is on its way, of whichever queue."""
        self._taken += count

    def release_held(self, count: int) -> None:
        self._taken -= count
