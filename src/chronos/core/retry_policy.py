"""Rules for retries: whether another attempt is allowed, how long it waits, and how long it may take."""

from hashlib import blake2b

from chronos.core.config import DAY_US, UNLIMITED, EffectiveSettings

_MAX_EXPONENT = 64
_MAX_TIMEOUT_US = 36_525 * DAY_US  # a hundred years


def retry_delay_us(effective: EffectiveSettings, attempt: int, attempt_id: bytes) -> int:
    """Return the backoff after the failed attempt number ``attempt``. The jitter is a hash of the attempt's id."""
    exponent = min(attempt - 1, _MAX_EXPONENT)
    delay_us = min(effective.retry_initial_us * effective.retry_multiplier**exponent, float(effective.retry_max_us))
    fraction = int.from_bytes(blake2b(attempt_id, digest_size=8).digest()) / 2**64
    return int(delay_us * (1 + effective.retry_jitter * fraction))


def has_attempts_left(effective: EffectiveSettings, attempt: int) -> bool:
    """Return whether another attempt is allowed after number ``attempt``."""
    return effective.max_attempts == UNLIMITED or attempt < effective.max_attempts


def timeout_factor(effective: EffectiveSettings, attempt: int) -> float:
    """Return the factor by which ``retry.timeout_multiplier`` lengthens the timeout of an attempt."""
    return effective.retry_timeout_multiplier ** min(attempt - 1, _MAX_EXPONENT)


def attempt_timeout_us(effective: EffectiveSettings, attempt: int) -> int:
    """Return the task timeout of attempt number ``attempt``; 0 means no limit."""
    if attempt <= 1 or effective.retry_timeout_multiplier == 1:
        return effective.task_timeout_us
    return min(int(effective.task_timeout_us * timeout_factor(effective, attempt)), _MAX_TIMEOUT_US)
