"""``chronosctl tokens`` and ``users``: who may come in."""

from typing import TYPE_CHECKING

import click

from chronos.cli.ctl.commands.jobs_actions import confirm, drop_none
from chronos.cli.ctl.list_command import list_command, make_listing
from chronos.cli.ctl.options import dry_run_option, output_option, with_client
from chronos.cli.ctl.tables import Columns, instant_column, print_result, print_value
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
    none="there are no tokens",
)
USERS = Columns(
    usual={"NAME": "name", "ROLE": "role", "NAMESPACES": lambda user: user["namespaces"] or "all"},
    wide={},
    name="name",
    none="there are no users",
)


@click.group(short_help="API tokens.")
def tokens() -> None:
    """List, create and delete the tokens that programs show to a server.

    \b
    Example:
      chronosctl tokens list
    """


tokens.add_command(
    list_command(
        "List tokens by name: what they may do, and until when. Their texts are not kept anywhere.",
        TOKENS,
        path="tokens",
        example="tokens list",
        short_help="List tokens.",
    )
)


@tokens.command(short_help="Create a token.")
@click.argument("name", metavar="NAME")
@click.option("--role", type=click.Choice(ROLES), default="viewer", show_default=True, help="What it may do.")
@click.option("--in-namespace", "spaces", multiple=True, metavar="NS", help="Only there; may be given many times.")
@click.option("--expires", metavar="T", help="The instant from which on it is worth nothing.")
@dry_run_option
@output_option
@with_client
def create(
    client: "ApiClient",
    output: str,
    name: str,
    role: str,
    spaces: tuple[str, ...],
    expires: str | None,
    dry_run: bool,
) -> None:
    """Create the token NAME and print it: this once, so keep it.

    \b
    Example:
      chronosctl tokens create ci --role operator
    """
    body = drop_none(name=name, role=role, namespaces=list(spaces) or None, expires_at=expires)
    found = client.call("POST", "tokens", query={"dry_run": dry_run or None}, body=body).value
    if output in ("json", "jsonl", "yaml"):
        print_value(found, output)
    elif dry_run:
        note(f"{name} would be created")
    else:
        emit(found["token"])
        note("it is shown this once; put it into CHRONOS_TOKEN")


@tokens.command(short_help="Delete a token.")
@click.argument("name", metavar="NAME")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@with_client
def delete(client: "ApiClient", name: str, yes: bool, dry_run: bool) -> None:
    """Delete the token NAME; whoever uses it is nobody from now on.

    \b
    Example:
      chronosctl tokens delete ci --yes
    """
    if not yes and not dry_run:
        confirm(f"Delete the token {name}?")
    client.call("DELETE", "tokens", name, query={"dry_run": dry_run or None})
    emit(name)
    note("would be deleted" if dry_run else "deleted")


users = make_listing(
    "users",
    "Look at the users, and unlock them.",
    USERS,
    lists="List the users of the server's configuration.",
    short_help="The users.",
    list_help="List the users.",
)


@users.command(short_help="Let a user try again.")
@click.argument("name", metavar="NAME")
@dry_run_option
@output_option
@with_client
def unlock(client: "ApiClient", output: str, name: str, dry_run: bool) -> None:
    """Let the user NAME, locked out by wrong passwords, try again at once.

    Each node counts wrong passwords for itself: of several, ask each of them with --server.

    \b
    Example:
      chronosctl users unlock ana
    """
    found = client.call("POST", "users", name, "unlock", query={"dry_run": dry_run or None}).value
    print_result(found, output, name, f"{'would be ' if dry_run else ''}unlocked on {found['node']}")
