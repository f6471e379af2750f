"""The gantt chart of a run: one row per task, one bar per attempt, elbow lines from the tasks that each one needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from chronos.core.calendar import SECOND_US
from chronos.core.schedule.durations import format_duration
from chronos.ui.status_words import find_word

MAX_ROWS = 40
_LEFT, _RIGHT, _WIDTH = 132.0, 880.0, 960
_ROW, _TOP = 30, 18
_STEPS_S = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
_MAX_TICKS = 6
_MIN_BAR = 2.0
_FAILED = ("failed", "timed_out", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class GanttBar:
    """One attempt. ``end_us`` None: in progress."""

    number: int
    status: str
    start_us: int
    end_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GanttTask:
    """One task and its attempts, oldest first."""

    name: str
    status: str
    bars: Sequence[GanttBar]
    needs: Sequence[str] = ()


def choose_rows(tasks: Sequence[GanttTask]) -> list[GanttTask]:
    """Return the tasks to draw: all of a small run, else those in trouble and the longest ones, in their order."""
    if len(tasks) <= MAX_ROWS:
        return list(tasks)
    ranked = sorted(tasks, key=lambda task: (task.status not in _FAILED, -_length_us(task)))
    chosen = {task.name for task in ranked[:MAX_ROWS]}
    return [task for task in tasks if task.name in chosen]


def draw_gantt(tasks: Sequence[GanttTask], now_us: int) -> Markup | None:
    """Draw the tasks of a run; None if none has started."""
    rows = choose_rows(tasks)
    bars = [bar for task in rows for bar in task.bars]
    if not bars:
        return None
    start_us = min(bar.start_us for bar in bars)
    end_us = max(start_us + 1_000, *(bar.end_us or now_us for bar in bars))
    scale = (_RIGHT - _LEFT) / (end_us - start_us)
    height = _TOP + len(rows) * _ROW + 12

    def x(us: int) -> float:
        return _LEFT + (us - start_us) * scale

    parts = [_draw_axis(end_us - start_us, scale, height)]
    parts += [_draw_row(index, task, now_us, x) for index, task in enumerate(rows)]
    parts.append(_draw_needs(rows, now_us, x))
    return Markup(
        '<svg class="chart gantt" viewBox="0 0 {} {}" role="img" aria-labelledby="g-t g-d">'
        '<title id="g-t">Task timeline</title><desc id="g-d">{}</desc>{}</svg>'
    ).format(_WIDTH, height, _describe(rows, now_us), Markup("").join(parts))


def _draw_axis(length_us: int, scale: float, height: int) -> Markup:
    step_us = next(
        (round(step * SECOND_US) for step in _STEPS_S if length_us <= step * SECOND_US * _MAX_TICKS),
        length_us // _MAX_TICKS + 1,
    )
    ticks = range(0, length_us + 1, max(1, step_us))
    return Markup("").join(
        Markup('<path class="ax" d="M{0:.1f} 18V{1}"/><text class="mid" x="{0:.1f}" y="12">+{2}</text>').format(
            _LEFT + at_us * scale, height, format_duration(at_us) if at_us else "0s"
        )
        for at_us in ticks
    )


def _draw_row(index: int, task: GanttTask, now_us: int, x: Callable[[int], float]) -> Markup:
    top = _TOP + index * _ROW
    out = [
        Markup('<path class="ax" d="M0 {}H{}"/>').format(top + 36, _WIDTH),
        Markup('<text class="t" x="0" y="{}">{}</text>').format(top + 25, _shorten(task.name)),
    ]
    for before, after in zip(task.bars, task.bars[1:], strict=False):
        if before.end_us is not None:
            out.append(
                Markup('<path class="back" d="M{:.1f} {}H{:.1f}"/>').format(
                    x(before.end_us) + 1, top + 21, x(after.start_us)
                )
            )
    out += [_draw_bar(task, bar, top + 14, now_us, x) for bar in task.bars]
    if task.bars:
        last_us = max(bar.end_us or now_us for bar in task.bars)
        out.append(
            Markup('<text x="{:.1f}" y="{}">{}</text>').format(
                x(last_us) + 7, top + 25, format_duration(_length_us(task, now_us))
            )
        )
    return Markup("").join(out)


def _draw_bar(task: GanttTask, bar: GanttBar, y: int, now_us: int, x: Callable[[int], float]) -> Markup:
    end_us = bar.end_us or now_us
    left, width = x(bar.start_us), max(_MIN_BAR, x(end_us) - x(bar.start_us))
    word = find_word(bar.status)
    spent = format_duration(max(0, end_us - bar.start_us))
    title = f"{task.name}, attempt {bar.number}: {word.word.lower()} after {spent}"
    drawn = Markup(
        '<rect class="bar" data-s="{}" x="{:.1f}" y="{}" width="{:.1f}" height="14" rx="2"><title>{}</title></rect>'
    ).format(word.s, left, y, width, title)
    if bar.status in _FAILED and width >= 14:
        drawn += Markup('<path class="glyphx" d="M{:.1f} {}l6 6m0-6l-6 6"/>').format(left + width - 9, y + 4)
    return drawn


def _draw_needs(rows: Sequence[GanttTask], now_us: int, x: Callable[[int], float]) -> Markup:
    """Draw a line from the end of each needed task to the start of the task that needs it."""
    places = {task.name: (index, task) for index, task in enumerate(rows)}
    lines: list[Markup] = []
    for index, task in enumerate(rows):
        for need in task.needs:
            if not task.bars or need not in places or not places[need][1].bars or places[need][0] >= index:
                continue
            above, needed = places[need]
            at = min(x(max(bar.end_us or now_us for bar in needed.bars)), x(task.bars[0].start_us)) - 3
            y1, y2 = _TOP + above * _ROW + 28, _TOP + index * _ROW + 21
            lines.append(Markup('<path class="need" d="M{:.1f} {}V{}h3"/>').format(at, y1, y2))
    return Markup("").join(lines)


def _describe(rows: Sequence[GanttTask], now_us: int) -> str:
    """Describe the tasks as a colleague would: name, time and outcome."""
    texts = []
    for task in rows:
        if not task.bars:
            texts.append(f"{task.name} has not started")
            continue
        spent = format_duration(_length_us(task, now_us))
        attempts = f" in {len(task.bars)} attempts" if len(task.bars) > 1 else ""
        texts.append(f"{task.name} {find_word(task.status).word.lower()} after {spent}{attempts}")
    return "; ".join(texts) + "."


def _length_us(task: GanttTask, now_us: int = 0) -> int:
    if not task.bars:
        return 0
    return max(0, max(bar.end_us or now_us for bar in task.bars) - task.bars[0].start_us)


def _shorten(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"
