"""The pulse of a namespace: runs per quarter of an hour over a day, with failures below the line."""

from markupsafe import Markup

from chronos.service.views.run_rows import FAILED, NOT_RUN
from chronos.service.views.run_stats import RunBucket, RunStatsAnswer
from chronos.ui.time_text import Times

_BASE, _HEIGHT, _FOOT = 26.0, 20.0, 5.0
_STEP, _BARS = 3, 96
_MAX_NAMED = 3  # times of failures in the description


def draw_pulse(stats: RunStatsAnswer, times: Times) -> Markup:
    """Draw one bar per bucket, the newest at the right edge."""
    buckets = stats.buckets[-_BARS:]
    numbers = [_count(bucket) for bucket in buckets]
    most = max((done for done, _ in numbers), default=0) or 1
    most_failed = max((failed for _, failed in numbers), default=0) or 1
    bars: list[str] = []
    feet: list[str] = []
    for index, (done, failed) in enumerate(numbers, _BARS - len(buckets)):
        x = f"{index * _STEP + 2.5:g}"
        if done:
            bars.append(f"M{x} 26V{_BASE - 1 - (_HEIGHT - 1) * done / most:.1f}")
        if failed:
            feet.append(f"M{x} 28v{1 + (_FOOT - 1) * failed / most_failed:.1f}")
    return Markup(
        '<svg class="pulse spark" viewBox="0 0 290 32" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="sp base" d="M0 26.5h290"/><path class="sp" data-s="succeeded" d="{}"/>'
        '<path class="sp" data-s="failed" d="{}"/></svg>'
    ).format(_describe(buckets, numbers, times), "".join(bars), "".join(feet))


def _count(bucket: RunBucket) -> tuple[int, int]:
    """Return the runs that ran in a bucket, and those that failed."""
    counts = bucket.counts or {}
    done = sum(number for status, number in counts.items() if status not in NOT_RUN)
    return done, sum(counts.get(status, 0) for status in FAILED)


def _describe(buckets: tuple[RunBucket, ...], numbers: list[tuple[int, int]], times: Times) -> str:
    done = [number for number, _ in numbers]
    worst = sorted((-failed, index) for index, (_, failed) in enumerate(numbers) if failed)[:_MAX_NAMED]
    at = [times.minute(buckets[index].start_us) for index in sorted(index for _, index in worst)]
    failures = f", with failures around {', '.join(at)}" if at else ", without failures"
    low, high = min(done, default=0), max(done, default=0)
    return f"Runs per 15 minutes over the last 24 hours: {low:,} to {high:,}{failures}"
