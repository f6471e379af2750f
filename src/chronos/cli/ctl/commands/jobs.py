"""``chronosctl jobs``: looking at jobs. The modules beside this one change them."""

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
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

#: Fields that the server adds to what was said of a job.
READ_ONLY_FIELDS = (
    "id",
    "version",
    "state",
    "next_run_at",
    "last_execution",
    "created_at",
    "updated_at",
    "note",
    "paused_at",
    "error",
)


@click.group(short_help="Jobs: list, create, apply, run, pause, change.")
def jobs() -> None:
    """Look at the jobs of a server, and change them.

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
    client: "ApiClient", *, output: str, limit: int, everything: bool, every_s: float | None, **choice: Any
) -> None:
    """List jobs by name: their state, schedule, last and next run.

    \b
    Examples:
      chronosctl jobs list -l team=billing --state paused
      chronosctl jobs list --all -o name
      chronosctl jobs list --watch
    """
    query = build_query(client, choice)
    most = None if everything else limit
    show_list(lambda: client.pages("jobs", limit=most, query=query), output, COLUMNS, every_s)


@jobs.command(short_help="Look at a job.")
@job_argument
@click.option("--version", type=click.IntRange(1), metavar="N", help="What it said in this version.")
@watch_options
@output_option
@with_client
def get(client: "ApiClient", *, output: str, name: str, version: int | None, every_s: float | None) -> None:
    """Look at the job NAME (a name or an id), as it is or as it was.

    \b
    Examples:
      chronosctl jobs get hello
      chronosctl jobs get hello --watch
      chronosctl jobs get hello --version 1 -o yaml
    """
    if version is not None and every_s is not None:
        raise click.UsageError("--watch is for the job as it is; a version never changes")
    if version is not None:
        found = client.get("jobs", name, "versions", str(version), namespace=client.server.namespace)
        print_version(found, output)
        return
    namespace = client.server.namespace
    show_value(lambda: client.get("jobs", name, namespace=namespace), print_job, output, every_s)


@jobs.command("next", short_help="When a job runs next.")
@job_argument
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="How many.")
@output_option
@with_client
def next_(client: "ApiClient", output: str, name: str, count: int) -> None:
    """Print the next runs of the job NAME; none while it is paused, disabled or done.

    \b
    Example:
      chronosctl jobs next hello --count 3
    """
    found = client.get("jobs", name, "next", count=count, namespace=client.server.namespace)
    if output in ("json", "yaml"):
        print_value(found, output)
    elif output == "jsonl":
        print_value(found["items"], output)
    elif found["items"]:
        for at in found["items"]:
            emit(at)
    else:
        note(f"{name} has no run to come")


@jobs.command(short_help="List the versions of a job.")
@job_argument
@limit_option(100)
@output_option
@with_client
def versions(client: "ApiClient", output: str, name: str, limit: int) -> None:
    """List the versions of the job NAME, newest first: when, and by whom.

    \b
    Example:
      chronosctl jobs versions hello
    """
    query = {"namespace": client.server.namespace}
    print_page(client.pages("jobs", name, "versions", limit=limit, query=query), output, VERSIONS)


@jobs.command(short_help="Compare two versions of a job.")
@job_argument
@click.argument("old", type=click.IntRange(1), required=False, metavar="[FROM]")
@click.argument("new", type=click.IntRange(1), required=False, metavar="[TO]")
@output_option
@with_client
def diff(client: "ApiClient", output: str, name: str, old: int | None, new: int | None) -> None:
    """Say what differs between versions FROM and TO of the job NAME, and what that does to its coming runs.

    Without TO it is compared with the version in force, without both the last change is shown.

    \b
    Example:
      chronosctl jobs diff hello 1 2
    """
    query = {"from": old, "to": new, "namespace": client.server.namespace}
    found = client.call("GET", "jobs", name, "diff", query=query).value
    if output in ("json", "jsonl", "yaml"):
        print_value(found, output)
        return
    emit(f"{name} from v{found['from']} to v{found['to']}", bold=True)
    for change in found["fields"]:
        field = change["pointer"].strip("/").replace("/", ".")
        if change["old"] == change["new"]:
            emit(f"  {field}: changed, and masked")
        else:
            emit(f"  {field}: {_format_diff_value(change['old'])} → {_format_diff_value(change['new'])}")
    if not found["fields"]:
        emit("  they say the same")
    print_run_changes(found["runs"])


# --- how jobs look


def print_job(job: dict[str, Any], output: str) -> None:
    """One job."""
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
            "next run": format_instant(job["next_run_at"]),
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


def print_changed_job(job: dict[str, Any], output: str, said: str) -> None:
    """A job that was changed: in a table its name, and what became of it."""
    if output == "table":
        emit(job["name"])
        note(said)
    else:
        print_job(job, output)


def print_dry_run(saved: dict[str, Any], output: str) -> None:
    """What a dry run says would become of a job."""
    if output not in ("table", "wide", "name"):
        print_value(saved, output)
        return
    emit(saved["name"])
    at = f", next run {format_instant(saved['next_run_at'])}" if saved.get("next_run_at") else ""
    note(f"would be {saved['result']}: v{saved['version']}, {saved['state']}{at}")
    if saved.get("diff"):
        print_run_changes(saved["diff"])


def print_run_changes(runs: Mapping[str, Any], indent: str = "  ") -> None:
    """How the coming runs change."""
    for sign, what in (("+", "added"), ("-", "cancelled")):
        listed = runs[what]
        if listed["count"]:
            first = ", ".join(at for at in listed["first"][:3])
            more = ", …" if listed["count"] > 3 else ""
            emit(f"{indent}{sign} {listed['count']} {what} runs until {runs['until'][:10]}: {first}{more}")


def print_version(found: dict[str, Any], output: str) -> None:
    """One version of a job."""
    if output not in ("table", "wide", "name"):
        print_value(found, output)
        return
    from chronos.cli.ctl.tables import to_yaml

    emit(f"v{found['version']}, saved {format_instant(found['saved_at'])} by {found['author']}", bold=True)
    emit(to_yaml(found["spec"]).rstrip("\n"))


def format_schedule(job: Mapping[str, Any]) -> str:
    """A job's schedule and its zone, as one text."""
    said = job.get("schedule")
    if said is None:
        said = "after " + ", ".join(one["job"] for one in job["after"]) if job.get("after") else "once"
    if isinstance(said, Mapping):
        said = next(str(value) for key, value in said.items() if key != "dialect")
    return f"{said} {job['timezone']}" if job.get("timezone") else str(said)


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
        "NEXT": instant_column("next_run_at"),
    },
    wide={
        "NAMESPACE": "namespace",
        "VERSION": lambda job: f"v{job['version']}",
        "OWNER": lambda job: job.get("owner"),
        "TAGS": lambda job: job.get("tags"),
        "ID": "id",
    },
    name="name",
    none="there are no jobs; create one: chronosctl jobs create hello --every 10s -- echo hi",
)
VERSIONS = Columns(
    usual={
        "VERSION": lambda version: f"v{version['version']}",
        "SAVED": instant_column("saved_at"),
        "BY": "author",
    },
    wide={"SCHEDULE": lambda version: format_schedule(version["spec"])},
    name="version",
    none="there are no versions",
)
