"""The list of jobs, by namespace and name: which of them a filter asks for, and the fastest way to them."""

from typing import Any

from chronos.core.job import Job
from chronos.store.contract import JobFilter, Page
from chronos.store.sql import rows as record
from chronos.store.sql.dialect import Dialect, Query, Steps

_SEPARATOR = "\x00"  # within a cursor: never part of a name
_RARE = 2_000  # names that contain a text, at most, for them all to be looked up and put in order
_JOBS = "job as j"


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
        if where.contains and (prelude := self._d.plan_anew()):
            yield Query(prelude)
        args = _Args()
        most = args.add(limit + 1)
        if where.tag is None:
            place, source = "j", (yield from self._source(where, args))
            tests = [*_named(where, "j", cursor, args), *self._tests(where, args)]
        else:
            place, (source, tests) = "t", self._tagged(where, cursor, most, args)
        condition = f"where {' and '.join(tests)}" if tests else ""
        sql = f"""
            select {record.JOB} from {source} join gate as g on {self._d.gate_of("g", "j")} {condition}
            order by {place}.namespace, {place}.name limit {most}"""
        found = yield Query(sql, tuple(args.values), alone=not where.contains)
        more = len(found) > limit
        items = [record.job(row) for row in found[:limit]]
        last = f"{items[-1].namespace}{_SEPARATOR}{items[-1].name}".encode() if more else None
        return Page(items=items, cursor=last)

    def _source(self, where: JobFilter, args: _Args) -> Steps[str]:
        """Where to begin. A text that few names contain is looked up; a common one is met often enough on the way."""
        look = _Args(_RARE)
        if not where.contains or (found := self._d.candidates(where.contains, look.add)) is None:
            return _JOBS
        [(count,)] = yield Query(f"select count(*) from (select 1 from {found} limit $1)", tuple(look.values))
        if count == _RARE:
            return _JOBS
        return f"{self._d.candidates(where.contains, args.add)} as f cross join job as j on j.rowid = f.found"

    def _tagged(self, where: JobFilter, cursor: bytes | None, most: str, args: _Args) -> tuple[str, list[str]]:
        """Tags lie in the order of names, too; where nothing else is asked, only jobs of the page are looked at."""
        assert where.tag is not None
        key, value = where.tag
        tests = [f"t.key = {args.add(key)}", *([] if value is None else [f"t.value = {args.add(value)}"])]
        tests += _named(where, "t", cursor, args)
        others = self._tests(where, args)
        tags = "job_tag as t"
        if not others:
            tags = f"""(select t.namespace, t.name, t.job from job_tag as t where {" and ".join(tests)}
                order by t.namespace, t.name limit {most}) as t"""
        return f"{tags} join job as j on {self._d.is_job('j', 't.job')}", [*tests, *others] if others else []

    def _tests(self, where: JobFilter, args: _Args) -> list[str]:
        """Those that only the job itself can pass."""
        tests = []
        if where.contains:
            tests.append(self._d.contains("j", where.contains, args.add))
        if where.state is not None:
            tests.append(f"g.state = {args.add(int(where.state))}")
        if where.owner is not None:
            tests.append(f"j.owner = {args.add(where.owner)}")
        return tests


def _named(where: JobFilter, place: str, cursor: bytes | None, args: _Args) -> list[str]:
    """Those of the namespace and the name, which a job has and its tags have: after the page before."""
    tests = []
    if where.namespace is not None:
        tests.append(f"{place}.namespace = {args.add(where.namespace)}")
    if where.prefix:
        tests.append(f"{place}.name >= {args.add(where.prefix)}")
        if upper := after_prefix(where.prefix):
            tests.append(f"{place}.name < {args.add(upper)}")
    namespace, name = ("", "") if cursor is None else cursor.decode().split(_SEPARATOR)
    if where.namespace is None:  # all are after the beginning, and it is clear then in which order they are to be read
        tests.append(f"({place}.namespace, {place}.name) > ({args.add(namespace)}, {args.add(name)})")
    elif name:
        tests.append(f"{place}.name > {args.add(name)}")
    return tests


def after_prefix(prefix: str) -> str:
    """The smallest text after every text with this prefix, bytewise; empty when there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        if ord(prefix[i]) < 0x10FFFF:
            follower = ord(prefix[i]) + 1
            return prefix[:i] + chr(0xE000 if 0xD800 <= follower < 0xE000 else follower)
    return ""
