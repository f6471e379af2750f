"""Counts what ended within a range of time, by status."""

from chronos.core.execution import Status
from chronos.store.overview import COUNT_CAP, EndedCounts
from chronos.store.sql import row_mappers as record
from chronos.store.sql.executions.run_list import history_of_job_sql
from chronos.store.sql.query import Dialect, Query, Steps

_CAP = f"limit {COUNT_CAP + 1}"


class EndedQueries:
    """Reads history by the time of its end. The cost is bounded by ``COUNT_CAP``."""

    def __init__(self, d: Dialect) -> None:
        within = "h.finished_us >= $1 and h.finished_us < $2"
        columns = "h.status, h.count"
        oldest = f"order by h.finished_us, h.id {_CAP}"
        of_namespace = f"""select r.status, r.count
            from (select h.status, h.count, h.job from history as h where {within} {oldest}) as r
            join job as j on {d.is_job("j", "r.job")} where j.namespace = $3"""
        self._all = _group(f"select {columns} from history as h where {within} {oldest}")
        self._of_namespace = _group(of_namespace)
        of_job = f"select {columns} from history as h where {history_of_job_sql('h', '$3')} and {within}"
        self._of_job = _group(f"{of_job} order by h.id desc {_CAP}")

    def count(self, from_us: int, to_us: int, job: bytes | None, namespace: str | None) -> Steps[EndedCounts]:
        """See ``Store.count_ended``."""
        sql, args = self._all, (from_us, to_us)
        if job is not None:
            sql, args = self._of_job, (from_us, to_us, job)  # type: ignore[assignment]
        elif namespace is not None:
            sql, args = self._of_namespace, (from_us, to_us, namespace)  # type: ignore[assignment]
        rows = yield Query(sql, args, standalone=True)
        counts = {record.to_enum_member(Status, status): int(instants) for status, instants, _ in rows}
        return EndedCounts(counts=counts, rows=sum(row[2] for row in rows))


def _group(query: str) -> str:
    return f"select status, sum(count), count(*) from ({query}) as e group by status order by status"
