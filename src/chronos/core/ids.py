"""Deterministic ids: every node computes the same one, so creating an object twice is harmless.

All ids have 16 bytes. Jobs, tasks and task runs have a UUIDv5, attempts a UUIDv8. An execution has a UUIDv8 that begins
with milliseconds, so that ids sort by time and determine the partition of history::

    48 bits  milliseconds of the instant (scheduled) or of the request (all other causes)
     4 bits  version 8,  then 12 + 62 bits of a hash of job, instant and cause,  around 2 bits of variant

For executions requested within one millisecond, the first of the 74 hash bits are replaced to keep the order: by the
microseconds of the request, or by the instant in a backfill.
"""

from collections.abc import Iterable
from hashlib import blake2b, sha1

from chronos.core.execution import Cause

_NAMESPACE = bytes.fromhex("6d1f1f386a0e5c8e9c0b0f6b6c5f2a11")
ID_BYTES = 16
_MS_MAX = (1 << 48) - 1
_FREE_BITS = 74  # without milliseconds, version and variant
_LOW_BITS = 62  # the free bits after the variant
_INSTANT_BITS = 36
_INSTANT_SHIFT = 16  # steps of 65 ms: no schedule has closer instants, and the bits last until 2112
_SHA1_BYTES = 20
_VERSION_5 = bytes(byte & 0x0F | 0x50 for byte in range(256))  # maps a byte of a hash to the byte of an RFC 9562 UUID
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))

#: A scheduled and a recovered execution of one instant are the same execution, so they share one id.
_SCHEDULE = Cause.SCHEDULE.value


def job_id(namespace: str, name: str, incarnation: int) -> bytes:
    """Return the id of a job. ``incarnation`` grows when a deleted name is reused, so a deleted job never returns."""
    return _uuid5(_NAMESPACE, f"job\0{namespace}\0{name}\0{incarnation}")


def job_ids(jobs: Iterable[tuple[str, str, int]]) -> list[bytes]:
    """Return the ids of many jobs from the arguments of ``job_id``, faster than one by one."""
    prefix = _NAMESPACE + b"job\0"
    digests = [
        sha1(prefix + f"{namespace}\0{name}\0{incarnation}".encode(), usedforsecurity=False).digest()
        for namespace, name, incarnation in jobs
    ]
    joined = bytearray(b"".join(digests))
    joined[6::_SHA1_BYTES] = joined[6::_SHA1_BYTES].translate(_VERSION_5)
    joined[8::_SHA1_BYTES] = joined[8::_SHA1_BYTES].translate(_VARIANT)
    ids = bytes(joined)
    return [ids[start : start + ID_BYTES] for start in range(0, len(ids), _SHA1_BYTES)]


def task_id(job: bytes, name: str) -> bytes:
    """Return the id of a task of a job."""
    return _uuid5(job, f"task\0{name}")


def task_run_id(execution: bytes, task: str) -> bytes:
    """Return the id of a task within one execution: the same for all of its attempts."""
    return _uuid5(execution, f"task\0{task}")


def scheduled_execution_id(job: bytes, scheduled_us: int) -> bytes:
    """Return the id of the execution of an instant, on time or recovered."""
    return _execution_id(scheduled_us // 1000, job, scheduled_us, _SCHEDULE, b"")


def requested_execution_id(
    job: bytes, cause: Cause, at_us: int, request: bytes, scheduled_us: int | None = None
) -> bytes:
    """Return the id of an execution that was requested at ``at_us``.

    Equal requests have equal ids. ``request`` is the idempotency key or request id (manual, replay, backfill), or the
    id of the upstream execution (dependency); a backfill adds the instant. The ids of one job sort by the time of the
    request. Within one millisecond, those of a backfill sort by instant.
    """
    id_ = _execution_id(at_us // 1000, job, at_us if scheduled_us is None else scheduled_us, cause.value, request)
    if cause is Cause.DEPENDENCY:  # stays as in the first release, so that an upstream end keeps one id across releases
        return id_
    if scheduled_us is None:
        return _replace_order_bits(id_, 1 << 10 | at_us % 1000, 11)
    return _replace_order_bits(
        id_, max(0, min(scheduled_us >> _INSTANT_SHIFT, (1 << _INSTANT_BITS) - 1)), 1 + _INSTANT_BITS
    )


def span_id(job: bytes, from_us: int, status: int) -> bytes:
    """Return the id of the span of skipped or missed instants that begins at ``from_us``."""
    return _execution_id(from_us // 1000, job, from_us, 0x80 | status, b"span")


def attempt_id(execution: bytes, task: str, number: int) -> bytes:
    """Return the id of an attempt of a task, counted from 1."""
    digest = bytearray(blake2b(b"\0".join((execution, task.encode(), b"%d" % number)), digest_size=ID_BYTES).digest())
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = _VARIANT[digest[8]]
    return bytes(digest)


def id_floor(at_us: int) -> bytes:
    """Return a lower bound of all execution ids from ``at_us`` on."""
    return max(0, min(at_us // 1000, _MS_MAX)).to_bytes(6) + bytes(10)


def key_gate_id(namespace: str, key: str) -> bytes:
    """Return the id of the gate that executions of a namespace with this concurrency key share."""
    return blake2b(f"{namespace}\0{key}".encode(), digest_size=ID_BYTES).digest()


def _uuid5(namespace: bytes, name: str) -> bytes:
    """Return a UUID of version 5 (RFC 9562). ``uuid.uuid5`` returns the same, but slower."""
    digest = bytearray(sha1(namespace + name.encode(), usedforsecurity=False).digest()[:ID_BYTES])
    digest[6] = _VERSION_5[digest[6]]
    digest[8] = _VARIANT[digest[8]]
    return bytes(digest)


def _replace_order_bits(execution: bytes, order: int, bits: int) -> bytes:
    """Replace the first free bits of an id by ``order``."""
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
