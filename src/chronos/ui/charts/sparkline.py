"""The sparkline of a job: its last 60 runs, height by duration, shape and colour by outcome.

Bars are 3 px wide and 1 px apart on a baseline at y = 20; a foot below it marks runs that failed or were missed. One
path per status keeps a hundred rows small.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from chronos.core.execution import Status
from chronos.service.views.job_rows import RunMark

LENGTH = 60
_WIDTH, _BASE = 240, 20
_STEP = _WIDTH / LENGTH
_FAILED = (Status.FAILED, Status.STALE)
_PHRASES = {
    "succeeded": "succeeded",
    "retrying": "succeeded after retries",
    "completed_with_errors": "completed with errors",
    "failed": "failed",
    "missed": "missed",
    "skipped": "skipped",
    "canceled": "canceled",
}


def draw_sparkline(runs: Sequence[RunMark]) -> Markup:
    """Draw runs, oldest first. The newest is at the right edge."""
    shown = runs[-LENGTH:]
    longest_us = max((run.duration_us or 0 for run in shown), default=0)
    paths: dict[str, list[str]] = {}
    for index, run in enumerate(shown, LENGTH - len(shown)):
        x = f"{_STEP * index + 1.5:g}"
        top = _BASE - _bar_height(run.duration_us or 0, longest_us)
        for status, path in _draw_run(run, x, top):
            paths.setdefault(status, []).append(path)
    body = "".join(
        f'<path class="sp{" thin" if status == "skipped" else ""}" data-s="{status}" d="{"".join(parts)}"/>'
        for status, parts in paths.items()
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 240 26" role="img" aria-label="{}">'
        '<path class="sp base" d="M0 20.5h240"/>{}</svg>'
    ).format(describe_runs(shown), Markup(body))


def describe_runs(runs: Sequence[RunMark]) -> str:
    """``Last 60 runs: 58 succeeded, 2 failed``."""
    counts = Counter(_name(run) for run in runs)
    listed = ", ".join(f"{counts[name]:,} {phrase}" for name, phrase in _PHRASES.items() if counts[name])
    return f"Last {len(runs)} runs: {listed}" if len(runs) != 1 else f"Last run: {listed}"


def _name(run: RunMark) -> str:
    if run.status in _FAILED:
        return "failed"
    if run.status is Status.SUCCEEDED and run.retried:
        return "retrying"
    return run.status.name.lower()


def _bar_height(duration_us: int, longest_us: int) -> float:
    """Return 3 to 17 px, on a logarithmic scale up to the longest run of the window."""
    share = duration_us / longest_us if longest_us else 0
    return 3 + 14 * math.log(1 + 9 * share) / math.log(10)


def _draw_run(run: RunMark, x: str, top: float) -> Iterable[tuple[str, str]]:
    """Yield the marks of one run: status and path."""
    name, top_text = _name(run), f"{top:.1f}".removesuffix(".0")
    match name:
        case "failed":
            yield "failed", f"M{x} 20V{top_text}M{x} 22v4"
        case "missed":
            yield "missed", f"M{x} 22v4"
        case "skipped" | "canceled":
            yield "skipped", f"M{float(x) - 1.5:g} 18.5h3"
        case "retrying":
            yield "succeeded", f"M{x} 20V{top_text}"
            yield "retrying", f"M{x} {top - 1:.1f}v-4"
        case _:
            yield name, f"M{x} 20V{top_text}"
