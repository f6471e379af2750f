"""``chronosctl dlq``: what failed for good, and waits for somebody to decide."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.changing import print_replayed
from chronos.cli.ctl.executions import print_execution
from chronos.cli.ctl.options import asking, dry_run_option, output_option, replay_options, watch_options
from chronos.cli.ctl.printing import Columns, instant, print_page, print_value
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import Client


@click.group(short_help="Dead letters: what failed for good.")
def dlq() -> None:
    """Look at the executions that failed for good, run them again, or forget them.

    \b
    Example:
      chronosctl dlq list
    """


@dlq.command("list", short_help="List dead letters, newest first.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="How many at most.")
@click.option("--all", "everything", is_flag=True, help="However many there are.")
@watch_options
@output_option
@asking
def list_(client: "Client", output: str, limit: int, everything: bool, watch: bool, interval: float) -> None:
    """List dead letters, newest first.

    \b
    Example:
      chronosctl dlq list -o wide
    """
    query = {"namespace": client.server.namespace}

    def look() -> dict[str, Any]:
        return client.pages("dead-letters", limit=None if everything else limit, query=query)

    if watch:
        from chronos.cli.ctl.watching import watch as keep_looking

        keep_looking(look, output, COLUMNS, interval)
    print_page(look(), output, COLUMNS)


@dlq.command(short_help="Look at a dead letter.")
@click.argument("id_", metavar="ID")
@output_option
@asking
def show(client: "Client", output: str, id_: str) -> None:
    """Look at the execution behind the dead letter ID: its tasks, their attempts, what went wrong.

    \b
    Example:
      chronosctl dlq show ID
    """
    print_execution(client.get("executions", id_), output)


@dlq.command(short_help="Run a dead letter again.")
@click.argument("id_", metavar="ID")
@replay_options
@output_option
@asking
def replay(client: "Client", output: str, id_: str, **wishes: Any) -> None:
    """Run the dead letter ID again and take it off the list; prints the new execution's id.

    \b
    Example:
      chronosctl dlq replay ID --reason "the target is back"
    """
    print_replayed(client, "dead-letters", id_, output, **wishes)


@dlq.command(short_help="Forget a dead letter.")
@click.argument("id_", metavar="ID")
@dry_run_option
@output_option
@asking
def discard(client: "Client", output: str, id_: str, dry_run: bool) -> None:
    """Take the dead letter ID off the list. Its execution stays in the history.

    \b
    Example:
      chronosctl dlq discard ID
    """
    found = client.call("DELETE", "dead-letters", id_, query={"dry_run": dry_run or None}).value
    if found is not None and output in ("json", "jsonl", "yaml"):
        print_value(found, output)
    elif output in ("table", "wide", "name"):
        emit(id_)
        note("would be discarded" if dry_run else "discarded")


COLUMNS = Columns(
    usual={
        "ID": lambda letter: letter["id"],
        "JOB": lambda letter: letter["job_name"],
        "FAILED": lambda letter: instant(letter["failed_at"]),
        "REASON": lambda letter: letter["reason"]["message"],
    },
    wide={
        "NAMESPACE": lambda letter: letter["namespace"],
        "CODE": lambda letter: letter["reason"]["code"],
        "JOB ID": lambda letter: letter["job_id"],
    },
    name=lambda letter: letter["id"],
    none="there are no dead letters",
)
