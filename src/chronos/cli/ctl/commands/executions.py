"""``chronosctl executions`` (also ``runs``): what ran, what runs, and why."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs_actions import drop_none, request_replay
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
)


@click.group(short_help="Runs of jobs: list, watch, cancel, replay, why.")
def executions() -> None:
    """Look at the runs of jobs, and act on them. "chronosctl runs" is the same.

    \b
    Examples:
      chronosctl executions list hello
      chronosctl runs list --status troubled
    """


@executions.command("list", short_help="List executions, newest first.")
@click.argument("of", metavar="[JOB]", required=False, shell_complete=complete_job)
@click.option("--job", metavar="NAME", shell_complete=complete_job, help="Only of this job; the same as JOB.")
@click.option("--status", "wanted", type=click.Choice(STATUSES), help="Only those; troubled is all that went wrong.")
@limit_option(20)
@all_option
@watch_options
@output_option
@with_client
def list_(
    client: "ApiClient",
    *,
    output: str,
    of: str | None,
    job: str | None,
    wanted: str | None,
    limit: int,
    everything: bool,
    every_s: float | None,
) -> None:
    """List executions, newest first, of JOB or of all. Many skipped or missed instants in a row are one line.

    \b
    Examples:
      chronosctl executions list hello --limit 5
      chronosctl executions list --status failed -o name
    """
    if of is not None and job not in (None, of):
        raise click.UsageError(f"JOB is {of}, and --job is {job}; name one of them")
    most = None if everything else limit
    show_list(lambda: _list_recent(client, of or job, most, wanted), output, COLUMNS, every_s)


@executions.command(short_help="Look at an execution.")
@click.argument("id_", metavar="ID")
@output_option
@with_client
def get(client: "ApiClient", output: str, id_: str) -> None:
    """Look at the execution ID: its tasks, their attempts, how it ended.

    \b
    Example:
      chronosctl executions get ID
    """
    print_execution(client.get("executions", id_), output)


@executions.command(short_help="Print what an execution wrote.")
@click.argument("id_", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until it is over.")
@click.option("--task", metavar="NAME", help="Only of this task.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only of this attempt.")
@with_client
def logs(client: "ApiClient", id_: str, follow: bool, task: str | None, attempt: int | None) -> None:
    """Print what the tasks of the execution ID wrote; of much output the beginning and the end.

    \b
    Example:
      chronosctl executions logs ID --follow
    """
    query = drop_none(task=task, attempt=attempt)
    if follow:
        for line in client.stream("executions", id_, "log", query={**query, "follow": True}):
            _emit_log(line.decode(errors="replace"))
        return
    for written in client.text("executions", id_, "log", query=query).splitlines(keepends=True):
        _emit_log(written)


@executions.command(short_help="Watch the runs of a job, or one execution until it is over.")
@click.argument("what", metavar="[JOB|ID]", required=False, shell_complete=complete_job)
@click.option("--interval", type=Seconds(), default="1s", show_default=True, metavar="D", help="How often to look.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N", help="How many.")
@output_option
@with_client
def watch(client: "ApiClient", output: str, what: str | None, interval: float, limit: int) -> None:
    """Watch the latest executions, of JOB or of all, until you interrupt it: a table that is redrawn on a terminal,
    JSON lines of what is new or has changed when piped. An execution's ID is watched until it is over, and mirrored:
    the exit code is 6 when it did not succeed.

    \b
    Examples:
      chronosctl executions watch hello
      chronosctl executions watch ID
    """
    from chronos.service.serializers.identifiers import read_id

    if what is not None and read_id(what) is not None:
        wait_and_print(client, what, output, timeout_s=None)
        return
    show_list(lambda: _list_recent(client, what, limit, None), output, COLUMNS, interval)


@executions.command(short_help="Cancel an execution.")
@click.argument("id_", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Why, for those who look later.")
@dry_run_option
@output_option
@with_client
def cancel(client: "ApiClient", output: str, id_: str, reason: str | None, dry_run: bool) -> None:
    """Cancel the execution ID: what has not started never will, what runs is asked to stop.

    \b
    Example:
      chronosctl executions cancel ID --reason "started by mistake"
    """
    path, query = ("executions", id_, "cancel"), {"dry_run": dry_run or None}
    found = client.call("POST", *path, query=query, body=drop_none(reason=reason)).value
    asked = "was asked to stop" if found.get("status") == "running" else "canceled"
    print_result(found, output, id_, "would be canceled" if dry_run else asked)


@executions.command(short_help="Run an execution again.")
@click.argument("id_", metavar="ID")
@replay_options
@output_option
@with_client
def replay(client: "ApiClient", output: str, id_: str, **wishes: Any) -> None:
    """Run the execution ID again, as a new one that is linked to it; prints the new one's id.

    \b
    Example:
      chronosctl executions replay ID --from-failed --wait
    """
    request_replay(client, "executions", id_, output, **wishes)


@executions.command(short_help="Send a signal to an execution that waits for it.")
@click.argument("id_", metavar="ID")
@click.argument("name", metavar="SIGNAL")
@click.option("--payload", type=Json(), metavar="JSON", help="What the one who waits is given; @FILE reads a file.")
@dry_run_option
@output_option
@with_client
def signal(client: "ApiClient", output: str, id_: str, name: str, payload: Any, dry_run: bool) -> None:
    """Send SIGNAL to the execution ID, which goes on if it waits for it; else this is a conflict (exit code 4).

    \b
    Example:
      chronosctl executions signal ID approved --payload '{"by": "ana"}'
    """
    path, query = ("executions", id_, "signal"), {"dry_run": dry_run or None}
    found = client.call("POST", *path, query=query, body=drop_none(name=name, payload=payload)).value
    print_result(found, output, id_, f"{name} would be sent" if dry_run else f"{name} was taken")


@executions.command(short_help="Why something ran, or did not.")
@click.argument("what", metavar="ID|JOB", shell_complete=complete_job)
@click.option("--at", metavar="T", help="With JOB: this instant.  [default: the last ones and the next]")
@output_option
@with_client
def why(client: "ApiClient", output: str, what: str, at: str | None) -> None:
    """Say what happened to the execution ID, step by step; or why JOB ran, or did not run, at an instant.

    \b
    Examples:
      chronosctl executions why ID
      chronosctl executions why hello --at 2026-01-01T00:00:00Z
    """
    from chronos.service.serializers.identifiers import read_id

    if at is None and read_id(what) is not None:
        found = client.get("executions", what, "why")
    else:
        found = client.get("jobs", what, "why", at=at, namespace=client.server.namespace)
    if output == "jsonl":
        print_value(found["steps"], output)
    elif output in ("json", "yaml"):
        print_value(found, output)
    else:
        print_items(found["steps"], output, STEPS)


# --- how executions look


def print_execution(found: dict[str, Any], output: str) -> None:
    """One execution."""
    if output == "name":
        emit(found["id"])
        return
    if output not in ("table", "wide"):
        print_value(found, output)
        return
    reason = found.get("reason") or {}
    print_fields(
        {
            "id": found["id"],
            "job": f"{found.get('job_name') or found['job_id']} v{found['job_version']}",
            "status": format_status(found["status"]),
            "reason": reason.get("message"),
            "trigger": found["trigger"],
            "scheduled": format_instant(found["scheduled_at"]),
            "started": format_instant(found["started_at"]),
            "finished": format_instant(found["finished_at"]),
            "took": format_milliseconds(found["duration_ms"]),
            "late": format_milliseconds(found["lateness_ms"]),
            "node": found["node"],
            "replay of": found.get("replay_of"),
            "wakes": format_instant(found.get("wakes_at")),
            "result": found.get("result"),
        }
    )
    if found.get("tasks"):
        emit("")
        print_items(_attempt_rows(found), output, ATTEMPTS)


def _emit_log(line: str) -> None:
    """A line as it was written; on a terminal without what would steer it."""
    import sys

    if sys.stdout is not None and sys.stdout.isatty():
        emit(line.rstrip("\r\n").expandtabs())
    else:
        click.echo(line, nl=False)


def _list_recent(client: "ApiClient", job: str | None, limit: int | None, wanted: str | None) -> dict[str, Any]:
    query = {"status": wanted, "namespace": client.server.namespace}
    path = ("executions",) if job is None else ("jobs", job, "executions")
    return client.pages(*path, limit=limit, query=query)


def _attempt_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each attempt of each task; a task without any has one too."""
    return [
        {**attempt, "task": f"{task['name']} (retired)" if task.get("retired") else task["name"]}
        for task in found["tasks"]
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
    none="there are no executions",
)
ATTEMPTS = Columns(
    usual={
        "TASK": "task",
        "TRY": lambda attempt: attempt.get("number"),
        "STATUS": lambda attempt: format_status(attempt["status"]),
        "STARTED": lambda attempt: format_instant(attempt.get("started_at")),
        "FINISHED": lambda attempt: format_instant(attempt.get("finished_at")),
        "ERROR": lambda attempt: attempt.get("error"),
    },
    wide={"WORKER": lambda attempt: attempt.get("worker"), "EXIT CODE": lambda attempt: attempt.get("exit_code")},
    name="task",
    none="",
)
STEPS = Columns(
    usual={
        "AT": instant_column("at"),
        "VERDICT": lambda step: step["verdict"].replace("_", " "),
        "": "sentence",
    },
    wide={},
    name="verdict",
    none="nothing is on record",
)
