"""What both drivers share: reads as steps, hints, and that is all. A driver opens, reads, applies and looks after."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

from chronos.core.execution import DeadLetter, Execution, Span
from chronos.core.job import Job, JobSpec, JobVersion, On
from chronos.core.node import AuditEntry, Node
from chronos.core.token import Token
from chronos.store.commands import OutboxItem, OutputRow
from chronos.store.contract import Counts, Depth, Due, ExecutionFilter, ExecutionView, Hint, JobFilter, JobName, Page
from chronos.store.sql import tokens
from chronos.store.sql.dialect import Dialect, Steps
from chronos.store.sql.reads import Reads
from chronos.store.sql.verify import Verify

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
log = logging.getLogger("chronos.store")


class SqlStore(ABC):
    """The reading half of the contract; see ``contract.Store`` for what each method promises."""

    def __init__(self, dialect: Dialect) -> None:
        self._reads = Reads(dialect)
        self._verify = Verify(dialect)
        self._hints: list[Callable[[Hint], None]] = []
        self._commits: list[Callable[[int, float], None]] = []

    @abstractmethod
    async def _read(self, steps: Steps[T]) -> T:
        """Run reading steps on a connection of their own."""

    def on_hint(self, callback: Callable[[Hint], None]) -> None:
        self._hints.append(callback)

    def on_commit(self, callback: Callable[[int, float], None]) -> None:
        self._commits.append(callback)

    def _committed(self, rows: int, took_s: float) -> None:
        _tell(self._commits, rows, took_s)

    def _hint(self, hint: Hint) -> None:
        _tell(self._hints, hint)

    async def due(self, until_us: int, limit: int) -> list[Due]:
        return await self._read(self._reads.due(until_us, limit))

    async def next_due_us(self) -> int | None:
        return await self._read(self._reads.next_due_us())

    async def next_wake_us(self) -> int | None:
        return await self._read(self._reads.next_wake_us())

    async def held_by(self, node: int) -> list[Execution]:
        return await self._read(self._reads.held_by(node))

    async def running_since(self, before_us: int, limit: int) -> list[Execution]:
        return await self._read(self._reads.running_since(before_us, limit))

    async def ready_lanes(self) -> list[int]:
        return await self._read(self._reads.ready_lanes())

    async def lanes(self) -> dict[int, str]:
        return await self._read(self._reads.lanes())

    async def depths(self) -> list[Depth]:
        return await self._read(self._reads.depths())

    async def counts(self) -> Counts:
        return await self._read(self._reads.counts())

    async def jobs_by_id(self, ids: Sequence[bytes]) -> dict[bytes, Job]:
        return await self._read(self._reads.jobs_by_id(ids))

    async def job_named(self, namespace: str, name: str) -> Job | None:
        return await self._read(self._reads.job_named(namespace, name))

    async def names_of(self, ids: Sequence[bytes]) -> dict[bytes, JobName]:
        return await self._read(self._reads.names_of(ids))

    async def namespaces(self, *, limit: int) -> list[str]:
        return await self._read(self._reads.namespaces(limit))

    async def specs_at(self, pairs: Sequence[tuple[bytes, int]]) -> dict[tuple[bytes, int], JobSpec]:
        return await self._read(self._reads.specs_at(pairs))

    async def followers(self, namespace: str, name: str) -> list[tuple[bytes, On]]:
        return await self._read(self._reads.followers(namespace, name))

    async def list_jobs(self, where: JobFilter, *, limit: int, cursor: bytes | None = None) -> Page[Job]:
        return await self._read(self._reads.list_jobs(where, limit, cursor))

    async def versions(self, job: bytes, *, limit: int, before: int | None = None) -> list[JobVersion]:
        return await self._read(self._reads.versions(job, limit, before))

    async def list_executions(
        self, where: ExecutionFilter, *, limit: int, cursor: bytes | None = None
    ) -> Page[Execution | Span]:
        return await self._read(self._reads.list_executions(where, limit, cursor))

    async def execution(self, execution: bytes) -> ExecutionView | None:
        return await self._read(self._reads.execution(execution))

    async def output(self, execution: bytes) -> list[OutputRow]:
        return await self._read(self._reads.output(execution))

    async def ended_since(self, after: tuple[int, bytes], limit: int) -> list[Execution | Span]:
        return await self._read(self._reads.ended_since(after, limit))

    async def latest(self, jobs: Sequence[bytes], *, started: bool = False) -> dict[bytes, Execution]:
        return await self._read(self._reads.latest(jobs, started))

    async def list_dead_letters(
        self, *, namespace: str | None, limit: int, cursor: bytes | None = None
    ) -> Page[DeadLetter]:
        return await self._read(self._reads.list_dead_letters(namespace, limit, cursor))

    async def nodes(self) -> list[Node]:
        return await self._read(self._reads.nodes())

    async def outbox(self, *, limit: int, after: bytes | None = None) -> list[OutboxItem]:
        return await self._read(self._reads.outbox(limit, after))

    async def audit(self, *, namespace: str | None, limit: int, cursor: bytes | None = None) -> Page[AuditEntry]:
        return await self._read(self._reads.audit(namespace, limit, cursor))

    async def token(self, token_hash: str) -> Token | None:
        return await self._read(tokens.by_hash(token_hash))

    async def tokens(self) -> list[Token]:
        return await self._read(tokens.everything())

    async def verify(self) -> list[str]:
        return await self._read(self._verify.steps())

    async def check_statements(self) -> list[str]:
        return []


def _tell(listeners: Sequence[Callable[[*Ts], None]], *news: *Ts) -> None:
    """A listener's own trouble must not become that of a commit, which would be made once more."""
    for listener in listeners:
        try:
            listener(*news)
        except Exception:
            log.exception("a listener of the store failed")
