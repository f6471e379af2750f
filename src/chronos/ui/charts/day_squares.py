"""The calendar of a job: one square per day, weeks as columns, Monday first. The worst outcome of a day decides."""

from collections import Counter
from collections.abc import Sequence
from datetime import date

from markupsafe import Markup

from chronos.service.views.job_days import DayRow, JobDaysAnswer
from chronos.store.day_counts import DayCount
from chronos.ui.time_text import MONTHS, WEEKDAYS

_LEFT, _TOP, _STEP = 30, 18, 16
_GLYPHS = {
    "failed": "M{x4} {y4}l4 4m0-4l-4 4",
    "missed": "M{x6} {y3}v3.5m0 2.5v.1",
    "retrying": "M{x3} {y6}h5",
}
_PHRASES = (
    ("succeeded", "succeeded on the first attempt"),
    ("retrying", "succeeded after a retry"),
    ("failed", "failed"),
    ("missed", "were missed"),
    ("skipped", "were skipped"),
)


def draw_days(answer: JobDaysAnswer) -> Markup | None:
    """Draw the days of a job; None if nothing ran and nothing is planned."""
    days = _start_on_monday(answer.days)
    if not any(find_outcome(row.counts) or row.planned for row in days):
        return None
    first = days[0].day
    parts = [_draw_weekday(1), _draw_weekday(3), _draw_weekday(5), *_draw_months(days)]
    for row in days:
        week, weekday = divmod((row.day - first).days, 7)
        parts.append(_draw_day(row, _LEFT + week * _STEP, _TOP + weekday * _STEP, answer.today))
    width = _LEFT + _STEP * ((days[-1].day - first).days // 7 + 1)
    return Markup(
        '<svg class="chart heat" viewBox="0 0 {} 130" role="img" aria-labelledby="heat-t heat-d">'
        '<title id="heat-t">One square per day, from {} to {}</title><desc id="heat-d">{}</desc>{}</svg>'
    ).format(width, _name(first), _name(days[-1].day), _describe(days, answer.today), Markup("").join(parts))


def find_outcome(counts: DayCount) -> str:
    """Return the worst outcome of a day as a status; empty if nothing ended."""
    if counts.failed or counts.stale:
        return "failed"
    if counts.missed:
        return "missed"
    if counts.retried or counts.completed_with_errors:
        return "retrying"
    if counts.succeeded:
        return "succeeded"
    return "skipped" if counts.skipped or counts.canceled else ""


def _start_on_monday(days: Sequence[DayRow]) -> Sequence[DayRow]:
    return days[(7 - days[0].day.weekday()) % 7 :]


def _draw_day(row: DayRow, x: int, y: int, today: date) -> Markup:
    status = find_outcome(row.counts)
    if status == "skipped":
        square = '<rect class="cell" data-s="skipped" x="{0}.5" y="{1}.5" width="12" height="12" rx="2">{2}</rect>'
    elif status:
        square = '<rect class="cell" data-s="{3}" x="{0}" y="{1}" width="13" height="13" rx="2">{2}</rect>'
    elif row.planned != 0 and row.day >= today:
        square = '<rect class="cell plan" x="{0}.5" y="{1}.5" width="12" height="12" rx="2">{2}</rect>'
    else:
        square = '<rect class="cell" x="{0}" y="{1}" width="13" height="13" rx="2">{2}</rect>'
    drawn = Markup(square).format(x, y, Markup("<title>{}</title>").format(_describe_day(row)), status)
    if status in _GLYPHS:
        path = _GLYPHS[status].format(x3=x + 4, x4=x + 4.5, x6=x + 6.5, y3=y + 3.5, y4=y + 4.5, y6=y + 6.5)
        drawn += Markup('<path class="glyph" d="{}"/>').format(path)
    elif status == "skipped":
        drawn += Markup('<path class="cross thin" data-s="skipped" d="M{} {}l5-5"/>').format(x + 4, y + 9)
    if row.clock_changes and row.day > today:
        drawn += Markup('<path class="dot" d="M{} {}l3 3-3 3-3-3z"/>').format(x + 6.5, y + 3.5)
    if row.day == today:
        drawn += Markup('<rect class="today" x="{}" y="{}" width="16" height="16" rx="3"/>').format(x - 1.5, y - 1.5)
    return drawn


def _draw_weekday(number: int) -> Markup:
    return Markup('<text x="0" y="{}">{}</text>').format(_TOP + (number - 1) * _STEP + 10, WEEKDAYS[number - 1])


def _draw_months(days: Sequence[DayRow]) -> list[Markup]:
    """Name each month above its first whole week."""
    first = days[0].day
    names: list[Markup] = []
    for row in days:
        if row.day.weekday() == 0 and row.day.day <= 7:
            year = f" {row.day.year}" if row.day.month == 1 else ""
            x = _LEFT + (row.day - first).days // 7 * _STEP
            names.append(Markup('<text x="{}" y="11">{}{}</text>').format(x, MONTHS[row.day.month - 1], year))
    return names


def _describe_day(row: DayRow) -> str:
    counts = row.counts
    parts = [
        (counts.succeeded, "succeeded"),
        (counts.completed_with_errors, "completed with errors"),
        (counts.failed + counts.stale, "failed"),
        (counts.missed, "missed"),
        (counts.skipped, "skipped"),
        (counts.canceled, "canceled"),
    ]
    texts = [f"{number:,} {word}" for number, word in parts if number]
    if row.planned is None:
        texts.append("many planned")
    elif row.planned:
        texts.append(f"{row.planned:,} planned")
    if row.clock_changes:
        texts.append("the clock changes")
    return f"{_name(row.day)}: {', '.join(texts) or 'no runs'}"


def _describe(days: Sequence[DayRow], today: date) -> str:
    """Say what a colleague would say about the days."""
    past = Counter(find_outcome(row.counts) for row in days if row.day <= today)
    listed = ", ".join(f"{past[status]} {phrase}" for status, phrase in _PHRASES if past[status])
    planned = sum(1 for row in days if row.day > today and row.planned != 0)
    whole = sum(number for status, number in past.items() if status)
    return f"Of {whole} days with runs, {listed or 'none ended'}. {planned} more days are planned."


def _name(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}"
