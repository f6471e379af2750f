"""``chronosctl dlq``: dead letters, which failed for good and wait for a person to decide."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.executions import print_execution
from chronos.cli.ctl.commands.jobs_actions import request_replay
from chronos.cli.ctl.list_command import list_command
from chronos.cli.ctl.options import (
    all_option,
    dry_run_option,
    limit_option,
    output_option,
    replay_options,
    watch_options,
    with_client,
)
from chronos.cli.ctl.tables import Columns, instant_column, print_result

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


COLUMNS = Columns(
    usual={
        "ID": "id",
        "JOB": "job_name",
        "FAILED": instant_column("failed_at"),
        "REASON": lambda letter: letter["reason"]["message"],
    },
    wide={"NAMESPACE": "namespace", "CODE": lambda letter: letter["reason"]["code"], "JOB ID": "job_id"},
    name="id",
    empty="no dead letters",
)


@click.group(short_help="Dead letters: work that failed for good.")
def dlq() -> None:
    """Show, replay or discard executions that failed for good.

    \b
    Example:
      chronosctl dlq list
    """


dlq.add_command(
    list_command(
        "List dead letters, newest first.",
        COLUMNS,
        path="dead-letters",
        example="dlq list -o wide",
        options=(limit_option(100), all_option, watch_options),
    )
)


@dlq.command(short_help="Show a dead letter.")
@click.argument("id_", metavar="ID")
@output_option
@with_client
def show(client: "ApiClient", output: str, id_: str) -> None:
    """Show the execution of the dead letter ID: its tasks, their attempts and errors.

    \b
    Example:
      chronosctl dlq show ID
    """
    print_execution(client.get("executions", id_), output)


@dlq.command(short_help="Run a dead letter again.")
@click.argument("id_", metavar="ID")
@replay_options
@output_option
@with_client
def replay(client: "ApiClient", output: str, id_: str, **options: Any) -> None:
    """Run the dead letter ID again and remove it from the list. Prints the new execution's id.

    \b
    Example:
      chronosctl dlq replay ID --reason "the target is back"
    """
    request_replay(client, "dead-letters", id_, output, **options)


@dlq.command(short_help="Discard a dead letter.")
@click.argument("id_", metavar="ID")
@dry_run_option
@output_option
@with_client
def discard(client: "ApiClient", output: str, id_: str, dry_run: bool) -> None:
    """Remove the dead letter ID from the list. Its execution stays in the history.

    \b
    Example:
      chronosctl dlq discard ID
    """
    reply = client.call("DELETE", "dead-letters", id_, query={"dry_run": dry_run or None}).value
    if reply is not None or output in ("table", "wide", "name"):
        print_result(reply, output, id_, "would be discarded" if dry_run else "discarded")
