"""Job: one job on five tabs: overview, runs, versions, definition and why."""

from typing import Any

import yaml

from chronos.core.job import Job, JobState, Unreadable
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.service.serializers import id_text, write_job
from chronos.service.views.job_rows import RECENT_RUNS
from chronos.service.views.run_rows import FAILED, NOT_RUN
from chronos.store.contract import ExecutionFilter
from chronos.ui.charts.day_squares import draw_days
from chronos.ui.charts.durations import VersionMark, draw_durations
from chronos.ui.ledger import make_ledger
from chronos.ui.run_table import make_lines
from chronos.ui.time_text import Times
from chronos.ui.version_lines import describe_change, list_changes
from chronos.ui.visit import View, Visit

TABS = (
    ("", "Overview"),
    ("/runs", "Runs"),
    ("/versions", "Versions"),
    ("/definition", "Definition"),
    ("/why", "Why"),
)
_OVERVIEW_RUNS = 20
_RUN_FILTERS = {"all": (), "failed": FAILED, "not-run": NOT_RUN}
_ROWS = 100
_NEXT = 10
_SERVER_FIELDS = (
    "id",
    "state",
    "next_run_at",
    "last_execution",
    "created_at",
    "updated_at",
    "version",
    "note",
    "paused_at",
)


async def show_overview(visit: Visit) -> View:
    """Show what the job does, when it runs next, and how it went."""
    job = await visit.find_job()
    length = int(visit.choice("runs", ("90", "60", "365")))
    values = await _shared_values(visit, job, "", recent=length)
    views = visit.ui.service.views
    page = await views.runs.page(ExecutionFilter(job=job.id), limit=_OVERVIEW_RUNS)
    facts = await views.job_facts.get(job)
    days = await views.job_days.get(job)
    versions = await visit.ui.store.versions(job.id, limit=20)
    marks = [VersionMark(version.version, version.saved_us) for version in versions]
    values |= {
        "rows": make_lines(page.rows, visit.times, with_day=True),
        "facts": facts,
        "days": days,
        "squares": draw_days(days),
        "upcoming": views.upcoming.of(job, _NEXT),
        "durations": draw_durations(values["line"].recent, marks, visit.times),
        "length": length,
        "id_text": id_text,
        "versions": versions[:3],
        "changes": list_changes(versions[1], versions[0]) if len(versions) > 1 else [],
        "settings": None if isinstance(job.spec, Unreadable) else await visit.ui.service.jobs.effective_settings(job),
        "describe_change": describe_change,
    }
    return View(
        template="job.html",
        values=values,
        parts=("status_line", "trouble_note", "facts", "duration_chart", "calendar", "rows"),
    )


async def show_runs(visit: Visit) -> View:
    """Show the runs of the job, newest first."""
    job = await visit.find_job()
    tab = visit.choice("show", tuple(_RUN_FILTERS))
    where = ExecutionFilter(job=job.id, statuses=_RUN_FILTERS[tab])
    page = await visit.ui.service.views.runs.page(where, limit=_ROWS, cursor=visit.cursor())
    values = await _shared_values(visit, job, "/runs")
    values |= {
        "rows": make_lines(page.rows, visit.times, with_day=True),
        "shown": tab,
        "is_first": visit.cursor() is None,
        "next": None if page.next_cursor is None else page.next_cursor.hex(),
    }
    return View(template="job_runs.html", values=values, parts=("status_line", "rows"))


async def show_versions(visit: Visit) -> View:
    """Show the versions of the job, and the difference between two of them."""
    job = await visit.find_job()
    versions = await visit.ui.store.versions(job.id, limit=_ROWS, before=visit.number("before"))
    newest = versions[0].version if versions else job.version
    new = visit.number("to") or newest
    old = visit.number("from") or max(1, new - 1)
    diff = None
    if old != new:
        diff = await visit.ui.service.jobs.diff(job.name, old, new, namespace=job.namespace)
    values = await _shared_values(visit, job, "/versions")
    values |= {"versions": versions, "old": old, "new": new, "diff": diff, "describe_change": describe_change}
    return View(template="job_versions.html", values=values, parts=("status_line",))


async def show_definition(visit: Visit) -> View:
    """Show the job as stored, for reading and for ``chronosctl jobs apply``."""
    job = await visit.find_job()
    stored = {name: value for name, value in write_job(job).items() if name not in _SERVER_FIELDS}
    values = await _shared_values(visit, job, "/definition")
    values |= {"text": _to_yaml(stored), "error": job.spec.error if isinstance(job.spec, Unreadable) else None}
    return View(template="job_definition.html", values=values, parts=("status_line",))


async def show_why(visit: Visit) -> View:
    """Explain the last runs of the job and the next one, or any time."""
    job = await visit.find_job()
    zone = _find_zone(job)
    at_us = visit.instant_us("at", zone)
    steps = await visit.ui.service.why.why(
        job.name, at_us, namespace=job.namespace, detail=True, zone=visit.times.zone.name
    )
    values = await _shared_values(visit, job, "/why")
    values |= {
        "ledger": make_ledger(steps, visit.times, visit.evidence_url),
        "at_us": at_us,
        "at_text": visit.text("at") or "",
        "zone_name": zone.name,
        "zone_times": Times(zone, visit.now_us),
    }
    return View(template="job_why.html", values=values, parts=("status_line", "why"))


# --- shared


async def _shared_values(visit: Visit, job: Job, tab: str, *, recent: int = RECENT_RUNS) -> dict[str, Any]:
    """Return what the head of every tab shows."""
    [line] = await visit.ui.service.views.jobs.rows_of([job], recent=recent)
    versions = await visit.ui.store.versions(job.id, limit=1)
    return {
        "job": job,
        "line": line,
        "tab": tab,
        "tabs": TABS,
        "author": versions[0].author if versions else "",
        "is_paused": job.state in (JobState.PAUSED, JobState.DISABLED),
        "is_unreadable": isinstance(job.spec, Unreadable),
    }


def _find_zone(job: Job) -> Zone:
    if isinstance(job.spec, Unreadable) or job.spec.schedule is None:
        return get_zone("UTC")
    return job.spec.schedule.parse(job.name).zone


def _to_yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100))
