"""``chronosctl context``: servers by names of one's own."""

import sys

import click

from chronos.cli.ctl.contexts import ServerContext, hide_password, read_contexts, write_contexts
from chronos.cli.ctl.errors import CommandFailure
from chronos.cli.ctl.options import output_option
from chronos.cli.ctl.tables import Columns, print_page
from chronos.cli.output import emit, note


@click.group(short_help="Servers by names of your own.")
def context() -> None:
    """Give names to servers, and choose the one that commands ask when nothing else says which.

    They are kept in contexts.json in your configuration folder, tokens included, for you alone to read. --server,
    --context, CHRONOS_SERVER and CHRONOS_CONTEXT come before the context in use.

    \b
    Examples:
      chronosctl context set local --url http://127.0.0.1:8080
      chronosctl context use local
    """


@context.command("list", short_help="List contexts.")
@output_option
def list_(output: str) -> None:
    """List contexts; a star marks the one in use.

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
@click.option("--url", required=True, metavar="URL", help="The server's address.")
@click.option("--default-namespace", metavar="NS", help="Whose jobs are meant.  [default: default]")
@click.option("--token", metavar="TOKEN", help="What to show there; - reads it from stdin.")
def set_(name: str, url: str, default_namespace: str | None, token: str | None) -> None:
    """Keep a server under NAME. The first one is used from now on.

    \b
    Example:
      chronosctl context set local --url http://127.0.0.1:8080
    """
    if not url.startswith(("http://", "https://")):
        raise CommandFailure(f"{hide_password(url)} is no address of a server; write it like http://127.0.0.1:8080")
    if token == "-":
        token = sys.stdin.readline().strip()
    contexts = read_contexts()
    contexts.servers[name] = ServerContext(url=url, token=token or None, namespace=default_namespace)
    contexts.current = contexts.current or name
    write_contexts(contexts)
    emit(name)
    note("is in use" if contexts.current == name else f"is kept; use it: chronosctl context use {name}")


@context.command(short_help="Use a context from now on.")
@click.argument("name", metavar="NAME")
def use(name: str) -> None:
    """Ask the server NAME from now on.

    \b
    Example:
      chronosctl context use local
    """
    contexts = read_contexts()
    server = contexts.named(name)
    contexts.current = name
    write_contexts(contexts)
    emit(name)
    note(f"{hide_password(server.url)} is asked from now on")


@context.command(short_help="Forget a context.")
@click.argument("name", metavar="NAME")
def delete(name: str) -> None:
    """Forget the server NAME.

    \b
    Example:
      chronosctl context delete local
    """
    contexts = read_contexts()
    contexts.named(name)
    del contexts.servers[name]
    contexts.current = None if contexts.current == name else contexts.current
    write_contexts(contexts)
    emit(name)
    note("forgotten")


COLUMNS = Columns(
    usual={
        "": lambda item: "*" if item["current"] else "",
        "NAME": "name",
        "SERVER": "server",
        "NAMESPACE": "namespace",
    },
    wide={"TOKEN": "token"},
    name="name",
    none="there are no contexts; make one: chronosctl context set NAME --url URL",
)
