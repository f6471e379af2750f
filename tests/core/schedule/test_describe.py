"""Descriptions: exact words for common schedules, and words that read back to the same schedule for all."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from chronos import InvalidSchedule, Schedule, parse_schedule
from chronos.core.schedule.timezones import zone_names

WORDS = [
    # Times of a day.
    ("0 9 * * 1-5", "Weekdays at 09:00"),
    ("30 2 * * *", "Daily at 02:30"),
    ("@daily", "Daily at 00:00"),
    ("@weekly", "Sundays at 00:00"),
    ("@monthly", "Monthly on the 1st at 00:00"),
    ("@yearly", "Yearly on 1 January at 00:00"),
    ("0 9,12,17 * * *", "Daily at 09:00, 12:00 and 17:00"),
    ("0,30 9,10 * * *", "Daily at 09:00, 09:30, 10:00 and 10:30"),
    ("30 0 9 * * 1", "Mondays at 09:00:30"),
    ("*/60 9 * * *", "Daily at 09:00, at real intervals"),
    ("0 */5 * * *", "Daily at 00:00, 05:00, 10:00, 15:00 and 20:00, at real intervals"),
    # Intervals by the clock.
    ("* * * * *", "Every minute"),
    ("*/5 * * * *", "Every 5 minutes"),
    ("@hourly", "Every hour"),
    ("0 */2 * * *", "Every 2 hours"),
    ("* * * * * *", "Every second"),
    ("*/30 * * * * *", "Every 30 seconds"),
    ("*/15 * * * 1-5", "Every 15 minutes on weekdays"),
    ("*/15 9-16 * * 1-5", "Every 15 minutes from 09:00 to 16:45 on weekdays"),
    ("*/5 8-18 * * 1-6", "Every 5 minutes from 08:00 to 18:55, Mon to Sat"),
    ("* 9 * * *", "Every minute from 09:00 to 09:59"),
    ("0 9-17 * * *", "Every hour from 09:00 to 17:00"),
    ("30 8-18/2 * * *", "Every 2 hours from 08:30 to 18:30"),
    # Minutes of the hour, seconds of the minute.
    ("5 * * * *", "Every hour at minute 5"),
    ("15 */3 * * *", "Every 3 hours at minute 15"),
    ("5 */12 * * 1", "Every 12 hours at minute 5 on Mondays"),
    ("*/7 * * * *", "Every hour at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56"),
    ("30 * * * * *", "Every minute at second 30"),
    ("5,30 */10 * * * *", "Every 10 minutes at seconds 5 and 30"),
    # Systematically.
    ("*/5 9,12 * * *", "Every 5 minutes of hours 9 and 12"),
    ("3,7,20-27 2-6 * * *", "At minutes 3, 7 and 20 to 27 of hours 2 to 6"),
    ("0-59 0-23 * * *", "At minutes 0 to 59 of hours 0 to 23"),
    ("*/10 */30 9 * * *", "Every 10 seconds of every 30th minute of hour 9"),
    ("15,45 3,7,20-27 2-6 * * 0", "At seconds 15 and 45 of minutes 3, 7 and 20 to 27 of hours 2 to 6 on Sundays"),
    # Days of the week.
    ("0 7 * * 1", "Mondays at 07:00"),
    ("0 8 * * 1,4", "Mondays and Thursdays at 08:00"),
    ("0 8 * * 0,6", "Weekends at 08:00"),
    ("0 9 * * 1-4", "Mon to Thu at 09:00"),
    ("0 8 * * 0,1-3,5", "Mon to Wed, Fri and Sun at 08:00"),
    ("0 9 * * MON#1,MON#3", "Monthly on the first and third Monday at 09:00"),
    ("0 9 * * MON#2,5L", "Monthly on the second Monday and the last Friday at 09:00"),
    ("0 9 * * 1-3,5L", "Mon to Wed and the last Friday of the month at 09:00"),
    ("0 9 * * 1,5L", "Mondays and the last Friday of the month at 09:00"),
    # Days of the month.
    ("0 4 1 * *", "Monthly on the 1st at 04:00"),
    ("0 0 1,15 * *", "Monthly on the 1st and 15th at 00:00"),
    ("0 0 1,15,L * *", "Monthly on the 1st, 15th and last day at 00:00"),
    ("0 0 L * *", "Monthly on the last day at 00:00"),
    ("0 0 20-25 * *", "Monthly on the 20th to 25th at 00:00"),
    ("0 0 */4 * *", "Monthly on days 1, 5, 9, 13, 17, 21, 25 and 29 at 00:00"),
    (
        "0 0 L-3,15W,LW * *",
        "Monthly on the weekday nearest to the 15th, the last weekday and the 3rd day before the last day at 00:00",
    ),
    ("0 0 1W * *", "Monthly on the first weekday at 00:00"),
    ("*/15 * 1 * *", "Every 15 minutes on the 1st of the month"),
    ("0 0 1,15 * 1", "On the 1st and 15th of the month or on Mondays at 00:00"),
    ("0 0 1-31 * 1", "On the 1st to 31st of the month or on Mondays at 00:00"),
    ("0 0 1 * 1-4", "On the 1st of the month or Mon to Thu at 00:00"),
    ("0 0 1 * 1-5", "On the 1st of the month or on weekdays at 00:00"),
    ("0 0 */10 * 1,2", "On the 1st, 11th, 21st and 31st of the month if it is Monday or Tuesday, at 00:00"),
    # Months.
    ("0 0 L-3W * *", "Monthly on the weekday nearest to the 3rd day before the last day at 00:00"),
    ("0 12 25 12 *", "Yearly on 25 December at 12:00"),
    ("0 12 1,15 1 *", "Yearly on the 1st and 15th of January at 12:00"),
    ("0 0 1 1,7 *", "On the 1st of January and July at 00:00"),
    ("0 9 * 1,7 *", "Daily at 09:00 in January and July"),
    ("0 9 * 6-8 1-5", "Weekdays at 09:00 in June to August"),
    ("0 2 * 3 0#2", "Yearly on the second Sunday of March at 02:00"),
    ("*/15 * * 6-8 1", "Every 15 minutes on Mondays in June to August"),
    ("*/15 * 25 12 *", "Every 15 minutes on 25 December"),
    ("0 0 1 1 1", "On the 1st of the month or on Mondays at 00:00 in January"),
    # Years.
    ("0 0 9 * * * 2027", "Daily at 09:00, in 2027"),
    ("0 */15 * 1 6 ? 2027-2029,2035", "Every 15 minutes on 1 June, in the years 2027 to 2029 and 2035"),
    # Intervals from a start.
    ("@every 5d", "Every 120 hours"),
    ("@every 5m to 10m", "Every 5 to 10 minutes"),
    ("every 90 seconds to 1 hour", "Every 90 seconds to 1 hour"),
    ("every 2 days at 10:30", "Every 2 days at 10:30"),
    ("every 3 months at noon, 4 times", "Every 3 months at 12:00, 4 times"),
    ("@every 90s", "Every 90 seconds"),
    ("@every 1h30m", "Every 1 hour 30 minutes"),
    ("@every 24h", "Every 24 hours"),
    ("@every 15m", "Every 15 minutes from the start"),
    ("@every 1.5ms", "Every 1 millisecond 500 microseconds"),
    ("P2W", "Every 2 weeks"),
    ("P1D", "Every day from the start"),
    ("P7D", "Every 7 days"),
    ("P1Y2M3DT4H5M6S", "Every 1 year 2 months 3 days 4 hours 5 minutes 6 seconds"),
    ("PT6H", "Every 6 hours by the calendar"),
    ("R5/PT6H", "Every 6 hours, 5 times"),
    ("R/2026-01-31T09:00:00Z/P1M", "Every month, counted from 2026-01-31T09:00:00Z"),
    # One time only.
    ("2027-01-01T00:00:00Z", "Once at 2027-01-01T00:00:00Z"),
    ("in 2 hours", "In 2 hours"),
    ("in 3 days at 8am", "In 3 days at 08:00"),
    ("tomorrow at noon", "Tomorrow at 12:00"),
    # Unions.
    ("0 9 * * *; also Mondays at 17:30", "Daily at 09:00, Europe/Paris; also Mondays at 17:30"),
]


@pytest.mark.parametrize(("expression", "words"), WORDS)
def test_description_of_a_rule(expression: str, words: str) -> None:
    schedule = parse_schedule(expression, timezone="Europe/Paris")
    assert schedule.describe() == f"{words}, Europe/Paris"
    assert parse_schedule(schedule.describe()) == schedule


# Descriptions of earlier versions, which users may have saved as schedules in plain words.
FORMER_WORDS = [
    ("0 9 * * 1-5", "at 09:00, Monday to Friday"),
    ("0 9 * * *", "at 09:00, every day"),
    ("@weekly", "at 00:00, every Sunday"),
    ("@monthly", "at 00:00, on the 1st of every month"),
    ("@yearly", "at 00:00, on the 1st of January"),
    ("*/60 9 * * *", "at 09:00, every day, at real intervals"),
    ("*/15 9-16 * * 1-5", "every 15 minutes from 09:00 to 16:45, Monday to Friday"),
    ("5 * * * *", "at minute 5 of every hour"),
    ("5 */2 * * *", "at minute 5 of every 2nd hour"),
    ("30 * * * * *", "at second 30 of every minute"),
    ("15,45 3,7,20-27 2-6 * * 0", "at seconds 15 and 45 of minutes 3, 7 and 20 to 27 of hours 2 to 6, every Sunday"),
    ("0 8 * * 0,1-3,5", "at 08:00, Monday to Wednesday, Friday and Sunday"),
    ("0 0 1,15,L * *", "at 00:00, on the 1st, the 15th and the last day of every month"),
    ("0 0 */4 * *", "at 00:00, on days 1, 5, 9, 13, 17, 21, 25 and 29 of every month"),
    ("0 9 * * MON#2,5L", "at 09:00, on the second Monday and the last Friday of every month"),
    ("0 9 * * 1-3,5L", "Mon to Wed and the last Friday of the month at 09:00"),
    ("0 9 * * 1,5L", "at 09:00, every Monday and the last Friday of the month"),
    ("0 0 1,15 * 1", "at 00:00, on the 1st and the 15th of the month or every Monday"),
    ("0 0 */10 * 1,2", "at 00:00, on the 1st, the 11th, the 21st and the 31st of the month if it is Monday or Tuesday"),
    ("0 9 * 1,7 *", "at 09:00, every day, in January and July"),
    ("*/15 * * 6-8 1", "every 15 minutes, every Monday, in June to August"),
    ("@every 15m", "at intervals of 15 minutes"),
    ("P1D", "at intervals of 1 day"),
    ("PT6H", "at calendar intervals of 6 hours"),
    ("1-57/4 * * * *", 'as the cron expression "1-57/4 * * * *"'),
]


@pytest.mark.parametrize(("expression", "words"), FORMER_WORDS)
def test_former_description_still_reads_back(expression: str, words: str) -> None:
    assert parse_schedule(f"{words}, Europe/Paris") == parse_schedule(expression, timezone="Europe/Paris")


START, END = "2027-01-01T00:05:00Z", "2027-12-31T23:59:59.999999Z"


@pytest.mark.parametrize(
    ("expression", "options", "words"),
    [
        ("0 9 * * *", {"start": START, "end": END}, f"Daily at 09:00, from {START}, until {END}, UTC"),
        ("*/15 * * * *", {"start": START}, f"Every 15 minutes by the clock, from {START}, UTC"),
        ("@every 15m", {"start": START}, f"Every 15 minutes, from {START}, UTC"),
        ("*/15 * * * 1", {"start": START}, f"Every 15 minutes on Mondays, from {START}, UTC"),
        ("P1M", {"start": START}, f"Every month, from {START}, UTC"),
        ("PT6H", {"start": START}, f"Every 6 hours by the calendar, from {START}, UTC"),
        ("in 2 hours", {"start": START}, f"In 2 hours, from {START}, UTC"),
        ("every 2 days at 10:30", {"start": START}, f"Every 2 days at 10:30, from {START}, UTC"),
        ("every 5 to 10 minutes", {"start": START}, f"Every 5 to 10 minutes, from {START}, UTC"),
        (
            ["@daily", "@hourly"],
            {"end": END, "jitter": "5s"},
            f"Daily at 00:00, until {END}, with jitter up to 5 seconds, UTC; "
            f"also every hour, until {END}, with jitter up to 5 seconds, UTC",
        ),
        (
            "30 2 * * *",
            {"dst": "literal", "jitter": "90s"},
            "Daily at 02:30, taking clock changes literally, with jitter up to 90 seconds, UTC",
        ),
        (
            "@hourly",
            {"exclude": ["2026-12-25", "2026-12-31..2027-01-02", "* 9-16 * * MON-FRI"]},
            'Every hour, except 2026-12-25, 2026-12-31 to 2027-01-02 and "* 9-16 * * 1-5", UTC',
        ),
    ],
)
def test_description_of_window_policy_and_exclusions(
    expression: str | list[str], options: dict[str, Any], words: str
) -> None:
    schedule = parse_schedule(expression, **options)
    assert schedule.describe() == words
    assert parse_schedule(words) == schedule


def test_long_lists_are_described_by_the_cron_expression() -> None:
    odd = ",".join(str(n) for n in range(1, 60, 2) if n not in (7, 31))
    schedule = parse_schedule(f"{odd} {odd} * * * *")
    assert schedule.describe().startswith('Cron expression "1-57/4,')
    assert parse_schedule(schedule.describe()) == schedule


def test_schedules_that_do_not_read_back_have_a_description() -> None:
    never = parse_schedule("0 0 30 2 *", dialect="posix")
    assert never.describe() == "Yearly on 30 February at 00:00, UTC"
    many = parse_schedule("@daily", exclude=[f"{year}-01-01" for year in range(2027, 2058)])
    assert len(many.describe()) > 256


def items(low: int, high: int) -> st.SearchStrategy[str]:
    """Generate an item of a cron field."""
    number = st.integers(low, high)
    step = st.integers(1, high + 2)
    return st.one_of(
        number.map(str),
        st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}"),
        st.tuples(number, number, step).map(lambda parts: f"{min(parts[:2])}-{max(parts[:2])}/{parts[2]}"),
        step.map(lambda n: f"*/{n}"),
        st.just("*"),
    )


def fields(low: int, high: int, *special: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Generate a cron field, often a simple one."""
    listed = st.lists(st.one_of(items(low, high), *special), min_size=1, max_size=4).map(",".join)
    crowded = st.lists(st.integers(low, high).map(str), min_size=5, max_size=15).map(",".join)
    return st.one_of(st.just("*"), st.just(str(low)), items(low, high), listed, listed, crowded, *special)


SPECIAL_DAYS = st.sampled_from(
    ["L", "LW", "lw", *(f"L-{n}{w}" for n in range(31) for w in ("", "W")), *(f"{n}W" for n in range(1, 32))]
)
SPECIAL_WEEKDAYS = st.sampled_from([f"{d}{which}" for d in range(7) for which in ("L", "#1", "#2", "#3", "#4", "#5")])
CRONS = st.tuples(
    st.one_of(st.just(""), fields(0, 59)),
    fields(0, 59),
    fields(0, 23),
    fields(1, 31, SPECIAL_DAYS),
    fields(1, 12),
    fields(0, 6, SPECIAL_WEEKDAYS),
).map(lambda parts: " ".join(parts).strip())
YEARS = st.lists(
    st.tuples(st.integers(1970, 2099), st.integers(0, 40)).map(lambda y: f"{y[0]}-{min(2099, sum(y))}"), min_size=1
).map(",".join)
DATED_CRONS = st.tuples(CRONS, st.one_of(YEARS, st.sampled_from(["*", "*/7", "2027", "2030/3"]))).map(
    lambda parts: f"{'' if len(parts[0].split()) == 6 else '0 '}{parts[0]} {parts[1]}"
)
INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
ROUND_INSTANTS = INSTANTS.map(lambda instant: instant.replace(microsecond=0))
DURATIONS = st.one_of(
    st.tuples(st.integers(1, 200), st.sampled_from(["h", "m", "s", "ms", "us"])).map(lambda p: f"{p[0]}{p[1]}"),
    st.tuples(*[st.integers(0, 1000)] * 3).filter(any).map(lambda p: f"{p[0]}h{p[1]}m{p[2]}s"),
    st.integers(1, 10**15).map(lambda us: f"{us}us"),
)
PERIODS = st.one_of(
    st.tuples(st.integers(1, 60), st.sampled_from(["P{}D", "P{}W", "P{}M", "P{}Y", "PT{}H", "PT{}M", "PT{}S"])).map(
        lambda p: p[1].format(p[0])
    ),
    st.tuples(*[st.integers(0, 40)] * 6).filter(any).map(lambda p: "P{}Y{}M{}DT{}H{}M{}S".format(*p)),
)
INTERVALS = st.one_of(
    PERIODS,
    st.tuples(st.integers(0, 50).map(str) | st.just(""), PERIODS).map(lambda p: f"R{p[0]}/{p[1]}"),
    st.tuples(st.integers(0, 50).map(str) | st.just(""), INSTANTS, PERIODS).map(
        lambda p: f"R{p[0]}/{p[1].isoformat().replace('+00:00', 'Z')}/{p[2]}"
    ),
)
DELAYS = st.one_of(
    st.tuples(st.integers(1, 500), st.sampled_from(["hours", "minutes", "seconds", "days", "weeks"])).map(
        lambda p: f"in {p[0]} {p[1]}"
    ),
    st.tuples(st.integers(1, 9), st.integers(1, 23)).map(lambda p: f"in {p[0]} days {p[1]} hours"),
    st.tuples(st.sampled_from(["today", "tomorrow", "in 5 days"]), st.times()).map(
        lambda p: f"{p[0]} at {p[1]:%H:%M:%S}"
    ),
)
RANDOM_INTERVALS = st.tuples(st.integers(1, 10**9), st.integers(1, 10**9), st.sampled_from(["us", "ms", "s"])).map(
    lambda p: f"@every {p[0]}{p[2]} to {p[0] + p[1]}{p[2]}"
)
PERIODS_AT_A_TIME = st.tuples(
    st.integers(2, 60),
    st.sampled_from(["days", "weeks", "months", "years"]),
    st.times(),
    st.sampled_from(["", ", 3 times"]),
).map(lambda p: f"every {p[0]} {p[1]} at {p[2]:%H:%M:%S}{p[3]}")
WEEKS_ON_A_DAY = st.tuples(
    st.integers(2, 60), st.sampled_from(["Monday", "Friday", "Sunday"]), st.times(), st.sampled_from(["", ", 3 times"])
).map(lambda p: f"every {p[0]} weeks on {p[1]} at {p[2]:%H:%M:%S}{p[3]}")
RULES = st.one_of(
    CRONS,
    CRONS,
    DATED_CRONS,
    RANDOM_INTERVALS,
    PERIODS_AT_A_TIME,
    WEEKS_ON_A_DAY,
    DURATIONS.map("@every {}".format),
    INTERVALS,
    INSTANTS.map(datetime.isoformat),
    DELAYS,
)
DATES = st.dates(date(2020, 1, 1), date(2040, 1, 1))
EXCLUSIONS = st.one_of(
    DATES.map(str),
    st.tuples(DATES, DATES).map(lambda ends: f"{min(ends)}/{max(ends)}"),
    CRONS,
)
OPTIONS = st.fixed_dictionaries(
    {"timezone": st.sampled_from(sorted(zone_names()))},
    optional={
        "dst": st.sampled_from(["robust", "literal"]),
        "start": INSTANTS | ROUND_INSTANTS,
        "end": INSTANTS | ROUND_INSTANTS,
        "jitter": st.timedeltas(timedelta(0), timedelta(days=2)),
        "exclude": st.lists(EXCLUSIONS, max_size=3),
    },
)


@settings(max_examples=1_000)
@given(RULES, OPTIONS)
def test_descriptions_read_back_to_the_same_schedule(expression: str, options: dict[str, Any]) -> None:
    schedule = parse_or_reject(expression, options)
    words = schedule.describe()
    if len(words) <= 256:
        assert parse_schedule(words, key="k") == schedule
        assert parse_schedule(words[0].lower() + words[1:], key="k") == schedule
        if '"' not in words:
            assert parse_schedule(words.upper(), key="k") == schedule
    assert words.endswith(f", {options['timezone']}")


@settings(max_examples=200)
@given(st.lists(RULES, min_size=2, max_size=5), OPTIONS)
def test_descriptions_of_unions_read_back(expressions: list[str], options: dict[str, Any]) -> None:
    schedule = parse_or_reject(expressions, options)
    if all(len(member.describe()) <= 256 for member in schedule.members):
        assert parse_schedule(schedule.describe(), key="k") == schedule
    assert parse_schedule(schedule.text, key="k", **options) == schedule


def parse_or_reject(expression: str | list[str], options: dict[str, Any]) -> Schedule:
    """Parse a schedule; reject the example if its date never comes, it ends before it starts or is too long."""
    try:
        return parse_schedule(expression, key="k", **options)
    except InvalidSchedule as error:
        if any(part in error.reason for part in ("never", "ends before", "allowed 256")):
            reject()
        raise
