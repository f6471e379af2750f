"""``chronosctl dlq``: dead letters, which failed for good and wait for a person to decide."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.dead_letter_selection import (
    SelectedLetters,
    complete_letter,
    filter_options,
    handle_letters,
    list_letters,
    select_letters,
)
from chronos.cli.ctl.commands.executions import print_execution
from chronos.cli.ctl.commands.jobs_actions import drop_none, new_idempotency_key, request_replay
from chronos.cli.ctl.execution_ids import resolve_id
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
from chronos.cli.ctl.watch import show_list

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


@dlq.command("list", short_help="List dead letters, newest first.")
@filter_options
@limit_option(100)
@all_option
@watch_options
@output_option
@with_client
def list_(
    client: "ApiClient",
    *,
    output: str,
    job: str | None,
    error: str | None,
    limit: int,
    everything: bool,
    every_s: float | None,
) -> None:
    """List dead letters, newest first: of one job, or with a text in their reason.

    \b
    Examples:
      chronosctl dlq list -o wide
      chronosctl dlq list --job hello --error "exit code 1"
    """
    max_items = None if everything else limit
    show_list(lambda: list_letters(client, job=job, error=error, limit=max_items), output, COLUMNS, every_s)


@dlq.command(short_help="Show a dead letter.")
@click.argument("id_", metavar="ID", shell_complete=complete_letter)
@output_option
@with_client
def show(client: "ApiClient", output: str, id_: str) -> None:
    """Show the execution of the dead letter ID: its tasks, their attempts and errors.

    \b
    Example:
      chronosctl dlq show ID
    """
    print_execution(client.get("executions", resolve_id(client, id_)), output)


@dlq.command(short_help="Run dead letters again.")
@replay_options
@output_option
@with_client
@select_letters
def replay(client: "ApiClient", output: str, selection: SelectedLetters, **options: Any) -> None:
    """Run the dead letter ID, or several, again and remove them from the list. Prints the new executions' ids.

    Several are replayed oldest first, at a rate. A terminal asks first and shows the progress.

    \b
    Examples:
      chronosctl dlq replay ID --reason "the target is back"
      chronosctl dlq replay --job hello --error "exit code 1" --rate 50
      chronosctl dlq replay --all --dry-run
    """
    if selection.id is not None:
        request_replay(client, "dead-letters", resolve_id(client, selection.id), output, **options)
        return
    if options["payload"] is not None or options["wait"] or options["timeout"] is not None:
        raise click.UsageError("--payload, --wait and --timeout need the ID of one dead letter")
    body = drop_none(
        reason=options["reason"], from_failed=options["from_failed"] or None, tasks=options["tasks"] or None
    )

    def handle(id_: str) -> dict[str, Any]:
        headers = {"Idempotency-Key": new_idempotency_key()}
        reply: dict[str, Any] = client.call("POST", "dead-letters", id_, "replay", body=body, headers=headers).value
        return reply

    handle_letters(client, selection, output, handle, verbs=("replay", "replayed"), dry_run=options["dry_run"])


@dlq.command(short_help="Discard dead letters.")
@dry_run_option
@output_option
@with_client
@select_letters
def discard(client: "ApiClient", output: str, selection: SelectedLetters, dry_run: bool) -> None:
    """Remove the dead letter ID, or several, from the list. Their executions stay in the history.

    \b
    Examples:
      chronosctl dlq discard ID
      chronosctl dlq discard --job hello --yes
    """
    if selection.id is None:
        handle_letters(
            client,
            selection,
            output,
            lambda id_: client.call("DELETE", "dead-letters", id_).value,
            verbs=("discard", "discarded"),
            dry_run=dry_run,
        )
        return
    id_ = resolve_id(client, selection.id)
    reply = client.call("DELETE", "dead-letters", id_, query={"dry_run": dry_run or None}).value
    if reply is not None or output in ("table", "wide", "name"):
        print_result(reply, output, id_, "would be discarded" if dry_run else "discarded")
