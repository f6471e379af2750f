"""The list of jobs, by namespace and name: which of them a filter asks for, and the fastest way to them.

What a filter asks for lies in the same order somewhere: all jobs, those of an owner, those with a tag, those that are
not active. One of these is read, the shortest, and the rest of the filter is asked of what is met there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chronos.core.job import Job, JobState
from chronos.store.contract import JobFilter, Page
from chronos.store.sql import row_mappers as record
from chronos.store.sql.query import Dialect, Query, Steps

_SEPARATOR = "\x00"  # within a cursor: never part of a name
_SHORT_LIST_ROWS = 100
_MAX_COMPARED_ROWS = (
    2_000  # at most: all names that contain a text may be looked up and put in order; lists are compared up to that
)


class _ListPath(NamedTuple):
    """A list of jobs, in the order of names."""

    table: str
    place: str = "j"  # the alias of that which has the names
    serves: str = ""  # the part of the filter that need not be asked any more
    asks: Sequence[str] = ()  # conditions that its index begins with, each with a place for
    values: Sequence[Any] = ()  # one of these
    joined: str = ""  # how the job is found
    order: str = ""  # what comes before the names

    def order_by(self) -> str:
        return f"order by {self.order}{self.place}.namespace, {self.place}.name"


_ALL_JOBS = _ListPath("job as j")


class _Args:
    """The arguments of a statement, as they come."""

    def __init__(self, *values: Any) -> None:
        self.values = [*values]

    def add(self, value: Any) -> str:
        """Its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"


class JobQueries:
    """Statements are made to measure: there are many filters, and each has a plan of its own."""

    def __init__(self, d: Dialect) -> None:
        self._d = d

    def page(self, where: JobFilter, limit: int, cursor: bytes | None) -> Steps[Page[Job]]:
        """See ``Store.list_jobs``."""
        planned = self._d.force_custom_plan() if where.contains else ""
        if planned:
            yield Query(planned)
        ways, args = self._list_paths(where), _Args()
        looked = bool(where.contains) or len(ways) > 1
        way = (
            (yield from self._find_shortest_path(ways, where, args, planned=bool(planned)))
            if looked
            else [*ways, _ALL_JOBS][0]
        )
        most = args.add(limit + 1)
        tests, others = _page_conditions(way, where, cursor, args), self._filter_conditions(where, way, args)
        table, order = way.table, way.order_by()
        if way.joined and not others:  # only jobs of the page are looked at
            table = f"(select * from {table} where {' and '.join(tests)} {order} limit {most}) as {way.place}"
            tests = []
        condition = f"where {' and '.join([*tests, *others])}" if tests or others else ""
        sql = f"""
            select {record.JOB_COLUMNS} from {table} {way.joined}
            join gate as g on {self._d.gate_of("g", "j")} {condition}
            {order} limit {most}"""
        found = yield Query(sql, tuple(args.values), standalone=not looked)
        more = len(found) > limit
        items = [record.to_job(row) for row in found[:limit]]
        last = f"{items[-1].namespace}{_SEPARATOR}{items[-1].name}".encode() if more else None
        return Page(items=items, cursor=last)

    def _list_paths(self, where: JobFilter) -> list[_ListPath]:
        """Those that leave jobs out which the filter does not ask for."""
        ways = []
        if where.state not in (None, JobState.ACTIVE):
            gate = f"join job as j on {self._d.gate_of('i', 'j')}"
            ways.append(_ListPath("idle as i", "i", "state", ["i.state = {0}"], [int(where.state)], gate))
        if where.tag is not None:
            given = [part for part in where.tag if part is not None]
            tagged = f"join job as j on {self._d.is_job('j', 't.job')}"
            ways.append(_ListPath("job_tag as t", "t", "tag", _tag_conditions("t", where.tag), given, tagged))
        if where.owner is not None:
            # One of two: else an engine that plans_from_statistics may go through all jobs, which are in this order as well.
            owned = "j.owner in ({0}, {0})" if self._d.plans_from_statistics else "j.owner = {0}"
            asked = [f"{owned} and j.owner is not null"]
            ways.append(_ListPath("job as j", "j", "owner", asked, [where.owner], order="j.owner, "))
        return ways

    def _find_shortest_path(
        self, ways: list[_ListPath], where: JobFilter, args: _Args, *, planned: bool
    ) -> Steps[_ListPath]:
        """Each is looked at as far as it is short. A text that few names contain is looked up; a common one is met
        often enough on the way. ``planned``: the engine knows by itself how common it is.
        """
        look = _Args(_SHORT_LIST_ROWS, _MAX_COMPARED_ROWS)
        bounds = replace(where, prefix="") if where.namespace is None else where  # a prefix leaves nothing unread there
        parts = [
            f"{way.table} where {' and '.join(_page_conditions(way, bounds, None, look))} {way.order_by()}"
            for way in ways
        ]
        if where.contains and (text := self._d.name_candidates(where.contains, look.add)) is not None:
            parts.append(text)
        if not parts:
            return _ALL_JOBS
        ends = [f"(select 1 from {part} limit 1 offset {most})" for part in parts for most in ("$1", "$2")]
        [found] = yield Query(f"select {', '.join(ends)}", tuple(look.values))
        lengths = [found[i : i + 2].count(1) for i in range(0, len(found), 2)]
        shortest = lengths.index(min(lengths))
        if lengths[shortest] == 2:
            return _ALL_JOBS if planned else [*ways, _ALL_JOBS][0]
        if shortest < len(ways):
            return ways[shortest]
        named = self._d.name_candidates(where.contains, args.add)
        return _ListPath(f"{named} as f cross join job as j on j.rowid = f.found")

    def _filter_conditions(self, where: JobFilter, way: _ListPath, args: _Args) -> list[str]:
        """What is still to be asked of a job. No index is to be tempted by it: jobs are met in order."""
        tests = []
        if where.contains:
            tests.append(self._d.name_contains("j", where.contains, args.add))
        if where.state is not None and way.serves != "state":
            tests.append(f"g.state = {args.add(int(where.state))}")
        if where.owner is not None and way.serves != "owner":
            tests.append(f"(j.owner = {args.add(where.owner)}) is true")
        if where.tag is not None and way.serves != "tag":
            given = [args.add(part) for part in where.tag if part is not None]
            wanted = [ask.format(value) for ask, value in zip(_tag_conditions("w", where.tag), given, strict=True)]
            named = f"w.namespace = {way.place}.namespace and w.name = {way.place}.name"
            tests.append(f"(select count(*) from job_tag as w where {' and '.join(wanted)} and {named}) > 0")
        return tests


def _page_conditions(way: _ListPath, where: JobFilter, cursor: bytes | None, args: _Args) -> list[str]:
    """Where in a list the page is: in the namespace, with the prefix, after the page before."""
    space, name = f"{way.place}.namespace", f"{way.place}.name"
    last_space, last_name = ("", "") if cursor is None else cursor.decode().split(_SEPARATOR)
    tests = [ask.format(args.add(value)) for ask, value in zip(way.asks, way.values, strict=True)]
    if where.namespace is not None:
        tests.append(f"{space} = {args.add(where.namespace)}")
        tests += [f"{name} > {args.add(last_name)}"] if last_name else []
    elif cursor is not None or not tests:  # all are after the beginning; it is clear then in which order to read
        tests.append(f"({space}, {name}) > ({args.add(last_space)}, {args.add(last_name)})")
    bounds = ((">=", where.prefix), ("<", end_of_prefix_range(where.prefix)))
    return [*tests, *(f"{name} {than} {args.add(text)}" for than, text in bounds if text)]


def _tag_conditions(place: str, tag: tuple[str, str | None]) -> list[str]:
    """Conditions on a row of ``job_tag``. A key alone has an index by which nobody looks for one with its value."""
    return [f"{place}.key || '' = {{0}}"] if tag[1] is None else [f"{place}.key = {{0}}", f"{place}.value = {{0}}"]


def end_of_prefix_range(prefix: str) -> str:
    """The smallest text after every text with this prefix, bytewise; empty when there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        if ord(prefix[i]) < 0x10FFFF:
            follower = ord(prefix[i]) + 1
            return prefix[:i] + chr(0xE000 if 0xD800 <= follower < 0xE000 else follower)
    return ""
