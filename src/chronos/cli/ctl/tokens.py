"""``chronosctl tokens`` and ``users``: who may come in."""

from typing import TYPE_CHECKING

import click

from chronos.cli.ctl.changing import given, sure
from chronos.cli.ctl.listing import Listing
from chronos.cli.ctl.options import asking, dry_run_option, output_option
from chronos.cli.ctl.printing import Columns, instant, print_page, print_value
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import Client

ROLES = ("viewer", "operator", "admin")


@click.group(short_help="API tokens.")
def tokens() -> None:
    """List, create and delete the tokens that programs show to a server.

    \b
    Example:
      chronosctl tokens list
    """


@tokens.command("list", short_help="List tokens.")
@output_option
@asking
def list_(client: "Client", output: str) -> None:
    """List tokens by name: what they may do, and until when. Their texts are not kept anywhere.

    \b
    Example:
      chronosctl tokens list
    """
    print_page(client.get("tokens"), output, TOKENS)


@tokens.command(short_help="Create a token.")
@click.argument("name", metavar="NAME")
@click.option("--role", type=click.Choice(ROLES), default="viewer", show_default=True, help="What it may do.")
@click.option("--in-namespace", "spaces", multiple=True, metavar="NS", help="Only there; may be given many times.")
@click.option("--expires", metavar="T", help="The instant from which on it is worth nothing.")
@dry_run_option
@output_option
@asking
def create(
    client: "Client",
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
    body = given(name=name, role=role, namespaces=list(spaces) or None, expires_at=expires)
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
@asking
def delete(client: "Client", name: str, yes: bool, dry_run: bool) -> None:
    """Delete the token NAME; whoever uses it is nobody from now on.

    \b
    Example:
      chronosctl tokens delete ci --yes
    """
    if not yes and not dry_run:
        sure(f"Delete the token {name}?")
    client.call("DELETE", "tokens", name, query={"dry_run": dry_run or None})
    emit(name)
    note("would be deleted" if dry_run else "deleted")


@click.group(cls=Listing, short_help="The users.")
def users() -> None:
    """Look at the users, and unlock them. Without a verb: list.

    \b
    Example:
      chronosctl users
    """


@users.command("list", short_help="List the users.")
@output_option
@asking
def list_users(client: "Client", output: str) -> None:
    """List the users of the server's configuration.

    \b
    Example:
      chronosctl users list
    """
    print_page(client.get("users"), output, USERS)


@users.command(short_help="Let a user try again.")
@click.argument("name", metavar="NAME")
@dry_run_option
@output_option
@asking
def unlock(client: "Client", output: str, name: str, dry_run: bool) -> None:
    """Let the user NAME, locked out by wrong passwords, try again at once.

    Each node counts wrong passwords for itself: of several, ask each of them with --server.

    \b
    Example:
      chronosctl users unlock ana
    """
    found = client.call("POST", "users", name, "unlock", query={"dry_run": dry_run or None}).value
    if output in ("json", "jsonl", "yaml"):
        print_value(found, output)
        return
    emit(name)
    note(f"would be unlocked on {found['node']}" if dry_run else f"unlocked on {found['node']}")


TOKENS = Columns(
    usual={
        "NAME": lambda token: token["name"],
        "ROLE": lambda token: token["role"],
        "NAMESPACES": lambda token: token["namespaces"] or "all",
        "EXPIRES": lambda token: instant(token["expires_at"]),
    },
    wide={"CREATED": lambda token: instant(token["created_at"]), "BY": lambda token: token["created_by"]},
    name=lambda token: token["name"],
    none="there are no tokens",
)
USERS = Columns(
    usual={
        "NAME": lambda user: user["name"],
        "ROLE": lambda user: user["role"],
        "NAMESPACES": lambda user: user["namespaces"] or "all",
    },
    wide={},
    name=lambda user: user["name"],
    none="there are no users",
)
