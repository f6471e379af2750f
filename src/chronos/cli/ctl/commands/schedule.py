"""``chronosctl schedule``: preview a schedule offline, as instants (``next``) or in words (``explain``)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click

from chronos.cli.ctl.options import complete_zone, output_option
from chronos.cli.ctl.tables import print_value
from chronos.cli.output import emit, emit_table, note

if TYPE_CHECKING:
    from datetime import datetime

    from chronos.core.schedule.dst import Oddity
    from chronos.core.schedule.schedule import Schedule
    from chronos.core.schedule.surprises import Surprise
    from chronos.core.schedule.timezones import Zone

# Copied from the core, so that --help does not import it. A test compares both.
DIALECTS = ("auto", "standard", "seconds", "posix", "quartz", "iso8601", "words")
DST_POLICIES = ("robust", "literal")
MAX_COUNT = 10_000

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Text(click.types.StringParamType):
    """Text without lone surrogates, which stand for arguments that are not UTF-8."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail("not valid UTF-8", param, ctx)
        return text


class PreviewOptions(TypedDict):
    """The options that both commands share, as click passes them."""

    timezone: str | None
    dialect: str
    dst: str
    start: str | None
    end: str | None
    exclude: tuple[str, ...]
    key: str
    after: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preview:
    """The parsed schedule, and the same schedule anchored at ``after_us`` with its next runs."""

    parsed: "Schedule"
    schedule: "Schedule"
    after_us: int
    runs_us: list[int]


def _one_argument(ctx: click.Context, _: click.Parameter, value: tuple[str, ...]) -> str:
    if len(value) != 1:
        example = f'{ctx.command_path} "0 9 * * 1-5"'
        raise click.UsageError(f"EXPR must be one argument; put it in quotes:\n  {example}", ctx)
    return value[0]


def _preview_options(command: _Command) -> _Command:
    text = _Text()
    for decorate in (
        click.option("--key", type=text, default="", help="The text that H hashes, usually a job's name."),
        click.option(
            "--exclude",
            type=text,
            multiple=True,
            metavar="E",
            help="Exclude a date, a range of dates (2026-12-24/2027-01-02) or the matches of a cron expression. "
            "May be repeated.",
        ),
        click.option("--end", type=text, metavar="T", help="The last possible instant."),
        click.option("--start", type=text, metavar="T", help="The first possible instant; intervals count from it."),
        click.option(
            "--count",
            type=click.IntRange(1, MAX_COUNT),
            default=10,
            show_default=True,
            metavar="N",
            help="The number of runs.",
        ),
        click.option("--after", type=text, metavar="T", help="Show runs after this instant.  [default: now]"),
        click.option(
            "--dst",
            type=click.Choice(DST_POLICIES),
            default="robust",
            show_default=True,
            help="What to do when the clocks change.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(DIALECTS),
            default="auto",
            show_default=True,
            help="How to read EXPR; auto detects it.",
        ),
        click.option(
            "--timezone",
            type=text,
            metavar="ZONE",
            shell_complete=complete_zone,
            help="An IANA name such as Europe/Paris.  [default: UTC]",
        ),
        click.argument("expression", type=text, metavar="EXPR", nargs=-1, required=True, callback=_one_argument),
    ):
        command = decorate(command)
    return command


@click.group(short_help="Preview a schedule, without a server.")
def schedule() -> None:
    """Preview a schedule. This works offline, without a server.

    A schedule is a cron expression, "@every 90s", an ISO 8601 interval, an instant, or plain words.
    """


@schedule.command("next", short_help="Print the next runs.")
@_preview_options
@output_option
def next_(expression: str, output: str, **options: Unpack[PreviewOptions]) -> None:
    """Print the next runs of EXPR in its time zone and in UTC; with -o wide also the time between them.

    T is an RFC 3339 instant; without an offset it is a time in the schedule's zone. An interval without a start counts
    from --after.

    \b
    Examples:
      chronosctl schedule next "0 9 * * 1-5" --timezone Europe/Paris
      chronosctl schedule next "@every 90m" --after 2027-01-01T00:00:00Z --count 3 -o json
      chronosctl schedule next R/2027-01-31T09:00:00/P1M --exclude 2027-03-31
    """
    from chronos.core.calendar import rfc3339

    preview = _preview(expression, options)
    runs = [rfc3339(us) for us in preview.runs_us]
    if output in ("json", "jsonl", "yaml"):
        print_value(runs, output)
    elif not runs:
        note(f"no run after {rfc3339(preview.after_us)}")
    elif output == "name":
        emit("\n".join(runs))
    else:
        _emit_runs(preview, wide=output == "wide")


@schedule.command(short_help="Explain a schedule and the effect of clock changes.")
@_preview_options
@output_option
def explain(expression: str, output: str, **options: Unpack[PreviewOptions]) -> None:
    """Explain what EXPR means, when it runs next, and what clock changes do to it within 12 months.

    T is an RFC 3339 instant; without an offset it is a time in the schedule's zone. An interval without a start counts
    from --after.

    \b
    Examples:
      chronosctl schedule explain "every weekday at 9am in New York"
      chronosctl schedule explain "30 2 * * *" --timezone Europe/Paris --dst literal
      chronosctl schedule explain "0 18 LW * *" --after 2027-01-01 --count 3 -o json
    """
    from chronos.core.calendar import SECOND_US, rfc3339
    from chronos.core.schedule.canonical import to_canonical
    from chronos.core.schedule.dst import find_oddities
    from chronos.core.schedule.surprises import find_surprises

    preview = _preview(expression, options)
    zone = preview.schedule.zone
    understood = to_canonical(preview.parsed)
    if output == "name":
        emit(understood or expression)
        return
    changes = find_oddities(preview.schedule, preview.after_us, _one_year_after(preview.after_us))
    surprises = find_surprises(preview.parsed, options["dialect"], preview.after_us)
    if output in ("table", "wide"):
        _emit_explanation(preview, surprises, changes, understood=understood, wide=output == "wide")
        return
    runs = [{"utc": rfc3339(us), "local": _local_time(us, zone).isoformat()} for us in preview.runs_us]
    change_items = [
        {
            "kind": oddity.kind,
            "at": rfc3339(oddity.at_us),
            "wall": rfc3339(oddity.wall * SECOND_US).removesuffix("Z"),
            "count": oddity.count,
            "message": oddity.message,
        }
        for oddity in changes
    ]
    explanation = {
        "expression": expression,
        "words": preview.parsed.describe(),
        "understood_as": understood,
        "timezone": zone.name,
        "next": runs,
        # As POST /schedule/preview returns them; "oddities" is the earlier name of the clock changes.
        "warnings": [*({"kind": surprise.kind, "message": surprise.message} for surprise in surprises), *change_items],
        "oddities": change_items,
    }
    print_value(explanation, output)


def _preview(expression: str, options: PreviewOptions) -> _Preview:
    from chronos.core.calendar import FIRST_US, LAST_US
    from chronos.core.schedule.iso8601 import parse_instant
    from chronos.core.schedule.parser import parse_schedule
    from chronos.errors import InvalidSchedule

    parsed = parse_schedule(
        expression,
        timezone=options["timezone"],
        dialect=options["dialect"],
        dst=options["dst"],
        start=options["start"],
        end=options["end"],
        exclude=options["exclude"],
        key=options["key"],
    )
    after = options["after"]
    after_us = _now_us() if after is None else parse_instant(after, parsed.zone)
    if after_us is None or not FIRST_US <= after_us <= LAST_US:
        raise InvalidSchedule(f"{after}", f'is "{after}", which is not an instant', subject="after", hint=_INSTANT_HINT)
    anchored = parsed.anchor(after_us)
    runs_us: list[int] = []
    run_us = anchored.next_us(after_us)
    while run_us is not None and len(runs_us) < options["count"]:
        runs_us.append(run_us)
        run_us = anchored.next_us(run_us)
    return _Preview(parsed=parsed, schedule=anchored, after_us=after_us, runs_us=runs_us)


_INSTANT_HINT = "use an RFC 3339 instant such as 2027-01-01T09:00:00Z"


def _now_us() -> int:
    import time

    return time.time_ns() // 1_000


def _one_year_after(us: int) -> int:
    """Return the same date of the next year; 28 February for 29 February."""
    from chronos.core.calendar import DAY_S, LAST_US, SECOND_US, day_number, month_length, to_year_month_day

    day, of_day_us = divmod(us, DAY_S * SECOND_US)
    year, month, day_of_month = to_year_month_day(day)
    if year == 9999:
        return LAST_US
    day = day_number(year + 1, month, min(day_of_month, month_length(year + 1, month)))
    return day * DAY_S * SECOND_US + of_day_us


def _emit_explanation(
    preview: _Preview, surprises: "list[Surprise]", changes: "list[Oddity]", *, understood: str | None, wide: bool
) -> None:
    from chronos.core.calendar import rfc3339

    emit(preview.parsed.describe(), bold=True)
    if understood:
        emit(f"understood as {understood}")
    for surprise in surprises:
        emit(surprise.message, mark="! ", fg="yellow")
    emit("")
    if preview.runs_us:
        _emit_runs(preview, wide=wide)
    else:
        emit(f"no run after {rfc3339(preview.after_us)}")
    emit("")
    for oddity in changes:
        emit(oddity.message, mark="! ", fg="yellow")
    if not changes:
        emit(f"No clock change affects it in the 12 months from {rfc3339(preview.after_us)[:10]}.")


def _emit_runs(preview: _Preview, *, wide: bool) -> None:
    from chronos.core.calendar import rfc3339
    from chronos.core.schedule.durations import format_duration

    zone = preview.schedule.zone
    walls = [_local_time(us, zone) for us in preview.runs_us]
    finest = "microseconds" if any(wall.microsecond for wall in walls) else "seconds"
    if not any(wall.second or wall.microsecond for wall in walls):
        finest = "minutes"
    columns = {} if zone.name == "UTC" else {zone.name: [f"{wall:%a} {_clock_text(wall, finest)}" for wall in walls]}
    columns["UTC"] = [rfc3339(us) for us in preview.runs_us]
    if wide:
        columns["APART"] = ["–", *(format_duration(later - us, exact=True) for us, later in pairwise(preview.runs_us))]
    emit_table(tuple(columns), list(zip(*columns.values(), strict=True)))


def _clock_text(wall: "datetime", finest: str) -> str:
    """``2027-03-28 03:00 +02:00``."""
    text = wall.isoformat(" ", finest)
    at = max(text.rfind("+"), text.rfind("-"))
    return f"{text[:at]} {text[at:]}"


def _local_time(us: int, zone: "Zone") -> "datetime":
    """Return the local time of a zone at an instant; UTC at the very start and end of the calendar."""
    from datetime import timedelta, timezone

    from chronos.core.calendar import SECOND_US, from_us

    moment = from_us(us)
    try:
        return moment.astimezone(timezone(timedelta(seconds=zone.offset_at(us // SECOND_US))))
    except OverflowError:
        return moment
