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
        self._tagged = f"job_tag as t join job as j on {d.is_job('j', 't.job')}"

    def page(self, where: JobFilter, limit: int, cursor: bytes | None) -> Steps[Page[Job]]:
        """See ``Store.list_jobs``."""
        if where.contains and (prelude := self._d.plan_anew()):
            yield Query(prelude)
        args = _Args()
        source = yield from self._source(where, args)
        tests = [*self._tests(where, args), *_after(where, cursor, args)]
        condition = f"where {' and '.join(tests)}" if tests else ""
        sql = f"""
            select {record.JOB} from {source} join gate as g on {self._d.gate_of("g", "j")} {condition}
            order by j.namespace, j.name limit {args.add(limit + 1)}"""
        found = yield Query(sql, tuple(args.values), alone=not where.contains)
        more = len(found) > limit
        items = [record.job(row) for row in found[:limit]]
        last = f"{items[-1].namespace}{_SEPARATOR}{items[-1].name}".encode() if more else None
        return Page(items=items, cursor=last)

    def _source(self, where: JobFilter, args: _Args) -> Steps[str]:
        """Where to begin. A text that few names contain is looked up; a common one is met often enough on the way."""
        if where.tag is not None:
            return self._tagged
        look = _Args(_RARE)
        if not where.contains or (found := self._d.candidates(where.contains, look.add)) is None:
            return _JOBS
        [(count,)] = yield Query(f"select count(*) from (select 1 from {found} limit $1)", tuple(look.values))
        if count == _RARE:
            return _JOBS
        return f"{self._d.candidates(where.contains, args.add)} as f cross join job as j on j.rowid = f.found"

    def _tests(self, where: JobFilter, args: _Args) -> list[str]:
        tests = []
        if where.tag is not None:
            key, value = where.tag
            tests.append(f"t.key = {args.add(key)}")
            if value is not None:
                tests.append(f"t.value = {args.add(value)}")
        if where.namespace is not None:
            tests.append(f"j.namespace = {args.add(where.namespace)}")
        if where.prefix:
            tests.append(f"j.name >= {args.add(where.prefix)}")
            if upper := after_prefix(where.prefix):
                tests.append(f"j.name < {args.add(upper)}")
        if where.contains:
            tests.append(self._d.contains("j", where.contains, args.add))
        if where.state is not None:
            tests.append(f"g.state = {args.add(int(where.state))}")
        if where.owner is not None:
            tests.append(f"j.owner = {args.add(where.owner)}")
        return tests


def _after(where: JobFilter, cursor: bytes | None, args: _Args) -> list[str]:
    """What comes after the page before."""
    if cursor is None:
        return []
    namespace, name = cursor.decode().split(_SEPARATOR)
    if where.namespace is None:
        return [f"(j.namespace, j.name) > ({args.add(namespace)}, {args.add(name)})"]
    return [f"j.name > {args.add(name)}"]


def after_prefix(prefix: str) -> str:
    """The smallest text after every text with this prefix, bytewise; empty when there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        if ord(prefix[i]) < 0x10FFFF:
            follower = ord(prefix[i]) + 1
            return prefix[:i] + chr(0xE000 if 0xD800 <= follower < 0xE000 else follower)
    return ""
