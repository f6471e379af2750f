"""``core.admission_policy.admit`` as SQL, for scheduled instants on both hot paths.

The conformance suite compares the statement with the policy. ``i`` is the batch, ``g`` the gates,
``p`` their profiles, ``d`` the decisions.
"""

from collections.abc import Sequence

from chronos.core.admission_policy import PRIORITY_STEP_US
from chronos.core.config import Overlap
from chronos.core.execution import Cause, Status
from chronos.core.fencing_token import START_BITS, TURN_BITS
from chronos.core.job import JobState
from chronos.core.reasons import ReasonCode
from chronos.store.commands import AdmitRow
from chronos.store.sql.executions.gates import OVERLAPS
from chronos.store.sql.query import Rows

RUNNING, READY, QUEUED, SKIPPED = (
    int(status) for status in (Status.RUNNING, Status.READY, Status.QUEUED, Status.SKIPPED)
)
ALREADY_RECORDED = 0  # not a status: the instant was recorded before, and only the cursor moves
_SKIP, _ALLOW, _REPLACE = (OVERLAPS.index(overlap) for overlap in (Overlap.SKIP, Overlap.ALLOW, Overlap.REPLACE))

#: The columns of an ``AdmitRow`` that the statement needs.
ADMIT_ROW_COLUMNS = "job:i version:n expect_us:n next_us:n id:i ready_us:n claim:n levels:n"

_STATUS_SQL = f"""case when i.expect_us <= g.done_us then {ALREADY_RECORDED}
    when p.lim = 0 or g.active < p.lim then case when i.claim = 1 then {RUNNING} else {READY} end
    when p.overlap <> {_SKIP} and g.queued < p.queue_max then {QUEUED} else {SKIPPED} end"""


def decisions_sql(rows: str) -> str:
    """Return a query that decides the rows of a batch whose gates are as expected."""
    return f"""
        select i.id, i.job, i.expect_us as scheduled_us, i.next_us,
            i.ready_us - p.priority * {PRIORITY_STEP_US} as rank, {_STATUS_SQL} as status,
            (g.seq + 1) << {TURN_BITS} as token, g.version, p.lane,
            case when p.overlap = {_ALLOW} then 0 else 1 end as exclusive,
            case when p.overlap = {_SKIP} then '{ReasonCode.OVERLAP}' else '{ReasonCode.QUEUE_FULL}' end as code,
            p.levels, g.ran_us
        from {rows} as i join gate as g on g.job = i.job join profile as p on p.number = g.profile
        where g.next_us = i.expect_us and g.version = i.version and g.state = {int(JobState.ACTIVE)}
            and p.levels = i.levels and p.keyed = 0 and p.overlap <> {_REPLACE}"""


#: The reason of a decision, for the answer: only a skipped instant has one.
DECIDED_CODE = f"case when d.status = {SKIPPED} then d.code end"
SKIP_CODES: dict[str | None, ReasonCode | None] = {
    None: None,
    **{code.value: code for code in (ReasonCode.OVERLAP, ReasonCode.QUEUE_FULL)},
}

#: Executions that have been ready so long that other nodes may claim them. An execution is never ready before it is
#: due, so the rank limits how far the lane's index is read.
LATE_CONDITION = f"""a.rank <= i.before_us - {PRIORITY_STEP_US}
    and coalesce(a.ready_since_us, a.admitted_us) <= i.before_us"""


def gate_update_sql(gate: str, *, next_us: str, scheduled_us: str, status: str) -> str:
    """Return the assignments by which an admitted instant changes its gate; ``gate`` is a table alias."""
    return f"""next_us = {next_us}, seq = {gate}.seq + case when {status} = {ALREADY_RECORDED} then 0 else 1 end,
        done_us = case when {scheduled_us} > {gate}.done_us then {scheduled_us} else {gate}.done_us end,
        state = case when {next_us} is null and {status} <> {ALREADY_RECORDED}
            then {int(JobState.DONE)} else {gate}.state end,
        active = {gate}.active + case when {status} in ({READY}, {RUNNING}) then 1 else 0 end,
        queued = {gate}.queued + case when {status} = {QUEUED} then 1 else 0 end"""


def batch_gate_update_sql(gate: str) -> str:
    """Return the assignments for the decisions ``d`` of a batch."""
    return gate_update_sql(gate, next_us="d.next_us", scheduled_us="d.scheduled_us", status="d.status")


def next_claim_sql(token: str) -> str:
    """Return ``fencing_token.next_claim_token`` as an expression."""
    return f"((({token}) >> {START_BITS}) + 1) << {START_BITS}"


#: The token of a decision: the token of a claim if the execution runs at once.
DECIDED_TOKEN = f"case when d.status = {RUNNING} then {next_claim_sql('d.token')} else d.token end"


def insert_open_sql(source: str, *, node: str, now_us: str, request: str) -> str:
    """Return the insert of running, ready and queued executions. The arguments are placeholders."""
    claimed = f"case when d.status = {RUNNING} then {{}} end".format
    return f"""
        insert into active (id, job, version, cause, scheduled_us, lane, rank, status, exclusive, owner, token,
            admitted_us, started_us, attempt_us, request, levels)
        select d.id, d.job, d.version, {int(Cause.SCHEDULE)}, d.scheduled_us, d.lane, d.rank, d.status, d.exclusive,
            {claimed(node)}, {DECIDED_TOKEN}, {now_us}, {claimed(now_us)}, {claimed(now_us)}, {request},
            d.levels
        from {source} as d where d.status in ({RUNNING}, {READY}, {QUEUED})"""


def insert_skipped_sql(source: str, *, now_us: str) -> str:
    """Return the insert of skipped executions into history."""
    return f"""
        insert into history (id, job, version, cause, scheduled_us, status, code, token, attempt, admitted_us,
            finished_us, levels)
        select d.id, d.job, d.version, {int(Cause.SCHEDULE)}, d.scheduled_us, d.status, d.code, d.token, 0, {now_us},
            {now_us}, d.levels
        from {source} as d where d.status = {SKIPPED}"""


def to_admit_rows(rows: Sequence[AdmitRow]) -> Rows:
    """Return a batch as ``Rows`` of ``ADMIT_ROW_COLUMNS``."""
    values = [(r.job, r.version, r.expect_us, r.next_us, r.id, r.ready_us, int(r.claim), r.levels) for r in rows]
    return Rows("innninnn", values)
