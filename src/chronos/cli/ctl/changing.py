"""``chronosctl jobs``: holding jobs up, running them, going back, deleting.

Every change of a job says which version it was made from, so that nobody's work is overwritten unseen.
"""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.jobs import jobs, print_job, print_saved
from chronos.cli.ctl.options import Json, asking, dry_run_option, job_argument, output_option, wait_options
from chronos.cli.ctl.printing import print_value
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import Client

_DONE = {"pause": "paused", "resume": "resumed", "enable": "enabled", "disable": "disabled"}


@jobs.command(short_help="Run a job now.")
@job_argument
@click.option("--payload", type=Json(), metavar="JSON", help="Instead of the job's own; @FILE reads a file.")
@click.option("--at", metavar="T", help="The past instant that the run stands for.")
@click.option("--reason", metavar="TEXT", help="Why, for those who look later.")
@click.option("--key", metavar="KEY", help="The same key is the same run, however often it is asked for.")
@wait_options
@dry_run_option
@output_option
@asking
def run(
    client: "Client",
    *,
    output: str,
    name: str,
    payload: Any,
    at: str | None,
    reason: str | None,
    key: str | None,
    wait: bool,
    timeout: float | None,
    dry_run: bool,
) -> None:
    """Run the job NAME once, now, whether or not it is paused; prints the execution's id.

    \b
    Examples:
      chronosctl jobs run hello
      chronosctl jobs run hello --payload '{"day": "2027-01-01"}' --wait --timeout 5m
    """
    body = given(payload=payload, at=at, reason=reason)
    print_asked(client, ("jobs", name, "trigger"), body, output, key=key, wait=wait, timeout=timeout, dry_run=dry_run)


def _switch(client: "Client", verb: str, name: str, output: str, *, dry_run: bool, reason: str | None = None) -> None:
    job = client.change("POST", name, verb, body=given(reason=reason), dry_run=dry_run)
    if output == "table":
        emit(job["name"])
        note(f"would be {_DONE[verb]}" if dry_run else _DONE[verb])
    else:
        print_job(job, output)


@jobs.command(short_help="Hold a job until it is resumed.")
@job_argument
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@dry_run_option
@output_option
@asking
def pause(client: "Client", output: str, name: str, reason: str | None, dry_run: bool) -> None:
    """Hold the job NAME: what runs finishes, what waits is held, its instants are recorded as skipped.

    \b
    Example:
      chronosctl jobs pause hello --reason "the target is being moved"
    """
    _switch(client, "pause", name, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Let a paused job go on.")
@job_argument
@dry_run_option
@output_option
@asking
def resume(client: "Client", output: str, name: str, dry_run: bool) -> None:
    """Let the paused job NAME go on.

    \b
    Example:
      chronosctl jobs resume hello
    """
    _switch(client, "resume", name, output, dry_run=dry_run)


@jobs.command(short_help="Switch a job on.")
@job_argument
@dry_run_option
@output_option
@asking
def enable(client: "Client", output: str, name: str, dry_run: bool) -> None:
    """Switch the job NAME on; its schedule counts from now.

    \b
    Example:
      chronosctl jobs enable hello
    """
    _switch(client, "enable", name, output, dry_run=dry_run)


@jobs.command(short_help="Switch a job off.")
@job_argument
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@dry_run_option
@output_option
@asking
def disable(client: "Client", output: str, name: str, reason: str | None, dry_run: bool) -> None:
    """Switch the job NAME off: it has no instants at all until it is enabled.

    \b
    Example:
      chronosctl jobs disable hello --reason "not needed in winter"
    """
    _switch(client, "disable", name, output, dry_run=dry_run, reason=reason)


@jobs.command(short_help="Delete a job; its history remains.")
@job_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@output_option
@asking
def delete(client: "Client", output: str, name: str, yes: bool, dry_run: bool) -> None:
    """Delete the job NAME. On a terminal it asks first. What it ran stays in the history.

    \b
    Example:
      chronosctl jobs delete hello --yes
    """
    if not yes and not dry_run:
        sure(f"Delete {name}?")
    job = client.change("DELETE", name, dry_run=dry_run)
    if output == "table":
        emit(job["name"])
        note("would be deleted" if dry_run else "deleted")
    else:
        print_job(job, output)


@jobs.command(short_help="Go back to an old version.")
@job_argument
@click.argument("version", type=click.IntRange(1), metavar="VERSION")
@dry_run_option
@output_option
@asking
def rollback(client: "Client", output: str, name: str, version: int, dry_run: bool) -> None:
    """Make the job NAME say again what it said in VERSION; that is a new version.

    \b
    Example:
      chronosctl jobs rollback hello 1 --dry-run
    """
    job = client.change("POST", name, "rollback", body={"version": version}, dry_run=dry_run)
    if dry_run:
        print_saved(job, output)
    elif output == "table":
        emit(job["name"])
        note(f"is v{job['version']} now, and says what v{version} said")
    else:
        print_job(job, output)


@jobs.command(short_help="Run the instants of a past range.")
@job_argument
@click.option("--from", "start", required=True, metavar="T", help="The first instant.")
@click.option("--to", "end", required=True, metavar="T", help="The last instant.")
@click.option("--reason", metavar="TEXT", help="Why, for those who look later.")
@click.option("--key", metavar="KEY", help="The same key asks for the same runs, however often.")
@dry_run_option
@output_option
@asking
def backfill(
    client: "Client",
    *,
    output: str,
    name: str,
    start: str,
    end: str,
    reason: str | None,
    key: str | None,
    dry_run: bool,
) -> None:
    """Run the instants of the job NAME in a past range, both ends included; prints the executions' ids.

    \b
    Example:
      chronosctl jobs backfill hello --from 2026-01-01T00:00:00Z --to 2026-01-01T00:01:00Z --dry-run
    """
    body = given(**{"from": start, "to": end, "reason": reason})
    found = client.call(
        "POST",
        "jobs",
        name,
        "backfill",
        query={"namespace": client.server.namespace, "dry_run": dry_run or None},
        body=body,
        headers={"Idempotency-Key": key or new_key()},
    ).value
    if output not in ("table", "wide", "name"):
        print_value(found, output)
        return
    for execution in found.get("execution_ids", ()):
        emit(execution)
    note(f"{found['count']} runs {'would be ' if dry_run else ''}asked for")
    if found.get("next_from"):
        note(f"there are more; go on with --from {found['next_from']}")


# --- shared with other verbs


def print_asked(
    client: "Client",
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
        from chronos.cli.ctl.watching import waited

        waited(client, asked["execution_id"], output, timeout_s=timeout)
    elif output not in ("table", "wide", "name"):
        print_value(asked, output)
    elif dry_run:
        note(f"{path[1]} would run")
    else:
        emit(asked["execution_id"])


def print_replayed(
    client: "Client",
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
