"""Checks a whole store for consistency. Each check is a query that finds violations."""

import msgspec

from chronos.core.execution import Status, TaskStatus
from chronos.core.execution_detail import read_detail
from chronos.store.sql.executions.gate_queue import IS_DELAYED
from chronos.store.sql.query import Dialect, Query, Steps

_READY, _QUEUED, _RUNNING, _WAITING = (
    int(status) for status in (Status.READY, Status.QUEUED, Status.RUNNING, Status.WAITING)
)
_MAX_VIOLATIONS_PER_CHECK = 20
_ROWS_PER_PAGE = 1_000
_MAX_PAGES_OF_HISTORY = 10
_ID_AFTER_ALL = b"\xff" * 16  # later than every id
_SELECT_ENDED = "select id, detail from history where id < $1 order by id desc limit $2"
_OPEN_TASK_STATUS_NAMES = {status.name.lower() for status in TaskStatus if not status.final}

CHECKS = {
    "gate {0} counts {1} active and {2} queued executions, but it has {3} and {4}": f"""
        select g.job, g.active, g.queued, coalesce(n.active, 0), coalesce(n.queued, 0) from gate as g left join (
            select job, sum(case when status = {_QUEUED} or {IS_DELAYED} then 0 else 1 end) as active,
                sum(case when status = {_QUEUED} then 1 else 0 end) as queued from active group by job
        ) as n on n.job = g.job where g.active <> coalesce(n.active, 0) or g.queued <> coalesce(n.queued, 0)""",
    "key {0} counts {1} active and {2} queued executions, but it has {3} and {4}": f"""
        select g.key, g.active, g.queued, coalesce(n.active, 0), coalesce(n.queued, 0) from key_gate as g left join (
            select key, sum(case when status = {_QUEUED} or {IS_DELAYED} then 0 else 1 end) as active,
                sum(case when status = {_QUEUED} then 1 else 0 end) as queued from active where key is not null
            group by key
        ) as n on n.key = g.key where g.active <> coalesce(n.active, 0) or g.queued <> coalesce(n.queued, 0)""",
    "gate {0} has {1} active executions, but its limit is {2}": """
        select g.job, g.active, p.lim from gate as g join profile as p on p.number = g.profile
        where p.lim > 0 and g.active > p.lim and not exists (
            select 1 from active as a where a.job = g.job and a.exclusive = 0)""",
    "gate {0} has room for {1} executions, but {2} are queued": f"""
        select g.job, p.lim - g.active, g.queued from gate as g join profile as p on p.number = g.profile
        where g.queued > 0 and (p.lim = 0 or g.active < p.lim) and exists (
            select 1 from active as a where a.job = g.job and a.status = {_QUEUED} and a.held = 0 and a.key is null
                and a.levels = p.levels)""",
    "job {0} has {1} exclusive executions running": f"""
        select job, count(*) from active where status = {_RUNNING} and exclusive = 1
        group by job having count(*) > 1""",
    "execution {0} is both open and in history": "select a.id from active as a join history as h on h.id = a.id",
    "execution {0} is in history without the number of its job": "select h.id from history as h where h.number is null",
    "execution {0} is running without an owner, a start or an attempt": f"""
        select id from active
        where status = {_RUNNING} and (owner is null or started_us is null or attempt_us is null)""",
    "execution {0} has an owner, but is not running": f"""
        select id from active where status <> {_RUNNING} and owner is not null""",
    "execution {0} is open and not canceled, but its job is deleted": """
        select a.id from active as a left join gate as g on g.job = a.job where g.job is null and a.cancel = 0""",
    "job {0} has no gate": "select j.id from job as j left join gate as g on g.job = j.id where g.job is null",
    "gate {0} has no job": """
        select g.job from gate as g left join job as j on {is_job} where j.id is null or j.id <> g.job""",
    "gate {0} is at version {1}, but its job is at version {2}": """
        select g.job, g.version, j.version from gate as g join job as j on {is_job} where g.version <> j.version""",
    "gate {0} at version {1} has no profile, or one of version {2}": """
        select job, version, profiled from gate where profile is null or profiled is null or profiled <> version""",
    "job {0} is followed, but its gate is not marked as followed": """
        select j.id from job_after as a join job as j on j.namespace = a.namespace and j.name = a.upstream
        join gate as g on g.job = j.id where g.followed = 0""",
    "the tally counts {1} jobs in state {0}, but there are {2}": """
        select t.state, t.jobs, coalesce(n.jobs, 0) from tally as t left join (
            select state, count(*) as jobs from gate group by state
        ) as n on n.state = t.state where t.jobs <> coalesce(n.jobs, 0)""",
    "job {0} is in state {1}, but listed as {2}": """
        select g.job, g.state, i.state from gate as g left join idle as i on i.number = g.number
        where g.state <> coalesce(i.state, 0)""",
    "job {0} is listed by its state, but does not exist": """
        select i.job from idle as i where not exists (select 1 from gate as g where g.job = i.job)""",
}


class InvariantChecks:
    """Runs every check as steps."""

    def __init__(self, d: Dialect) -> None:
        self._is_job = d.is_job("j", "g.job")

    def steps(self) -> Steps[list[str]]:
        """Return one sentence per violation."""
        problems: list[str] = []
        for sentence, sql in CHECKS.items():
            rows = yield Query(f"{sql} limit {_MAX_VIOLATIONS_PER_CHECK}".replace("{is_job}", self._is_job))
            problems += [
                sentence.format(*(value.hex() if isinstance(value, bytes) else value for value in row)) for row in rows
            ]
        return problems + (yield from _find_open_tasks())


def _find_open_tasks() -> Steps[list[str]]:
    """Find open tasks in the latest ended executions. Their details are JSON, which SQL cannot check."""
    problems: list[str] = []
    last = _ID_AFTER_ALL
    for _ in range(_MAX_PAGES_OF_HISTORY):
        rows = yield Query(_SELECT_ENDED, (last, _ROWS_PER_PAGE))
        for execution, text in rows:
            if text is not None and (names := _open_task_names(text)):
                problems.append(f"execution {execution.hex()} has ended, but its tasks {', '.join(names)} have not")
        if len(rows) < _ROWS_PER_PAGE or len(problems) >= _MAX_VIOLATIONS_PER_CHECK:
            break
        last = rows[-1][0]
    return problems[:_MAX_VIOLATIONS_PER_CHECK]


def _open_task_names(text: str) -> list[str]:
    """Return the names of the tasks in a detail that have not ended; empty if it cannot be read."""
    try:
        detail = read_detail(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    in_group = [] if detail.group is None else [task.name for task in detail.group.tasks if not task.status.final]
    reported = [] if detail.report is None else detail.report.tasks
    return in_group + [task.name for task in reported if task.status in _OPEN_TASK_STATUS_NAMES]
