"""The bare statements of an engine: the lower bound for the hot commands of the store.

Their tables have what any reliable scheduler needs: a cursor and a counter per job, a fencing token, an index that
allows one running execution per job, and history.
"""

from typing import Protocol

Batch = list[tuple[bytes, bytes]]  # job, execution


class Bare(Protocol):
    """The bare statements of an engine."""

    async def open(self, jobs: list[bytes]) -> None:
        """Create the tables, with these jobs."""

    async def admit(self, batch: Batch, due: int, *, claim: bool = True) -> None:
        """Move cursors and insert executions, as running or as ready."""

    async def claim(self, limit: int) -> None:
        """Make the best-ranked ready executions running."""

    async def settle(self, batch: Batch) -> None:
        """Move running executions to history."""

    async def close(self) -> None:
        """Close the connection."""
