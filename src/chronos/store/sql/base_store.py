"""SqlStore: reads, hints, commit listeners and resent requests, shared by both engines."""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

from chronos.store.commands import Admit, Claim, Command, ProfileGates
from chronos.store.contract import Hint
from chronos.store.sql.queries import Queries
from chronos.store.sql.query import Dialect, Query, Steps
from chronos.store.sql.settings.profiles import FIND_UNPROFILED, GATES_PER_COMMAND

R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
log = logging.getLogger("chronos.store")


class SqlStore(Queries):
    """The part of ``contract.Store`` that both engines share."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.dialect = dialect
        self._hint_listeners: list[Callable[[Hint], None]] = []
        self._commit_listeners: list[Callable[[int, float], None]] = []

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        self._hint_listeners.append(callback)

    def _drop_listeners(self) -> None:
        """Drop the callbacks: the store is closed."""
        self._hint_listeners.clear()
        self._commit_listeners.clear()

    def on_commit(self, callback: Callable[[int, float], None]) -> None:
        self._commit_listeners.append(callback)

    def _notify_commit_listeners(self, rows: int, took_s: float) -> None:
        _notify_listeners(self._commit_listeners, rows, took_s)

    def _hint(self, hint: Hint) -> None:
        _notify_listeners(self._hint_listeners, hint)

    @abstractmethod
    async def apply(self, command: Command[R]) -> R:
        """See ``Store.apply``."""

    async def read_steps(self, steps: Steps[T]) -> T:
        """Run the steps of a read that is not part of the contract, such as a page of a copy."""
        return await self._read(steps)

    async def prepare_history(self, find_execution: Callable[[bytes], Awaitable[bytes | None]]) -> None:
        """Prepare a new store for a copy of history. ``find_execution`` returns the first one from an id on."""

    async def finish_copy(self) -> None:
        """Bring what is not in the rows of a copy up to date with them."""

    async def check_statements(self) -> list[str]:
        return []

    async def _profile_gates(self) -> None:
        """Give a profile to the gates that an earlier release has written."""
        if await self._read(_find_unprofiled()):
            while await self.apply(ProfileGates(limit=GATES_PER_COMMAND)):
                pass


def _find_unprofiled() -> Steps[bool]:
    return bool((yield Query(FIND_UNPROFILED, standalone=True)))


def _notify_listeners(listeners: Sequence[Callable[[*Ts], None]], *args: *Ts) -> None:
    """Call every listener. Their errors are logged: raised here, they would make a commit look failed."""
    for listener in listeners:
        try:
            listener(*args)
        except Exception:
            log.exception("a store listener failed")


_MAX_REMEMBERED_REQUESTS = 1024


class ResentRequests:
    """Requests whose outcome is unknown because the connection failed before the answer arrived.

    When such a request is sent again, the store looks up what the first one did. Remembers the last 1,024.
    """

    def __init__(self) -> None:
        self._requests: dict[bytes, None] = {}

    def add(self, command: Command[Any]) -> None:
        if isinstance(command, Admit | Claim):
            self._requests[command.request] = None
            while len(self._requests) > _MAX_REMEMBERED_REQUESTS:
                del self._requests[next(iter(self._requests))]

    def contains(self, command: Command[Any]) -> bool:
        return bool(self._requests) and isinstance(command, Admit | Claim) and command.request in self._requests
