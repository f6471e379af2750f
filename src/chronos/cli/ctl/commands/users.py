"""``chronosctl users``: the users of the configuration."""

from typing import TYPE_CHECKING

import click

from chronos.cli.ctl.list_command import make_listing
from chronos.cli.ctl.options import dry_run_option, output_option, with_client
from chronos.cli.ctl.tables import Columns, print_result

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

USERS = Columns(
    usual={"NAME": "name", "ROLE": "role", "NAMESPACES": lambda user: user["namespaces"] or "all"},
    wide={},
    name="name",
    empty="no users",
)

users = make_listing(
    "users",
    "Show and unlock users.",
    USERS,
    list_text="List the users of the server's configuration.",
    short_help="Show and unlock users.",
    list_help="List the users.",
)


@users.command(short_help="Unlock a user.")
@click.argument("name", metavar="NAME")
@dry_run_option
@output_option
@with_client
def unlock(client: "ApiClient", output: str, name: str, dry_run: bool) -> None:
    """Unlock the user NAME, who is locked out after wrong passwords.

    Each node counts wrong passwords separately. With several nodes, unlock the user on each one with --server.

    \b
    Example:
      chronosctl users unlock ana
    """
    reply = client.call("POST", "users", name, "unlock", query={"dry_run": dry_run or None}).value
    print_result(reply, output, name, f"{'would be ' if dry_run else ''}unlocked on {reply['node']}")
