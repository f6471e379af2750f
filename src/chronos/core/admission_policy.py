"""Rules for admission and ranking. The SQL of every store must decide as ``admit`` does."""

from enum import IntEnum

from chronos.core.concurrency_key import key_limit
from chronos.core.config import UNLIMITED, Definition, EffectiveSettings, Overlap
from chronos.core.execution import Cause

PRIORITY_STEP_US = 60_000_000  # one step of priority equals one minute of waiting, so nothing starves


class AdmissionVerdict(IntEnum):
    """The decision about an instant or a request under its gate."""

    RUN = 1
    QUEUE = 2
    SKIP_OVERLAP = 3
    SKIP_FULL = 4
    REFUSE = 5  # requested, but the queue is full: the caller may try again


class GateSpec(Definition, frozen=True, kw_only=True, tag="fixed"):
    """The settings that a job's gate needs to admit, rank and place executions."""

    overlap: Overlap = Overlap.SKIP
    limit: int = 1  # executions at once; UNLIMITED only under ``allow``
    queue_max: int = 1000
    priority: int = 5
    lane: str = "default"  # see ``lane.Lane.text``
    keyed: bool = False  # its executions have a concurrency key
    key: str | None = None  # the template of the key; None, if keyed: existing executions keep their keys
    key_limit: int = 0  # the limit per key; 0: leave it unchanged
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
    """Decide whether an execution runs, is queued, is skipped or is refused.

    * ``active`` counts the ready, running and waiting executions of the gate, ``queued`` the queued ones.
    * ``requested``: the execution must not be skipped (see ``Cause.requested``). Under ``skip`` it is queued, and a
      full queue refuses it.
    * ``key_full``: as many executions with the same concurrency key are active as its limit allows.
    * An execution that is queued for its key counts as running: under ``skip``, later instants are skipped.
    * An execution that replaces another one always has room behind it.
    * A ``held`` execution is queued even if there is room to run. As many may be held as could otherwise be open.
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


def is_held(cause: Cause, *, admitted_before_pause: bool) -> bool:
    """Return whether an execution of a paused job that has not started waits until the job is resumed.

    Triggers always run. Replays and backfills run if they were requested during the pause. All other executions are
    held.
    """
    if cause is Cause.MANUAL:
        return False
    return admitted_before_pause or cause not in (Cause.REPLAY, Cause.BACKFILL)


def build_gate_spec(effective: EffectiveSettings, lane: str) -> GateSpec:
    """Build the gate of a job from its effective settings. With a key, the limit applies per key, not per job."""
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
    """Return the rank of a ready execution: lower runs first.

    Newer executions get higher ranks, so waiting work moves ahead (linear aging).
    """
    return ready_us - priority * PRIORITY_STEP_US
