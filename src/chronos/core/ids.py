"""Deterministic identifiers: every node computes the same one, so creating twice is harmless.

All are 16 bytes. Jobs and tasks are UUIDv5. An execution is a UUIDv8 that begins with milliseconds, so that ids sort
by time and name the partition of history they belong to::

    48 bits  milliseconds of the instant (scheduled causes) or of the request (asked-for causes)
     4 bits  version 8,  then 12 + 62 bits of a hash of job, instant and cause,  around 2 bits of variant

Of what is asked for within one millisecond, the first bits of those 74 say the order: microseconds of the request, or,
in a backfill, the instants that it names.
"""

from collections.abc import Iterable
from hashlib import blake2b, sha1

from chronos.core.execution import Cause

_NAMESPACE = bytes.fromhex("6d1f1f386a0e5c8e9c0b0f6b6c5f2a11")
ID_BYTES = 16
_MS_MAX = (1 << 48) - 1
_FREE_BITS = 74  # beside milliseconds, version and variant
_LOW_BITS = 62  # of those, behind the variant
_INSTANT_BITS = 36
_INSTANT_SHIFT = 16  # microseconds in steps of 65 ms: closer together no schedule has instants, and enough until 2112
_SHA1_BYTES = 20
_VERSION_5 = bytes(byte & 0x0F | 0x50 for byte in range(256))  # what becomes of a hash's bytes in an RFC 9562 UUID
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))

#: Scheduled and recovered runs of one instant are the same run, so they share one id.
_SCHEDULE = Cause.SCHEDULE.value


def job_id(namespace: str, name: str, incarnation: int) -> bytes:
    """A job; ``incarnation`` grows when a deleted name is created anew, so a deleted job never comes back."""
    return _uuid5(_NAMESPACE, f"job\0{namespace}\0{name}\0{incarnation}")


def job_ids(jobs: Iterable[tuple[str, str, int]]) -> list[bytes]:
    """Those of many jobs, given what ``job_id`` takes: the same ones, three times faster."""
    start = _NAMESPACE + b"job\0"
    digests = [
        sha1(start + f"{namespace}\0{name}\0{incarnation}".encode(), usedforsecurity=False).digest()
        for namespace, name, incarnation in jobs
    ]
    together = bytearray(b"".join(digests))
    together[6::_SHA1_BYTES] = together[6::_SHA1_BYTES].translate(_VERSION_5)
    together[8::_SHA1_BYTES] = together[8::_SHA1_BYTES].translate(_VARIANT)
    ids = bytes(together)
    return [ids[at : at + ID_BYTES] for at in range(0, len(ids), _SHA1_BYTES)]


def task_id(job: bytes, name: str) -> bytes:
    """A task of a job."""
    return _uuid5(job, f"task\0{name}")


def scheduled_execution_id(job: bytes, scheduled_us: int) -> bytes:
    """The one execution of an instant, whether it ran in time or was recovered."""
    return _execution_id(scheduled_us // 1000, job, scheduled_us, _SCHEDULE, b"")


def requested_execution_id(
    job: bytes, cause: Cause, at_us: int, request: bytes, scheduled_us: int | None = None
) -> bytes:
    """An execution somebody or something asked for at ``at_us``.

    ``request`` is what makes asking twice the same: the idempotency key or request id (manual, replay, backfill), the
    upstream execution's id (dependency). A backfill names the instant too. Of one job, ids are in the order in which
    they were asked for; those of a backfill, within one millisecond, in the order of their instants.
    """
    id_ = _execution_id(at_us // 1000, job, at_us if scheduled_us is None else scheduled_us, cause.value, request)
    if cause is Cause.DEPENDENCY:  # whichever release computes it, one end of an upstream job has one id
        return id_
    if scheduled_us is None:
        return _replace_order_bits(id_, 1 << 10 | at_us % 1000, 11)
    return _replace_order_bits(
        id_, max(0, min(scheduled_us >> _INSTANT_SHIFT, (1 << _INSTANT_BITS) - 1)), 1 + _INSTANT_BITS
    )


def span_id(job: bytes, from_us: int, status: int) -> bytes:
    """The record of a run of skipped or missed instants that begins at ``from_us``."""
    return _execution_id(from_us // 1000, job, from_us, 0x80 | status, b"span")


def attempt_id(execution: bytes, task: str, number: int) -> bytes:
    """One try of one task of an execution, counted from 1."""
    return blake2b(b"\0".join((execution, task.encode(), b"%d" % number)), digest_size=ID_BYTES).digest()


def id_floor(at_us: int) -> bytes:
    """No id of this time or later sorts before it: where to cut history."""
    return max(0, min(at_us // 1000, _MS_MAX)).to_bytes(6) + bytes(10)


def key_gate_id(namespace: str, key: str) -> bytes:
    """The gate that executions of a namespace with this concurrency key share."""
    return blake2b(f"{namespace}\0{key}".encode(), digest_size=ID_BYTES).digest()


def _uuid5(namespace: bytes, name: str) -> bytes:
    """RFC 9562's version 5; ``uuid.uuid5`` gives the same, five times slower."""
    digest = bytearray(sha1(namespace + name.encode(), usedforsecurity=False).digest()[:ID_BYTES])
    digest[6] = _VERSION_5[digest[6]]
    digest[8] = _VARIANT[digest[8]]
    return bytes(digest)


def _replace_order_bits(execution: bytes, order: int, bits: int) -> bytes:
    """The id with its first free bits replaced by these."""
    rest = _FREE_BITS - bits
    free = order << rest | int.from_bytes(execution[6:]) & (1 << min(rest, _LOW_BITS)) - 1
    high, low = free >> _LOW_BITS, free & (1 << _LOW_BITS) - 1
    return execution[:6] + (0x8000 | high).to_bytes(2) + (1 << 63 | low).to_bytes(8)


def _execution_id(ms: int, job: bytes, scheduled_us: int, cause: int, request: bytes) -> bytes:
    body = job + scheduled_us.to_bytes(8, signed=True) + bytes((cause,)) + request
    digest = bytearray(blake2b(body, digest_size=10).digest())
    digest[0] = digest[0] & 0x0F | 0x80
    digest[2] = digest[2] & 0x3F | 0x80
    return max(0, min(ms, _MS_MAX)).to_bytes(6) + digest
