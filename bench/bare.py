"""What the bare statements of an engine have to offer: the floor under the store's hot commands.

Their tables have what any scheduler needs that keeps its word: a cursor and a counter a job, a fencing token, an index
by which only one execution of a job runs at a time, and history.
"""

from typing import Protocol

Batch = list[tuple[bytes, bytes]]  # job, execution


class Bare(Protocol):
    """The bare statements of an engine."""

    async def open(self, jobs: list[bytes]) -> None:
        """Make the tables, with these jobs."""

    async def admit(self, batch: Batch, due: int, *, claim: bool = True) -> None:
        """Move cursors, insert executions, as running or as ready."""

    async def claim(self, limit: int) -> None:
        """The best-ranked ready ones are running."""

    async def settle(self, batch: Batch) -> None:
        """Running ones go to history."""

    async def close(self) -> None:
        """Let go."""
