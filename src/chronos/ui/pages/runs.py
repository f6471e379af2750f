"""Runs: the runs of all jobs, those in progress first, then the finished ones, newest first."""

from typing import Any

from chronos.core.execution import Execution, Span, Status
from chronos.errors import NotFound
from chronos.store.contract import ExecutionFilter
from chronos.ui.run_rows import make_rows
from chronos.ui.visit import View, Visit

ROWS = 100
_OPEN_ROWS = 50
_MAX_PAGES = 10  # of history that one page may read for a namespace
_TABS = (("all", "All", None), ("failed", "Failed", "failed"))
_OPEN = (Status.RUNNING, Status.WAITING, Status.READY, Status.QUEUED)


async def show(visit: Visit) -> View:
    """Show the runs of a namespace."""
    if not visit.account.sees(visit.namespace):
        raise NotFound(f'namespace "{visit.namespace}" not found')
    tab = visit.choice("show", ("all", "failed"))
    where = ExecutionFilter(troubled=tab == "failed")
    items, cursor = await _read_page(visit, where)
    finished = [item for item in items if isinstance(item, Span) or item.status.final]
    in_progress = await _read_open(visit) if visit.cursor() is None and tab == "all" else []
    ids = sorted({item.job for item in (*finished, *in_progress)})
    names = await visit.ui.store.names_of(ids)
    nodes = {node.number: node.name for node in await visit.ui.store.nodes()}
    is_grouped = visit.text("grouped") != "no"
    values: dict[str, Any] = {
        "tab": tab,
        "tabs": _TABS,
        "open_rows": make_rows(in_progress, names, nodes, visit.times, is_grouped=False),
        "rows": make_rows(finished, names, nodes, visit.times, is_grouped=is_grouped),
        "is_grouped": is_grouped,
        "is_first": visit.cursor() is None,
        "next": None if cursor is None else cursor.hex(),
    }
    return View(template="runs.html", values=values, parts=("open", "finished"))


async def _read_page(visit: Visit, where: ExecutionFilter) -> tuple[list[Execution | Span], bytes | None]:
    """Return a page of runs of the namespace, and the position after it."""
    cursor = visit.cursor()
    kept: list[Execution | Span] = []
    for _ in range(_MAX_PAGES):
        page = await visit.ui.store.list_executions(where, limit=ROWS - len(kept), cursor=cursor)
        kept += await _filter_namespace(visit, page.items)
        cursor = page.cursor
        if cursor is None or len(kept) >= ROWS:
            break
    return kept, cursor


async def _read_open(visit: Visit) -> list[Execution]:
    """Return the runs in progress, longest first."""
    found: list[Execution] = []
    for status in _OPEN:
        page = await visit.ui.store.list_executions(ExecutionFilter(status=status), limit=_OPEN_ROWS)
        found += [item for item in await _filter_namespace(visit, page.items) if isinstance(item, Execution)]
    return sorted(found, key=lambda run: (run.started_us or run.admitted_us, run.id))[:_OPEN_ROWS]


async def _filter_namespace(visit: Visit, items: list[Execution | Span]) -> list[Execution | Span]:
    names = await visit.ui.store.names_of(sorted({item.job for item in items}))
    return [item for item in items if item.job in names and names[item.job].namespace == visit.namespace]
