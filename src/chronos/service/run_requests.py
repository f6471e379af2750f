"""Builds the row of a requested execution: a trigger, a backfill or a replay."""

import logging
from typing import Any, NamedTuple

import msgspec

from chronos.core.concurrency_key import find_key_gate, key_limit
from chronos.core.config import EffectiveSettings
from chronos.core.execution import Cause, Status
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.ids import requested_execution_id
from chronos.core.job import Job, JobSpec
from chronos.errors import Invalid
from chronos.observe.event_log import format_job_name
from chronos.service.masked_credentials import find_masked_urls
from chronos.service.serializers import id_text
from chronos.service.serializers.job import MAX_PAYLOAD
from chronos.service.serializers.json_values import to_plain_json
from chronos.service.serializers.problems import MAX_PROBLEMS, Problem
from chronos.store.commands import RunRow

MAX_REASON = 1_000

log = logging.getLogger("chronos.service")


class PlainPayload(NamedTuple):
    """A payload that is already normalized, such as that of a request body."""

    value: Any


def to_stored_payload(payload: Any) -> Any:
    """Normalize a payload. Raises ``Invalid`` if it is not JSON, too large, or masked."""
    payload = _to_stored_json(payload)
    if problems := find_masked_urls(payload):
        raise Invalid("; ".join(f"{problem.pointer.removeprefix('/')} {problem.message}" for problem in problems))
    return payload


def _to_stored_json(payload: Any) -> Any:
    problems: list[Problem] = []
    payload = payload.value if isinstance(payload, PlainPayload) else to_plain_json(payload, problems)
    if problems:
        messages = [f"payload{problem.pointer} {problem.message}" for problem in problems[:MAX_PROBLEMS]]
        more = [f"and {len(problems) - len(messages):,} more"] if len(problems) > len(messages) else []
        raise Invalid("; ".join([*messages, *more]))
    if len(msgspec.json.encode(payload)) > MAX_PAYLOAD:
        raise Invalid(
            f"the payload is larger than {MAX_PAYLOAD // 1024} KiB; store large data elsewhere and pass a reference"
        )
    return payload


def to_stored_reason(reason: str | None) -> str | None:
    """Normalize the reason of a request. Raises ``Invalid``."""
    if reason is not None and len(reason) > MAX_REASON:
        raise Invalid(f"the reason has {len(reason)} characters, allowed {MAX_REASON}")
    return _to_stored_json(reason) or None


def to_run_row(
    *,
    job: bytes,
    namespace: str,
    name: str,
    spec: JobSpec,
    effective: EffectiveSettings,
    cause: Cause,
    request: bytes,
    now_us: int,
    scheduled_us: int | None = None,
    wake_us: int | None = None,
    detail: Detail,
) -> RunRow:
    """Build the row of an execution. The same ``request`` gives the same execution id."""
    payload = spec.payload if detail.payload is None else detail.payload
    key = find_key_gate(effective, namespace=namespace, name=name, payload=payload)
    return RunRow(
        requested_execution_id(job, cause, now_us, request, scheduled_us if cause is Cause.BACKFILL else None),
        cause,
        now_us if scheduled_us is None else scheduled_us,
        now_us if wake_us is None else wake_us,
        write_detail(detail),
        key,
        0 if key is None else key_limit(effective),
        wake_us,
    )


def log_admitted(job: Job, execution: bytes, cause: Cause, status: Status) -> None:
    """Log a requested execution, as the engine logs a scheduled one. The line also carries the request id."""
    if log.isEnabledFor(logging.DEBUG):
        fields = {"cause": cause.name.lower(), "status": status.name.lower()}
        subject = {"job": format_job_name((job.namespace, job.name)), "execution": id_text(execution)}
        log.debug("execution admitted", extra=subject | fields)
