"""The parser raises only ``InvalidSchedule``, and needs little time, for any input."""

import time
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from chronos import InvalidSchedule, parse_schedule
from chronos.core.schedule.parser import DIALECTS

MAX_CPU_S = 0.02  # of this thread; a few milliseconds, with room for a slow machine

SEEDS = [
    "0 9 * * 1-5", "*/5 * * * * *", "H(0-29)/10 H 1,15W,LW,L-3 jan-dec/2 MON#2,5L", "@every 1h30m0.5s", "@daily",
    "CRON_TZ=Europe/Paris 0 9 * * *", "R5/2026-01-31T09:00:00Z/P1Y2M10DT2H30M", "2027-01-01T00:00:00+01:00",
    "every weekday at 9am in New York", "on the last friday of january and june at 17:30", "in 2 hours",
    "tomorrow at noon", "every 90 seconds from 2026-01-01T00:00:00Z until 2027-01-01T00:00:00Z",
    "0 0 12 ? * 6-2 2027/3", "TZ=UTC 22-2 * l-3w * FRIDAY-mon", "@every 5d to 6d", "every 5 to 10 minutes in 2027",
    "0 9 * * *; also every 2 days at 10:30; also P1D", "2030-01-01 18:33",
    'every second except "0-29 * * * * *", "30-59 0-58 * * * *" and 2026-12-24 to 2027-01-02',
]  # fmt: skip
PIECES = st.sampled_from([piece for seed in SEEDS for piece in seed.split()])
ODD = st.text(st.sampled_from(list("0123456789*/-,?LWH#@PRT:.+ \t\n()eE_\x00µ１٣–")), max_size=20)
MUTANTS = st.lists(st.one_of(PIECES, ODD), max_size=14).map(" ".join)


@st.composite
def spliced(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS))
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(ODD) + text[draw(st.integers(at, len(text))) :]


@settings(max_examples=1_500)
@given(text=st.one_of(st.text(max_size=300), ODD, MUTANTS, spliced()), dialect=st.sampled_from(DIALECTS))
@example(text="," * 256, dialect="standard")
@example(text=";" * 256, dialect="auto")
@example(text="; also " * 3_000, dialect="auto")
@example(text="; also" + " " * 20_000, dialect="auto")
@example(text="0 0 0 31 11 ? " + ",".join(str(year) for year in range(1970, 2018)), dialect="quartz")
@example(text="*/1," * 60, dialect="auto")
@example(text="1-1" * 85, dialect="seconds")
@example(text="and " * 64, dialect="words")
@example(text="every " * 42, dialect="words")
@example(text="9" * 256, dialect="auto")
@example(text="P" + "9" * 250 + "D", dialect="iso8601")
@example(text="@every " + "9" * 240 + "h", dialect="auto")
def test_any_text_is_parsed_or_rejected_quickly(text: str, dialect: str) -> None:
    attempt(text, dialect=dialect)


WRONG = st.one_of(
    *(st.none(), st.integers(), st.floats(), st.binary(), st.dates(), st.timedeltas(), st.lists(st.text())),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())),
)
OPTIONS = st.sampled_from(["timezone", "dialect", "dst", "start", "end", "jitter", "exclude", "key"])


@given(
    timezone=st.one_of(st.none(), st.text(max_size=30)),
    start=st.one_of(st.none(), st.text(max_size=30)),
    exclude=st.lists(st.one_of(ODD, MUTANTS), max_size=3),
)
def test_any_argument_text_is_parsed_or_rejected(timezone: str | None, start: str | None, exclude: list[str]) -> None:
    attempt("@daily", timezone=timezone, start=start, exclude=exclude)


@given(value=WRONG, option=OPTIONS)
def test_arguments_of_any_type_are_accepted_or_rejected(value: object, option: str) -> None:
    attempt(value)
    attempt("H 9 * * *", **{option: value})


def attempt(text: Any, **options: Any) -> None:
    if _cpu_s(text, options) > MAX_CPU_S:  # garbage collection may slow down one attempt
        assert _cpu_s(text, options) < MAX_CPU_S


def _cpu_s(text: Any, options: dict[str, Any]) -> float:
    started_s = time.thread_time()
    try:
        schedule = parse_schedule(text, **options)
    except InvalidSchedule as error:
        assert str(error)
        assert error.position is None or 0 <= error.position <= len(error.expression)
    else:
        schedule.next_us(1_800_000_000_000_000)
        assert schedule.describe()
    return time.thread_time() - started_s
