"""``chronosctl jobs``: run, pause, resume, enable, disable, delete and roll back jobs.

Every change names the version it is based on, so that it never overwrites another person's change.
"""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.job_selection import ACTION_RESULTS, SelectedJobs, run_bulk_action, select_jobs
from chronos.cli.ctl.commands.jobs import jobs, print_changed_job, print_dry_run
from chronos.cli.ctl.options import (
    Json,
    dry_run_option,
    job_argument,
    output_option,
    update_option,
    wait_options,
    with_client,
)
from chronos.cli.ctl.tables import print_value
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


@jobs.command(short_help="Run jobs now.")
@click.option("--payload", type=Json(), metavar="JSON", help="A payload instead of the job's own; @FILE reads a file.")
@click.option("--at", metavar="T", help="The instant that the run is for. It starts then if T is in the future.")
@click.option("--reason", metavar="TEXT", help="A reason for the history.")
@click.option("--key", metavar="KEY", help="An idempotency key: repeating the command with it starts no second run.")
@wait_options
@dry_run_option
@output_option
@with_client
@select_jobs
def run(
    client: "ApiClient",
    *,
    output: str,
    selection: SelectedJobs,
    payload: Any,
    at: str | None,
    reason: str | None,
    key: str | None,
    wait: bool,
    timeout: float | None,
    dry_run: bool,
) -> None:
    """Run the job NAME, or several jobs, once and now, even if paused. Prints the execution's id.

    \b
    Examples:
      chronosctl jobs run hello
      chronosctl jobs run hello --payload '{"day": "2027-01-01"}' --wait --timeout 5m
      chronosctl jobs run --selector team=billing
    """
    if selection.name is not None:
        path, body = ("jobs", selection.name, "trigger"), drop_none(payload=payload, at=at, reason=reason)
        request_run(client, path, body, output, key=key, wait=wait, timeout=timeout, dry_run=dry_run)
    elif wait or timeout is not None or at is not None:
        raise click.UsageError("--wait, --timeout and --at need the NAME of one job")
    else:
        run_bulk_action(client, "trigger", selection, output, dry_run=dry_run, key=key, payload=payload, reason=reason)


def _change_state(
    client: "ApiClient", verb: str, selection: SelectedJobs, output: str, *, dry_run: bool, reason: str | None = None
) -> None:
    if selection.name is None:
        run_bulk_action(client, verb, selection, output, dry_run=dry_run, reason=reason)
        return
    job = client.change_job("POST", selection.name, verb, body=drop_none(reason=reason), dry_run=dry_run)
    print_changed_job(job, output, f"would be {ACTION_RESULTS[verb]}" if dry_run else ACTION_RESULTS[verb])


@jobs.command(short_help="Pause jobs until they are resumed.")
@click.option("--reason", metavar="TEXT", help="A reason for the history.")
@dry_run_option
@output_option
@with_client
@select_jobs
def pause(client: "ApiClient", output: str, selection: SelectedJobs, reason: str | None, dry_run: bool) -> None:
    """Pause the job NAME, or several jobs. Running work finishes, waiting work is held, instants are skipped.

    \b
    Examples:
      chronosctl jobs pause hello --reason "the target is being moved"
      chronosctl jobs pause -l team=billing -l stage=test --dry-run
    """
    _change_state(client, "pause", selection, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Resume paused jobs.")
@dry_run_option
@output_option
@with_client
@select_jobs
def resume(client: "ApiClient", output: str, selection: SelectedJobs, dry_run: bool) -> None:
    """Resume the paused job NAME, or several jobs.

    \b
    Examples:
      chronosctl jobs resume hello
      chronosctl jobs resume --all
    """
    _change_state(client, "resume", selection, output, dry_run=dry_run)


@jobs.command(short_help="Enable jobs.")
@dry_run_option
@output_option
@with_client
@select_jobs
def enable(client: "ApiClient", output: str, selection: SelectedJobs, dry_run: bool) -> None:
    """Enable the job NAME, or several jobs. Their schedules start from now.

    \b
    Example:
      chronosctl jobs enable hello
    """
    _change_state(client, "enable", selection, output, dry_run=dry_run)


@jobs.command(short_help="Disable jobs.")
@click.option("--reason", metavar="TEXT", help="A reason for the history.")
@dry_run_option
@output_option
@with_client
@select_jobs
def disable(client: "ApiClient", output: str, selection: SelectedJobs, reason: str | None, dry_run: bool) -> None:
    """Disable the job NAME, or several jobs. They have no instants until they are enabled.

    \b
    Example:
      chronosctl jobs disable hello --reason "not needed in winter"
    """
    _change_state(client, "disable", selection, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Delete jobs; their history stays.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@output_option
@with_client
@select_jobs
def delete(client: "ApiClient", output: str, selection: SelectedJobs, yes: bool, dry_run: bool) -> None:
    """Delete the job NAME, or several jobs. A terminal asks first. Their executions stay in the history.

    \b
    Examples:
      chronosctl jobs delete hello --yes
      chronosctl jobs delete --prefix tmp- --dry-run
    """
    if selection.name is None:
        confirm_count = None if yes else lambda count: confirm(f"Delete {count}?")
        run_bulk_action(client, "delete", selection, output, dry_run=dry_run, confirm_count=confirm_count)
        return
    if not yes and not dry_run:
        confirm(f"Delete {selection.name}?")
    job = client.change_job("DELETE", selection.name, dry_run=dry_run)
    print_changed_job(job, output, "would be deleted" if dry_run else "deleted")


@jobs.command(short_help="Go back to an earlier version.")
@job_argument
@click.argument("version", type=click.IntRange(1), metavar="VERSION")
@update_option
@dry_run_option
@output_option
@with_client
def rollback(client: "ApiClient", output: str, *, name: str, version: int, update: str | None, dry_run: bool) -> None:
    """Restore the definition of the job NAME from VERSION, as a new version.

    \b
    Example:
      chronosctl jobs rollback hello 1 --dry-run
    """
    query, body = {"update": update}, {"version": version}
    job = client.change_job("POST", name, "rollback", query=query, body=body, dry_run=dry_run)
    if dry_run:
        print_dry_run(job, output)
    else:
        print_changed_job(job, output, f"is now v{job['version']}, with the definition of v{version}")


# --- shared with other commands


def request_run(
    client: "ApiClient",
    path: tuple[str, ...],
    body: dict[str, Any],
    output: str,
    *,
    key: str | None = None,
    wait: bool,
    timeout: float | None,
    dry_run: bool,
) -> None:
    """Request an execution and print its id. With ``wait``, print how it ended."""
    query: dict[str, object] = {"dry_run": dry_run or None}
    if path[0] == "jobs" or len(path) == 1:
        query["namespace"] = client.server.namespace
    reply = client.call(
        "POST", *path, query=query, body=body, headers={"Idempotency-Key": key or new_idempotency_key()}
    ).value
    if wait and not dry_run:
        from chronos.cli.ctl.watch import wait_and_print

        wait_and_print(client, reply["execution_id"], output, timeout_s=timeout)
    elif output not in ("table", "wide", "name"):
        print_value(reply, output)
    elif dry_run:
        note(f"{reply.get('job_name') or path[1]} would run")
    else:
        emit(reply["execution_id"])


def request_replay(
    client: "ApiClient",
    noun: str,
    id_: str,
    output: str,
    *,
    from_failed: bool,
    tasks: tuple[str, ...],
    payload: Any,
    reason: str | None,
    **options: Any,
) -> None:
    """Request a replay with the arguments of ``replay_options``."""
    body = drop_none(reason=reason, payload=payload, from_failed=from_failed or None, tasks=tasks or None)
    request_run(client, (noun, id_, "replay"), body, output, **options)


def drop_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def new_idempotency_key() -> str:
    """Return a key that makes a request safe to repeat."""
    import uuid

    return str(uuid.uuid4())


def confirm(question: str) -> None:
    """Ask for confirmation if stdin is a terminal. Raises ``click.Abort`` if the user says no."""
    import sys

    if sys.stdin is not None and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)
