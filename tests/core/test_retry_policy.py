"""Retries: backoff and the number of attempts."""

from chronos.core import ids
from chronos.core.config import UNLIMITED, Retry, Settings, resolve_settings
from chronos.core.retry_policy import attempt_timeout_us, has_attempts_left, retry_delay_us

JOB = ids.job_id("default", "report", 1)


def test_backoff_grows_to_its_cap_with_a_little_jitter() -> None:
    effective = resolve_settings(
        Settings(retry=Retry(initial_us=1_000_000, multiplier=2.0, max_us=60_000_000, jitter=0.1))
    )
    delays = [retry_delay_us(effective, n, ids.attempt_id(JOB, "t", n)) for n in range(1, 2000)]
    for n, delay in enumerate(delays, 1):
        base = min(2 ** min(n - 1, 40), 60) * 1_000_000
        assert base <= delay <= base * 1.1
    assert len(set(delays[10:])) > 1_000
    exact = resolve_settings(Settings(retry=Retry(jitter=0.0)))
    assert [retry_delay_us(exact, n, JOB) for n in (1, 2, 3)] == [1_000_000, 2_000_000, 4_000_000]


def test_max_attempts_limits_the_attempts() -> None:
    assert [has_attempts_left(resolve_settings(), n) for n in (1, 2, 3)] == [True, True, False]
    assert has_attempts_left(resolve_settings(Settings(retry=Retry(max_attempts=UNLIMITED))), 10**6)
    assert not has_attempts_left(resolve_settings(Settings(retry=Retry(max_attempts=1))), 1)


def test_the_timeout_grows_from_attempt_to_attempt() -> None:
    def timeouts_us(multiplier: float | None, task_timeout_us: int = 1_000_000) -> list[int]:
        settings = Settings(retry=Retry(timeout_multiplier=multiplier), task_timeout_us=task_timeout_us)
        return [attempt_timeout_us(resolve_settings(settings), n) for n in (1, 2, 3, 10**6)]

    assert timeouts_us(None) == timeouts_us(1.0) == [1_000_000] * 4
    hundred_years_us = 36_525 * 86_400 * 1_000_000
    assert timeouts_us(1.5) == [1_000_000, 1_500_000, 2_250_000, hundred_years_us]
    assert timeouts_us(1000.0, task_timeout_us=0) == [0, 0, 0, 0], "no limit stays no limit"
