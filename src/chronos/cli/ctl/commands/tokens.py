"""``chronosctl tokens``: API tokens."""

from typing import TYPE_CHECKING

import click

from chronos.cli.ctl.commands.jobs_actions import confirm, drop_none
from chronos.cli.ctl.list_command import list_command
from chronos.cli.ctl.options import dry_run_option, output_option, with_client
from chronos.cli.ctl.tables import Columns, instant_column, print_value
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

ROLES = ("viewer", "operator", "admin")
TOKENS = Columns(
    usual={
        "NAME": "name",
        "ROLE": "role",
        "NAMESPACES": lambda token: token["namespaces"] or "all",
        "EXPIRES": instant_column("expires_at"),
    },
    wide={"CREATED": instant_column("created_at"), "BY": "created_by"},
    name="name",
    empty="no tokens",
)


@click.group(short_help="Manage API tokens.")
def tokens() -> None:
    """List, create and delete API tokens, the credentials of programs.

    \b
    Example:
      chronosctl tokens list
    """


tokens.add_command(
    list_command(
        "List tokens by name, with role and expiry. The tokens themselves are not stored.",
        TOKENS,
        path="tokens",
        example="tokens list",
        short_help="List tokens.",
    )
)


@tokens.command(short_help="Create a token.")
@click.argument("name", metavar="NAME")
@click.option(
    "--role", type=click.Choice(ROLES), default="viewer", show_default=True, help="The permissions of the token."
)
@click.option(
    "--in-namespace", "namespaces", multiple=True, metavar="NS", help="Only in this namespace; may be repeated."
)
@click.option("--expires", metavar="T", help="The instant at which the token expires.")
@dry_run_option
@output_option
@with_client
def create(
    client: "ApiClient",
    output: str,
    name: str,
    role: str,
    namespaces: tuple[str, ...],
    expires: str | None,
    dry_run: bool,
) -> None:
    """Create the token NAME and print it. It is shown only once.

    \b
    Example:
      chronosctl tokens create ci --role operator
    """
    body = drop_none(name=name, role=role, namespaces=list(namespaces) or None, expires_at=expires)
    reply = client.call("POST", "tokens", query={"dry_run": dry_run or None}, body=body).value
    if output in ("json", "jsonl", "yaml"):
        print_value(reply, output)
    elif dry_run:
        note(f"{name} would be created")
    else:
        emit(reply["token"])
        note("shown only this once; put it into CHRONOS_TOKEN")


@tokens.command(short_help="Delete a token.")
@click.argument("name", metavar="NAME")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@with_client
def delete(client: "ApiClient", name: str, yes: bool, dry_run: bool) -> None:
    """Delete the token NAME. It stops working within a second.

    \b
    Example:
      chronosctl tokens delete ci --yes
    """
    if not yes and not dry_run:
        confirm(f"Delete the token {name}?")
    client.call("DELETE", "tokens", name, query={"dry_run": dry_run or None})
    emit(name)
    note("would be deleted" if dry_run else "deleted")
