"""Rules for retries: whether another attempt is allowed, and how long it waits."""

from hashlib import blake2b

from chronos.core.config import UNLIMITED, EffectiveSettings


def retry_delay_us(effective: EffectiveSettings, attempt: int, attempt_id: bytes) -> int:
    """Return the backoff after the failed attempt number ``attempt``. The jitter is a hash of the attempt's id."""
    exponent = min(attempt - 1, 64)
    delay_us = min(effective.retry_initial_us * effective.retry_multiplier**exponent, float(effective.retry_max_us))
    fraction = int.from_bytes(blake2b(attempt_id, digest_size=8).digest()) / 2**64
    return int(delay_us * (1 + effective.retry_jitter * fraction))


def has_attempts_left(effective: EffectiveSettings, attempt: int) -> bool:
    """Return whether another attempt is allowed after number ``attempt``."""
    return effective.max_attempts == UNLIMITED or attempt < effective.max_attempts
