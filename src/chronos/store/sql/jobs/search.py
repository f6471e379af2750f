"""JobSearch: finds jobs by what no index has: zone, queue, target, next run, several tags.

The database reads jobs in list order and leaves out most that do not match; the rest is tested here. One page reads at
most ``MAX_SEARCHED_JOBS`` jobs.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from chronos.core.job import Job, find_zone
from chronos.store.contract import JobFilter, Page
from chronos.store.overview import JobSort
from chronos.store.sql.jobs.list_position import Position, write_position
from chronos.store.sql.jobs.statuses import status_sql

MAX_SEARCHED_JOBS = 10_000
_CHUNK_ROWS = 500
_UTC = "UTC"


def search_conditions(where: JobFilter, arg: Callable[[Any], str]) -> list[str]:
    """Return conditions on a job ``j`` and its gate ``g``. Jobs that match ``where`` fulfil them, others may."""
    tests = []
    if where.status is not None:
        tests.append(status_sql(where.status, arg(where.now_us)))
    if where.next_before_us is not None:
        tests.append(f"g.state = 0 and g.next_us < {arg(where.next_before_us)}")
    if where.zone is not None and where.zone != _UTC:
        tests.append(f"j.spec like {arg(f'%{_to_pattern(where.zone)}%')}")
    if where.target is not None:
        tests.append(f"j.spec like {arg(f'%{_to_pattern(where.target)}%')}")
    tests += [f"j.spec like {arg(f'%{_to_pattern(key)}%')}" for key, _ in where.more_tags]
    if where.queue is not None:
        # A lane of only a queue is the queue's name. Otherwise it is JSON, without the default queue.
        pattern = arg(f'%"queue":"{_to_pattern(where.queue)}"%')
        default = " or (key like '{%' and key not like '%\"queue\":%')" if where.queue == "default" else ""
        tests.append(
            "g.profile in (select p.number from profile as p where p.lane in (select number from lane "
            f"where key = {arg(where.queue)} or (key like '{{%' and key like {pattern}){default}))"
        )
    return tests


def is_match(job: Job, where: JobFilter) -> bool:
    """Return whether a job that fulfils ``search_conditions`` matches the filter."""
    spec = job.spec
    if any(key not in spec.tags or value not in (None, spec.tags[key]) for key, value in where.more_tags):
        return False
    if where.target is not None and all(task.target.kind != where.target for task in spec.tasks):
        return False
    return where.zone is None or find_zone(job) == where.zone


class JobSearch:
    """Collects a page of a list by name, chunk by chunk."""

    def __init__(self, where: JobFilter, limit: int, position: Position | None) -> None:
        self._where, self._limit, self._first = where, limit, position
        self.position = position
        self.backward = position is not None and position.backward
        self.end: Position | None = None  # the search does not read beyond it
        self.is_over = False
        self._found: list[Job] = []
        self._read = 0
        self._may_need_more = bool(where.more_tags) or where.zone is not None or where.target is not None

    @property
    def chunk(self) -> int:
        """The number of rows to read next."""
        return max(self._limit + 1, _CHUNK_ROWS) if self._may_need_more else self._limit + 1

    def add(self, jobs: Sequence[Job]) -> None:
        """Add the next rows of the list."""
        chunk = self.chunk
        self._read += len(jobs)
        self._found += [job for job in jobs if is_match(job, self._where)] if self._may_need_more else jobs
        at_end, enough = len(jobs) < chunk, len(self._found) > self._limit
        self.is_over = at_end or enough or self._read >= MAX_SEARCHED_JOBS
        if self.is_over and not enough and not at_end:
            self.end = Position(jobs[-1].namespace, jobs[-1].name, self.backward)
        if jobs:
            self.position = Position(jobs[-1].namespace, jobs[-1].name, self.backward)

    def page(self) -> Page[Job]:
        """Return the page, in list order."""
        items = self._found[: self._limit]
        more = len(self._found) > self._limit
        end = None if more or self.end is None else self.end
        if self.backward:
            items.reverse()
        onward = _position_of(items[0 if self.backward else -1]) if more else end
        back = _position_of(items[-1 if self.backward else 0]) if items else self._first
        has_page_behind = self._first is not None
        ahead = None if onward is None else _to_cursor(onward, backward=self.backward)
        behind = None if back is None or not has_page_behind else _to_cursor(back, backward=not self.backward)
        cursor, previous = (behind, ahead) if self.backward else (ahead, behind)
        return Page(items=items, cursor=cursor, previous=previous, complete=end is None)


def _position_of(job: Job) -> Position:
    return Position(job.namespace, job.name)


def _to_cursor(position: Position, *, backward: bool) -> bytes:
    return write_position(JobSort.NAME, position.first, position.second, backward=backward)


def _to_pattern(text: str) -> str:
    """Return a pattern for ``like`` that finds a text inside JSON, whatever JSON escapes. It may find more."""
    return re.sub(r"[^A-Za-z0-9/_.+-]+", "%", text)
