"""Random intervals: "every 5 to 10 minutes", the same on every node.

Occurrence n depends only on the key, the start and n, so no node has to walk from the start. Each occurrence lies
within a slot of its own, at a hashed distance from its beginning::

    start       M           2M          3M          M = (shortest + longest) / 2, the mean interval
      |-----------|-----------|-----------|         W = (longest - shortest) / 2, the width of a slot
      0           [--1--]     [----2]     [3----]

Two neighbours are at least M - W = shortest and at most M + W = longest apart. Ends of whole seconds make intervals of
whole seconds.
"""

from dataclasses import dataclass
from hashlib import blake2b

from chronos.core.calendar import LAST_US, SECOND_US


@dataclass(frozen=True, slots=True)
class RandomRule:
    """Instants at intervals from ``shortest_us`` to ``longest_us``, hashed from ``key``; the first is the start."""

    shortest_us: int
    longest_us: int
    key: str = ""
    start_us: int | None = None

    def next_us(self, after_us: int) -> int | None:
        """Return the first occurrence strictly after ``after_us``; without a start, it is counted from there."""
        start_us = after_us if self.start_us is None else self.start_us
        next_us = self._occurrence(start_us, self._count_until(start_us, after_us))
        return next_us if next_us <= LAST_US else None

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Count the occurrences with after < t <= until; None without a start."""
        if self.start_us is None:
            return None
        until_us = min(until_us, LAST_US)
        return max(0, self._count_until(self.start_us, until_us) - self._count_until(self.start_us, after_us))

    def _count_until(self, start_us: int, us: int) -> int:
        """Count the occurrences up to ``us``, which is also the number of the first one after it."""
        if us < start_us:
            return 0
        n = 2 * (us - start_us) // (self.shortest_us + self.longest_us)  # the last slot that has begun
        return n + 1 if self._occurrence(start_us, n) <= us else n

    def _occurrence(self, start_us: int, n: int) -> int:
        if n == 0:
            return start_us
        text = f"{self.key}\0{start_us}\0{n}".encode("utf-8", "surrogatepass")
        unit_us = 1 if self.shortest_us % SECOND_US or self.longest_us % SECOND_US else SECOND_US
        shortest, longest = self.shortest_us // unit_us, self.longest_us // unit_us
        delay = int.from_bytes(blake2b(text, digest_size=8).digest()) % ((longest - shortest) // 2 + 1)
        return start_us + ((n * (shortest + longest) + 1) // 2 + delay) * unit_us
