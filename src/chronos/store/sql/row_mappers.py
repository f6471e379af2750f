"""Maps rows to records.

One unreadable row does not affect the others: its spec becomes ``Unreadable``, and a status or code written by a newer
release is shown as it is.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

import msgspec

from chronos.core.execution import Attempt, AttemptStatus, CancelRequest, Cause, DeadLetter, Execution, Span, Status
from chronos.core.job import Job, JobSpec, JobState, JobVersion, Unreadable
from chronos.core.node import AuditEntry, Node, Process
from chronos.core.reasons import Reason, ReasonCode
from chronos.store.sql.query import Row

JOB_COLUMNS = """j.id, j.namespace, j.name, j.incarnation, j.version, g.state, j.spec, g.next_us, j.created_us,
    j.updated_us, j.paused_us, j.note, coalesce((select p.levels from profile as p where p.number = g.profile), 0)"""
#: The same columns for open and ended executions, so that both fit into one list.
OPEN_COLUMNS = """id, job, version, cause, scheduled_us, status, null as code, null as message, attempt, token, owner,
    admitted_us, started_us, cast(null as bigint) as finished_us, wake_us, cancel, held, worked_us, detail,
    cast(null as bigint) as until_us, 1 as count, attempt_us, levels"""
ENDED_COLUMNS = """id, job, version, cause, scheduled_us, status, code, message, attempt, token, owner,
    admitted_us, started_us, finished_us, cast(null as bigint) as wake_us, 0 as cancel, 0 as held, 0 as worked_us,
    detail, until_us, count, attempt_us, levels"""
ATTEMPT_COLUMNS = "execution, task, number, status, started_us, finished_us, node, error, detail"
NODE_COLUMNS = "number, name, incarnation, beat, started_us, beat_us, stopped_us, slots, labels, offer, taken_over"
AUDIT_COLUMNS = "id, at_us, actor, action, namespace, subject, origin, detail"

_SPEC_DECODER = msgspec.json.Decoder(JobSpec)
_JSON_DECODER = msgspec.json.Decoder()
_SCOPE, _PROCESS = "chronos/world", "chronos/process"  # stored among the labels of a node
E = TypeVar("E", bound=Enum)


def to_job(row: Row) -> Job:
    """Map the ``JOB_COLUMNS`` columns."""
    return Job(
        id=row[0],
        namespace=row[1],
        name=row[2],
        incarnation=row[3],
        version=row[4],
        state=to_enum_member(JobState, row[5]),
        spec=to_job_spec(row[6]),
        next_us=row[7],
        created_us=row[8],
        updated_us=row[9],
        paused_us=row[10],
        note=row[11],
        levels=row[12],
    )


def to_job_spec(text: str) -> JobSpec:
    """Decode a spec from JSON. Returns ``Unreadable`` if it is invalid or unknown to this release."""
    try:
        return _SPEC_DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return Unreadable(
            error=f"its definition cannot be read ({error}): it was edited by hand, is damaged, or was written by a "
            "newer release; save the job again, delete it, or upgrade this node"
        )


def to_enum_member(kind: type[E], value: Any) -> E:
    """Return the member with this value. An unknown value becomes a new member named ``UNKNOWN_<value>``."""
    try:
        return kind(value)
    except ValueError:
        base: Any = str if issubclass(kind, str) else int
        member = base.__new__(kind, value)
        member._name_, member._value_ = f"UNKNOWN_{value}", value
        return member  # type: ignore[no-any-return]


def to_job_version(row: Row) -> JobVersion:
    """Map job, version, spec, saved_us, author."""
    return JobVersion(job=row[0], version=row[1], spec=to_job_spec(row[2]), saved_us=row[3], author=row[4])


def to_execution(row: Row) -> Execution | Span:
    """Map the ``OPEN_COLUMNS`` or ``ENDED_COLUMNS`` columns."""
    reason = _to_reason(row[6], row[7])
    status = to_enum_member(Status, row[5])
    if row[19] is not None and reason is not None:
        return Span(
            id=row[0],
            job=row[1],
            status=status,
            from_us=row[4],
            to_us=row[19],
            count=row[20],
            reason=reason,
            recorded_us=row[13],
        )
    return Execution(
        id=row[0],
        job=row[1],
        job_version=row[2],
        cause=to_enum_member(Cause, row[3]),
        scheduled_us=row[4],
        status=status,
        reason=reason,
        attempt=row[8],
        token=row[9],
        node=row[10],
        admitted_us=row[11],
        started_us=row[12],
        finished_us=row[13],
        wake_us=row[14],
        cancel=to_enum_member(CancelRequest, row[15]),
        held=bool(row[16]),
        worked_us=row[17],
        detail=_to_detail(row[18]),
        attempt_us=row[21],
        levels=row[22],
    )


def to_attempt(row: Row) -> Attempt:
    """Map the ``ATTEMPT_COLUMNS`` columns."""
    return Attempt(
        execution=row[0],
        task=row[1],
        number=row[2],
        status=to_enum_member(AttemptStatus, row[3]),
        started_us=row[4],
        finished_us=row[5],
        node=row[6],
        error=row[7],
        detail=_to_detail(row[8]),
    )


def to_dead_letter(row: Row) -> DeadLetter:
    """Map execution, job, namespace, failed_us, code, message."""
    reason = Reason.of(to_enum_member(ReasonCode, row[4]), row[5])
    return DeadLetter(execution=row[0], job=row[1], namespace=row[2], failed_us=row[3], reason=reason)


def write_labels(labels: Mapping[str, str], process: Process | None) -> str:
    """Encode the labels of a node together with its process."""
    extra = {} if process is None else {_SCOPE: process.scope, _PROCESS: f"{process.pid}/{process.started}"}
    return msgspec.json.encode({**labels, **extra}, order="sorted").decode()


def to_node(row: Row) -> Node:
    """Map the ``NODE_COLUMNS`` columns."""
    labels = _JSON_DECODER.decode(row[8])
    scope, (pid, _, started) = labels.pop(_SCOPE, None), labels.pop(_PROCESS, "").partition("/")
    known = scope is not None and pid.isdecimal()
    return Node(
        number=row[0],
        name=row[1],
        incarnation=row[2],
        beat=row[3],
        started_us=row[4],
        beat_us=row[5],
        stopped_us=row[6],
        slots=row[7],
        labels=labels,
        process=Process(scope=scope, pid=int(pid), started=started) if known else None,
        offer=row[9],
        taken_over=row[10],
    )


def to_audit_entry(row: Row) -> AuditEntry:
    """Map the ``AUDIT_COLUMNS`` columns."""
    names = ("id", "at_us", "actor", "action", "namespace", "subject", "origin", "detail")
    return AuditEntry(**dict(zip(names, row, strict=True)))


def _to_reason(code: str | None, message: str | None) -> Reason | None:
    return None if code is None else Reason.of(to_enum_member(ReasonCode, code), message)


def _to_detail(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        detail = _JSON_DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return detail if isinstance(detail, dict) else None
