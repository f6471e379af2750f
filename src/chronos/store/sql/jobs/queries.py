"""The list of jobs, by namespace and name: which of them a filter asks for, and the fastest way to them.

What a filter asks for lies in the same order somewhere: all jobs, those of an owner, those with a tag, those that are
not active. One of these is read, the shortest, and the rest of the filter is asked of what is met there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chronos.core.job import Job, JobState
from chronos.store.contract import JobFilter, Page
from chronos.store.sql import rows as record
from chronos.store.sql.dialect import Dialect, Query, Steps

_SEPARATOR = "\x00"  # within a cursor: never part of a name
_FEW = 100
_RARE = 2_000  # at most: all names that contain a text may be looked up and put in order; lists are compared up to that


class _Way(NamedTuple):
    """A list of jobs, in the order of names."""

    table: str
    place: str = "j"  # the alias of that which has the names
    serves: str = ""  # the part of the filter that need not be asked any more
    asks: Sequence[str] = ()  # conditions that its index begins with, each with a place for
    values: Sequence[Any] = ()  # one of these
    joined: str = ""  # how the job is found
    order: str = ""  # what comes before the names

    def in_order(self) -> str:
        return f"order by {self.order}{self.place}.namespace, {self.place}.name"


_ALL = _Way("job as j")


class _Args:
    """The arguments of a statement, as they come."""

    def __init__(self, *values: Any) -> None:
        self.values = [*values]

    def add(self, value: Any) -> str:
        """Its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"


class JobList:
    """Statements are made to measure: there are many filters, and each has a plan of its own."""

    def __init__(self, d: Dialect) -> None:
        self._d = d

    def page(self, where: JobFilter, limit: int, cursor: bytes | None) -> Steps[Page[Job]]:
        """See ``Store.list_jobs``."""
        planned = self._d.plan_anew() if where.contains else ""
        if planned:
            yield Query(planned)
        ways, args = self._ways(where), _Args()
        looked = bool(where.contains) or len(ways) > 1
        way = (yield from self._shortest(ways, where, args, planned=bool(planned))) if looked else [*ways, _ALL][0]
        most = args.add(limit + 1)
        tests, others = _within(way, where, cursor, args), self._tests(where, way, args)
        table, order = way.table, way.in_order()
        if way.joined and not others:  # only jobs of the page are looked at
            table = f"(select * from {table} where {' and '.join(tests)} {order} limit {most}) as {way.place}"
            tests = []
        condition = f"where {' and '.join([*tests, *others])}" if tests or others else ""
        sql = f"""
            select {record.JOB} from {table} {way.joined} join gate as g on {self._d.gate_of("g", "j")} {condition}
            {order} limit {most}"""
        found = yield Query(sql, tuple(args.values), alone=not looked)
        more = len(found) > limit
        items = [record.job(row) for row in found[:limit]]
        last = f"{items[-1].namespace}{_SEPARATOR}{items[-1].name}".encode() if more else None
        return Page(items=items, cursor=last)

    def _ways(self, where: JobFilter) -> list[_Way]:
        """Those that leave jobs out which the filter does not ask for."""
        ways = []
        if where.state not in (None, JobState.ACTIVE):
            gate = f"join job as j on {self._d.gate_of('i', 'j')}"
            ways.append(_Way("idle as i", "i", "state", ["i.state = {0}"], [int(where.state)], gate))
        if where.tag is not None:
            given = [part for part in where.tag if part is not None]
            tagged = f"join job as j on {self._d.is_job('j', 't.job')}"
            ways.append(_Way("job_tag as t", "t", "tag", _is_tag("t", where.tag), given, tagged))
        if where.owner is not None:
            # One of two: else an engine that guesses may go through all jobs, which are in this order as well.
            owned = "j.owner in ({0}, {0})" if self._d.guesses else "j.owner = {0}"
            asked = [f"{owned} and j.owner is not null"]
            ways.append(_Way("job as j", "j", "owner", asked, [where.owner], order="j.owner, "))
        return ways

    def _shortest(self, ways: list[_Way], where: JobFilter, args: _Args, *, planned: bool) -> Steps[_Way]:
        """Each is looked at as far as it is short. A text that few names contain is looked up; a common one is met
        often enough on the way. ``planned``: the engine knows by itself how common it is.
        """
        look = _Args(_FEW, _RARE)
        bounds = replace(where, prefix="") if where.namespace is None else where  # a prefix leaves nothing unread there
        parts = [f"{way.table} where {' and '.join(_within(way, bounds, None, look))} {way.in_order()}" for way in ways]
        if where.contains and (text := self._d.candidates(where.contains, look.add)) is not None:
            parts.append(text)
        if not parts:
            return _ALL
        ends = [f"(select 1 from {part} limit 1 offset {most})" for part in parts for most in ("$1", "$2")]
        [found] = yield Query(f"select {', '.join(ends)}", tuple(look.values))
        lengths = [found[i : i + 2].count(1) for i in range(0, len(found), 2)]
        shortest = lengths.index(min(lengths))
        if lengths[shortest] == 2:
            return _ALL if planned else [*ways, _ALL][0]
        if shortest < len(ways):
            return ways[shortest]
        named = self._d.candidates(where.contains, args.add)
        return _Way(f"{named} as f cross join job as j on j.rowid = f.found")

    def _tests(self, where: JobFilter, way: _Way, args: _Args) -> list[str]:
        """What is still to be asked of a job. No index is to be tempted by it: jobs are met in order."""
        tests = []
        if where.contains:
            tests.append(self._d.contains("j", where.contains, args.add))
        if where.state is not None and way.serves != "state":
            tests.append(f"g.state = {args.add(int(where.state))}")
        if where.owner is not None and way.serves != "owner":
            tests.append(f"(j.owner = {args.add(where.owner)}) is true")
        if where.tag is not None and way.serves != "tag":
            given = [args.add(part) for part in where.tag if part is not None]
            wanted = [ask.format(value) for ask, value in zip(_is_tag("w", where.tag), given, strict=True)]
            named = f"w.namespace = {way.place}.namespace and w.name = {way.place}.name"
            tests.append(f"(select count(*) from job_tag as w where {' and '.join(wanted)} and {named}) > 0")
        return tests


def _within(way: _Way, where: JobFilter, cursor: bytes | None, args: _Args) -> list[str]:
    """Where in a list the page is: in the namespace, with the prefix, after the page before."""
    space, name = f"{way.place}.namespace", f"{way.place}.name"
    last_space, last_name = ("", "") if cursor is None else cursor.decode().split(_SEPARATOR)
    tests = [ask.format(args.add(value)) for ask, value in zip(way.asks, way.values, strict=True)]
    if where.namespace is not None:
        tests.append(f"{space} = {args.add(where.namespace)}")
        tests += [f"{name} > {args.add(last_name)}"] if last_name else []
    elif cursor is not None or not tests:  # all are after the beginning; it is clear then in which order to read
        tests.append(f"({space}, {name}) > ({args.add(last_space)}, {args.add(last_name)})")
    bounds = ((">=", where.prefix), ("<", after_prefix(where.prefix)))
    return [*tests, *(f"{name} {than} {args.add(text)}" for than, text in bounds if text)]


def _is_tag(place: str, tag: tuple[str, str | None]) -> list[str]:
    """Conditions on a row of ``job_tag``. A key alone has an index by which nobody looks for one with its value."""
    return [f"{place}.key || '' = {{0}}"] if tag[1] is None else [f"{place}.key = {{0}}", f"{place}.value = {{0}}"]


def after_prefix(prefix: str) -> str:
    """The smallest text after every text with this prefix, bytewise; empty when there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        if ord(prefix[i]) < 0x10FFFF:
            follower = ord(prefix[i]) + 1
            return prefix[:i] + chr(0xE000 if 0xD800 <= follower < 0xE000 else follower)
    return ""
