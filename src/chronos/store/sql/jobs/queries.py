"""Lists jobs by namespace and name, filtered, along the shortest index.

Several indexes have jobs in list order: all jobs, those of an owner, those with a tag, those that are not active. The
list reads the shortest one, and tests the rest of the filter on each job.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chronos.core.job import Job, JobState
from chronos.store.contract import JobFilter, Page
from chronos.store.sql import row_mappers as record
from chronos.store.sql.query import Dialect, Query, Steps

_SEPARATOR = "\x00"  # within a cursor; never part of a name
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
    order: str = ""  # the columns before the names

    def order_by(self) -> str:
        return f"order by {self.order}{self.alias}.namespace, {self.alias}.name"


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
        """See ``Store.list_jobs``."""
        planned = self._d.force_custom_plan() if where.contains else ""
        if planned:
            yield Query(planned)
        paths, args = self._list_paths(where), _Args()
        compare = bool(where.contains) or len(paths) > 1
        path = (
            (yield from self._find_shortest_path(paths, where, args, planned=bool(planned)))
            if compare
            else [*paths, _ALL_JOBS][0]
        )
        max_rows = args.add(limit + 1)
        tests, others = _page_conditions(path, where, cursor, args), self._filter_conditions(where, path, args)
        table, order = path.table, path.order_by()
        if path.join and not others:  # join only the jobs of the page
            table = f"(select * from {table} where {' and '.join(tests)} {order} limit {max_rows}) as {path.alias}"
            tests = []
        condition = f"where {' and '.join([*tests, *others])}" if tests or others else ""
        sql = f"""
            select {record.JOB_COLUMNS} from {table} {path.join}
            join gate as g on {self._d.gate_of("g", "j")} {condition}
            {order} limit {max_rows}"""
        rows = yield Query(sql, tuple(args.values), standalone=not compare)
        more = len(rows) > limit
        items = [record.to_job(row) for row in rows[:limit]]
        last = f"{items[-1].namespace}{_SEPARATOR}{items[-1].name}".encode() if more else None
        return Page(items=items, cursor=last)

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
            paths.append(_ListPath("job as j", "j", "owner", conditions, [where.owner], order="j.owner, "))
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
        return tests


def _page_conditions(path: _ListPath, where: JobFilter, cursor: bytes | None, args: _Args) -> list[str]:
    """Return the conditions of a page: the namespace, the prefix, and the cursor."""
    namespace, name = f"{path.alias}.namespace", f"{path.alias}.name"
    last_namespace, last_name = ("", "") if cursor is None else cursor.decode().split(_SEPARATOR)
    tests = [test.format(args.add(value)) for test, value in zip(path.conditions, path.values, strict=True)]
    if where.namespace is not None:
        tests.append(f"{namespace} = {args.add(where.namespace)}")
        tests += [f"{name} > {args.add(last_name)}"] if last_name else []
    elif cursor is not None or not tests:  # without a cursor it is always true, but shows the planner the order
        tests.append(f"({namespace}, {name}) > ({args.add(last_namespace)}, {args.add(last_name)})")
    bounds = ((">=", where.prefix), ("<", end_of_prefix_range(where.prefix)))
    return [*tests, *(f"{name} {than} {args.add(text)}" for than, text in bounds if text)]


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
