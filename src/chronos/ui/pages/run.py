"""Run: one run with its tasks, its log, its requests and the ledger that says why."""

from collections.abc import Sequence
from typing import Any

import msgspec

from chronos.core.credentials import hide_userinfo
from chronos.core.execution import Execution, Status
from chronos.errors import NotFound
from chronos.service.serializers import id_text, read_id
from chronos.service.serializers.execution import count_attempts, lateness_us, read_detail
from chronos.service.views.run_detail import AttemptRow, TaskRow
from chronos.service.views.run_rows import NOT_RUN, find_run_status
from chronos.service.views.schedule_words import describe_schedule
from chronos.store.commands import PROGRESS
from chronos.store.contract import ExecutionView
from chronos.ui.charts.gantt import MAX_ROWS, GanttBar, GanttTask, draw_gantt
from chronos.ui.json_text import MAX_CHARS, format_json
from chronos.ui.ledger import make_ledger
from chronos.ui.log_lines import WINDOW, read_window
from chronos.ui.run_words import TRIGGERS, describe_run
from chronos.ui.visit import PlainText, View, Visit

_SHOWN_ELSEWHERE = ("request", "response", "attempt_id")
_FAILED = ("failed", "timed_out")


async def show(visit: Visit) -> View:
    """Show a run."""
    view = await _find_run(visit)
    run, ui = view.execution, visit.ui
    detail = await ui.service.views.run_detail.get(run.id)
    steps = await ui.service.why.why_execution(run.id, detail=True, zone=visit.times.zone.name)
    job = (await ui.store.jobs_by_id([run.job])).get(run.job)
    schedule = None if job is None else describe_schedule(job)
    tasks = [_to_gantt_task(task) for task in detail.tasks]
    selected = _select_task(visit, detail.tasks)
    attempts = count_attempts(run, read_detail(run))
    record = detail.body
    usual = [] if job is None else await ui.service.views.jobs.rows_of([job])
    values: dict[str, Any] = {
        "run": run,
        "run_id": id_text(run.id),
        "record": record,
        "detail": detail,
        "job_name": None if detail.job is None else detail.job.name,
        "job_zone": schedule.zone if schedule else "UTC",
        "status_name": find_run_status(run, visit.now_us),
        "sentence": describe_run(run, attempts),
        "ledger": make_ledger(steps, visit.times, visit.evidence_url, view.attempts),
        "tasks": detail.tasks,
        "stopped_by": {task["name"]: task.get("stopped_by") for task in record["tasks"]},
        "total_attempts": sum(len(task.attempts) for task in detail.tasks),
        "more_tasks": max(0, len(tasks) - MAX_ROWS),
        "gantt": draw_gantt(tasks, visit.now_us),
        "selected": selected,
        "trigger": TRIGGERS.get(record["trigger"], record["trigger"]),
        "delay_us": lateness_us(run),
        "elapsed_us": None if run.started_us is None else (run.finished_us or visit.now_us) - run.started_us,
        "usual_us": usual[0].p50_us if usual else None,
        "older": detail.neighbours.older,
        "newer": detail.neighbours.newer,
        "is_not_run": run.status in NOT_RUN,
        "payload": format_json(record["payload"]) if "payload" in record else None,
        "result": format_json(record["result"]) if "result" in record else None,
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


def _to_gantt_task(task: TaskRow) -> GanttTask:
    bars = [
        GanttBar(number=one.number, status=one.status, start_us=one.started_us, end_us=one.finished_us)
        for one in task.attempts
        if one.started_us is not None
    ]
    return GanttTask(name=task.name, status=task.status, bars=bars, needs=task.needs)


def _select_task(visit: Visit, tasks: Sequence[TaskRow]) -> TaskRow | None:
    """Return the task of the address; else the one that failed, runs, or comes first."""
    wanted = visit.text("task")
    for task in tasks:
        if task.name == wanted:
            return task
    for status in (*_FAILED, "running", "retrying"):
        for task in tasks:
            if task.status == status:
                return task
    return tasks[0] if tasks else None


async def _read_log(visit: Visit, run: Execution, task: TaskRow | None) -> dict[str, Any]:
    attempt = visit.number("attempt")
    search = (visit.text("find") or "").strip()
    errors_only = visit.text("errors") is not None
    if task is None or run.status in NOT_RUN:
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
            task=task.name,
            attempt=attempt,
            first=visit.number("line"),
            search=search,
            errors_only=errors_only,
            from_end=run.status is not Status.SUCCEEDED,
            long_line=visit.number("whole"),
        )
    )
    chosen = next((one for one in task.attempts if one.number == attempt), None)
    return {
        "log": window,
        "attempt": attempt,
        "attempt_record": _write_exchange(chosen or (task.attempts[-1] if task.attempts else None)),
        "find": search,
        "errors_only": errors_only,
        "window": WINDOW,
    }


def _write_exchange(attempt: AttemptRow | None) -> dict[str, Any] | None:
    """Return what an attempt sent and received, and the other facts of its target."""
    if attempt is None:
        return None
    facts = {name: value for name, value in attempt.facts.items() if name not in _SHOWN_ELSEWHERE}
    if not facts and attempt.request is None and attempt.response is None:
        return None
    return {
        "number": attempt.number,
        "request": None if attempt.request is None else _write_request(attempt.request),
        "response": None if attempt.response is None else _write_response(attempt.response),
        "facts": {name.replace("_", " "): _to_text(value) for name, value in facts.items() if value is not None},
    }


def _write_request(request: dict[str, Any]) -> str:
    return _write_message(f"{request.get('method', '')} {request.get('url', '')}", request)


def _write_response(response: dict[str, Any]) -> str:
    return _write_message(str(response.get("status", "")), response)


def _write_message(first: str, message: dict[str, Any]) -> str:
    """Write a message as HTTP does: the first line, the headers, an empty line and the body."""
    headers = message.get("headers") or {}
    lines = [first, *(f"{name}: {_to_text(value)}" for name, value in headers.items())]
    if (body := message.get("body")) is not None:
        lines += ["", _to_text(body)[:MAX_CHARS]]
    if message.get("truncated"):
        lines += ["", "The rest was not kept."]
    return hide_userinfo("\n".join(lines))


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode(errors="replace")
