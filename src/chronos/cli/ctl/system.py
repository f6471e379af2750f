"""``chronosctl status``, ``cluster``, ``nodes``, ``queues``, ``ns`` and ``audit``: the server itself."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.listing import Listing
from chronos.cli.ctl.options import asking, output_option, watch_options
from chronos.cli.ctl.printing import Columns, instant, print_fields, print_items, print_page, print_value
from chronos.cli.ctl.servers import shown
from chronos.cli.output import emit

if TYPE_CHECKING:
    from chronos.cli.ctl.client import Client


@click.command(short_help="How the server is.")
@watch_options
@output_option
@asking
def status(client: "Client", output: str, watch: bool, interval: float) -> None:
    """Say how the server is: how many jobs there are, what is under way, and what its node says of itself.

    \b
    Examples:
      chronosctl status
      chronosctl status --watch
    """
    address = shown(client.server.url)

    def show(found: dict[str, Any], form: str) -> None:
        if form == "name":
            emit(address)
        elif form in ("table", "wide"):
            print_fields({"server": address, **_flat(found)})
        else:
            print_value(found, form)

    _show(lambda: _status(client), show, output, watch, interval)


@click.group(short_help="The server and its nodes.")
def cluster() -> None:
    """Look at the servers that share a store as a whole.

    \b
    Example:
      chronosctl cluster status
    """


@cluster.command("status", short_help="How the server is, and its nodes.")
@watch_options
@output_option
@asking
def cluster_status(client: "Client", output: str, watch: bool, interval: float) -> None:
    """Say how the server is, as `chronosctl status` does, and list the nodes that share its store.

    \b
    Example:
      chronosctl cluster status
    """
    address = shown(client.server.url)

    def show(found: dict[str, Any], form: str) -> None:
        if form not in ("table", "wide", "name"):
            print_value(found, form)
            return
        if form != "name":
            print_fields({"server": address, **_flat(found["status"])})
            emit("")
        print_items(found["nodes"], form, NODES)

    _show(
        lambda: {"status": client.get("status"), "nodes": client.get("nodes")["items"]}, show, output, watch, interval
    )


@click.group(cls=Listing, short_help="The nodes.")
def nodes() -> None:
    """Look at the nodes. Without a verb: list.

    \b
    Example:
      chronosctl nodes
    """


@nodes.command("list", short_help="List the nodes.")
@watch_options
@output_option
@asking
def list_nodes(client: "Client", output: str, watch: bool, interval: float) -> None:
    """List the nodes that share the store, living or not.

    \b
    Example:
      chronosctl nodes list
    """
    _list(client, "nodes", output, NODES, watch, interval)


@click.group(cls=Listing, short_help="How much stands in each queue.")
def queues() -> None:
    """Look at the queues. Without a verb: list.

    \b
    Example:
      chronosctl queues
    """


@queues.command("list", short_help="How much stands in each queue.")
@watch_options
@output_option
@asking
def list_queues(client: "Client", output: str, watch: bool, interval: float) -> None:
    """Say how much stands in each queue: ready, queued behind another, running, waiting.

    \b
    Example:
      chronosctl queues list
    """
    _list(client, "queues", output, QUEUES, watch, interval)


@click.group("ns", cls=Listing, short_help="The namespaces.")
def namespaces() -> None:
    """Look at the namespaces. Without a verb: list.

    \b
    Example:
      chronosctl ns
    """


@namespaces.command("list", short_help="List the namespaces.")
@output_option
@asking
def list_namespaces(client: "Client", output: str) -> None:
    """List the namespaces that have jobs.

    \b
    Example:
      chronosctl ns list
    """
    print_page(client.get("namespaces"), output, NAMESPACES)


@click.group(cls=Listing, short_help="Who changed what.")
def audit() -> None:
    """Look at what was changed. Without a verb: list.

    \b
    Example:
      chronosctl audit --limit 5
    """


@audit.command("list", short_help="Who changed what.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="How many at most.")
@output_option
@asking
def list_changes(client: "Client", output: str, limit: int) -> None:
    """List who changed what, newest first.

    \b
    Example:
      chronosctl audit list --limit 5
    """
    query = {"namespace": client.server.namespace}
    print_page(client.pages("audit", limit=limit, query=query), output, AUDIT)


def _status(client: "Client") -> dict[str, Any]:
    """The server's status. Raises ``KeyError`` for an answer of another kind of server."""
    found: dict[str, Any] = client.get("status")
    if "now" not in found:
        raise KeyError("now")
    return found


def _show(
    look: Callable[[], dict[str, Any]],
    show: Callable[[dict[str, Any], str], None],
    output: str,
    watch: bool,
    interval: float,
) -> None:
    if watch:
        from chronos.cli.ctl.watching import watch_one

        watch_one(look, show, output, interval)
    show(look(), output)


def _list(client: "Client", path: str, output: str, columns: Columns, watch: bool, interval: float) -> None:
    if watch:
        from chronos.cli.ctl.watching import watch as keep_looking

        keep_looking(lambda: client.get(path), output, columns, interval)
    print_page(client.get(path), output, columns)


def _flat(found: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Objects within objects as dotted names."""
    flat: dict[str, Any] = {}
    for name, value in found.items():
        said = f"{prefix}{name}".replace("_", " ")
        flat |= _flat(value, f"{said}.") if isinstance(value, dict) else {said: value}
    return flat


def _object_of(entry: Mapping[str, Any]) -> str:
    """What was changed; of dead letters, of which the log counts and names those that went together, the first."""
    if entry["action"] != "discard dead letters":
        return str(entry["subject"])
    first = str(entry["detail"])[:32]
    text = "-".join((first[:8], first[8:12], first[12:16], first[16:20], first[20:]))
    return text if entry["subject"] == "1" else f"{text} and {int(entry['subject']) - 1} more"


NODES = Columns(
    usual={
        "NAME": lambda node: node["name"],
        "STATE": lambda node: node["state"],
        "SLOTS": lambda node: node["slots"],
        "STARTED": lambda node: instant(node["started_at"]),
        "LAST SEEN": lambda node: instant(node["beat_at"]),
    },
    wide={
        "NUMBER": lambda node: node["number"],
        "STOPPED": lambda node: instant(node["stopped_at"]),
        "LABELS": lambda node: node["labels"],
    },
    name=lambda node: node["name"],
    none="there are no nodes",
)
QUEUES = Columns(
    usual={
        "QUEUE": lambda queue: queue["queue"],
        "READY": lambda queue: queue["ready"],
        "QUEUED": lambda queue: queue["queued"],
        "RUNNING": lambda queue: queue["running"],
        "WAITING": lambda queue: queue["waiting"],
    },
    wide={"LABELS": lambda queue: queue["labels"], "FUNCTIONS": lambda queue: queue["functions"]},
    name=lambda queue: queue["queue"],
    none="nothing is under way",
)
NAMESPACES = Columns(
    usual={"NAME": lambda space: space["name"]},
    wide={},
    name=lambda space: space["name"],
    none="there are no jobs, and so no namespaces",
)
AUDIT = Columns(
    usual={
        "AT": lambda entry: instant(entry["at"]),
        "WHO": lambda entry: entry["actor"],
        "DID": lambda entry: entry["action"],
        "TO": _object_of,
    },
    wide={
        "NAMESPACE": lambda entry: entry["namespace"],
        "FROM": lambda entry: entry["origin"],
        "DETAIL": lambda entry: entry["detail"],
    },
    name=lambda entry: entry["subject"],
    none="nothing was changed",
)
