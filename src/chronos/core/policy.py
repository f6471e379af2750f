"""Decisions about admission and tries. ``admit`` is the reference that every engine's statement must equal."""

from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b

from chronos.core.concurrency_key import key_limit
from chronos.core.config import UNLIMITED, EffectiveSettings, Overlap
from chronos.core.execution import Cause

PRIORITY_STEP_US = 60_000_000  # each step of priority is worth a minute of waiting, so that nothing starves


class AdmissionVerdict(IntEnum):
    """What becomes of an instant or a request under its gate."""

    RUN = 1
    QUEUE = 2
    SKIP_OVERLAP = 3
    SKIP_FULL = 4
    REFUSE = 5  # asked for, and the queue is full: the caller may try again


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSpec:
    """What a job's gate needs to know to decide, and its executions to be ranked and placed."""

    overlap: Overlap = Overlap.SKIP
    limit: int = 1  # executions at once; UNLIMITED only under ``allow``
    queue_max: int = 1000
    priority: int = 5
    lane: str = "default"  # what a worker must be able to do, as one text: see ``lane_key``
    keyed: bool = False  # its executions carry a concurrency key
    key: str | None = None  # the template of their keys; None, if keyed: what is there keeps the key that it has
    key_limit: int = 0  # of each key; 0: whatever it is
    keep_count: int = 1000
    keep_age_us: int = 90 * 86_400 * 1_000_000


def admit(
    *,
    overlap: Overlap,
    limit: int,
    queue_max: int,
    active: int,
    queued: int,
    requested: bool,
    key_full: bool = False,
    held: bool = False,
) -> AdmissionVerdict:
    """Run, queue, skip or refuse. ``active`` counts ready, running and waiting executions of the gate.

    One that waits for its key is as good as a running one to those that come after it. What replaces another always
    finds room behind it. What is ``held`` waits, whatever room there is, and as many may wait as else could be there.
    """
    fits = limit == UNLIMITED or active < limit
    if fits and not key_full and not held:
        return AdmissionVerdict.RUN
    if overlap is Overlap.SKIP and not requested and (queued or not fits):
        return AdmissionVerdict.SKIP_OVERLAP
    room = queued < queue_max
    if held:
        room = limit == UNLIMITED or active + queued < limit + queue_max
    if room or (overlap is Overlap.REPLACE and not queued):
        return AdmissionVerdict.QUEUE
    return AdmissionVerdict.REFUSE if requested else AdmissionVerdict.SKIP_FULL


def is_held(cause: Cause, *, before: bool) -> bool:
    """Whether an execution of a paused job that has not started waits until the job is resumed.

    A trigger does not. What else a person asks for (a replay, a backfill) runs if it was asked for during the pause; if
    it was there ``before``, it is held like all that the pause is to stop.
    """
    if cause is Cause.MANUAL:
        return False
    return before or cause not in (Cause.REPLAY, Cause.BACKFILL)


def build_gate_spec(effective: EffectiveSettings, lane: str) -> GateSpec:
    """The gate of a job under its effective settings. With a key, the limit is that of each key's gate."""
    limit = effective.limit if effective.key is None else UNLIMITED
    return GateSpec(
        overlap=effective.overlap,
        limit=limit if effective.overlap is Overlap.ALLOW else 1,
        queue_max=effective.queue_max,
        priority=effective.priority,
        lane=lane,
        keyed=effective.key is not None,
        key=effective.key,
        key_limit=key_limit(effective) if effective.key is not None else 0,
        keep_count=effective.keep_count,
        keep_age_us=effective.keep_age_us,
    )


def rank(ready_us: int, priority: int) -> int:
    """Who goes first among the ready: lower first. Linear aging as a key that never changes."""
    return ready_us - priority * PRIORITY_STEP_US


def retry_delay_us(effective: EffectiveSettings, attempt: int, attempt_id: bytes) -> int:
    """How long to wait after failed try number ``attempt``; the jitter is hashed from the attempt's id."""
    exponent = min(attempt - 1, 64)
    delay = min(effective.retry_initial_us * effective.retry_multiplier**exponent, float(effective.retry_max_us))
    unit = int.from_bytes(blake2b(attempt_id, digest_size=8).digest()) / 2**64
    return int(delay * (1 + effective.retry_jitter * unit))


def has_attempts_left(effective: EffectiveSettings, attempt: int) -> bool:
    """Whether there is a try after number ``attempt``."""
    return effective.max_attempts == UNLIMITED or attempt < effective.max_attempts
