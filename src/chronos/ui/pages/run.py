"""Run: one run with its tasks, its log, its requests and the ledger that says why."""

from typing import Any

import msgspec

from chronos.core.credentials import hide_userinfo
from chronos.core.execution import Execution, Status
from chronos.core.job import Job, JobSpec, Unreadable
from chronos.core.schedule.timezones import get_zone
from chronos.errors import NotFound
from chronos.service.serializers import id_text, read_id
from chronos.service.serializers.execution import lateness_us
from chronos.service.views.schedule_words import describe_schedule
from chronos.store.commands import PROGRESS
from chronos.store.contract import ExecutionFilter, ExecutionView
from chronos.ui.charts.gantt import MAX_ROWS, GanttBar, GanttTask, draw_gantt
from chronos.ui.json_text import format_json
from chronos.ui.ledger import make_ledger
from chronos.ui.log_lines import WINDOW, read_window
from chronos.ui.run_lines import TRIGGERS, describe_run, parse_us
from chronos.ui.status_words import name_run_status
from chronos.ui.visit import PlainText, View, Visit

_FAILED = ("failed", "timed_out")
_NOT_RUN = (Status.SKIPPED, Status.MISSED)


async def show(visit: Visit) -> View:
    """Show a run."""
    view = await _find_run(visit)
    run = view.execution
    ui = visit.ui
    job = (await ui.store.jobs_by_id([run.job])).get(run.job)
    record = await ui.service.runs.get_json(run.id)
    steps = await ui.service.why.why_execution(run.id)
    spec = await _find_spec(visit, run, job)
    tasks = [_make_task(task, spec) for task in record["tasks"]]
    selected = _select_task(visit, record["tasks"])
    previous = await ui.store.list_executions(ExecutionFilter(job=run.job), limit=1, cursor=run.id)
    schedule = None if job is None else describe_schedule(job)
    values: dict[str, Any] = {
        "run": run,
        "run_id": id_text(run.id),
        "record": record,
        "job_name": record["job_name"],
        "job_zone": get_zone(schedule.zone if schedule else "UTC").name,
        "status_name": name_run_status(run),
        "sentence": describe_run(run, record),
        "ledger": make_ledger(steps, visit.times, view.attempts),
        "tasks": record["tasks"],
        "total_attempts": sum(len(task["attempts"]) for task in record["tasks"]),
        "more_tasks": max(0, len(tasks) - MAX_ROWS),
        "gantt": draw_gantt(tasks, visit.now_us),
        "selected": selected,
        "trigger": TRIGGERS.get(record["trigger"], record["trigger"]),
        "delay_us": lateness_us(run),
        "elapsed_us": None if run.started_us is None else (run.finished_us or visit.now_us) - run.started_us,
        "previous": next((item for item in previous.items if isinstance(item, Execution)), None),
        "is_not_run": run.status in _NOT_RUN,
        "payload": format_json(record["payload"]) if "payload" in record else None,
        "result": format_json(record["result"]) if "result" in record else None,
        "parse_us": parse_us,
        "id_text": id_text,
    }
    values |= await _read_log(visit, run, selected)
    parts = ("why", "facts", "tasks", "log", "status_line")
    return View(template="run.html", values=values, parts=parts)


async def show_raw_log(visit: Visit) -> PlainText:
    """Show the output of a run as one text."""
    view = await _find_run(visit)
    rows = await visit.ui.store.output(view.execution.id)
    return PlainText(text="".join(row.text for row in rows if row.part != PROGRESS))


async def _find_run(visit: Visit) -> ExecutionView:
    text = visit.request.match_info["id"]
    found = read_id(text)
    view = None if found is None else await visit.ui.store.execution(found)
    if view is None:
        raise NotFound(f'run "{text[:64]}" not found; it may have been removed with its history')
    names = await visit.ui.store.names_of([view.execution.job])
    name = names.get(view.execution.job)
    is_visible = visit.account.sees_everything if name is None else visit.account.sees(name.namespace)
    if not is_visible:
        raise NotFound(f'run "{text[:64]}" not found; it may have been removed with its history')
    if name is not None:
        visit.namespace = name.namespace  # links lead to the namespace of the run
    return view


async def _find_spec(visit: Visit, run: Execution, job: Job | None) -> JobSpec | None:
    """Return the definition that ran, if it is still known."""
    if job is not None and job.version == run.job_version:
        spec: JobSpec | None = job.spec
    else:
        key = (run.job, run.job_version)
        spec = (await visit.ui.store.specs_at([key])).get(key)
    return None if isinstance(spec, Unreadable) else spec


def _make_task(task: dict[str, Any], spec: JobSpec | None) -> GanttTask:
    bars = [
        GanttBar(
            number=attempt["number"],
            status=attempt["status"],
            start_us=start_us,
            end_us=parse_us(attempt["finished_at"]),
        )
        for attempt in task["attempts"]
        if (start_us := parse_us(attempt["started_at"])) is not None
    ]
    needs = () if spec is None else next((one.needs for one in spec.tasks if one.name == task["name"]), ())
    return GanttTask(name=task["name"], status=task["status"], bars=bars, needs=needs)


def _select_task(visit: Visit, tasks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the task of the address; else the one that failed, runs, or comes first."""
    wanted = visit.text("task")
    for task in tasks:
        if task["name"] == wanted:
            return task
    for status in (*_FAILED, "running", "retrying"):
        for task in tasks:
            if task["status"] == status:
                return task
    return tasks[0] if tasks else None


async def _read_log(visit: Visit, run: Execution, task: dict[str, Any] | None) -> dict[str, Any]:
    attempt = visit.number("attempt")
    search = (visit.text("find") or "").strip()
    errors_only = visit.text("errors") is not None
    if task is None or run.status in _NOT_RUN:
        return {
            "log": None,
            "attempt": None,
            "attempt_record": None,
            "find": "",
            "errors_only": False,
            "window": WINDOW,
        }
    rows = await visit.ui.store.output(run.id)
    window = await visit.ui.slicer.run_in_thread(
        lambda: read_window(
            rows,
            task=task["name"],
            attempt=attempt,
            first=visit.number("line"),
            search=search,
            errors_only=errors_only,
            from_end=run.status is not Status.SUCCEEDED,
            long_line=visit.number("whole"),
        )
    )
    chosen = next((one for one in task["attempts"] if one["number"] == attempt), None)
    return {
        "log": window,
        "attempt": attempt,
        "attempt_record": _write_exchange(chosen or (task["attempts"][-1] if task["attempts"] else None)),
        "find": search,
        "errors_only": errors_only,
        "window": WINDOW,
    }


def _write_exchange(attempt: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the facts of an attempt's target: the response, the exit code and so on."""
    if attempt is None:
        return None
    known = ("number", "status", "started_at", "finished_at", "error", "worker")
    facts = {name: value for name, value in attempt.items() if name not in known and value is not None}
    if not facts:
        return None
    request, response = facts.pop("request", None), facts.pop("response", None)
    return {
        "number": attempt["number"],
        "request": None if request is None else _write_message(request),
        "response": None if response is None else _write_message(response),
        "facts": {name.replace("_", " "): _to_text(value) for name, value in facts.items()},
    }


def _write_message(message: Any) -> str:
    return hide_userinfo(format_json(message))


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode(errors="replace")
