"""``chronosctl jobs``: the commands that show jobs. The other ``jobs_*`` modules change jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.job_selection import build_query, selection_options
from chronos.cli.ctl.options import all_option, job_argument, limit_option, output_option, watch_options, with_client
from chronos.cli.ctl.tables import (
    Columns,
    format_cell,
    format_instant,
    format_status,
    instant_column,
    print_fields,
    print_page,
    print_value,
)
from chronos.cli.ctl.watch import show_list, show_value
from chronos.cli.lazy_commands import LazyCommands
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

#: The commands that change jobs, or print them for another server, and where they are.
_CHANGES = {
    verb: f"chronos.cli.ctl.commands.{module}:{function}"
    for verb, module, function in (
        *((verb, "jobs_apply", verb) for verb in ("apply", "edit")),
        *(
            (verb, "jobs_actions", verb)
            for verb in ("run", "pause", "resume", "enable", "disable", "delete", "rollback")
        ),
        ("backfill", "jobs_backfill", "backfill"),
        ("create", "jobs_create", "create"),
        ("effective", "jobs_effective", "effective"),
        ("export", "jobs_export", "export"),
        ("set", "jobs_set", "set_"),
    )
}
#: Fields of a job that the server adds.
READ_ONLY_FIELDS = (
    "id",
    "version",
    "state",
    "next_run_at",
    "last_execution",
    "created_at",
    "updated_at",
    "note",
    "held",
    "paused_at",
    "error",
    "diff",
    "warnings",
    "delay_p99_ms",
    "downstream",
    "failing",
    "failing_since",
    "last_success_at",
    "open_runs",
    "overdue_by_ms",
    "p50_ms",
    "p95_ms",
    "paused",
    "recent",
    "recent_runs",
    "retried_runs",
    "running_since",
    "schedule_words",
    "schedule_zone",
    "status",
    "understood_as",
    "upstream",
    "version_author",
    "version_saved_at",
)


@click.group(short_help="Jobs: list, create, apply, run, pause, change.", commands=LazyCommands(_CHANGES))
def jobs() -> None:
    """Show, create and change jobs.

    \b
    Examples:
      chronosctl jobs create hello --every 10s -- echo hi
      chronosctl jobs list
      chronosctl jobs run hello --wait
    """


@jobs.command("list", short_help="List jobs.")
@selection_options
@limit_option(100)
@all_option
@watch_options
@output_option
@with_client
def list_(
    client: "ApiClient", *, output: str, limit: int, everything: bool, every_s: float | None, **options: Any
) -> None:
    """List jobs by name, with their state, schedule, last and next run.

    \b
    Examples:
      chronosctl jobs list -l team=billing --state paused
      chronosctl jobs list --all -o name
      chronosctl jobs list --watch
    """
    query = build_query(client, options)
    max_items = None if everything else limit
    show_list(lambda: client.list_pages("jobs", limit=max_items, query=query), output, COLUMNS, every_s)


@jobs.command(short_help="Show a job.")
@job_argument
@click.option("--version", type=click.IntRange(1), metavar="N", help="Show this version.")
@watch_options
@output_option
@with_client
def get(client: "ApiClient", *, output: str, name: str, version: int | None, every_s: float | None) -> None:
    """Show the job NAME (a name or an id), or one of its versions.

    \b
    Examples:
      chronosctl jobs get hello
      chronosctl jobs get hello --watch
      chronosctl jobs get hello --version 1 -o yaml
    """
    if version is not None and every_s is not None:
        raise click.UsageError("--watch and --version cannot be combined: a version never changes")
    if version is not None:
        print_version(client.get("jobs", name, "versions", str(version), namespace=client.server.namespace), output)
        return
    namespace = client.server.namespace
    show_value(lambda: client.get("jobs", name, namespace=namespace), print_job, output, every_s)


@jobs.command("next", short_help="Print the next runs of a job.")
@job_argument
@click.option(
    "--count", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="The number of runs."
)
@output_option
@with_client
def next_(client: "ApiClient", output: str, name: str, count: int) -> None:
    """Print the next runs of the job NAME; of a paused job, those that resuming it would run. A disabled or finished
    job has none.

    \b
    Example:
      chronosctl jobs next hello --count 3
    """
    page = client.get("jobs", name, "next", count=count, namespace=client.server.namespace)
    if output in ("json", "yaml"):
        print_value(page, output)
    elif output == "jsonl":
        print_value(page["items"], output)
    elif page["items"]:
        for at in page["items"]:
            emit(at)
        if page.get("held"):
            note(f"{name} is paused; these runs are held until it is resumed")
    else:
        note(f"{name} has no future runs")


@jobs.command(short_help="List the versions of a job.")
@job_argument
@limit_option(100)
@output_option
@with_client
def versions(client: "ApiClient", output: str, name: str, limit: int) -> None:
    """List the versions of the job NAME, newest first, with date and author.

    \b
    Example:
      chronosctl jobs versions hello
    """
    query = {"namespace": client.server.namespace}
    print_page(client.list_pages("jobs", name, "versions", limit=limit, query=query), output, VERSIONS)


@jobs.command(short_help="Compare two versions of a job.")
@job_argument
@click.argument("old", type=click.IntRange(1), required=False, metavar="[FROM]")
@click.argument("new", type=click.IntRange(1), required=False, metavar="[TO]")
@output_option
@with_client
def diff(client: "ApiClient", output: str, name: str, old: int | None, new: int | None) -> None:
    """Show the differences between versions FROM and TO of the job NAME, and how its future runs change.

    Without TO, compare FROM with the current version. Without both, show the last change.

    \b
    Example:
      chronosctl jobs diff hello 1 2
    """
    query = {"from": old, "to": new, "namespace": client.server.namespace}
    comparison = client.call("GET", "jobs", name, "diff", query=query).value
    if output in ("json", "jsonl", "yaml"):
        print_value(comparison, output)
        return
    emit(f"{name} from v{comparison['from']} to v{comparison['to']}", bold=True)
    for change in comparison["fields"]:
        field = change["pointer"].strip("/").replace("/", ".")
        if change["old"] == change["new"]:
            emit(f"  {field}: changed (masked)")
        else:
            emit(f"  {field}: {_format_diff_value(change['old'])} → {_format_diff_value(change['new'])}")
    if not comparison["fields"]:
        emit("  no differences")
    print_run_changes(comparison["runs"])


# --- output


def print_job(job: dict[str, Any], output: str) -> None:
    if output == "name":
        emit(job["name"])
        return
    if output not in ("table", "wide"):
        print_value(job, output)
        return
    last = job.get("last_execution") or {}
    print_fields(
        {
            "name": job["name"],
            "namespace": job["namespace"],
            "state": f"{job['state']} ({job['note']})" if job.get("note") else job["state"],
            "error": job.get("error"),
            "version": f"v{job['version']}, saved {format_instant(job['updated_at'])}",
            "description": job.get("description"),
            "schedule": format_schedule(job),
            "next run": _format_next_run(job),
            "last run": f"{format_status(last['status'])}, {format_instant(last['scheduled_at'])}" if last else None,
            "owner": job.get("owner"),
            "tags": job.get("tags"),
            "id": job["id"] if output == "wide" else None,
        }
    )
    rest = {key: value for key, value in job.items() if key not in (*READ_ONLY_FIELDS, *_SUMMARY_FIELDS)}
    from chronos.cli.ctl.tables import to_yaml

    emit("")
    emit(to_yaml(rest).rstrip("\n"))


def print_changed_job(job: dict[str, Any], output: str, message: str) -> None:
    """Print a changed job; as a table only its name and a message."""
    if output == "table":
        emit(job["name"])
        note(message)
    else:
        print_job(job, output)
    print_warnings(job, output)


def print_warnings(saved: Mapping[str, Any], output: str = "table", indent: str = "") -> None:
    """Print what may surprise in a schedule that was saved. JSON and YAML contain it."""
    for warning in saved.get("warnings", ()) if output in ("table", "wide", "name") else ():
        note(f"{indent}! {warning['message']}")


def print_dry_run(saved: dict[str, Any], output: str) -> None:
    """Print the result of a dry run for one job."""
    if output not in ("table", "wide", "name"):
        print_value(saved, output)
        return
    emit(saved["name"])
    at = f", next run {format_instant(saved['next_run_at'])}" if saved.get("next_run_at") else ""
    note(f"would be {saved['result']}: v{saved['version']}, {saved['state']}{at}")
    if saved.get("diff"):
        print_run_changes(saved["diff"])
    print_warnings(saved)


def print_run_changes(runs: Mapping[str, Any], indent: str = "  ") -> None:
    """Print which future runs a change adds and cancels."""
    for sign, part in (("+", "added"), ("-", "canceled")):
        changed = runs[part]
        if changed["count"]:
            first = ", ".join(changed["first"][:3])
            more = ", …" if changed["count"] > 3 else ""
            emit(f"{indent}{sign} {changed['count']} {part} runs until {runs['until'][:10]}: {first}{more}")


def print_version(version: dict[str, Any], output: str) -> None:
    if output not in ("table", "wide", "name"):
        print_value(version, output)
        return
    from chronos.cli.ctl.tables import to_yaml

    emit(f"v{version['version']}, saved {format_instant(version['saved_at'])} by {version['author']}", bold=True)
    emit(to_yaml(version["spec"]).rstrip("\n"))


def format_schedule(job: Mapping[str, Any]) -> str:
    """Return a job's schedule and time zone as one text."""
    schedule = job.get("schedule")
    if schedule is None:
        schedule = "after " + ", ".join(after["job"] for after in job["after"]) if job.get("after") else "once"
    if isinstance(schedule, Mapping):
        schedule = next(value for key, value in schedule.items() if key != "dialect")
    if isinstance(schedule, list):
        schedule = "; also ".join(schedule)
    return f"{schedule} {job['timezone']}" if job.get("timezone") else str(schedule)


def _format_next_run(job: Mapping[str, Any]) -> str | None:
    at = format_instant(job["next_run_at"])
    return f"{at} (held)" if job.get("held") else at


def _last_status(job: Mapping[str, Any]) -> str | None:
    last = job.get("last_execution")
    return None if last is None else format_status(last["status"])


def _format_diff_value(value: object) -> str:
    return "nothing" if value is None else format_cell(value)


_SUMMARY_FIELDS = ("name", "namespace", "enabled", "description", "schedule", "timezone", "owner", "tags")

COLUMNS = Columns(
    usual={
        "NAME": "name",
        "STATE": "state",
        "SCHEDULE": format_schedule,
        "LAST": _last_status,
        "NEXT": _format_next_run,
    },
    wide={
        "NAMESPACE": "namespace",
        "VERSION": lambda job: f"v{job['version']}",
        "OWNER": lambda job: job.get("owner"),
        "TAGS": lambda job: job.get("tags"),
        "ID": "id",
    },
    name="name",
    empty="no jobs; create one: chronosctl jobs create hello --every 10s -- echo hi",
)
VERSIONS = Columns(
    usual={
        "VERSION": lambda version: f"v{version['version']}",
        "SAVED": instant_column("saved_at"),
        "BY": "author",
    },
    wide={"SCHEDULE": lambda version: format_schedule(version["spec"])},
    name="version",
    empty="no versions",
)
