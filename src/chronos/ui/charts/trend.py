"""The trend of a group of dead letters: how many per day."""

from collections.abc import Sequence

from markupsafe import Markup

_HEIGHT = 22.0


def draw_trend(counts: Sequence[int]) -> Markup:
    """Draw one bar per day of a week, today last. A day without any has no bar."""
    most = max(counts, default=0) or 1
    path = "".join(f"M{8 + 16 * i} 24v-{_HEIGHT * n / most:.1f}" for i, n in enumerate(counts) if n)
    return Markup(
        '<svg class="spark trend" viewBox="0 0 112 26" role="img" aria-label="Last 7 days: {}">'
        '<path class="sp base" d="M0 24.5h112"/><path class="sp w10" data-s="failed" d="{}"/></svg>'
    ).format(", ".join(map(str, counts)), path)
