"""Runs: the runs of all jobs, those in progress first, then the finished ones, newest first."""

from typing import Any

from chronos.core.execution import Cause, Status
from chronos.errors import NotFound
from chronos.service.views.run_rows import FAILED, NOT_RUN
from chronos.store.contract import ExecutionFilter
from chronos.ui.run_table import make_lines
from chronos.ui.run_totals import read_totals
from chronos.ui.visit import View, Visit

ROWS = 100
_OPEN_ROWS = 50
_FINISHED = tuple(status for status in Status if status.final)
#: The tabs: name, label, icon and what they show.
TABS = (
    ("all", "All", None, ExecutionFilter(statuses=_FINISHED)),
    ("failed", "Failed", "failed", ExecutionFilter(statuses=FAILED)),
    ("not-run", "Skipped or missed", "skipped", ExecutionFilter(statuses=NOT_RUN)),
    ("manual", "Manual", "user", ExecutionFilter(statuses=_FINISHED, causes=(Cause.MANUAL, Cause.REPLAY))),
    ("slow", "Slow", None, ExecutionFilter(statuses=_FINISHED)),
)


async def show(visit: Visit) -> View:
    """Show the runs of a namespace."""
    if not visit.account.sees(visit.namespace):
        raise NotFound(f'namespace "{visit.namespace}" not found')
    tab = visit.choice("show", tuple(name for name, *_ in TABS))
    where = next(filter_ for name, _, _, filter_ in TABS if name == tab)
    runs, cursor = visit.ui.service.views.runs, visit.cursor()
    page = await runs.page(where, namespace=visit.namespace, slow=tab == "slow", limit=ROWS, cursor=cursor)
    open_rows = []
    if cursor is None and tab == "all":
        open_rows = await runs.in_progress(namespace=visit.namespace, limit=_OPEN_ROWS)
    is_grouped = visit.text("grouped") != "no"
    values: dict[str, Any] = {
        "tab": tab,
        "tabs": TABS,
        "totals": await read_totals(visit),
        "open_rows": make_lines(open_rows, visit.times),
        "open_limit": _OPEN_ROWS,
        "rows": make_lines(page.rows, visit.times, is_grouped=is_grouped),
        "is_grouped": is_grouped,
        "is_complete": page.complete,
        "is_first": cursor is None,
        "next": None if page.next_cursor is None else page.next_cursor.hex(),
    }
    return View(template="runs.html", values=values, parts=("open", "finished"))
