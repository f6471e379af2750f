"""The duration chart of a job: one mark per run, the band from p50 to p95, and where versions began."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from chronos.core.calendar import SECOND_US
from chronos.core.execution import Status
from chronos.core.schedule.durations import format_duration
from chronos.service.views.job_rows import RunMark, percentile
from chronos.ui.time_text import Times

Axis = Callable[[int], float]
_LEFT, _RIGHT, _BOTTOM, _TOP = 52.0, 950.0, 172.0, 24.0
_WINDOW = 20  # runs that the band looks back on
_MAX_LINES = 4
_MIN_RUNS = 2
_STEPS_S = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 240, 300, 600, 900, 1200, 1800, 3600,
    7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
_FAILED = (Status.FAILED, Status.STALE)


class VersionMark(NamedTuple):
    """A version of the job, and when it was saved."""

    version: int
    saved_us: int


def draw_durations(runs: Sequence[RunMark], versions: Sequence[VersionMark], times: Times) -> Markup | None:
    """Draw runs, oldest first; None if fewer than two have a duration."""
    lengths_us = [run.duration_us for run in runs if run.duration_us is not None]
    if len(lengths_us) < _MIN_RUNS:
        return None
    p95_us = percentile(sorted(lengths_us), 95) or max(lengths_us)
    step_us = _choose_step(max(1_000, min(max(lengths_us), 2 * p95_us)))
    top_us = step_us * (_MAX_LINES - 1)
    scale_x = (_RIGHT - _LEFT) / max(1, len(runs) - 1)

    def x(index: int) -> float:
        return _LEFT + index * scale_x

    def y(us: int) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * min(us, top_us) / top_us

    lines = [
        Markup('<path class="ax" d="M52 {0:.1f}H950"/><text class="end" x="44" y="{1:.1f}">{2}</text>').format(
            y(step_us * i), y(step_us * i) + 4, format_duration(step_us * i) if i else "0s"
        )
        for i in range(_MAX_LINES)
    ]
    parts = [*lines, _draw_band(runs, x, y), *_draw_versions(runs, versions, x)]
    parts += [_draw_run(run, x(index), y, top_us, times) for index, run in enumerate(runs)]
    parts += _draw_dates(runs, x, times)
    return Markup(
        '<svg class="chart" viewBox="0 0 960 196" role="img" aria-labelledby="dur-t dur-d">'
        '<title id="dur-t">Duration of the last {} runs</title><desc id="dur-d">{}</desc>{}</svg>'
    ).format(len(runs), _describe(runs), Markup("").join(parts))


def _choose_step(most_us: int) -> int:
    lines = _MAX_LINES - 1
    return next(
        (round(step * SECOND_US) for step in _STEPS_S if step * SECOND_US * lines >= most_us), most_us // lines + 1
    )


def _draw_band(runs: Sequence[RunMark], x: Axis, y: Axis) -> Markup:
    """Draw the area between p50 and p95 of the runs before each run."""
    upper: list[str] = []
    lower: list[str] = []
    for index in range(len(runs)):
        window = sorted(
            run.duration_us
            for run in runs[max(0, index - _WINDOW + 1) : index + 1]
            if run.duration_us is not None and run.status is Status.SUCCEEDED
        )
        if window:
            upper.append(f"{x(index):.1f} {y(percentile(window, 95) or 0):.1f}")
            lower.append(f"{x(index):.1f} {y(percentile(window, 50) or 0):.1f}")
    if len(upper) < _MIN_RUNS:
        return Markup("")
    return Markup('<path class="well" d="M{}L{}Z"/><path class="line" data-s="skipped" d="M{}"/>').format(
        "L".join(upper), "L".join(reversed(lower)), "L".join(lower)
    )


def _draw_versions(runs: Sequence[RunMark], versions: Sequence[VersionMark], x: Axis) -> list[Markup]:
    """Draw a line before the first run of each version."""
    marks: list[Markup] = []
    for version in versions:
        index = next((i for i, run in enumerate(runs) if run.scheduled_us >= version.saved_us), None)
        if index:  # not None, and not before the first run
            at = (x(index - 1) + x(index)) / 2
            marks.append(
                Markup(
                    '<path class="ax ver" d="M{0:.1f} 16V172"/><text class="mid" x="{0:.1f}" y="12">v{1}</text>'
                ).format(at, version.version)
            )
    return marks


def _draw_run(run: RunMark, at: float, y: Axis, top_us: int, times: Times) -> Markup:
    if run.duration_us is None:
        status = "missed" if run.status is Status.MISSED else "skipped"
        return Markup('<circle class="ring" data-s="{}" cx="{:.1f}" cy="{}" r="2.5"/>').format(status, at, _BOTTOM)
    high = y(run.duration_us)
    title = Markup("<title>{}: {}</title>").format(times.day_clock(run.scheduled_us), format_duration(run.duration_us))
    over = Markup("")
    if run.duration_us > top_us:
        over = Markup('<text class="mid on" x="{:.1f}" y="{:.1f}">▲ {}</text>').format(
            at, high - 6, format_duration(run.duration_us)
        )
    if run.status in _FAILED:
        return over + Markup('<path class="cross" data-s="failed" d="M{:.1f} {:.1f}l6 6m0-6l-6 6">{}</path>').format(
            at - 3, high - 3, title
        )
    if run.retried:
        return over + Markup('<path class="fill" data-s="retrying" d="M{:.1f} {:.1f}l4 7h-8z">{}</path>').format(
            at, high - 4, title
        )
    status = "succeeded" if run.status is Status.SUCCEEDED else "skipped"
    return over + Markup('<circle class="fill" data-s="{}" cx="{:.1f}" cy="{:.1f}" r="3">{}</circle>').format(
        status, at, high, title
    )


def _draw_dates(runs: Sequence[RunMark], x: Axis, times: Times) -> list[Markup]:
    places = ((0, ""), (len(runs) // 2, "mid"), (len(runs) - 1, "end"))
    return [
        Markup('<text class="{}" x="{:.1f}" y="192">{}</text>').format(
            anchor, x(index), times.short_date(runs[index].scheduled_us)
        )
        for index, anchor in places
    ]


def _describe(runs: Sequence[RunMark]) -> str:
    """Say what a colleague would say: the median, the p95 and the failures."""
    good = sorted(run.duration_us for run in runs if run.duration_us is not None and run.status is Status.SUCCEEDED)
    failed = sum(1 for run in runs if run.status in _FAILED)
    p50, p95 = (format_duration(percentile(good, percent) or 0) for percent in (50, 95))
    return f"{f'Median {p50}, p95 {p95}. ' if good else ''}{failed} of {len(runs)} runs failed."
