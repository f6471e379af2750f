"""The trend of a group of dead letters: how many per day, over the last seven days."""

from collections.abc import Sequence

from markupsafe import Markup

from chronos.ui.time_text import Times

DAYS = 7
_HEIGHT = 22.0


def draw_trend(instants_us: Sequence[int], times: Times) -> Markup:
    """Draw one bar per day, today last. A day without any has no bar."""
    today = times.day_of(times.now_us)
    counts = [0] * DAYS
    for at_us in instants_us:
        age = (today - times.day_of(at_us)).days
        if 0 <= age < DAYS:
            counts[DAYS - 1 - age] += 1
    most = max(counts) or 1
    path = "".join(f"M{8 + 16 * i} 24v-{_HEIGHT * n / most:.1f}" for i, n in enumerate(counts) if n)
    return Markup(
        '<svg class="spark trend" viewBox="0 0 112 26" role="img" aria-label="Last 7 days: {}">'
        '<path class="sp base" d="M0 24.5h112"/><path class="sp w10" data-s="failed" d="{}"/></svg>'
    ).format(", ".join(map(str, counts)), path)
