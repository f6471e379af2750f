"""``chronosctl jobs``: holding jobs up, running them, going back, deleting.

Every change of a job says which version it was made from, so that nobody's work is overwritten unseen.
"""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.job_selection import DONE, SelectedJobs, act, chosen_jobs
from chronos.cli.ctl.commands.jobs import jobs, print_changed, print_saved
from chronos.cli.ctl.options import Json, asking, dry_run_option, job_argument, output_option, wait_options
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
@asking
@chosen_jobs
def run(
    client: "ApiClient",
    *,
    output: str,
    chosen: SelectedJobs,
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
    if chosen.name is not None:
        path, body = ("jobs", chosen.name, "trigger"), given(payload=payload, at=at, reason=reason)
        print_asked(client, path, body, output, key=key, wait=wait, timeout=timeout, dry_run=dry_run)
    elif wait or timeout is not None or at is not None:
        raise click.UsageError("--wait, --timeout and --at go with the NAME of one job")
    else:
        act(client, "trigger", chosen, output, dry_run=dry_run, key=key, payload=payload, reason=reason)


def _switch(
    client: "ApiClient", verb: str, chosen: SelectedJobs, output: str, *, dry_run: bool, reason: str | None = None
) -> None:
    if chosen.name is None:
        act(client, verb, chosen, output, dry_run=dry_run, reason=reason)
        return
    job = client.change("POST", chosen.name, verb, body=given(reason=reason), dry_run=dry_run)
    print_changed(job, output, f"would be {DONE[verb]}" if dry_run else DONE[verb])


@jobs.command(short_help="Hold jobs until they are resumed.")
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@dry_run_option
@output_option
@asking
@chosen_jobs
def pause(client: "ApiClient", output: str, chosen: SelectedJobs, reason: str | None, dry_run: bool) -> None:
    """Hold the job NAME, or many: what runs finishes, what waits is held, their instants are recorded as skipped.

    \b
    Examples:
      chronosctl jobs pause hello --reason "the target is being moved"
      chronosctl jobs pause -l team=billing -l stage=test --dry-run
    """
    _switch(client, "pause", chosen, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Let paused jobs go on.")
@dry_run_option
@output_option
@asking
@chosen_jobs
def resume(client: "ApiClient", output: str, chosen: SelectedJobs, dry_run: bool) -> None:
    """Let the paused job NAME go on, or many.

    \b
    Examples:
      chronosctl jobs resume hello
      chronosctl jobs resume --all
    """
    _switch(client, "resume", chosen, output, dry_run=dry_run)


@jobs.command(short_help="Switch jobs on.")
@dry_run_option
@output_option
@asking
@chosen_jobs
def enable(client: "ApiClient", output: str, chosen: SelectedJobs, dry_run: bool) -> None:
    """Switch the job NAME on, or many; their schedules count from now.

    \b
    Example:
      chronosctl jobs enable hello
    """
    _switch(client, "enable", chosen, output, dry_run=dry_run)


@jobs.command(short_help="Switch jobs off.")
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@dry_run_option
@output_option
@asking
@chosen_jobs
def disable(client: "ApiClient", output: str, chosen: SelectedJobs, reason: str | None, dry_run: bool) -> None:
    """Switch the job NAME off, or many: no instants at all until they are enabled.

    \b
    Example:
      chronosctl jobs disable hello --reason "not needed in winter"
    """
    _switch(client, "disable", chosen, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Delete jobs; their history remains.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@output_option
@asking
@chosen_jobs
def delete(client: "ApiClient", output: str, chosen: SelectedJobs, yes: bool, dry_run: bool) -> None:
    """Delete the job NAME, or many. On a terminal it asks first. What they ran stays in the history.

    \b
    Examples:
      chronosctl jobs delete hello --yes
      chronosctl jobs delete --prefix tmp- --dry-run
    """
    if chosen.name is None:
        asks = None if yes else lambda many: sure(f"Delete {many}?")
        act(client, "delete", chosen, output, dry_run=dry_run, asks=asks)
        return
    if not yes and not dry_run:
        sure(f"Delete {chosen.name}?")
    job = client.change("DELETE", chosen.name, dry_run=dry_run)
    print_changed(job, output, "would be deleted" if dry_run else "deleted")


@jobs.command(short_help="Go back to an old version.")
@job_argument
@click.argument("version", type=click.IntRange(1), metavar="VERSION")
@dry_run_option
@output_option
@asking
def rollback(client: "ApiClient", output: str, name: str, version: int, dry_run: bool) -> None:
    """Make the job NAME say again what it said in VERSION; that is a new version.

    \b
    Example:
      chronosctl jobs rollback hello 1 --dry-run
    """
    job = client.change("POST", name, "rollback", body={"version": version}, dry_run=dry_run)
    if dry_run:
        print_saved(job, output)
    else:
        print_changed(job, output, f"is v{job['version']} now, and says what v{version} said")


# --- shared with other verbs


def print_asked(
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
    asked = client.call("POST", *path, query=query, body=body, headers={"Idempotency-Key": key or new_key()}).value
    if wait and not dry_run:
        from chronos.cli.ctl.watch import waited

        waited(client, asked["execution_id"], output, timeout_s=timeout)
    elif output not in ("table", "wide", "name"):
        print_value(asked, output)
    elif dry_run:
        note(f"{path[1]} would run")
    else:
        emit(asked["execution_id"])


def print_replayed(
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
    body = given(reason=reason, payload=payload, from_failed=from_failed or None)
    print_asked(client, (noun, id_, "replay"), body, output, **how)


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were said."""
    return {name: value for name, value in fields.items() if value is not None}


def new_key() -> str:
    """A key of one wish: sent twice, it is granted once."""
    import uuid

    return str(uuid.uuid4())


def sure(question: str) -> None:
    """Ask before what cannot be undone; only where there is somebody to ask."""
    import sys

    if sys.stdin is not None and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)
