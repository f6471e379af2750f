"""One execution that somebody asks for, as the row that the store takes."""

import logging
from typing import Any, NamedTuple

import msgspec

from chronos.core.config import Effective
from chronos.core.detail import Detail, write_detail
from chronos.core.execution import Cause, Status
from chronos.core.ids import asked_execution_id
from chronos.core.job import Job, JobSpec
from chronos.core.keys import key_limit, key_of
from chronos.errors import Invalid
from chronos.observe.names import shown
from chronos.service.credentials import masked_in
from chronos.service.shapes import id_text
from chronos.service.shapes.job import MAX_PAYLOAD
from chronos.service.shapes.plain import plain
from chronos.service.shapes.problems import MOST_PROBLEMS, Problem
from chronos.store.commands import RunRow

MAX_REASON = 1_000

log = logging.getLogger("chronos.service")


class Plain(NamedTuple):
    """A payload that was made plain already, as that of a request's body is."""

    value: Any


def checked_payload(payload: Any) -> Any:
    """A payload as it is stored. Raises ``Invalid`` for what JSON cannot say, is too large, or is masked."""
    payload = _storable(payload)
    if problems := masked_in(payload):
        raise Invalid("; ".join(f"{problem.pointer.removeprefix('/')} {problem.message}" for problem in problems))
    return payload


def _storable(payload: Any) -> Any:
    problems: list[Problem] = []
    payload = payload.value if isinstance(payload, Plain) else plain(payload, problems)
    if problems:
        said = [f"payload{problem.pointer} {problem.message}" for problem in problems[:MOST_PROBLEMS]]
        more = [f"and {len(problems) - len(said):,} more"] if len(problems) > len(said) else []
        raise Invalid("; ".join([*said, *more]))
    if len(msgspec.json.encode(payload)) > MAX_PAYLOAD:
        raise Invalid(
            f"the payload is larger than {MAX_PAYLOAD // 1024} KiB; keep what is large elsewhere, and name it"
        )
    return payload


def checked_reason(reason: str | None) -> str | None:
    """Why something was asked for, as it is stored. Raises ``Invalid``."""
    if reason is not None and len(reason) > MAX_REASON:
        raise Invalid(f"the reason has {len(reason)} characters, allowed {MAX_REASON}")
    return _storable(reason) or None


def asked_run(
    *,
    job: bytes,
    namespace: str,
    name: str,
    spec: JobSpec,
    effective: Effective,
    cause: Cause,
    request: bytes,
    now_us: int,
    scheduled_us: int | None = None,
    detail: Detail,
) -> RunRow:
    """The row of an execution; ``request`` is what makes asking twice the same."""
    payload = spec.payload if detail.payload is None else detail.payload
    key = key_of(effective, namespace=namespace, name=name, payload=payload)
    return RunRow(
        asked_execution_id(job, cause, now_us, request, scheduled_us if cause is Cause.BACKFILL else None),
        cause,
        now_us if scheduled_us is None else scheduled_us,
        now_us,
        write_detail(detail),
        key,
        0 if key is None else key_limit(effective),
    )


def tell_admitted(job: Job, execution: bytes, cause: Cause, status: Status) -> None:
    """A log line for what was asked for, as the engine has one for what was due; the request's id stands on it too."""
    if log.isEnabledFor(logging.DEBUG):
        fields = {"cause": cause.name.lower(), "status": status.name.lower()}
        about = {"job": shown((job.namespace, job.name)), "execution": id_text(execution)}
        log.debug("execution admitted", extra=about | fields)
