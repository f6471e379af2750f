"""Lists executions newest first, by id: open and ended ones, filtered along the shortest index.

Ended executions of a status other than succeeded have an index, and so have those of a job. What no index serves
(causes, a node) is tested on a bounded number of rows per page.
"""

from collections.abc import Sequence
from typing import Any

from chronos.core.execution import Execution, Span, Status
from chronos.core.ids import id_floor
from chronos.store.contract import ExecutionFilter, Neighbours, Page
from chronos.store.sql import row_mappers as record
from chronos.store.sql.query import Query, Steps

_ID_AFTER_ALL = b"\xff" * 16  # later than every id
_MAX_SEARCHED_ROWS = 20_000
_NEWEST = "order by id desc limit $1"


def job_number_sql(job: str) -> str:
    """Return an expression: the number of the job whose id is the expression ``job``."""
    number = f"(select o.number from {{}} as o where o.job = {job})".format
    return f"coalesce({number('gate')}, {number('gone')})"


def history_of_job_sql(history: str, job: str) -> str:
    """Return a condition: the row of ``history`` (a table alias) belongs to the job with the id ``job``."""
    return f"{history}.number = {job_number_sql(job)} and {history}.job = {job}"


def list_executions(where: ExecutionFilter, limit: int, cursor: bytes | None) -> Steps[Page[Execution | Span]]:
    """See ``Store.list_executions``."""
    if where.selected_statuses == ():
        return Page(items=[], cursor=None)
    before = cursor or _ID_AFTER_ALL
    if where.to_us is not None:
        before = min(before, id_floor(where.to_us))
    from_ = None if where.from_us is None else id_floor(where.from_us)
    end: bytes | None = None
    if where.searches:
        end = yield from _find_search_end(where, before)
    query = _page_query(where, limit + 1, before, max((id_ for id_ in (from_, end) if id_ is not None), default=None))
    rows = yield query._replace(standalone=not where.searches)
    items = [record.to_execution(row) for row in rows[:limit]]
    if len(rows) > limit:
        return Page(items=items, cursor=items[-1].id)
    is_cut = end is not None and (from_ is None or from_ < end)
    return Page(items=items, cursor=end if is_cut else None, complete=not is_cut)


def find_neighbours(job: bytes, execution: bytes) -> Steps[Neighbours]:
    """See ``Store.neighbours``."""
    found = []
    for than, order in (("<", "desc"), (">", "asc")):
        opened = f"select id from active where job = $1 and id {than} $2 order by id {order} limit 1"
        ended = f"""select id from history where {history_of_job_sql("history", "$1")} and id {than} $2
            and until_us is null order by id {order} limit 1"""
        rows = yield Query(
            f"select id from (select * from ({opened}) as o union all select * from ({ended}) as h) as n "
            f"order by id {order} limit 1",
            (job, execution),
        )
        found.append(rows[0][0] if rows else None)
    return Neighbours(*found)


def _find_search_end(where: ExecutionFilter, before: bytes) -> Steps[bytes | None]:
    """Return the last id that a page may read; None if history ends before it."""
    of_job = "" if where.job is None else f"and {history_of_job_sql('history', '$3')}"
    args = (_MAX_SEARCHED_ROWS, before, *([] if where.job is None else [where.job]))
    rows = yield Query(f"select id from history where id < $2 {of_job} order by id desc limit 1 offset $1", args)
    return rows[0][0] if rows else None


def _page_query(where: ExecutionFilter, rows: int, before: bytes, from_: bytes | None) -> Query:
    args: list[Any] = [rows, before]

    def add(value: Any) -> str:
        args.append(value)
        return f"${len(args)}"

    others = [*([] if from_ is None else [f"id >= {add(from_)}"]), *_other_conditions(where)]
    common = ["id < $2", *others]
    of_job = None if where.job is None else add(where.job)
    statuses = where.selected_statuses
    opened = None if statuses is None else [status for status in statuses if not status.final]
    ended = None if statuses is None else [status for status in statuses if status.final]
    parts = []
    if opened is None or opened:
        tests = [*common, *([] if of_job is None else [f"job = {of_job}"]), *_any_of(opened)]
        if where.started is not None:
            tests.append(f"started_us is {'not ' if where.started else ''}null")
        parts.append(f"select {record.OPEN_COLUMNS} from active where {' and '.join(tests)} {_NEWEST}")
    if ended is None or (of_job is not None and ended):
        tests = [*common, *([] if of_job is None else [history_of_job_sql("history", of_job)]), *_any_of(ended)]
        parts.append(f"select {record.ENDED_COLUMNS} from history where {' and '.join(tests)} {_NEWEST}")
    else:
        for status in ended or ():
            tests, order = [*common, f"status = {int(status)}"], _NEWEST
            if status > Status.SUCCEEDED:  # a range of the index ``history_status``
                tests = [
                    *others,
                    f"status > {int(Status.SUCCEEDED)} and (status, id) < ({int(status)}, $2)",
                    f"status >= {int(status)}",
                ]
                order = "order by status desc, id desc limit $1"
            parts.append(f"select {record.ENDED_COLUMNS} from history where {' and '.join(tests)} {order}")
    merged = " union all ".join(f"select * from ({part}) as p{number}" for number, part in enumerate(parts))
    return Query(f"select * from ({merged}) as found {_NEWEST}", tuple(args))


def _other_conditions(where: ExecutionFilter) -> list[str]:
    tests = []
    if where.causes:
        tests.append(f"cause in ({', '.join(str(int(cause)) for cause in where.causes)})")
    if where.node is not None:
        tests.append(f"owner = {int(where.node)}")
    return tests


def _any_of(statuses: Sequence[Status] | None) -> list[str]:
    return [] if statuses is None else [f"status in ({', '.join(str(int(status)) for status in statuses)})"]
