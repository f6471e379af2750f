"""Jobs: the list of all jobs, and the welcome page while there are none."""

from typing import Any

from chronos.core.job import JobStatus
from chronos.errors import Invalid, NotFound
from chronos.service.serializers import read_id
from chronos.service.serializers.object_reader import read_duration_us
from chronos.store.contract import JobFilter
from chronos.store.overview import COUNT_CAP, JobSort
from chronos.ui.charts.pulse import draw_pulse
from chronos.ui.charts.sparkline import draw_sparkline
from chronos.ui.filter_text import FilterText, read_filter
from chronos.ui.run_totals import read_totals
from chronos.ui.visit import Redirect, View, Visit

ROWS = 100
_TOKENS = ("tag", "owner", "status", "zone", "queue", "target", "next")
_STATUSES = tuple(status.value for status in JobStatus)
#: The tabs: status, label, icon, and whether the count has the colour of the status.
TABS = (
    ("", "All", None, False),
    ("failing", "Failing", "failed", True),
    ("late", "Late", "late", True),
    ("running", "Running", "running", False),
    ("retrying", "Retrying", "retrying", False),
    ("paused", "Paused", "paused", False),
    ("disabled", "Disabled", "disabled", False),
)
_SORTS = {"name": JobSort.NAME, "next": JobSort.NEXT_RUN, "last": JobSort.LAST_RUN}


async def show(visit: Visit) -> View | Redirect:
    """Show a page of jobs."""
    if visit.text("jump") is not None and (target := await _find_jump(visit)) is not None:
        return target
    wanted = read_filter(visit.text("q"), _TOKENS, {"status": _STATUSES})
    visit.notes.extend(wanted.faults)
    sort, cursor = visit.choice("sort", tuple(_SORTS)), visit.cursor()
    views = visit.ui.service.views
    where = _to_job_filter(visit, wanted)
    try:
        page = await views.jobs.page(where, sort=_SORTS[sort], limit=ROWS, cursor=cursor)
    except Invalid as error:
        if cursor is None:
            raise
        visit.notes.append(f"The page is not understood: {error}. This is the first page.")
        page = await views.jobs.page(where, sort=_SORTS[sort], limit=ROWS)
    counts = await views.jobs.counts(visit.namespace)
    if not counts.total and not wanted.text:
        return View(template="welcome.html", values=await _welcome_values(visit), parts=("waiting",))
    totals = await read_totals(visit)
    values = {
        "lines": page.rows,
        "filter": wanted,
        "tabs": TABS,
        "counts": counts,
        "count_of": {status.value: number for status, number in counts.by_status.items()},
        "cap": COUNT_CAP,
        "sort": sort,
        "next": None if page.next_cursor is None else page.next_cursor.hex(),
        "previous": None if page.previous_cursor is None else page.previous_cursor.hex(),
        "is_complete": page.complete,
        "is_first": cursor is None,
        "sparkline": draw_sparkline,
        "facets": await views.facets.get(visit.namespace),
        "totals": totals,
        "pulse": None if totals is None or not totals.finished else draw_pulse(totals.stats, visit.times),
    }
    return View(template="jobs.html", values=values, parts=("tabs", "rows"))


def _to_job_filter(visit: Visit, wanted: FilterText) -> JobFilter:
    if not visit.account.sees(visit.namespace):
        raise NotFound(f'namespace "{visit.namespace}" not found')
    key, equals, value = (wanted.get("tag") or "").partition("=")
    status = wanted.get("status")
    return JobFilter(
        namespace=visit.namespace,
        contains=wanted.words,
        tag=(key, value if equals else None) if key else None,
        owner=wanted.get("owner"),
        status=None if status is None else JobStatus(status),
        zone=wanted.get("zone"),
        queue=wanted.get("queue"),
        target=wanted.get("target"),
        next_before_us=_read_next(visit, wanted.get("next")),
    )


def _read_next(visit: Visit, text: str | None) -> int | None:
    """Return the instant of ``next:<1h``: one hour from now."""
    if text is None:
        return None
    try:
        return visit.now_us + read_duration_us(text.removeprefix("<"))
    except (Invalid, ValueError):
        visit.notes.append(f'next is "{text[:64]}"; write it like next:<1h.')
        return None


async def _find_jump(visit: Visit) -> Redirect | None:
    """Return the job or run that the text names exactly."""
    text = (visit.text("q") or "").strip()
    if (run := read_id(text)) is not None and await visit.ui.store.execution(run) is not None:
        return Redirect(path=visit.run_url(text))
    try:
        job = await visit.ui.service.jobs.get(text, visit.namespace) if text else None
    except NotFound:
        return None
    return None if job is None else Redirect(path=visit.job_url(job.name))


async def _welcome_values(visit: Visit) -> dict[str, Any]:
    status = visit.ui.status()
    nodes = [node for node in await visit.ui.store.nodes() if node.stopped_us is None]
    return {"live_nodes": len(nodes), "slots": sum(node.slots for node in nodes), "status_of_node": status}
