"""What jobs did lately and do now, how many have each status, and what they have in common."""

from collections.abc import Sequence

import msgspec

from chronos.core.execution import Status
from chronos.store.overview import COUNT_CAP, Facet, JobActivity, OpenRuns, RecentRun, StatusCounts
from chronos.store.sql import row_mappers as record
from chronos.store.sql.executions.gates import to_id_rows
from chronos.store.sql.jobs.statuses import FOUND_BY_INDEX, IDLE_STATES, named_candidates_sql, status_sql
from chronos.store.sql.query import Dialect, Query, Rows, Steps

_RECENT_COLUMNS = ("status", "scheduled_us", "started_us", "finished_us", "attempt", "count")
_CAP = f"limit {COUNT_CAP + 1}"


class ActivityQueries:
    """Reads for pages that show many jobs. Each is bounded by the number of jobs shown, or by ``COUNT_CAP``."""

    def __init__(self, d: Dialect) -> None:
        self._d = d
        self._gates = f"select job, number, failing_us, succeeded_us, ran_us from gate where {d.one_of('job', 1)}"
        recent = f"""
            select {", ".join(f"h.{column}" for column in _RECENT_COLUMNS)} from history as h
            where h.number = i.number and h.job = i.job order by h.id desc limit $1"""
        columns = [f"r.{column}" for column in _RECENT_COLUMNS]
        self._recent = f"select i.job, {d.json_rows(columns, recent)} from {d.rows(2, 'job:i number:n')} as i"
        self._open = f"""
            select job, status, held, count(*), min(coalesce(ready_since_us, admitted_us)), min(started_us),
                max(case when started_us is null then 1 else attempt end)
            from active where {d.one_of("job", 1)} group by job, status, held order by job, status, held"""

    def activity(self, jobs: Sequence[bytes], recent: int) -> Steps[dict[bytes, JobActivity]]:
        """See ``Store.job_activity``."""
        if not jobs:
            return {}
        gates = yield Query(self._gates, rows=to_id_rows(jobs))
        if not gates:
            return {}
        numbers = Rows("in", [row[:2] for row in gates])
        runs: dict[bytes, str | None] = dict((yield Query(self._recent, (recent,), numbers))) if recent else {}
        opened: dict[bytes, list[OpenRuns]] = {}
        for job, status, held, count, since_us, started_us, attempt in (yield Query(self._open, rows=to_id_rows(jobs))):
            known = record.to_enum_member(Status, status)
            opened.setdefault(job, []).append(OpenRuns(known, bool(held), count, since_us, started_us, attempt))
        return {
            job: JobActivity(
                recent=_read_recent(runs.get(job)),
                open=tuple(opened.get(job, ())),
                failing_us=failing_us,
                succeeded_us=succeeded_us,
                ran_us=ran_us,
            )
            for job, _, failing_us, succeeded_us, ran_us in gates
        }

    def counts(self, namespace: str | None, now_us: int) -> Steps[StatusCounts]:
        """See ``Store.count_jobs``."""
        planned = self._d.force_custom_plan()
        if planned:
            yield Query(planned)
        within = "" if namespace is None else "where namespace = $2"
        parts = [f"select 1 from job {within}"]
        statuses = [*IDLE_STATES, *FOUND_BY_INDEX]
        for status in statuses:
            if status in IDLE_STATES:
                tests = [f"state = {int(IDLE_STATES[status])}", *([] if namespace is None else ["namespace = $2"])]
                parts.append(f"select 1 from idle where {' and '.join(tests)}")
            else:
                tests = [status_sql(status, "$1"), *([] if namespace is None else ["c.namespace = $2"])]
                named = named_candidates_sql(self._d, status, "$1")
                parts.append(
                    f"select 1 from ({named}) as c join gate as g on g.job = c.job where {' and '.join(tests)}"
                )
        args = (now_us,) if namespace is None else (now_us, namespace)
        counts = ", ".join(f"(select count(*) from ({part} {_CAP}) as n)" for part in parts)
        [row] = yield Query(f"select {counts} where cast($1 as bigint) is not null", args)
        return StatusCounts(total=row[0], by_status=dict(zip(statuses, row[1:], strict=True)))

    def tag_facets(self, namespace: str | None, limit: int) -> Steps[list[Facet]]:
        """See ``Store.tag_facets``. One index lookup per tag, however many jobs have it."""
        first = "select key, value from job_tag {} order by key, value limit 1".format
        after = "where (key, value) > (found.key, found.value)"
        key, value = (f"select {name} from ({first(after)}) as n" for name in ("key", "value"))
        within = "" if namespace is None else "and t.namespace = $2"
        counted = f"select 1 from job_tag as t where t.key = found.key and t.value = found.value {within} {_CAP}"
        sql = f"""
            with recursive found (key, value) as (
                select * from ({first("")}) as f
                union all select ({key}), ({value}) from found where found.key is not null
            )
            select key, value, (select count(*) from ({counted}) as n) from found where key is not null limit $1"""
        args = (limit,) if namespace is None else (limit, namespace)
        rows = yield Query(sql, args, standalone=True)
        return [Facet(f"{key}={value}" if value else key, count) for key, value, count in rows if count]

    def owner_facets(self, namespace: str | None, limit: int) -> Steps[list[Facet]]:
        """See ``Store.owner_facets``. One index lookup per owner."""
        first = "select min(owner) from job where owner is not null"
        within = "" if namespace is None else "and j.namespace = $2"
        counted = f"select 1 from job as j where j.owner = found.owner and j.owner is not null {within} {_CAP}"
        sql = f"""
            with recursive found (owner) as (
                {first} union all select ({first} and owner > found.owner) from found where found.owner is not null
            )
            select owner, (select count(*) from ({counted}) as n) from found where owner is not null limit $1"""
        args = (limit,) if namespace is None else (limit, namespace)
        return [Facet(*row) for row in (yield Query(sql, args, standalone=True)) if row[1]]


def _read_recent(text: str | None) -> tuple[RecentRun, ...]:
    rows = msgspec.json.decode(text) if text else []
    return tuple(RecentRun(record.to_enum_member(Status, row[0]), *row[1:]) for row in rows)
