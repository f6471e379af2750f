"""Plain words: the translation of each phrase, and the rejection of text that is not understood."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule
from chronos.core.schedule.once import Delay, DelayRule
from chronos.core.schedule.timezones import zone_names
from chronos.core.schedule.words import Reading, read_words
from chronos.core.schedule.words.tokenizer import VOCABULARY

HOUR_US = 3_600_000_000

READINGS = [
    # Intervals that divide the minute, the hour or the day follow the clock; others are counted from the start.
    ("every minute", "* * * * *"),
    ("every 1 minute", "* * * * *"),
    ("every 60 seconds", "* * * * *"),
    ("every 15 minutes", "*/15 * * * *"),
    ("each 15 mins", "*/15 * * * *"),
    ("every 15min", "*/15 * * * *"),
    ("every five minutes", "*/5 * * * *"),
    ("every half hour", "*/30 * * * *"),
    ("every half an hour", "*/30 * * * *"),
    ("every 0.5 hours", "*/30 * * * *"),
    ("hourly", "0 * * * *"),
    ("every hour", "0 * * * *"),
    ("once an hour", "0 * * * *"),
    ("every 60 minutes", "0 * * * *"),
    ("every 2 hours", "0 */2 * * *"),
    ("every two hours", "0 */2 * * *"),
    ("every other hour", "0 */2 * * *"),
    ("every 12 hours", "0 */12 * * *"),
    ("every second", "* * * * * *"),
    ("every 30 seconds", "*/30 * * * * *"),
    ("once every 10 s", "*/10 * * * * *"),
    ("every 45 minutes", "@every 45m"),
    ("every 7 minutes", "@every 7m"),
    ("every 90 seconds", "@every 1m30s"),
    ("every 90s", "@every 1m30s"),
    ("every 1 hour 30 minutes", "@every 1h30m"),
    ("every 1 hour and 30 minutes", "@every 1h30m"),
    ("every 1h30m", "@every 1h30m"),
    ("every 1.5 hours", "@every 1h30m"),
    ("every 5 hours", "@every 5h"),
    ("every 24 hours", "@every 24h"),
    ("every 250 milliseconds", "@every 0.25s"),
    ("at intervals of 2 hours", "@every 2h"),
    ("every 2 hours from the start", "@every 2h"),
    ("every 90 seconds from the start", "@every 1m30s"),
    ("every other day", "P2D"),
    ("every 2 days", "P2D"),
    ("every 10 days", "P10D"),
    ("every 2 weeks", "P2W"),
    ("every other week", "P2W"),
    ("fortnightly", "P2W"),
    ("every 3 months", "P3M"),
    ("every 10 years", "P10Y"),
    ("every 1 month and 2 days", "P1M2D"),
    ("every 1 day 12 hours", "P1DT12H"),
    ("at intervals of 1 day", "P1D"),
    ("every day from the start", "P1D"),
    ("at calendar intervals of 2 hours", "PT2H"),
    ("every 2 hours by the calendar", "PT2H"),
    ("every 2 hours by the calendar from the start", "PT2H"),
    ("every 6 hours, 5 times", "R5/PT6H"),
    ("monthly, 12 times", "R12/P1M"),
    ("every month, counted from 2026-01-31T09:00:00Z", "R/2026-01-31T09:00:00Z/P1M"),
    # Every day, week, month, quarter, year: the macros, unless the sentence says more.
    ("daily", "0 0 * * *"),
    ("every day", "0 0 * * *"),
    ("every 1 day", "0 0 * * *"),
    ("once a day", "0 0 * * *"),
    ("weekly", "0 0 * * 0"),
    ("every week", "0 0 * * 0"),
    ("monthly", "0 0 1 * *"),
    ("quarterly", "0 0 1 1,4,7,10 *"),
    ("yearly", "0 0 1 1 *"),
    ("annually", "0 0 1 1 *"),
    ("daily at 9am", "0 9 * * *"),
    ("daily 9am", "0 9 * * *"),
    ("9am daily", "0 9 * * *"),
    ("at 09:30 every day", "30 9 * * *"),
    ("every day at 9:30 PM", "30 21 * * *"),
    ("every day at 9 p.m.", "0 21 * * *"),
    ("every day at 8 o'clock", "0 8 * * *"),
    ("every day at eight", "0 8 * * *"),
    ("every day at 12am", "0 0 * * *"),
    ("every day at 12pm", "0 12 * * *"),
    ("every day at noon", "0 12 * * *"),
    ("midnight, daily", "0 0 * * *"),
    ("every day at 09:30:15", "15 30 9 * * *"),
    ("daily at 9am and 5pm", "0 9,17 * * *"),
    ("daily at 8, noon and 17:00", "0 8,12,17 * * *"),
    ("daily at 9:30 & 21:30", "30 9,21 * * *"),
    ("daily at 9:00, 9:30, 10:00, 10:30", "0,30 9,10 * * *"),
    ("weekly on Friday at 17:00", "0 17 * * 5"),
    ("every week on Monday and Thursday", "0 0 * * 1,4"),
    ("monthly on the 15th at 6:00", "0 6 15 * *"),
    ("every quarter on the last day at 18:00", "0 18 L 1,4,7,10 *"),
    ("every year on 1 March at noon", "0 12 1 3 *"),
    # Minutes of the hour.
    ("at minute 5 of every hour", "5 * * * *"),
    ("every hour at minute 5", "5 * * * *"),
    ("every 2 hours at minute 15", "15 */2 * * *"),
    ("at 15 minutes past the hour", "15 * * * *"),
    ("at 5 past every hour", "5 * * * *"),
    ("at minutes 3, 7 and 20 to 27 of hours 2 to 6", "3,7,20-27 2-6 * * *"),
    ("every 5 minutes of every 2nd hour", "*/5 */2 * * *"),
    ("every 10 minutes of hours 9 and 12", "*/10 9,12 * * *"),
    ("at second 30 of every minute", "30 * * * * *"),
    ("at minutes 0 to 59 of hours 0 to 23", "0-59 0-23 * * *"),
    ("at 09:00 every day, at real intervals", "*/60 9 * * *"),
    # Hours of the day.
    ("every 15 minutes between 9am and 5pm on weekdays", "*/15 9-16 * * 1-5"),
    ("every 15 minutes from 09:00 to 16:45", "*/15 9-16 * * *"),
    ("every hour from 9am to 5pm", "0 9-17 * * *"),
    ("every hour between 9 and 17", "0 9-16 * * *"),
    ("weekdays 9am-5pm hourly", "0 9-17 * * 1-5"),
    ("every 2 hours from 8:30 until 18:30", "30 8-18/2 * * *"),
    ("every 30 minutes between 6pm and midnight", "*/30 18-23 * * *"),
    ("every 20 minutes between 22:00 and 02:00", "*/20 0,1,22,23 * * *"),
    ("every 30 seconds between 9:00 and 10:00", "*/30 * 9 * * *"),
    # Weekdays.
    ("every weekday at 9am", "0 9 * * 1-5"),
    ("weekdays at 9am", "0 9 * * 1-5"),
    ("on weekends at 10:00", "0 10 * * 0,6"),
    ("every Monday and Thursday at 8", "0 8 * * 1,4"),
    ("Mondays, Wednesdays & Fridays at 18:00", "0 18 * * 1,3,5"),
    ("Monday to Friday at 09:30", "30 9 * * 1-5"),
    ("from Monday through Friday at 09:30", "30 9 * * 1-5"),
    ("mon-fri at 09:30", "30 9 * * 1-5"),
    ("Mon–Fri at 09:30", "30 9 * * 1-5"),
    ("Friday to Monday at 7", "0 7 * * 0,1,5,6"),
    ("every 15 minutes on Sat and Sun", "*/15 * * * 0,6"),
    ("every day except Sundays at 9", "0 9 * * 1-6"),
    ("every weekday except Wednesday at 9", "0 9 * * 1,2,4,5"),
    # Days of the month.
    ("on the 1st at 9am", "0 9 1 * *"),
    ("every 15th at 9am", "0 9 15 * *"),
    ("on the 1st and 15th of the month", "0 0 1,15 * *"),
    ("on the 1st, the 15th and the last day of every month", "0 0 1,15,L * *"),
    ("on the 20th to the 25th", "0 0 20-25 * *"),
    ("on day 15 of the month at noon", "0 12 15 * *"),
    ("on days 1 to 7 and 20", "0 0 1-7,20 * *"),
    ("at midnight on the last day of the month", "0 0 L * *"),
    ("3 days before the last day of the month", "0 0 L-3 * *"),
    ("on the 2nd day before the last day", "0 0 L-2 * *"),
    ("the last weekday of the month at 17:00", "0 17 LW * *"),
    ("the first weekday of the month at 17:00", "0 17 1W * *"),
    ("the weekday nearest to the 15th", "0 0 15W * *"),
    ("first Monday of the month at 9am", "0 9 * * 1#1"),
    ("every second Tuesday of the month", "0 0 * * 2#2"),
    ("every month on the first and third Monday", "0 0 * * 1#1,1#3"),
    ("the last Friday of every month at 5pm", "0 17 * * 5L"),
    ("on the 1st of the month or every Monday", "0 0 1 * 1"),
    ("on the 1st to 7th if it is Sunday", "0 0 */31,2-7 * 0"),
    # Months and dates.
    ("every day at 9am in January", "0 9 * 1 *"),
    ("every Monday in January and July", "0 0 * 1,7 1"),
    ("on the 1st of January to March", "0 0 1 1-3 *"),
    ("every 15 minutes in November to February", "*/15 * * 1,2,11,12 *"),
    ("on 25 December at noon", "0 12 25 12 *"),
    ("December 25th at noon", "0 12 25 12 *"),
    ("on the 25th of December", "0 0 25 12 *"),
    ("on January 1 and July 1", "0 0 1 1,7 *"),
    ("every February 29th", "0 0 29 2 *"),
    ("on the second Sunday of March at 2:00", "0 2 * 3 0#2"),
    ("every 30 minutes except in August", "*/30 * * 1-7,9-12 *"),
    # One time only.
    ("once at 2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
    ("at 2027-01-01t09:00:00+02:00", "2027-01-01T09:00:00+02:00"),
    ("on 2027-01-01", "2027-01-01"),
    ("on 2027-01-01 at 9am", "2027-01-01T09:00:00"),
    ("1 January 2027 at 9am", "2027-01-01T09:00:00"),
    ('cron "0 9 * * MON"', "0 9 * * 1"),
    ('cron expression "0 9 * * MON"', "0 9 * * 1"),
]


@pytest.mark.parametrize(("phrase", "expression"), READINGS)
def test_translation_of_a_phrase(phrase: str, expression: str) -> None:
    assert read_words(phrase) == Reading(expression=expression)
    assert parse_schedule(phrase) == parse_schedule(phrase, dialect="words") == parse_schedule(expression)


@pytest.mark.parametrize("phrase", [phrase for phrase, _ in READINGS])
def test_case_blanks_and_commas_are_ignored(phrase: str) -> None:
    reading = read_words(phrase)
    assert read_words(phrase.upper()) == reading
    assert read_words(f"  {phrase.replace(' ', '  ')} ,") == reading
    assert read_words(f"{phrase}, UTC") == Reading(expression=reading.expression, timezone="UTC")


@pytest.mark.parametrize(
    ("phrase", "delay"),
    [
        ("in 2 hours", Delay(us=2 * HOUR_US)),
        ("in an hour", Delay(us=HOUR_US)),
        ("in half an hour", Delay(us=HOUR_US // 2)),
        ("in 1h30m", Delay(us=HOUR_US * 3 // 2)),
        ("once in 90 minutes", Delay(us=HOUR_US * 3 // 2)),
        ("in 3 days", Delay(days=3)),
        ("in two weeks", Delay(days=14)),
        ("in 1 day and 2 hours", Delay(days=1, us=2 * HOUR_US)),
        ("in 3 days at 8am", Delay(days=3, second_of_day=8 * 3600)),
        ("tomorrow at noon", Delay(days=1, second_of_day=12 * 3600)),
        ("at 5pm tomorrow", Delay(days=1, second_of_day=17 * 3600)),
        ("today at 18:00:30", Delay(second_of_day=18 * 3600 + 30)),
    ],
)
def test_translation_of_a_relative_time(phrase: str, delay: Delay) -> None:
    assert read_words(phrase).delay == delay
    rule = parse_schedule(f"{phrase}, Asia/Tokyo").rule
    assert isinstance(rule, DelayRule)
    assert (rule.delay, rule.zone.name, rule.start_us) == (delay, "Asia/Tokyo", None)


@pytest.mark.parametrize(
    ("phrase", "reading"),
    [
        (
            "every day at 9am from 2027-01-01 until 2027-12-31",
            Reading(expression="0 9 * * *", start="2027-01-01", end="2027-12-31T23:59:59.999999"),
        ),
        (
            "every 15 minutes from 2027-01-01T00:05:00Z",
            Reading(expression="@every 15m", start="2027-01-01T00:05:00Z"),
        ),
        (
            "every 15 minutes by the clock, from 2027-01-01T00:05:00Z",
            Reading(expression="*/15 * * * *", start="2027-01-01T00:05:00Z"),
        ),
        (
            "every 15 minutes on weekdays starting on 2027-01-01",
            Reading(expression="*/15 * * * 1-5", start="2027-01-01"),
        ),
        ("monthly starting 2027-01-31T09:00:00", Reading(expression="P1M", start="2027-01-31T09:00:00")),
        ("every 2 weeks from 2027-01-04 at 9am", Reading(expression="P2W", start="2027-01-04T09:00:00")),
        (
            "every 6 hours from 2027-01-01, 5 times",
            Reading(expression="R5/PT6H", start="2027-01-01"),
        ),
        (
            'daily except 2026-12-25, 2026-12-31 to 2027-01-02 and "0 0 * * 0"',
            Reading(expression="0 0 * * *", exclude=("2026-12-25", "2026-12-31/2027-01-02", "0 0 * * 0")),
        ),
        ("every 90 minutes except on weekends", Reading(expression="@every 1h30m", exclude=("* * * * 0,6",))),
        ("on the 1st except in August", Reading(expression="0 0 1 * *", exclude=("* * * 8 *",))),
        ("every 5 minutes with jitter up to 30 seconds", Reading(expression="*/5 * * * *", jitter="30s")),
        ("every 5 minutes with up to 1m30s of jitter", Reading(expression="*/5 * * * *", jitter="1m30s")),
        ("daily at 2:30, taking clock changes literally", Reading(expression="30 2 * * *", literal=True)),
    ],
)
def test_translation_of_window_exclusions_jitter_and_policy(phrase: str, reading: Reading) -> None:
    assert read_words(phrase) == reading
    parse_schedule(phrase)


@pytest.mark.parametrize(
    ("phrase", "zone"),
    [
        ("every weekday at 9am in New York", "America/New_York"),
        ("every weekday at 9am, New York time", "America/New_York"),
        ("in new york every weekday at 9am", "America/New_York"),
        ("every weekday at 9am New_York", "America/New_York"),
        ("every weekday at 9am america/new_york", "America/New_York"),
        ("every weekday at 9am America/New York", "America/New_York"),
        ("every weekday at 9am in the Europe/Paris time zone", "Europe/Paris"),
        ("every weekday at 9am UTC", "UTC"),
        ("every weekday at 9am in Port-au-Prince", "America/Port-au-Prince"),
        ("every weekday at 9am in Port au Prince", "America/Port-au-Prince"),
        ("every weekday at 9am in São Paulo", "America/Sao_Paulo"),
        ("every weekday at 9am in Isle of Man", "Europe/Isle_of_Man"),
        ("every weekday at 9am in Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("every weekday at 9am in Nicosia", "Asia/Nicosia"),
        ("every weekday at 9am in Kiev", "Europe/Kiev"),
        ("every weekday at 9am in Hawaii", "US/Hawaii"),
    ],
)
def test_translation_of_a_place(phrase: str, zone: str) -> None:
    assert read_words(phrase) == Reading(expression="0 9 * * 1-5", timezone=zone)


def test_every_zone_is_understood_by_its_name() -> None:
    for name in zone_names():
        assert read_words(f"daily, {name}").timezone == name
        assert read_words(f"hourly in {name.lower().replace('_', ' ')}").timezone == name


def test_no_word_of_the_grammar_is_a_place() -> None:
    cities = {name.lower().rsplit("/", 1)[-1].replace("_", " ") for name in zone_names()}
    assert not VOCABULARY & (cities | {name.lower() for name in zone_names()})


REJECTIONS = [
    # phrase, the text that the caret points at, part of the message
    ("evry mondy at 9", "evry", 'nearest reading: "every monday at 9" = 0 9 * * 1'),
    (
        "every weekdya at 9am in New York",
        "weekdya",
        '"every weekday at 9am in New York" = 0 9 * * 1-5 in America/New_York',
    ),
    ("every weekday at 9am please", "please", 'nearest reading: "every weekday at 9am" = 0 9 * * 1-5'),
    ("5 minutes", "5", 'nearest reading: "every 5 minutes" = */5 * * * *'),
    ("every day at 9am bla bla bla bla bla", "bla", 'nearest reading: "every day at 9am" = 0 9 * * *'),
    ("tomorow at noon", "tomorow", 'nearest reading: "tomorrow at noon"'),
    ("lorem ipsum", "lorem", 'try "every weekday at 9am in New York"'),
    ("every", "", "is incomplete"),
    ("", None, "is empty"),
    ("  ", None, "is empty"),
    ("now", "now", "leave out the schedule to run immediately"),
    ("yesterday at 9am", "yesterday", "a schedule is in the future"),
    ("0 9 * * *", "0", "not understood"),
    ("next Monday at 9", "next", "nearest reading"),
    # Incomplete schedules.
    ("at 9am", "9am", 'say "every day at 09:00" or "today at 09:00"'),
    ("in January", "January", "has a month but no days"),
    ("tomorrow", "tomorrow", "needs a time"),
    ("in New York", "in", "does not say when it runs"),
    ("once on Monday at 9", "once", "without a date"),
    ("between 9am and 5pm", "between", "has hours but no interval"),
    ("on the last", "", "last"),
    # Ambiguous.
    ("every second Monday", "second Monday", "of the month"),
    ("every 3rd Friday", "3rd Friday", "of the month"),
    ("every second day", "second day", "every 2 days"),
    ("every month on Monday", "Monday", "the first Monday"),
    ("yearly in March", "yearly", "which day of the year"),
    ("on the 1st and every Monday", "Monday", 'say "or"'),
    ("Monday or Thursday at 9", "or", 'say "and"'),
    ("every Monday at 9 and Tuesday at 10", "Tuesday", "one schedule for each"),
    ("at 9am on Monday and 5pm on Friday", "5pm", "one schedule for each"),
    ("every Monday in January and every Tuesday in July", "Tuesday", "one schedule for each"),
    ("on the 1st of January or every Monday", "Monday", "months"),
    ("every day on the 1st", "1st", "runs every day"),
    ("every week on the 1st", "every", "every week"),
    # Without an exact translation.
    ("daily at 9:30pm and 17:00", "9:30pm", "17:00 and 21:30"),
    ("on January 1 and July 4", "January", "do not fit in one cron expression"),
    ("every 15 minutes from 9am to 5pm", "from", '"every 15 minutes between 09:00 and 17:00", without the last'),
    ("every 45 minutes between 9am and 5pm", "between", "divides"),
    ("every 45 minutes on weekdays", "weekdays", "divides"),
    ("every 2 days at 9am and noon", "9am", "every 2 weeks from 2027-01-04 at 9am"),
    ("every hour from 10pm to 2am on weekdays", "from", "past midnight"),
    ("on the 13th if it is Friday", "if", "the 1st or Sundays"),
    ("every weekday at 9am, 5 times", "5", "only an interval without times or days"),
    ("in 2 months", "in", "whose length varies"),
    ("in 1000 years", "in", "whose length varies"),
    ("in 999999 days", "in", "300 years"),
    ("every 0 minutes", "every", "an interval of zero"),
    ("in 0 hours", "0 hours", "a delay of zero"),
    ("every 1.5 days", "1.5 days", "a fraction of a day"),
    ("every 15 minutes at 9am", "9am", "at minute 15 of every hour"),
    ("every hour at second 30", "second", "of which minutes"),
    ("every 5 minutes of every 7th hour", "of", "does not divide the day evenly"),
    # Invalid numbers.
    ("every day at 25:00", "25:00", "write a time like"),
    ("every day at 13pm", "13pm", "write a time like"),
    ("every day at 9:30 am pm", "pm", "not understood"),
    ("every day at 24", "24", "expected 0:00 to 23:59"),
    ("on the 32nd", "32nd", "allowed 1–31"),
    ("at minute 60 of every hour", "60", "expected 0–59"),
    ("the 6th Monday of the month", "6th", "allowed 1–5"),
    ("every ９ minutes", "９", "not understood"),
    # Places.
    ("every day at 9am in Neverland", "Neverland", "does not name a time zone"),
    ("every day at 9am in Pariss", "Pariss", "did you mean Europe/Paris?"),
    ("every day at 9am in Nwe York", "Nwe", "did you mean America/New_York?"),
    ("every day at 9am Eastern time", "Eastern", "say which: Canada/Eastern or US/Eastern"),
    ("every day at 9am GMT+5", "GMT+5", "not understood"),
    ("every day at 9am in Paris in Tokyo", "Tokyo", "gives its zone twice"),
    # Given twice, or not to be combined.
    ("every 5 minutes every 2 hours", "every", "twice"),
    ("in 2 hours on Monday", "Monday", "combined with a delay"),
    ("tomorrow at noon and at 5pm", "noon", "does not fit"),
    ("on 2027-01-01 every Monday", "Monday", "combined with a single date"),
    ('cron "0 9 * * *" at noon', "noon", "combined with a cron expression"),
    ('daily except "² * * * *"', '"² * * * *"', "not understood"),
]


@pytest.mark.parametrize(("phrase", "pointed", "message"), REJECTIONS)
def test_rejection_points_at_the_text_and_says_why(phrase: str, pointed: str | None, message: str) -> None:
    with pytest.raises(InvalidSchedule, match=re.escape(message)) as caught:
        parse_schedule(phrase, dialect="words")
    error = caught.value
    assert error.expression == phrase
    if pointed is None:
        assert error.position is None
    else:
        assert error.position is not None
        text = phrase[error.position : error.position + error.length]
        assert text == pointed


@given(st.lists(st.sampled_from([*sorted(VOCABULARY), "9am", "17:00", "1st", "5", "2027-01-01", ",", "UTC", '"'])))
def test_any_words_are_read_or_rejected(words: list[str]) -> None:
    text = " ".join(words)[:256]
    try:
        read_words(text)
    except InvalidSchedule as error:
        assert error.position is None or 0 <= error.position <= len(text)
