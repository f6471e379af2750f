"""Lines of a list of runs, with identical neighbours of one job grouped."""

from collections.abc import Sequence
from dataclasses import dataclass

from chronos.core.execution import Execution, Span, Status
from chronos.core.schedule.durations import format_duration
from chronos.service.serializers import id_text
from chronos.service.views.run_rows import RunRow
from chronos.ui.run_words import TRIGGERS, describe_run, describe_span
from chronos.ui.time_text import Times

_MIN_GROUP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One line: a run, a span of scheduled times that did not run, or a group of identical runs."""

    id: str | None  # None: a span or a group
    key: str  # unique in the list
    status: str
    job_name: str | None
    at_us: int
    at_text: str
    sentence: str
    duration_us: int | None = None
    trigger: str = ""
    node: str | None = None
    version: int | None = None
    attempts: int | None = None
    is_group: bool = False


def make_lines(
    rows: Sequence[RunRow], times: Times, *, is_grouped: bool = False, with_day: bool = False
) -> list[RunLine]:
    """Return the lines of some runs, in their order. ``with_day`` writes the day of each."""
    lines: list[RunLine] = []
    index = 0
    while index < len(rows):
        same = _count_same(rows, index) if is_grouped else 1
        if same >= _MIN_GROUP:
            lines.append(_make_group(rows[index : index + same], times))
            index += same
            continue
        lines.append(_make_line(rows[index], times, with_day=with_day))
        index += 1
    return lines


def _count_same(rows: Sequence[RunRow], start: int) -> int:
    """Return how many neighbours are plain successes of the same job."""
    count = 0
    for row in rows[start:]:
        if row.item.job != rows[start].item.job or row.item.status is not Status.SUCCEEDED or row.attempts > 1:
            break
        count += 1
    return count


def _make_line(row: RunRow, times: Times, *, with_day: bool) -> RunLine:
    item, name = row.item, None if row.job is None else row.job.name
    if isinstance(item, Span):
        return _make_span(item, name, times)
    waited_us = None
    if item.started_us is None and not item.status.final:
        waited_us = times.now_us - max(item.admitted_us, item.scheduled_us)
    return RunLine(
        id=id_text(item.id),
        key=id_text(item.id),
        status=row.status,
        job_name=name,
        at_us=item.scheduled_us,
        at_text=times.day_clock(item.scheduled_us) if with_day else times.clock(item.scheduled_us),
        sentence=describe_run(item, row.attempts, row.details),
        duration_us=row.duration_us if waited_us is None else max(0, waited_us),
        trigger=TRIGGERS.get(item.cause.name.lower(), item.cause.name.lower()),
        node=row.node,
        version=item.job_version,
        attempts=row.attempts,
    )


def _make_span(span: Span, name: str | None, times: Times) -> RunLine:
    at_text, counted = times.day_clock(span.from_us), ""
    if span.count > 1:
        at_text = f"{times.clock(span.from_us)} – {times.clock(span.to_us)}"
        counted = f"{span.count:,} {span.status.name.lower()}: "
    return RunLine(
        id=None,
        key=id_text(span.id),
        status=span.status.name.lower(),
        job_name=name,
        at_us=span.from_us,
        at_text=at_text,
        sentence=f"{counted}{describe_span(span)}",
        trigger="schedule",
    )


def _make_group(rows: Sequence[RunRow], times: Times) -> RunLine:
    items = [row.item for row in rows if isinstance(row.item, Execution)]
    newest, oldest = items[0], items[-1]
    lengths_us = [row.duration_us for row in rows if row.duration_us is not None]
    each = ""
    if lengths_us:
        low, high = format_duration(min(lengths_us)), format_duration(max(lengths_us))
        each = f", {low} each" if low == high else f", {low} to {high} each"
    nodes = {row.node for row in rows}
    return RunLine(
        id=None,
        key=id_text(newest.id),
        status="succeeded",
        job_name=None if rows[0].job is None else rows[0].job.name,
        at_us=newest.scheduled_us,
        at_text=f"{times.clock(oldest.scheduled_us)}–{times.clock(newest.scheduled_us)}",
        sentence=f"{len(rows)} runs{each}",
        trigger=TRIGGERS["schedule"] if all(item.cause.name == "SCHEDULE" for item in items) else "",
        node=rows[0].node if len(nodes) == 1 else f"{len(nodes)} nodes",
        is_group=True,
    )
