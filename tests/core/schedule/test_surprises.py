"""Surprises: a warning where the reading differs from what the author may think, and none elsewhere."""

from datetime import UTC, datetime
from typing import Any

import pytest

from chronos import parse_schedule
from chronos.core.calendar import to_us
from chronos.core.schedule.surprises import find_surprises

NOW_US = to_us(datetime(2027, 1, 1, tzinfo=UTC))


def warnings(expression: str | list[str], dialect: str = "auto", **options: Any) -> list[tuple[str, str]]:
    found = find_surprises(parse_schedule(expression, dialect=dialect, **options), dialect, NOW_US)
    return [(surprise.kind.value, surprise.message) for surprise in found]


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        (
            "0 0 12 ? * 2-6",
            "quartz_weekdays",
            'weekday "2-6" means Tue to Sat here and Mon to Fri in Quartz; '
            "write names, as in MON-FRI, or use the dialect quartz",
        ),
        ("0 12 ? * 1,3", "quartz_weekdays", 'weekday "1,3" means Mon, Wed here and Sun, Tue in Quartz'),
        ("0 0 12 ? * 6#3", "quartz_weekdays", 'weekday "6#3" is a day later here than in Quartz'),
        ("0 0 12 ? * 6L 2027", "quartz_weekdays", 'weekday "6L" is a day later'),
        (
            "*/90 * * * *",
            "step_beyond_field",
            'minute "*/90" has a step beyond its range, so it is only 0; for an interval, write "@every 90m"',
        ),
        ("0 */36 * * *", "step_beyond_field", 'hour "*/36" has a step beyond its range, so it is only 0'),
        ("0 0 */45 * *", "step_beyond_field", 'for an interval, write "P45D"'),
        ("0 0 1 */18 *", "step_beyond_field", 'so it is only 1; for an interval, write "P18M"'),
        ("0 9-12/5,15 * * *", "step_beyond_field", 'hour "9-12/5" has a step beyond its range, so it is only 9'),
        (
            "0 0 */2 * MON",
            "day_and_weekday",
            'day "*/2" and weekday "MON" must both match here; Go and Kubernetes run when either matches',
        ),
        ("CRON_TZ=Asia/Tokyo 0 0 1 * */2", "day_and_weekday", 'day "1" and weekday "*/2" must both match'),
        ("0 0 0 1 1 ? 2020-2026", "ended", "its last run is in the past: it has no year after 2026"),
        ("daily at 9am until 2020-01-01", "ended", "its end, 2020-01-01T23:59:59.999999Z, is in the past"),
    ],
)
def test_surprises(expression: str, kind: str, message: str) -> None:
    [(found_kind, found_message)] = warnings(expression)
    assert found_kind == kind
    assert message in found_message


def test_an_end_in_the_past() -> None:
    message = "its end, 2026-12-31T00:00:00Z, is in the past, so it does not run"
    assert warnings("@daily", end="2026-12-31") == [("ended", message)]
    assert warnings("@daily", end="2027-01-01") == []


@pytest.mark.parametrize(
    "expression",
    [
        *("0 0 12 ? * MON-FRI", "0 0 12 ? * MON#2", "0 0 12 ? * 0", "0 0 12 ? * 1-7", "0 0 12 ? * */2"),
        *("0 0 12 1 * ?", "*/15 * * * *", "0 */12 * * *", "*/59 * * * *", "0 0 */2 * *", "0 0 * * */2", "0 0 1,15 * 1"),
        *("0 0 */2 * ?", "H/15 H * * *", "@daily", "@every 90m", "P45D", "every day", "0 0 9 * * * 2030", "R5/PT6H"),
    ],
)
def test_plain_schedules_do_not_surprise(expression: str) -> None:
    assert warnings(expression) == []


def test_every_member_of_a_union_is_examined() -> None:
    assert [kind for kind, _ in warnings(["*/90 * * * *", "@daily", "0 0 12 ? * 2"])] == [
        "step_beyond_field",
        "quartz_weekdays",
    ]


def test_other_dialects() -> None:
    assert warnings("0 0 12 ? * 2-6", "quartz") == []
    assert warnings("0 12 ? * 2-6", "standard") == []
    assert [kind for kind, _ in warnings("*/90 * * * *", "standard")] == ["step_beyond_field"]
    assert [kind for kind, _ in warnings("0 0 */99 ? * 2", "quartz")] == ["step_beyond_field"]
    assert warnings("1 2 * * *", "posix") == []
