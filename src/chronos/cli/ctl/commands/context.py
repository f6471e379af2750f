"""``chronosctl context``: names for servers."""

import sys

import click

from chronos.cli.ctl.contexts import ServerContext, hide_password, read_contexts, write_contexts
from chronos.cli.ctl.errors import CommandFailure
from chronos.cli.ctl.options import output_option
from chronos.cli.ctl.tables import Columns, print_page
from chronos.cli.output import emit, note


@click.group(short_help="Name servers and choose the current one.")
def context() -> None:
    """Give names to servers, and choose the one that commands use by default.

    Contexts and their tokens are stored in contexts.json in your configuration folder, which only you can read.
    --server, --context, CHRONOS_SERVER and CHRONOS_CONTEXT take precedence over the current context.

    \b
    Examples:
      chronosctl context set local --url http://127.0.0.1:8080
      chronosctl context use local
    """


@context.command("list", short_help="List contexts.")
@output_option
def list_(output: str) -> None:
    """List contexts; a star marks the current one.

    \b
    Example:
      chronosctl context list
    """
    contexts = read_contexts()
    items = [
        {
            "name": name,
            "server": hide_password(server.url),
            "namespace": server.namespace,
            "token": server.token is not None,
            "current": name == contexts.current,
        }
        for name, server in sorted(contexts.servers.items())
    ]
    print_page({"items": items}, output, COLUMNS)


@context.command("set", short_help="Create or change a context.")
@click.argument("name", metavar="NAME")
@click.option("--url", required=True, metavar="URL", help="The server's URL.")
@click.option("--default-namespace", metavar="NS", help="The namespace of jobs.  [default: default]")
@click.option("--token", metavar="TOKEN", help="An API token; - reads it from stdin.")
def set_(name: str, url: str, default_namespace: str | None, token: str | None) -> None:
    """Store a server as NAME. The first context becomes the current one.

    \b
    Example:
      chronosctl context set local --url http://127.0.0.1:8080
    """
    if not url.startswith(("http://", "https://")):
        raise CommandFailure(f'invalid server URL "{hide_password(url)}"; write it like http://127.0.0.1:8080')
    if token == "-":
        token = sys.stdin.readline().strip()
    contexts = read_contexts()
    contexts.servers[name] = ServerContext(url=url, token=token or None, namespace=default_namespace)
    contexts.current = contexts.current or name
    write_contexts(contexts)
    emit(name)
    note("is the current context" if contexts.current == name else f"saved; use it: chronosctl context use {name}")


@context.command(short_help="Switch to a context.")
@click.argument("name", metavar="NAME")
def use(name: str) -> None:
    """Make NAME the current context.

    \b
    Example:
      chronosctl context use local
    """
    contexts = read_contexts()
    server = contexts.get(name)
    contexts.current = name
    write_contexts(contexts)
    emit(name)
    note(f"now using {hide_password(server.url)}")


@context.command(short_help="Delete a context.")
@click.argument("name", metavar="NAME")
def delete(name: str) -> None:
    """Delete the context NAME.

    \b
    Example:
      chronosctl context delete local
    """
    contexts = read_contexts()
    contexts.get(name)
    del contexts.servers[name]
    contexts.current = None if contexts.current == name else contexts.current
    write_contexts(contexts)
    emit(name)
    note("deleted")


COLUMNS = Columns(
    usual={
        "": lambda item: "*" if item["current"] else "",
        "NAME": "name",
        "SERVER": "server",
        "NAMESPACE": "namespace",
    },
    wide={"TOKEN": "token"},
    name="name",
    empty="no contexts; create one: chronosctl context set NAME --url URL",
)
