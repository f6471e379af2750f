"""Every read of the store, as steps. The same on both engines.

``@read`` turns a generator of queries into a method of the store, which the engine runs on a reading connection.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from chronos.core.config import Settings
from chronos.core.execution import Attempt, DeadLetter, Execution, Span, Status
from chronos.core.job import Job, JobSpec, JobState, JobVersion, UpstreamCondition
from chronos.core.node import AuditEntry, Node
from chronos.core.token import ApiToken
from chronos.store.commands import OutboxItem, OutputRow
from chronos.store.contract import (
    Counts,
    CurrentLevels,
    Depth,
    DueGate,
    ExecutionFilter,
    ExecutionView,
    JobFilter,
    JobName,
    Neighbours,
    Page,
)
from chronos.store.overview import Blockage, EndedCounts, Facet, JobActivity, JobDays, JobSort, Load, StatusCounts
from chronos.store.sql import row_mappers as record
from chronos.store.sql import tokens
from chronos.store.sql.executions.ended import EndedQueries
from chronos.store.sql.executions.gates import OVERLAPS, to_id_rows
from chronos.store.sql.executions.loads import LoadQueries
from chronos.store.sql.executions.run_list import find_neighbours, history_of_job_sql, list_executions
from chronos.store.sql.invariants import InvariantChecks
from chronos.store.sql.job_days import JobDayRows
from chronos.store.sql.jobs.activity import ActivityQueries
from chronos.store.sql.jobs.by_run import JobsByRun
from chronos.store.sql.jobs.queries import JobQueries
from chronos.store.sql.query import Dialect, Query, Rows, Steps
from chronos.store.sql.settings.versions import LevelRows

REPLACE_INDEX = [overlap.value for overlap in OVERLAPS].index("replace")
_ID_AFTER_ALL = b"\xff" * 16  # later than every id
_COUNT_DEAD_LETTERS = "select count(*) from (select 1 from dead_letter order by execution limit $1) as d"
_DEAD_LETTER_COLUMNS = "execution, job, namespace, failed_us, code, message"


P = ParamSpec("P")
S = TypeVar("S", bound="Queries")
T = TypeVar("T")


def read(steps: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Turn steps into a method that runs them on one snapshot."""

    @wraps(steps)
    async def run(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._read(steps(store, *args, **kwargs))

    return run


class Queries(ABC):
    """The reads of ``contract.Store``."""

    def __init__(self, d: Dialect) -> None:
        self._job_list, self._runs_list, self._activity = JobQueries(d), JobsByRun(d), ActivityQueries(d)
        self._verify, self._load = InvariantChecks(d), LoadQueries()
        self._ended, self._days = EndedQueries(d), JobDayRows(d)
        self._levels = LevelRows(d)
        self._due = f"""
            select g.job, g.next_us, g.version, p.lane,
                case when p.keyed = 1 or p.overlap = {REPLACE_INDEX} then 1 else 0 end, p.levels
            from gate as g join profile as p on p.number = g.profile
            where g.state = 0 and g.next_us is not null and g.next_us <= $1
            order by g.next_us{d.tie_breaker("g.number")} limit $2"""
        self._next_due = "select min(next_us) from gate where state = 0 and next_us is not null"
        self._next_wake = (
            f"select min(wake_us) from active where status = {int(Status.WAITING)} and wake_us is not null"
        )
        self._held = (
            f"select {record.OPEN_COLUMNS} from active where owner = $1 and status = {int(Status.RUNNING)} order by id"
        )
        self._depths = "select lane, status, count(*) from active group by lane, status order by lane, status"
        self._job_counts = "select state, jobs from tally where jobs > 0"
        self._open_counts = "select status, count(*) from active group by status"
        self._by_id = f"""
            select {record.JOB_COLUMNS} from job as j join gate as g on {d.gate_of("g", "j")}
            where {d.is_job_of("j", 1)}"""
        self._by_name = f"""
            select {record.JOB_COLUMNS} from job as j join gate as g on {d.gate_of("g", "j")}
            where j.namespace = $1 and j.name = $2"""
        self._names_of = f"""
            select id, namespace, name from job where {d.is_job_of("job", 1)}
            union all select job, namespace, name from remains where {d.one_of("job", 1)} and name is not null"""
        # One index lookup per namespace, however many jobs it has.
        first = "select min(namespace) from job"
        self._namespaces = f"""
            with recursive found (namespace) as (
                {first} union all select ({first} where namespace > found.namespace) from found
                where found.namespace is not null
            ) select namespace from found where namespace is not null limit $1"""
        self._versions = f"""
            select id as job, version, spec, saved_us, author from job where {d.is_job("job", "$1")} and version < $2
            union all select job, version, spec, saved_us, author from job_version where job = $1 and version < $2
            order by version desc limit $3"""
        self._by_execution = f"""
            select {record.OPEN_COLUMNS} from active where id = $1
            union all select {record.ENDED_COLUMNS} from history where id = $1"""
        # Attempts of a task are in the order of their numbers, even if the clock went back in between.
        self._attempts = f"""
            select {record.ATTEMPT_COLUMNS} from (
                select {record.ATTEMPT_COLUMNS}, max(started_us) over (partition by task order by number) as since_us
                from attempt where execution = $1
            ) as a order by since_us, task, number"""
        self._running_since = f"""
            select {record.OPEN_COLUMNS} from active where status = {int(Status.RUNNING)} and attempt_us < $1
            order by attempt_us, id limit $2"""
        # One index lookup per lane, however many executions it has.
        ready = f"select min(lane) from active where status = {int(Status.READY)} and held = 0"
        self._ready_lanes = f"""
            with recursive found (lane) as (
                {ready} union all select ({ready} and lane > found.lane) from found where found.lane is not null
            ) select lane from found where lane is not null"""
        pairs = d.rows(1, "job:i version:n")
        self._specs_at = f"""
            select j.id, j.version, j.spec from job as j join {pairs} as i
            on {d.is_job("j", "i.job")} and j.version = i.version where {d.within("j.id", 1)}
            union all select v.job, v.version, v.spec from job_version as v join {pairs} as i
            on v.job = i.job and v.version = i.version where {d.within("v.job", 1)}"""
        self._followers = """
            select follower, outcome from job_after where namespace = $1 and upstream = $2 and outcome <> 'own'
            order by follower, outcome"""
        self._output = [
            f"select execution, task, number, part, text from output where {key} order by task, number, part"
            for key in (
                "execution = $1",
                "execution = $1 and task = $2",
                "execution = $1 and task = $2 and number = $3",
            )
        ]
        self._ended_since = f"""
            select {record.ENDED_COLUMNS} from history where (finished_us, id) > ($1, $2)
            order by finished_us, id limit $3"""
        self._latest = _latest_execution_sql(d, open_ones="true", ended="e.until_us is null")
        self._latest_started = _latest_execution_sql(
            d, open_ones="e.started_us is not null", ended="e.started_us is not null"
        )
        self._nodes = f"select {record.NODE_COLUMNS} from node order by number"
        self._all_lanes = "select number, key from lane order by number"
        self._outbox = """
            select id, kind, target, execution, body, created_us from outbox where id > $1 order by id limit $2"""

    @abstractmethod
    async def _read(self, steps: Steps[T]) -> T:
        """Run the steps of a read on a reading connection."""

    @read
    def due(self, until_us: int, limit: int) -> Steps[list[DueGate]]:
        rows = yield Query(self._due, (until_us, limit), standalone=True)
        return [
            DueGate(job, next_us, version, lane, bool(locks), levels)
            for job, next_us, version, lane, locks, levels in rows
        ]

    @read
    def next_due_us(self) -> Steps[int | None]:
        [(value,)] = yield Query(self._next_due, standalone=True)
        return value  # type: ignore[no-any-return]

    @read
    def next_wake_us(self) -> Steps[int | None]:
        [(value,)] = yield Query(self._next_wake, standalone=True)
        return value  # type: ignore[no-any-return]

    @read
    def running_on(self, node: int) -> Steps[list[Execution]]:
        rows = yield Query(self._held, (node,), standalone=True)
        return [item for row in rows if isinstance(item := record.to_execution(row), Execution)]

    @read
    def running_since(self, before_us: int, limit: int) -> Steps[list[Execution]]:
        rows = yield Query(self._running_since, (before_us, limit), standalone=True)
        return [item for row in rows if isinstance(item := record.to_execution(row), Execution)]

    @read
    def ready_lanes(self) -> Steps[list[int]]:
        return [row[0] for row in (yield Query(self._ready_lanes, standalone=True))]

    @read
    def lanes(self) -> Steps[dict[int, str]]:
        return dict((yield Query(self._all_lanes, standalone=True)))

    @read
    def depths(self) -> Steps[list[Depth]]:
        rows = yield Query(self._depths, standalone=True)
        lanes: dict[int, dict[Status, int]] = {}
        for lane, status, count in rows:
            lanes.setdefault(lane, {})[record.to_enum_member(Status, status)] = count
        order = (Status.READY, Status.QUEUED, Status.RUNNING, Status.WAITING)
        return [Depth(lane, *(counts.get(status, 0) for status in order)) for lane, counts in lanes.items()]

    @read
    def counts(self) -> Steps[Counts]:
        jobs = yield Query(self._job_counts)
        opened = yield Query(self._open_counts)
        states = {record.to_enum_member(JobState, s): n for s, n in jobs}
        return Counts(states, {record.to_enum_member(Status, s): n for s, n in opened})

    @read
    def jobs_by_id(self, ids: Sequence[bytes]) -> Steps[dict[bytes, Job]]:
        rows = yield Query(self._by_id, rows=to_id_rows(ids), standalone=True)
        return {row[0]: record.to_job(row) for row in rows}

    @read
    def job_named(self, namespace: str, name: str) -> Steps[Job | None]:
        rows = yield Query(self._by_name, (namespace, name), standalone=True)
        return record.to_job(rows[0]) if rows else None

    @read
    def names_of(self, ids: Sequence[bytes]) -> Steps[dict[bytes, JobName]]:
        if not ids:
            return {}
        rows = yield Query(self._names_of, rows=to_id_rows(ids), standalone=True)
        return {job: JobName(namespace, name) for job, namespace, name in rows}

    @read
    def namespaces(self, *, limit: int) -> Steps[list[str]]:
        return [row[0] for row in (yield Query(self._namespaces, (limit,), standalone=True))]

    @read
    def specs_at(self, pairs: Sequence[tuple[bytes, int]]) -> Steps[dict[tuple[bytes, int], JobSpec]]:
        rows = yield Query(self._specs_at, rows=Rows("in", list(dict.fromkeys(pairs))), standalone=True)
        return {(job, version): record.to_job_spec(text) for job, version, text in rows}

    @read
    def followers(self, namespace: str, name: str) -> Steps[list[tuple[bytes, UpstreamCondition]]]:
        rows = yield Query(self._followers, (namespace, name), standalone=True)
        return [(job, UpstreamCondition(outcome)) for job, outcome in rows]

    @read
    def list_jobs(
        self, where: JobFilter, *, limit: int, cursor: bytes | None = None, sort: JobSort = JobSort.NAME
    ) -> Steps[Page[Job]]:
        if sort is JobSort.NAME:
            return self._job_list.page(where, limit, cursor)
        return self._runs_list.page(where, sort, limit, cursor)

    @read
    def job_activity(self, jobs: Sequence[bytes], *, recent: int) -> Steps[dict[bytes, JobActivity]]:
        return self._activity.activity(jobs, recent)

    @read
    def count_jobs(self, namespace: str | None, now_us: int) -> Steps[StatusCounts]:
        return self._activity.counts(namespace, now_us)

    @read
    def job_days(self, job: bytes, zone: str, from_us: int, to_us: int) -> Steps[JobDays]:
        return self._days.read(job, zone, from_us, to_us)

    @read
    def tag_facets(self, namespace: str | None, *, limit: int) -> Steps[list[Facet]]:
        return self._activity.tag_facets(namespace, limit)

    @read
    def owner_facets(self, namespace: str | None, *, limit: int) -> Steps[list[Facet]]:
        return self._activity.owner_facets(namespace, limit)

    @read
    def current_levels(self, namespaces: Sequence[str]) -> Steps[dict[str, CurrentLevels]]:
        """See ``Store.current_levels``."""
        return (yield from self._levels.current(namespaces))

    @read
    def settings_at(self, pairs: Sequence[tuple[str, int]]) -> Steps[Mapping[tuple[str, int], Settings]]:
        """See ``Store.settings_at``."""
        return (yield from self._levels.settings_at(pairs))

    @read
    def versions(self, job: bytes, *, limit: int, before: int | None = None) -> Steps[list[JobVersion]]:
        args = (job, 1 << 62 if before is None else before, limit)
        rows = yield Query(self._versions, args, standalone=True)
        return [record.to_job_version(row) for row in rows]

    @read
    def list_executions(
        self, where: ExecutionFilter, *, limit: int, cursor: bytes | None = None
    ) -> Steps[Page[Execution | Span]]:
        return list_executions(where, limit, cursor)

    @read
    def neighbours(self, job: bytes, execution: bytes) -> Steps[Neighbours]:
        return find_neighbours(job, execution)

    @read
    def loads(self) -> Steps[list[Load]]:
        return self._load.loads()

    @read
    def blockage(self, execution: bytes) -> Steps[Blockage | None]:
        return self._load.blockage(execution)

    @read
    def execution(self, execution: bytes) -> Steps[ExecutionView | None]:
        rows = yield Query(self._by_execution, (execution,))
        item = record.to_execution(rows[0]) if rows else None
        if not isinstance(item, Execution):
            return None
        attempts: list[Attempt] = [record.to_attempt(row) for row in (yield Query(self._attempts, (execution,)))]
        return ExecutionView(execution=item, attempts=attempts)

    @read
    def output(self, execution: bytes, *, task: str | None = None, number: int | None = None) -> Steps[list[OutputRow]]:
        args = (execution, *([] if task is None else [task]), *([] if task is None or number is None else [number]))
        rows = yield Query(self._output[len(args) - 1], args, standalone=True)
        return [OutputRow(*row) for row in rows if number in (None, row[2])]

    @read
    def ended_since(self, after: tuple[int, bytes], limit: int) -> Steps[list[Execution | Span]]:
        rows = yield Query(self._ended_since, (*after, limit), standalone=True)
        return [record.to_execution(row) for row in rows]

    @read
    def count_ended(
        self, from_us: int, to_us: int, *, job: bytes | None = None, namespace: str | None = None
    ) -> Steps[EndedCounts]:
        return self._ended.count(from_us, to_us, job, namespace)

    @read
    def latest(self, jobs: Sequence[bytes], *, started: bool = False) -> Steps[dict[bytes, Execution]]:
        rows = yield Query(self._latest_started if started else self._latest, rows=to_id_rows(jobs), standalone=True)
        newest: dict[bytes, Execution] = {}
        for row in sorted(rows, key=lambda row: row[0]):
            item = record.to_execution(row)
            if isinstance(item, Execution):
                newest[item.job] = item
        return newest

    @read
    def list_dead_letters(
        self, *, namespace: str | None, limit: int, cursor: bytes | None = None
    ) -> Steps[Page[DeadLetter]]:
        rows = yield self._newest("dead_letter", _DEAD_LETTER_COLUMNS, "execution", namespace, limit, cursor)
        items = [record.to_dead_letter(row) for row in rows[:limit]]
        return Page(items=items, cursor=items[-1].execution if len(rows) > limit else None)

    @read
    def count_dead_letters(self, limit: int) -> Steps[int]:
        [(count,)] = yield Query(_COUNT_DEAD_LETTERS, (limit,), standalone=True)
        return int(count)

    @read
    def audit(self, *, namespace: str | None, limit: int, cursor: bytes | None = None) -> Steps[Page[AuditEntry]]:
        rows = yield self._newest("audit", record.AUDIT_COLUMNS, "id", namespace, limit, cursor)
        items = [record.to_audit_entry(row) for row in rows[:limit]]
        return Page(items=items, cursor=items[-1].id if len(rows) > limit else None)

    def _newest(
        self, table: str, columns: str, key: str, namespace: str | None, limit: int, cursor: bytes | None
    ) -> Query:
        args, tests, order = [limit + 1, cursor or _ID_AFTER_ALL], [f"{key} < $2"], f"{key} desc"
        if namespace is not None:
            args, tests, order = (
                [*args, namespace],
                _equals_and_before("namespace", key, "$3", "$2"),
                f"namespace desc, {key} desc",
            )
        sql = f"select {columns} from {table} where {' and '.join(tests)} order by {order} limit $1"
        return Query(sql, tuple(args), standalone=True)

    @read
    def nodes(self) -> Steps[list[Node]]:
        return [record.to_node(row) for row in (yield Query(self._nodes, standalone=True))]

    @read
    def outbox(self, *, limit: int, after: bytes | None = None) -> Steps[list[OutboxItem]]:
        rows = yield Query(self._outbox, (after or bytes(16), limit), standalone=True)
        return [OutboxItem(*row) for row in rows]

    @read
    def token(self, token_hash: str) -> Steps[ApiToken | None]:
        return tokens.find_token(token_hash)

    @read
    def tokens(self) -> Steps[list[ApiToken]]:
        return tokens.list_tokens()

    @read
    def verify(self) -> Steps[list[str]]:
        return self._verify.steps()


def _equals_and_before(column: str, id_: str, value: str, before: str) -> list[str]:
    """Return conditions: the column equals ``value`` and the id is before ``before``, as bounds of an index range."""
    return [f"({column}, {id_}) < ({value}, {before})", f"{column} >= {value}"]


def _latest_execution_sql(d: Dialect, *, open_ones: str, ended: str) -> str:
    """Return a statement for the newest matching execution of each job, from ``active`` and from ``history``.

    The few open executions of a job are materialized first. Otherwise a plan made while ``active`` was empty would read
    the whole table.
    """
    opened = (
        f"with o as materialized (select e.id from active as e where e.job = i.job and {open_ones}) select id from o"
    )
    in_history = f"select e.id from history as e where {history_of_job_sql('e', 'i.job')} and {ended}"
    newest_open, newest_ended = (
        d.among("id", f"select ({executions} order by id desc limit 1) from {d.rows(1, 'job:i')} as i")
        for executions in (opened, in_history)
    )
    return f"""
        select {record.OPEN_COLUMNS} from active where {newest_open}
        union all select {record.ENDED_COLUMNS} from history where {newest_ended}"""
