"""Rows of a list of runs, with identical neighbours of one job grouped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronos.core.execution import Execution, Span, Status
from chronos.core.schedule.durations import format_duration
from chronos.service.serializers import id_text
from chronos.service.serializers.execution import count_attempts, read_detail
from chronos.store.contract import JobName
from chronos.store.overview import LATE_START_US
from chronos.ui.run_lines import TRIGGERS, describe_run, describe_span
from chronos.ui.status_words import name_run_status
from chronos.ui.time_text import Times

_MIN_GROUP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One row: a run, a span of scheduled times that did not run, or a group of identical runs."""

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
    group: str = ""  # the first run of a group


def make_rows(
    items: Sequence[Execution | Span],
    names: Mapping[bytes, JobName],
    nodes: Mapping[int, str],
    times: Times,
    *,
    is_grouped: bool,
    with_day: bool = False,
) -> list[RunRow]:
    """Return the rows of some runs, in their order."""
    rows: list[RunRow] = []
    index = 0
    while index < len(items):
        item = items[index]
        same = _count_same(items, index) if is_grouped else 1
        if isinstance(item, Execution) and same >= _MIN_GROUP:
            rows.append(
                _group_row([one for one in items[index : index + same] if isinstance(one, Execution)], names, times)
            )
            index += same
            continue
        rows.append(_row(item, names, nodes, times, with_day=with_day))
        index += 1
    return rows


def _is_late(run: Execution, now_us: int) -> bool:
    return now_us - max(run.scheduled_us, run.admitted_us) > LATE_START_US and not run.held


def _count_same(items: Sequence[Execution | Span], start: int) -> int:
    """Return how many neighbours are plain successes of the same job."""
    first = items[start]
    count = 0
    for item in items[start:]:
        if not isinstance(item, Execution) or item.job != first.job or item.status is not Status.SUCCEEDED:
            break
        if item.attempt > 1:
            break
        count += 1
    return count


def _row(
    item: Execution | Span, names: Mapping[bytes, JobName], nodes: Mapping[int, str], times: Times, *, with_day: bool
) -> RunRow:
    name = names[item.job].name if item.job in names else None
    if isinstance(item, Span):
        span_text = times.day_clock(item.from_us)
        if item.count > 1:
            span_text = f"{times.clock(item.from_us)} – {times.clock(item.to_us)}"
        return RunRow(
            id=None,
            key=id_text(item.id),
            status=item.status.name.lower(),
            job_name=name,
            at_us=item.from_us,
            at_text=span_text,
            sentence=f"{item.count:,} {item.status.name.lower()}: {describe_span(item)}"
            if item.count > 1
            else describe_span(item),
            trigger="schedule",
        )
    duration_us = None
    began_us = item.admitted_us if item.started_us is None and not item.status.final else item.started_us
    if began_us is not None:
        duration_us = max(0, (item.finished_us or times.now_us) - began_us)
    attempts = count_attempts(item, read_detail(item))
    return RunRow(
        id=id_text(item.id),
        key=id_text(item.id),
        status=name_run_status(item, is_late=_is_late(item, times.now_us)),
        job_name=name,
        at_us=item.scheduled_us,
        at_text=times.day_clock(item.scheduled_us) if with_day else times.clock(item.scheduled_us),
        sentence=describe_run(item, {"attempts": attempts}),
        duration_us=duration_us,
        trigger=TRIGGERS.get(item.cause.name.lower(), item.cause.name.lower()),
        node=None if item.node is None else nodes.get(item.node, str(item.node)),
        version=item.job_version,
        attempts=attempts,
    )


def _group_row(group: Sequence[Execution], names: Mapping[bytes, JobName], times: Times) -> RunRow:
    newest, oldest = group[0], group[-1]
    lengths_us = [run.finished_us - run.started_us for run in group if run.finished_us and run.started_us]
    each = ""
    if lengths_us:
        low, high = format_duration(max(0, min(lengths_us))), format_duration(max(0, *lengths_us))
        each = f", {low} each" if low == high else f", {low} to {high} each"
    return RunRow(
        id=None,
        key=id_text(newest.id),
        status="succeeded",
        job_name=names[newest.job].name if newest.job in names else None,
        at_us=newest.scheduled_us,
        at_text=f"{times.clock(oldest.scheduled_us)}–{times.clock(newest.scheduled_us)}",
        sentence=f"{len(group)} runs{each}",
        trigger="schedule" if all(run.cause.name == "SCHEDULE" for run in group) else "",
        group=id_text(newest.id),
    )
