"""Lists jobs by namespace and name, filtered, along the shortest index.

Several indexes have jobs in list order: all jobs, those of an owner, those with a tag, those that are not active. The
list reads the shortest one, and tests the rest of the filter on each job.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chronos.core.job import Job, JobState
from chronos.store.contract import JobFilter, Page
from chronos.store.overview import COUNT_CAP, JobSort
from chronos.store.sql import row_mappers as record
from chronos.store.sql.jobs.list_position import Position, read_position
from chronos.store.sql.jobs.search import MAX_SEARCHED_JOBS, JobSearch, search_conditions
from chronos.store.sql.jobs.statuses import FOUND_BY_INDEX, IDLE_STATES, candidates_sql, named_candidates_sql
from chronos.store.sql.query import Dialect, Query, Steps

_SHORT_LIST_ROWS = 100
_MAX_COMPARED_ROWS = 2_000  # indexes are compared up to this length; longer text matches are not sorted


class _ListPath(NamedTuple):
    """An index that has jobs in list order."""

    table: str
    alias: str = "j"  # of the table that has the names
    serves: str = ""  # the part of the filter that the index covers
    conditions: Sequence[str] = ()  # on the first columns of the index, each with a placeholder for
    values: Sequence[Any] = ()  # one of these values
    join: str = ""  # the clause that joins the job
    order: tuple[str, ...] = ()  # the columns before the names

    def order_by(self, *, backward: bool = False) -> str:
        columns = [*self.order, f"{self.alias}.namespace", f"{self.alias}.name"]
        return f"order by {', '.join(f'{column} desc' if backward else column for column in columns)}"


_ALL_JOBS = _ListPath("job as j")


class _Args:
    """Collects the arguments of a statement."""

    def __init__(self, *values: Any) -> None:
        self.values = [*values]

    def add(self, value: Any) -> str:
        """Add an argument and return its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"


class JobQueries:
    """Builds a statement for each filter, because each needs its own plan."""

    def __init__(self, d: Dialect) -> None:
        self._d = d

    def page(self, where: JobFilter, limit: int, cursor: bytes | None) -> Steps[Page[Job]]:
        """See ``Store.list_jobs``, by name."""
        if where.status in IDLE_STATES:
            where = replace(where, status=None, state=IDLE_STATES[where.status])
        planned = self._d.force_custom_plan() if where.contains or where.status is not None else ""
        if planned:
            yield Query(planned)
        position = read_position(cursor, JobSort.NAME)
        paths, args = self._list_paths(where), _Args()
        path, compare = None, False
        if where.status in FOUND_BY_INDEX:
            path = yield from self._find_candidates(where)
        if path is None:
            compare = bool(where.contains) or len(paths) > 1
            path = (
                (yield from self._find_shortest_path(paths, where, args, planned=bool(planned)))
                if compare
                else [*paths, _ALL_JOBS][0]
            )
        search = JobSearch(where, limit, position)
        if where.searches and path.serves != "status":
            search.end = yield from self._find_search_end(path, where, position)
        alone = not compare and not planned and search.end is None and path.serves != "status"
        while not search.is_over:
            query = self._page_query(path, where, search, _Args(*args.values))
            search.add([record.to_job(row) for row in (yield query._replace(standalone=alone))])
        return search.page()

    def _page_query(self, path: _ListPath, where: JobFilter, search: JobSearch, args: _Args) -> Query:
        max_rows = args.add(search.chunk)
        tests = _page_conditions(path, where, search.position, args, search.end)
        others = self._filter_conditions(where, path, args)
        table, order = path.table, path.order_by(backward=search.backward)
        if path.join and not others:  # join only the jobs of the page
            table = f"(select * from {table} where {' and '.join(tests)} {order} limit {max_rows}) as {path.alias}"
            tests = []
        condition = f"where {' and '.join([*tests, *others])}" if tests or others else ""
        sql = f"""
            select {record.JOB_COLUMNS} from {table} {path.join}
            join gate as g on {self._d.gate_of("g", "j")} {condition}
            {order} limit {max_rows}"""
        return Query(sql, tuple(args.values))

    def _find_candidates(self, where: JobFilter) -> Steps[_ListPath | None]:
        """Return the path along the candidates of a status; None if they are too many to be sorted."""
        assert where.status is not None
        candidates = candidates_sql(where.status, "$1")
        [(count,)] = yield Query(
            f"select count(*) from ({candidates}) as c where cast($1 as bigint) is not null", (where.now_us,)
        )
        if count > COUNT_CAP:
            return None
        named = named_candidates_sql(self._d, where.status, str(int(where.now_us)))
        join = f"join job as j on {self._d.is_job('j', 'c.job')}"
        return _ListPath(f"({named}) as c", "c", "status", join=join)

    def _find_search_end(self, path: _ListPath, where: JobFilter, position: Position | None) -> Steps[Position | None]:
        """Return the last position that a search may read; None if the list ends before it."""
        args = _Args()
        tests = _page_conditions(path, where, position, args)
        backward = position is not None and position.backward
        rows = yield Query(
            f"select {path.alias}.namespace, {path.alias}.name from {path.table} where {' and '.join(tests)} "
            f"{path.order_by(backward=backward)} limit 1 offset {args.add(MAX_SEARCHED_JOBS)}",
            tuple(args.values),
        )
        return Position(rows[0][0], rows[0][1], backward) if rows else None

    def _list_paths(self, where: JobFilter) -> list[_ListPath]:
        """Return the indexes that cover a part of the filter."""
        paths = []
        if where.state not in (None, JobState.ACTIVE):
            join = f"join job as j on {self._d.gate_of('i', 'j')}"
            paths.append(_ListPath("idle as i", "i", "state", ["i.state = {0}"], [int(where.state)], join))
        if where.tag is not None:
            values = [part for part in where.tag if part is not None]
            join = f"join job as j on {self._d.is_job('j', 't.job')}"
            paths.append(_ListPath("job_tag as t", "t", "tag", _tag_conditions("t", where.tag), values, join))
        if where.owner is not None:
            # "One of two equal values" keeps PostgreSQL from reading all jobs, which are in the same order.
            owned = "j.owner in ({0}, {0})" if self._d.plans_from_statistics else "j.owner = {0}"
            conditions = [f"{owned} and j.owner is not null"]
            paths.append(_ListPath("job as j", "j", "owner", conditions, [where.owner], order=("j.owner",)))
        return paths

    def _find_shortest_path(
        self, paths: list[_ListPath], where: JobFilter, args: _Args, *, planned: bool
    ) -> Steps[_ListPath]:
        """Compare the lengths of the indexes, up to a limit, and return the shortest.

        A text that few names contain is looked up in the text index. A common text is found often enough along another
        one. ``planned``: the database's planner makes this choice.
        """
        probe = _Args(_SHORT_LIST_ROWS, _MAX_COMPARED_ROWS)
        bounds = (
            replace(where, prefix="") if where.namespace is None else where
        )  # without a namespace, a prefix does not shorten the range
        parts = [
            f"{path.table} where {' and '.join(_page_conditions(path, bounds, None, probe))} {path.order_by()}"
            for path in paths
        ]
        if where.contains and (text := self._d.name_candidates(where.contains, probe.add)) is not None:
            parts.append(text)
        if not parts:
            return _ALL_JOBS
        ends = [f"(select 1 from {part} limit 1 offset {length})" for part in parts for length in ("$1", "$2")]
        [row] = yield Query(f"select {', '.join(ends)}", tuple(probe.values))
        lengths = [row[i : i + 2].count(1) for i in range(0, len(row), 2)]
        shortest = lengths.index(min(lengths))
        if lengths[shortest] == 2:
            return _ALL_JOBS if planned else [*paths, _ALL_JOBS][0]
        if shortest < len(paths):
            return paths[shortest]
        named = self._d.name_candidates(where.contains, args.add)
        return _ListPath(f"{named} as f cross join job as j on j.rowid = f.found")

    def _filter_conditions(self, where: JobFilter, path: _ListPath, args: _Args) -> list[str]:
        """Return the rest of the filter, written so that the planner uses no index for it."""
        tests = []
        if where.contains:
            tests.append(self._d.name_contains("j", where.contains, args.add))
        if where.state is not None and path.serves != "state":
            tests.append(f"g.state = {args.add(int(where.state))}")
        if where.owner is not None and path.serves != "owner":
            tests.append(f"(j.owner = {args.add(where.owner)}) is true")
        if where.tag is not None and path.serves != "tag":
            values = [args.add(part) for part in where.tag if part is not None]
            tagged = [test.format(value) for test, value in zip(_tag_conditions("w", where.tag), values, strict=True)]
            named = f"w.namespace = {path.alias}.namespace and w.name = {path.alias}.name"
            tests.append(f"(select count(*) from job_tag as w where {' and '.join(tagged)} and {named}) > 0")
        return [*tests, *search_conditions(where, args.add)]


def _page_conditions(
    path: _ListPath, where: JobFilter, position: Position | None, args: _Args, end: Position | None = None
) -> list[str]:
    """Return the conditions of a page: the namespace, the prefix, the position and the end of a search."""
    namespace, name = f"{path.alias}.namespace", f"{path.alias}.name"
    tests = [test.format(args.add(value)) for test, value in zip(path.conditions, path.values, strict=True)]
    if where.namespace is not None:
        tests.append(f"{namespace} = {args.add(where.namespace)}")
    if position is not None or (not tests and where.namespace is None):
        # Without a position it is always true, but shows the planner the order.
        first = position or Position("", "")
        tests += _beyond(namespace, name, first, "<" if first.backward else ">", where, args)
    if end is not None:
        tests += _beyond(namespace, name, end, ">=" if end.backward else "<=", where, args)
    bounds = ((">=", where.prefix), ("<", end_of_prefix_range(where.prefix)))
    return [*tests, *(f"{name} {than} {args.add(text)}" for than, text in bounds if text)]


def _beyond(namespace: str, name: str, position: Position, than: str, where: JobFilter, args: _Args) -> list[str]:
    if where.namespace is not None:
        return [f"{name} {than} {args.add(position.second)}"]
    return [f"({namespace}, {name}) {than} ({args.add(position.first)}, {args.add(position.second)})"]


def _tag_conditions(alias: str, tag: tuple[str, str | None]) -> list[str]:
    """Return conditions on a row of ``job_tag``. ``key || ''`` selects the index of keys without values."""
    return [f"{alias}.key || '' = {{0}}"] if tag[1] is None else [f"{alias}.key = {{0}}", f"{alias}.value = {{0}}"]


def end_of_prefix_range(prefix: str) -> str:
    """Return the smallest text after every text with this prefix, bytewise; empty if none exists."""
    for i in range(len(prefix) - 1, -1, -1):
        if ord(prefix[i]) < 0x10FFFF:
            follower = ord(prefix[i]) + 1
            return prefix[:i] + chr(0xE000 if 0xD800 <= follower < 0xE000 else follower)
    return ""
