"""``chronosctl jobs``: holding jobs up, running them, going back, deleting.

Every change of a job says which version it was made from, so that nobody's work is overwritten unseen.
"""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.job_selection import ACTION_RESULTS, SelectedJobs, run_bulk_action, select_jobs
from chronos.cli.ctl.commands.jobs import jobs, print_changed_job, print_dry_run
from chronos.cli.ctl.options import Json, dry_run_option, job_argument, output_option, wait_options, with_client
from chronos.cli.ctl.tables import print_value
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


@jobs.command(short_help="Run jobs now.")
@click.option("--payload", type=Json(), metavar="JSON", help="Instead of the job's own; @FILE reads a file.")
@click.option("--at", metavar="T", help="The past instant that the run stands for.")
@click.option("--reason", metavar="TEXT", help="Why, for those who look later.")
@click.option("--key", metavar="KEY", help="The same key is the same run, however often it is asked for.")
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
    """Run the job NAME once, now, whether or not it is paused; prints the execution's id. Or run many jobs.

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
        raise click.UsageError("--wait, --timeout and --at go with the NAME of one job")
    else:
        run_bulk_action(client, "trigger", selection, output, dry_run=dry_run, key=key, payload=payload, reason=reason)


def _change_state(
    client: "ApiClient", verb: str, selection: SelectedJobs, output: str, *, dry_run: bool, reason: str | None = None
) -> None:
    if selection.name is None:
        run_bulk_action(client, verb, selection, output, dry_run=dry_run, reason=reason)
        return
    job = client.change("POST", selection.name, verb, body=drop_none(reason=reason), dry_run=dry_run)
    print_changed_job(job, output, f"would be {ACTION_RESULTS[verb]}" if dry_run else ACTION_RESULTS[verb])


@jobs.command(short_help="Hold jobs until they are resumed.")
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@dry_run_option
@output_option
@with_client
@select_jobs
def pause(client: "ApiClient", output: str, selection: SelectedJobs, reason: str | None, dry_run: bool) -> None:
    """Hold the job NAME, or many: what runs finishes, what waits is held, their instants are recorded as skipped.

    \b
    Examples:
      chronosctl jobs pause hello --reason "the target is being moved"
      chronosctl jobs pause -l team=billing -l stage=test --dry-run
    """
    _change_state(client, "pause", selection, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Let paused jobs go on.")
@dry_run_option
@output_option
@with_client
@select_jobs
def resume(client: "ApiClient", output: str, selection: SelectedJobs, dry_run: bool) -> None:
    """Let the paused job NAME go on, or many.

    \b
    Examples:
      chronosctl jobs resume hello
      chronosctl jobs resume --all
    """
    _change_state(client, "resume", selection, output, dry_run=dry_run)


@jobs.command(short_help="Switch jobs on.")
@dry_run_option
@output_option
@with_client
@select_jobs
def enable(client: "ApiClient", output: str, selection: SelectedJobs, dry_run: bool) -> None:
    """Switch the job NAME on, or many; their schedules count from now.

    \b
    Example:
      chronosctl jobs enable hello
    """
    _change_state(client, "enable", selection, output, dry_run=dry_run)


@jobs.command(short_help="Switch jobs off.")
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@dry_run_option
@output_option
@with_client
@select_jobs
def disable(client: "ApiClient", output: str, selection: SelectedJobs, reason: str | None, dry_run: bool) -> None:
    """Switch the job NAME off, or many: no instants at all until they are enabled.

    \b
    Example:
      chronosctl jobs disable hello --reason "not needed in winter"
    """
    _change_state(client, "disable", selection, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Delete jobs; their history remains.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@output_option
@with_client
@select_jobs
def delete(client: "ApiClient", output: str, selection: SelectedJobs, yes: bool, dry_run: bool) -> None:
    """Delete the job NAME, or many. On a terminal it asks first. What they ran stays in the history.

    \b
    Examples:
      chronosctl jobs delete hello --yes
      chronosctl jobs delete --prefix tmp- --dry-run
    """
    if selection.name is None:
        confirm_count = None if yes else lambda many: confirm(f"Delete {many}?")
        run_bulk_action(client, "delete", selection, output, dry_run=dry_run, confirm_count=confirm_count)
        return
    if not yes and not dry_run:
        confirm(f"Delete {selection.name}?")
    job = client.change("DELETE", selection.name, dry_run=dry_run)
    print_changed_job(job, output, "would be deleted" if dry_run else "deleted")


@jobs.command(short_help="Go back to an old version.")
@job_argument
@click.argument("version", type=click.IntRange(1), metavar="VERSION")
@dry_run_option
@output_option
@with_client
def rollback(client: "ApiClient", output: str, name: str, version: int, dry_run: bool) -> None:
    """Make the job NAME say again what it said in VERSION; that is a new version.

    \b
    Example:
      chronosctl jobs rollback hello 1 --dry-run
    """
    job = client.change("POST", name, "rollback", body={"version": version}, dry_run=dry_run)
    if dry_run:
        print_dry_run(job, output)
    else:
        print_changed_job(job, output, f"is v{job['version']} now, and says what v{version} said")


# --- shared with other verbs


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
    """Ask for an execution; print its id, or with ``wait`` how it ended."""
    query: dict[str, object] = {"dry_run": dry_run or None}
    if path[0] == "jobs":
        query["namespace"] = client.server.namespace
    asked = client.call(
        "POST", *path, query=query, body=body, headers={"Idempotency-Key": key or new_idempotency_key()}
    ).value
    if wait and not dry_run:
        from chronos.cli.ctl.watch import wait_and_print

        wait_and_print(client, asked["execution_id"], output, timeout_s=timeout)
    elif output not in ("table", "wide", "name"):
        print_value(asked, output)
    elif dry_run:
        note(f"{path[1]} would run")
    else:
        emit(asked["execution_id"])


def request_replay(
    client: "ApiClient",
    noun: str,
    id_: str,
    output: str,
    *,
    from_failed: bool,
    payload: Any,
    reason: str | None,
    **how: Any,
) -> None:
    """Ask for a run to be done again, by what ``replay_options`` said."""
    body = drop_none(reason=reason, payload=payload, from_failed=from_failed or None)
    request_run(client, (noun, id_, "replay"), body, output, **how)


def drop_none(**fields: Any) -> dict[str, Any]:
    """The fields that were said."""
    return {name: value for name, value in fields.items() if value is not None}


def new_idempotency_key() -> str:
    """A key of one wish: sent twice, it is granted once."""
    import uuid

    return str(uuid.uuid4())


def confirm(question: str) -> None:
    """Ask before what cannot be undone; only where there is somebody to ask."""
    import sys

    if sys.stdin is not None and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)
