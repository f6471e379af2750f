"""Lists jobs by their next run or by their last one, along the indexes that the engine needs anyway.

A page reads a bounded number of gates or of ended runs, and tests the filter on each job. So it may be short.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from chronos.core.job import Job
from chronos.store.contract import JobFilter, Page
from chronos.store.overview import JobSort
from chronos.store.sql import row_mappers as record
from chronos.store.sql.jobs.list_position import Position, read_position, write_position
from chronos.store.sql.jobs.search import MAX_SEARCHED_JOBS, is_match, search_conditions
from chronos.store.sql.query import Dialect, Query, Row, Steps

_CHUNK_ROWS = 500
_KEY_COLUMNS = 2  # in front of the columns of a job
_FIRST = -(1 << 62)
_LAST = 1 << 62


class _ListedJob(NamedTuple):
    """A job and its place in the list."""

    key: tuple[int, str]
    job: Job


class JobsByRun:
    """Lists jobs by a time of their gates or of their history."""

    def __init__(self, d: Dialect) -> None:
        self._d = d

    def page(self, where: JobFilter, sort: JobSort, limit: int, cursor: bytes | None) -> Steps[Page[Job]]:
        """See ``Store.list_jobs``."""
        if where.tag is not None:
            where = replace(where, tag=None, more_tags=(where.tag, *where.more_tags))
        position = read_position(cursor, sort)
        if sorting := self._d.allow_sort():
            yield Query(sorting)
        found: list[_ListedJob] = []
        place, read, at_end = position, 0, False
        while len(found) <= limit and read < MAX_SEARCHED_JOBS and not at_end:
            rows = yield from self._chunk(where, sort, place)
            at_end = len(rows) < _CHUNK_ROWS
            read += len(rows)
            found += [entry for entry in map(_to_entry, rows) if entry is not None and is_match(entry.job, where)]
            if rows:
                place = Position(str(rows[-1][0]), _to_text(rows[-1][1]), position is not None and position.backward)
        return _to_page(found, sort, limit, position, None if at_end else place)

    def _chunk(self, where: JobFilter, sort: JobSort, place: Position | None) -> Steps[list[Row]]:
        """Read the next rows: two columns of the key, then the job, or nulls if it does not match."""
        backward = place is not None and place.backward
        args: list[Any] = []

        def add(value: Any) -> str:
            args.append(value)
            return f"${len(args)}"

        if sort is JobSort.NEXT_RUN:
            first, second = (_LAST, _LAST) if backward else (_FIRST, 0)
            if place is not None:
                first, second = int(place.first), int(place.second)
            than, order = ("<", " desc") if backward else (">", "")
            source = f"""
                select next_us as k1, number as k2, number, job, state, next_us, profile, ran_us, failing_us from gate
                where state = 0 and next_us is not null and (next_us, number) {than} ({add(first)}, {add(second)})
                order by next_us{order}, number{order} limit {_CHUNK_ROWS}"""
            order_by = f"g.k1{order}, g.k2{order}"
        else:
            first_us, id_ = (_FIRST, bytes(16)) if backward else (_LAST, b"\xff" * 16)
            if place is not None:
                first_us, id_ = int(place.first), bytes.fromhex(place.second)
            than, order = (">", "") if backward else ("<", " desc")
            ended = f"""
                select finished_us, id, job, number, started_us from history
                where (finished_us, id) {than} ({add(first_us)}, {add(id_)})
                order by finished_us{order}, id{order} limit {_CHUNK_ROWS}"""
            # Only the last run of a job counts: none with a higher id has started and ended.
            later = """select 1 from history as n
                where n.number = h.number and n.job = h.job and n.id > h.id and n.started_us is not null"""
            source = f"""
                select h.finished_us as k1, h.id as k2, g.number, case when h.started_us is not null
                    and not exists ({later}) then g.job end as job, g.state, g.next_us, g.profile, g.ran_us,
                    g.failing_us
                from ({ended}) as h left join gate as g on g.number = h.number and g.job = h.job"""
            order_by = f"g.k1{order}, g.k2{order}"
        tests = ["g.job is not null", *self._plain_conditions(where, add), *search_conditions(where, add)]
        sql = f"""
            select g.k1, g.k2, {record.JOB_COLUMNS} from ({source}) as g
            left join job as j on {self._d.gate_of("g", "j")} and {" and ".join(tests)} order by {order_by}"""
        return (yield Query(sql, tuple(args)))

    def _plain_conditions(self, where: JobFilter, add: Callable[[Any], str]) -> list[str]:
        tests = []
        if where.namespace is not None:
            tests.append(f"j.namespace = {add(where.namespace)}")
        if where.prefix:
            tests.append(f"substr(j.name, 1, {len(where.prefix)}) = {add(where.prefix)}")
        if where.contains:
            tests.append(self._d.name_contains("j", where.contains, add))
        if where.state is not None:
            tests.append(f"g.state = {int(where.state)}")
        if where.owner is not None:
            tests.append(f"j.owner = {add(where.owner)}")
        return tests


def _to_entry(row: Row) -> _ListedJob | None:
    if row[_KEY_COLUMNS] is None:
        return None
    return _ListedJob((row[0], _to_text(row[1])), record.to_job(row[_KEY_COLUMNS:]))


def _to_text(key: int | bytes) -> str:
    return key.hex() if isinstance(key, bytes) else str(key)


def _to_page(
    found: list[_ListedJob], sort: JobSort, limit: int, position: Position | None, end: Position | None
) -> Page[Job]:
    backward = position is not None and position.backward
    more = len(found) > limit
    entries = found[:limit]
    if more:
        key = entries[-1].key
        ahead: bytes | None = write_position(sort, *key, backward=backward)
    else:
        ahead = None if end is None else write_position(sort, end.first, end.second, backward=backward)
    back = entries[0].key if entries else None if position is None else (position.first, position.second)
    behind = None if back is None or position is None else write_position(sort, *back, backward=not backward)
    if backward:
        entries.reverse()
    cursor, previous = (behind, ahead) if backward else (ahead, behind)
    items = [entry.job for entry in entries]
    return Page(items=items, cursor=cursor, previous=previous, complete=more or end is None)
