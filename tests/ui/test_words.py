"""Times, filters, logs and errors in words."""

import pytest

from chronos.core.calendar import SECOND_US
from chronos.core.schedule.timezones import get_zone
from chronos.service.views.dead_letter_groups import to_error_key
from chronos.store.commands import OutputRow
from chronos.ui.filter_text import read_filter
from chronos.ui.log_lines import MAX_LINE, WINDOW, read_window
from chronos.ui.renderer import brief_schedule, count_text, plural
from chronos.ui.time_text import DAY_US, HOUR_US, MINUTE_US, Times

NOW_US = 1_794_858_190 * SECOND_US  # Mon 16 Nov 2026 19:43:10 UTC
PARIS = Times(get_zone("Europe/Paris"), NOW_US)


@pytest.mark.parametrize(
    ("by_us", "clock"),
    [
        (0, "20:43:10"),
        (50 * SECOND_US, "20:44"),
        (4 * HOUR_US, "tomorrow 00:43:10"),
        (-DAY_US, "yesterday 20:43:10"),
        (3 * DAY_US, "Thu 20:43:10"),
        (-6 * DAY_US, "Tue 20:43:10"),
        (30 * DAY_US, "16 Dec 20:43:10"),
        (60 * DAY_US, "15 Jan 2027 20:43:10"),
    ],
)
def test_a_clock_is_as_short_as_it_is_clear(by_us: int, clock: str) -> None:
    assert PARIS.clock(NOW_US + by_us) == clock


@pytest.mark.parametrize(
    ("by_us", "short", "long"),
    [
        (42 * SECOND_US, "in 42s", "in 42s"),
        (12 * MINUTE_US, "in 12m", "in 12m"),
        (5 * HOUR_US + 17 * MINUTE_US + 3 * SECOND_US, "in 5h", "in 5h 17m"),
        (3 * DAY_US, "in 3d", "in 3d"),
        (-SECOND_US, "now", "now"),
    ],
)
def test_a_countdown_has_one_unit_in_lists_and_two_in_facts(by_us: int, short: str, long: str) -> None:
    assert (PARIS.until(NOW_US + by_us), PARIS.until_long(NOW_US + by_us)) == (short, long)


def test_a_tooltip_says_everything() -> None:
    assert PARIS.title(NOW_US) == "Mon 16 Nov 2026 20:43:10 +01:00 · 19:43:10 UTC"
    assert PARIS.zone_name() == "Europe/Paris (UTC+1)"
    assert Times(get_zone("Asia/Kathmandu"), NOW_US).zone_name() == "Asia/Kathmandu (UTC+5:45)"
    assert Times(get_zone("America/St_Johns"), NOW_US).zone_name() == "America/St_Johns (UTC−3:30)"
    assert Times(get_zone("UTC"), NOW_US).zone_name() == "UTC"


def test_a_filter_is_words_and_tokens() -> None:
    found = read_filter("tag:billing export status:failing nightly", ("tag", "status"), {"status": ("failing",)})
    assert (found.words, found.tokens) == ("export nightly", {"tag": "billing", "status": "failing"})
    assert found.with_token("tag", None) == "export status:failing nightly"
    assert found.with_token("status", "late") == "tag:billing export nightly status:late"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tga:x", '"tga:x" is not a filter. Did you mean tag:?'),
        ("zzz:x", '"zzz:x" is not a filter. Known: tag:, status:.'),
        ("tag:", '"tag:" needs a value.'),
        ("status:failling", 'status is "failling". Did you mean failing?'),
    ],
)
def test_a_token_that_is_not_understood_is_named(text: str, fault: str) -> None:
    found = read_filter(text, ("tag", "status"), {"status": ("failing", "late")})
    assert found.faults == (fault,)
    assert not found.tokens


def _rows(*texts: str) -> list[OutputRow]:
    return [OutputRow(bytes(16), "main", number, 0, text) for number, text in enumerate(texts, 1)]


def test_a_log_is_shown_by_windows() -> None:
    rows = _rows("".join(f"line {number}\n" for number in range(1, 1_201)))
    end = read_window(rows, task="main")
    assert (end.total, end.before, end.after, len(end.lines)) == (1_200, 700, 0, WINDOW)
    assert end.lines[-1].number == 1_200
    start = read_window(rows, task="main", from_end=False)
    assert (start.before, start.after, start.lines[0].number) == (0, 700, 1)
    middle = read_window(rows, task="main", first=600)
    assert (middle.before, middle.lines[0].number) == (599, 600)
    found = read_window(rows, task="main", search="LINE 119")
    assert found.matches == 11
    assert "<mark>line 119</mark>0" in found.lines[-10].html


def test_hostile_output_is_harmless() -> None:
    text = "\x1b[31mred\x1b[0m \x1b]0;title\x07 <script>x</script> \x1b[2J\x9b1m\x00\n" + "y" * (1 << 20)
    window = read_window(_rows(text), task="main")
    first, second = window.lines
    assert first.html == '<span class="a" data-s="failed">red</span>  &lt;script&gt;x&lt;/script&gt; 1m'
    assert second.is_cut
    assert len(second.html) == MAX_LINE
    assert len(read_window(_rows(text), task="main", long_line=2).lines[1].html) == 1 << 20


def test_attempts_are_separated() -> None:
    window = read_window(_rows("one\n", "two\n"), task="main")
    assert [(line.number, str(line.html)) for line in window.lines] == [
        (None, "Attempt 1"),
        (1, "one"),
        (None, "Attempt 2"),
        (2, "two"),
    ]
    assert [line.number for line in read_window(_rows("one\n", "two\n"), task="main", attempt=2).lines] == [1]
    assert not read_window([], task="main").lines


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ('Task "load" failed after 3 attempts: HTTP 503: "read-only"', "load: HTTP 503: <text>"),
        ('Task "pay" failed after 2 attempts: HTTP 502: "no"', "pay: HTTP 502: <text>"),
        ("exited with code 255 after 12.5s", "exited with code <n> after <n>s"),
    ],
)
def test_dead_letters_are_grouped_by_task_and_error(message: str, key: str) -> None:
    assert to_error_key(message) == key


def test_numbers_and_schedules() -> None:
    assert [count_text(10_001, 10_000), count_text(1_284), plural(1, "run"), plural(2, "run")] == [
        "10,000+",
        "1,284",
        "1 run",
        "2 runs",
    ]
    assert brief_schedule("Daily at 02:00, from 2026-11-16T00:00:00Z, except 2026-12-25") == "Daily at 02:00"
    assert brief_schedule("Every 5 minutes") == "Every 5 minutes"
