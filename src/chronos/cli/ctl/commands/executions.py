"""``chronosctl executions`` (also ``runs``): list, watch, cancel and replay runs, and explain them."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs_actions import drop_none, request_replay
from chronos.cli.ctl.execution_ids import execution_argument, find_id, is_full_id, resolve_id
from chronos.cli.ctl.options import (
    Json,
    Seconds,
    all_option,
    complete_job,
    dry_run_option,
    limit_option,
    output_option,
    replay_options,
    watch_options,
    with_client,
)
from chronos.cli.ctl.tables import (
    Columns,
    format_instant,
    format_milliseconds,
    format_status,
    instant_column,
    print_fields,
    print_items,
    print_result,
    print_value,
)
from chronos.cli.ctl.watch import show_list, wait_and_print
from chronos.cli.lazy_commands import LazyCommands
from chronos.cli.output import emit

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

STATUSES = (
    "ready",
    "queued",
    "running",
    "waiting",
    "succeeded",
    "completed_with_errors",
    "failed",
    "canceled",
    "skipped",
    "missed",
    "stale",
    "troubled",
    "pending",
    "in_progress",
    "timed_out",
    "success",
)


@click.group(
    commands=LazyCommands({"create": "chronos.cli.ctl.commands.executions_create:create"}),
    short_help="Runs of jobs: list, watch, cancel, replay, explain.",
)
def executions() -> None:
    """Show and control the runs of jobs. "chronosctl runs" is the same.

    \b
    Examples:
      chronosctl executions list hello
      chronosctl runs list --status troubled
      chronosctl runs create --wait -- echo hi
    """


@executions.command("list", short_help="List executions, newest first.")
@click.argument("job_argument", metavar="[JOB]", required=False, shell_complete=complete_job)
@click.option("--job", metavar="NAME", shell_complete=complete_job, help="Only runs of this job; the same as JOB.")
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    help="Only runs with this status; troubled means any problem, pending not started, in_progress started, not over.",
)
@limit_option(20)
@all_option
@watch_options
@output_option
@with_client
def list_(
    client: "ApiClient",
    *,
    output: str,
    job_argument: str | None,
    job: str | None,
    status: str | None,
    limit: int,
    everything: bool,
    every_s: float | None,
) -> None:
    """List executions of JOB, or of all jobs, newest first. Consecutive skipped or missed instants are one line.

    \b
    Examples:
      chronosctl executions list hello --limit 5
      chronosctl executions list --status failed -o name
    """
    if job_argument is not None and job not in (None, job_argument):
        raise click.UsageError(f"JOB is {job_argument}, but --job is {job}; give only one")
    max_items = None if everything else limit
    show_list(lambda: _list_recent(client, job_argument or job, max_items, status), output, COLUMNS, every_s)


@executions.command(short_help="Show an execution.")
@execution_argument
@output_option
@with_client
def get(client: "ApiClient", output: str, id_: str) -> None:
    """Show the execution ID: its status, its tasks and their attempts.

    \b
    Example:
      chronosctl executions get ID
    """
    print_execution(client.get("executions", resolve_id(client, id_)), output)


@executions.command(short_help="Print the output of an execution.")
@execution_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the execution ends.")
@click.option("--task", metavar="NAME", help="Only the output of this task.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only the output of this attempt.")
@with_client
def logs(client: "ApiClient", id_: str, follow: bool, task: str | None, attempt: int | None) -> None:
    """Print the output of the tasks of the execution ID. Long output is cut to its beginning and end.

    \b
    Example:
      chronosctl executions logs ID --follow
    """
    id_, query = resolve_id(client, id_), drop_none(task=task, attempt=attempt)
    if follow:
        for raw in client.stream("executions", id_, "log", query={**query, "follow": True}):
            _emit_log(raw.decode(errors="replace"))
        return
    print_log(client.get_text("executions", id_, "log", query=query))


@executions.command(short_help="Watch the runs of a job, or one execution until it ends.")
@click.argument("job_or_id", metavar="[JOB|ID]", required=False, shell_complete=complete_job)
@click.option("--interval", type=Seconds(), default=1.0, show_default="1s", metavar="D", help="The interval.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="N",
    help="The maximum number of runs.",
)
@output_option
@with_client
def watch(client: "ApiClient", output: str, job_or_id: str | None, interval: float, limit: int) -> None:
    """Watch the latest executions of JOB, or of all jobs, until you press Ctrl-C. A terminal shows a table; a pipe
    receives new and changed executions as JSON lines. With an execution's ID, wait until it ends; the exit code is 6
    if it did not succeed.

    \b
    Examples:
      chronosctl executions watch hello
      chronosctl executions watch ID
    """
    execution = None if job_or_id is None else _find_execution(client, job_or_id)
    if execution is not None:
        wait_and_print(client, execution, output, timeout_s=None)
        return
    show_list(lambda: _list_recent(client, job_or_id, limit, None), output, COLUMNS, interval)


@executions.command(short_help="Cancel an execution.")
@execution_argument
@click.option("--reason", metavar="TEXT", help="A reason for the history.")
@dry_run_option
@output_option
@with_client
def cancel(client: "ApiClient", output: str, id_: str, reason: str | None, dry_run: bool) -> None:
    """Cancel the execution ID. A running one is asked to stop; one that has not started never starts.

    \b
    Example:
      chronosctl executions cancel ID --reason "started by mistake"
    """
    id_ = resolve_id(client, id_)
    path, query = ("executions", id_, "cancel"), {"dry_run": dry_run or None}
    reply = client.call("POST", *path, query=query, body=drop_none(reason=reason)).value
    message = "was asked to stop" if reply.get("status") == "running" else "canceled"
    print_result(reply, output, id_, "would be canceled" if dry_run else message)


@executions.command(short_help="Run an execution again.")
@execution_argument
@replay_options
@output_option
@with_client
def replay(client: "ApiClient", output: str, id_: str, **options: Any) -> None:
    """Run the execution ID again, as a new execution that links to it. Prints the new execution's id.

    \b
    Examples:
      chronosctl executions replay ID --from-failed --wait
      chronosctl executions replay ID --task load --task publish
    """
    request_replay(client, "executions", resolve_id(client, id_), output, **options)


@executions.command(short_help="Send a signal to a waiting execution.")
@execution_argument
@click.argument("name", metavar="SIGNAL")
@click.option("--payload", type=Json(), metavar="JSON", help="A value for the waiting task; @FILE reads a file.")
@dry_run_option
@output_option
@with_client
def signal(client: "ApiClient", output: str, id_: str, name: str, payload: Any, dry_run: bool) -> None:
    """Send SIGNAL to the execution ID, which continues if it waits for it. If not, the exit code is 4.

    \b
    Example:
      chronosctl executions signal ID approved --payload '{"by": "ana"}'
    """
    id_ = resolve_id(client, id_)
    path, query = ("executions", id_, "signal"), {"dry_run": dry_run or None}
    reply = client.call("POST", *path, query=query, body=drop_none(name=name, payload=payload)).value
    print_result(reply, output, id_, f"{name} would be sent" if dry_run else f"{name} was received")


@executions.command(short_help="Explain why something ran, or did not.")
@click.argument("job_or_id", metavar="ID|JOB", shell_complete=complete_job)
@click.option("--at", metavar="T", help="With JOB: the instant to explain.  [default: the latest ones and the next]")
@output_option
@with_client
def why(client: "ApiClient", output: str, job_or_id: str, at: str | None) -> None:
    """Explain what happened to the execution ID, step by step, or why JOB ran, or did not run, at an instant.

    \b
    Examples:
      chronosctl executions why ID
      chronosctl executions why hello --at 2026-01-01T00:00:00Z
    """
    execution = _find_execution(client, job_or_id) if at is None else None
    if execution is not None:
        explanation = client.get("executions", execution, "why")
    else:
        explanation = client.get("jobs", job_or_id, "why", at=at, namespace=client.server.namespace)
    if output == "jsonl":
        print_value(explanation["steps"], output)
    elif output in ("json", "yaml"):
        print_value(explanation, output)
    else:
        print_items(explanation["steps"], output, STEPS)


# --- output


def print_execution(execution: dict[str, Any], output: str) -> None:
    if output == "name":
        emit(execution["id"])
        return
    if output not in ("table", "wide"):
        print_value(execution, output)
        return
    reason = execution.get("reason") or {}
    print_fields(
        {
            "id": execution["id"],
            "job": f"{execution.get('job_name') or execution['job_id']} v{execution['job_version']}",
            "status": format_status(execution["status"]),
            "reason": reason.get("message"),
            "trigger": execution["trigger"],
            "scheduled": format_instant(execution["scheduled_at"]),
            "started": format_instant(execution["started_at"]),
            "finished": format_instant(execution["finished_at"]),
            "took": format_milliseconds(execution["duration_ms"]),
            "late": format_milliseconds(execution["lateness_ms"]),
            "node": execution["node"],
            "replay of": execution.get("replay_of"),
            "wakes": format_instant(execution.get("wakes_at")),
            "result": execution.get("result"),
        }
    )
    if execution.get("tasks"):
        emit("")
        print_items(_attempt_rows(execution), output, ATTEMPTS)


def print_log(text: str) -> None:
    """Print the output of a run."""
    for line in text.splitlines(keepends=True):
        _emit_log(line)


def _emit_log(line: str) -> None:
    """Print a line of a task's output unchanged; on a terminal without control characters."""
    import sys

    if sys.stdout is not None and sys.stdout.isatty():
        emit(line.rstrip("\r\n").expandtabs())
    else:
        click.echo(line, nl=False)


def _find_execution(client: "ApiClient", job_or_id: str) -> str | None:
    """Return the id of the execution that a text means, or None if it is the name of a job."""
    return None if not is_full_id(job_or_id) and client.has_job(job_or_id) else find_id(client, job_or_id)


def _list_recent(client: "ApiClient", job: str | None, limit: int | None, status: str | None) -> dict[str, Any]:
    query = {"status": status, "namespace": client.server.namespace}
    path = ("executions",) if job is None else ("jobs", job, "executions")
    return client.list_pages(*path, limit=limit, query=query)


def _attempt_rows(execution: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per attempt. A task without attempts has one row, too."""
    return [
        {**attempt, "task": f"{task['name']} (retired)" if task.get("retired") else task["name"]}
        for task in execution["tasks"]
        for attempt in task["attempts"] or [{"status": task["status"], "error": task.get("error")}]
    ]


def _format_reason(item: Any) -> str | None:
    if item.get("status") == "succeeded":
        return None
    return (item.get("reason") or {}).get("message")


def _format_scheduled(item: Any) -> str | None:
    if item["kind"] == "span":
        return f"{format_instant(item['from'])} to {format_instant(item['to'])}"
    return format_instant(item["scheduled_at"])


def _format_item_status(item: Any) -> str:
    return (
        f"{format_status(item['status'])} ×{item['count']}" if item["kind"] == "span" else format_status(item["status"])
    )


COLUMNS = Columns(
    usual={
        "ID": "id",
        "JOB": lambda item: item.get("job_name"),
        "STATUS": _format_item_status,
        "SCHEDULED": _format_scheduled,
        "TOOK": lambda item: format_milliseconds(item.get("duration_ms")),
        "REASON": _format_reason,
    },
    wide={
        "TRIGGER": lambda item: item.get("trigger"),
        "LATE": lambda item: format_milliseconds(item.get("lateness_ms")),
        "ATTEMPTS": lambda item: item.get("attempts"),
        "NODE": lambda item: item.get("node"),
    },
    name="id",
    empty="no executions",
)
ATTEMPTS = Columns(
    usual={
        "TASK": "task",
        "ATTEMPT": lambda attempt: attempt.get("number"),
        "STATUS": lambda attempt: format_status(attempt["status"]),
        "STARTED": lambda attempt: format_instant(attempt.get("started_at")),
        "FINISHED": lambda attempt: format_instant(attempt.get("finished_at")),
        "ERROR": lambda attempt: attempt.get("error"),
    },
    wide={"NODE": lambda attempt: attempt.get("worker"), "EXIT CODE": lambda attempt: attempt.get("exit_code")},
    name="task",
    empty="",
)
STEPS = Columns(
    usual={
        "AT": instant_column("at"),
        "VERDICT": lambda step: step["verdict"].replace("_", " "),
        "EXPLANATION": "sentence",
    },
    wide={},
    name="verdict",
    empty="nothing is recorded",
)
