"""``chronosctl jobs backfill``: run the instants of a past range, in as many requests as needed."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs import jobs
from chronos.cli.ctl.commands.jobs_actions import drop_none, new_idempotency_key
from chronos.cli.ctl.errors import RequestRefused
from chronos.cli.ctl.options import dry_run_option, job_argument, output_option, with_client
from chronos.cli.ctl.tables import print_value
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

_TOO_MANY_REQUESTS = 429


@jobs.command(short_help="Run the instants of a past range.")
@job_argument
@click.option("--from", "start", required=True, metavar="T", help="The first instant, such as 2027-01-01T00:00:00Z.")
@click.option("--to", "end", required=True, metavar="T", help="The last instant.")
@click.option("--reason", metavar="TEXT", help="A reason for the history.")
@click.option("--key", metavar="KEY", help="An idempotency key: repeating the command with it starts no second runs.")
@dry_run_option
@output_option
@with_client
def backfill(
    client: "ApiClient",
    *,
    output: str,
    name: str,
    start: str,
    end: str,
    reason: str | None,
    key: str | None,
    dry_run: bool,
) -> None:
    """Run the instants of the job NAME in a past range, both ends included. Prints the executions' ids.

    If the job's queue is full, the command waits for room and continues.

    \b
    Example:
      chronosctl jobs backfill nightly-etl --from 2026-01-01T00:00:00Z --to 2026-01-03T00:00:00Z --dry-run
    """
    query = {"namespace": client.server.namespace, "dry_run": dry_run or None}
    headers = {"Idempotency-Key": key or new_idempotency_key()}
    prints_lines = output in ("table", "wide", "name")
    total: dict[str, Any] = {}
    next_start: str | None = start
    while next_start is not None:
        body = drop_none(**{"from": next_start, "to": end, "reason": reason})
        try:
            reply = client.call("POST", "jobs", name, "backfill", query=query, body=body, headers=headers).value
        except RequestRefused as refused:  # the client has retried it by then
            if refused.status != _TOO_MANY_REQUESTS or not total:
                raise
            note(f"{total['count']} runs requested; continuing from {next_start} when some of them have run")
            continue
        next_start = reply["next_from"]
        for execution in reply.get("execution_ids", ()) if prints_lines else ():
            emit(execution)
        total = reply | {field: total[field] + reply[field] for field in ("count", "execution_ids") if field in total}
    if prints_lines:
        note(f"{total['count']} runs {'would be ' if dry_run else ''}requested")
    else:
        print_value(total, output)
