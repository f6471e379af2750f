"""``chronosctl executions create``: work that runs once, without a job of its own."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.job_definition import build_work, find_shell_hint, work_options
from chronos.cli.ctl.commands.jobs_actions import drop_none, request_run
from chronos.cli.ctl.options import Seconds, dry_run_option, output_option, with_client
from chronos.cli.output import note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


@click.command(short_help="Run work once, without a job of its own.")
@work_options
@click.option("--at", metavar="T", help="The instant that the run is for. It starts then if T is in the future.")
@click.option("--in", "in_", metavar="D", help="Start after a duration.")
@click.option("--expires", metavar="D|T", help="Skip the run if it has not started by then.")
@click.option("--reason", metavar="TEXT", help="A reason for the history.")
@click.option("--key", metavar="KEY", help="An idempotency key: repeating the command with it starts no second run.")
@click.option("--wait", is_flag=True, help="Wait until the run ends; exit with 6 if it did not succeed.")
@click.option("--wait-timeout", type=Seconds(), metavar="D", help="With --wait: stop waiting after this long.")
@dry_run_option
@output_option
@with_client
def create(
    client: "ApiClient",
    *,
    output: str,
    at: str | None,
    in_: str | None,
    expires: str | None,
    reason: str | None,
    key: str | None,
    wait: bool,
    wait_timeout: float | None,
    dry_run: bool,
    **options: Any,
) -> None:
    """Run a command, send a request or call a function once, and keep the run in the history.

    Runs of equal work belong to one job, which is done and which retention removes. Prints the execution's id.

    \b
    Examples:
      chronosctl executions create --wait -- echo hi
      chronosctl runs create --url https://example.com/rebuild --method POST --in 10m --key rebuild-17
    """
    if wait_timeout is not None and not wait:
        raise click.UsageError("--wait-timeout needs --wait")
    body = build_work(options) | drop_none(at=at, delay=in_, expires=expires, reason=reason)
    hint = find_shell_hint(options["argv"])
    if hint is not None:
        note(f"! {hint}")
    request_run(client, ("executions",), body, output, key=key, wait=wait, timeout=wait_timeout, dry_run=dry_run)
