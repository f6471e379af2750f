"""``chronosctl jobs backfill``: run what a range of the past would have run, request after request."""

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

_TOO_MANY = 429


@jobs.command(short_help="Run the instants of a past range.")
@job_argument
@click.option("--from", "start", required=True, metavar="T", help="The first instant.")
@click.option("--to", "end", required=True, metavar="T", help="The last instant.")
@click.option("--reason", metavar="TEXT", help="Why, for those who look later.")
@click.option("--key", metavar="KEY", help="The same key asks for the same runs, however often.")
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
    """Run the instants of the job NAME in a past range, both ends included; prints the executions' ids.

    What its queue has no room for is asked for as that empties.

    \b
    Example:
      chronosctl jobs backfill nightly-etl --from 2026-01-01T00:00:00Z --to 2026-01-03T00:00:00Z --dry-run
    """
    query = {"namespace": client.server.namespace, "dry_run": dry_run or None}
    headers = {"Idempotency-Key": key or new_idempotency_key()}
    lines = output in ("table", "wide", "name")
    asked: dict[str, Any] = {}
    since: str | None = start
    while since is not None:
        body = drop_none(**{"from": since, "to": end, "reason": reason})
        try:
            found = client.call("POST", "jobs", name, "backfill", query=query, body=body, headers=headers).value
        except RequestRefused as refused:  # it was sent some times by then, a second apart
            if refused.status != _TOO_MANY or not asked:
                raise
            note(f"{asked['count']} runs asked for; going on from {since} when some of them have run")
            continue
        since = found["next_from"]
        for execution in found.get("execution_ids", ()) if lines else ():
            emit(execution)
        asked = found | {name: asked[name] + found[name] for name in ("count", "execution_ids") if name in asked}
    if lines:
        note(f"{asked['count']} runs {'would be ' if dry_run else ''}asked for")
    else:
        print_value(asked, output)
