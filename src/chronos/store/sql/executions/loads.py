"""Open executions in total: per lane and node, and what an execution that does not start waits for."""

from chronos.core.execution import Execution, Status
from chronos.store.overview import Blockage, Load
from chronos.store.sql import row_mappers as record
from chronos.store.sql.query import Query, Steps

_MAX_HOLDERS = 10
_HOLDING = f"status in ({int(Status.READY)}, {int(Status.RUNNING)}, {int(Status.WAITING)})"


class LoadQueries:
    """Reads of the open executions. The cost grows with their number."""

    def __init__(self) -> None:
        self._loads = """
            select lane, status, owner, held, count(*), min(coalesce(ready_since_us, admitted_us)), min(attempt_us)
            from active group by lane, status, owner, held order by lane, status, owner, held"""
        self._blocked = """
            select a.job, a.key, a.rank, coalesce(p.lim, g.lim), g.active, k.lim, k.active from active as a
            left join gate as g on g.job = a.job left join profile as p on p.number = g.profile
            left join key_gate as k on k.key = a.key where a.id = $1"""
        self._of_job = f"""
            select {record.OPEN_COLUMNS} from active where job = $1 and {_HOLDING} and id <> $2
            order by started_us, id limit {_MAX_HOLDERS}"""
        self._of_key = f"""
            select {record.OPEN_COLUMNS} from active where key = $1 and {_HOLDING} and id <> $2
            order by started_us, id limit {_MAX_HOLDERS}"""
        self._ahead = f"""
            select count(*) from active where job = $1 and status = {int(Status.QUEUED)} and (rank, id) < ($2, $3)"""

    def loads(self) -> Steps[list[Load]]:
        """See ``Store.loads``."""
        return [
            Load(lane, record.to_enum_member(Status, status), node, bool(held), runs, since_us, started_us)
            for lane, status, node, held, runs, since_us, started_us in (yield Query(self._loads, standalone=True))
        ]

    def blockage(self, execution: bytes) -> Steps[Blockage | None]:
        """See ``Store.blockage``."""
        rows = yield Query(self._blocked, (execution,))
        if not rows:
            return None
        job, key, rank, limit, active, key_limit, key_active = rows[0]
        of_job = yield Query(self._of_job, (job, execution))
        of_key = [] if key is None else (yield Query(self._of_key, (key, execution)))
        [(ahead,)] = yield Query(self._ahead, (job, rank, execution))
        return Blockage(
            limit=limit or 0,
            used=active or 0,
            holders=_to_executions(of_job),
            key_limit=key_limit,
            key_used=key_active,
            key_holders=_to_executions(of_key),
            ahead=ahead,
        )


def _to_executions(rows: list[tuple[object, ...]]) -> tuple[Execution, ...]:
    return tuple(item for row in rows if isinstance(item := record.to_execution(row), Execution))
