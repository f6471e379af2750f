"""``chronosctl status``, ``cluster``, ``nodes``, ``queues``, ``ns`` and ``audit``: the server itself."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.contexts import hide_password
from chronos.cli.ctl.list_command import make_listing
from chronos.cli.ctl.options import limit_option, output_option, watch_options, with_client
from chronos.cli.ctl.tables import Columns, instant_column, print_fields, print_items, print_value
from chronos.cli.ctl.watch import show_value
from chronos.cli.output import emit

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


@click.command(short_help="How the server is.")
@watch_options
@output_option
@with_client
def status(client: "ApiClient", output: str, every_s: float | None) -> None:
    """Say how the server is: how many jobs there are, what is under way, and what its node says of itself.

    \b
    Examples:
      chronosctl status
      chronosctl status --watch
    """
    address = hide_password(client.server.url)

    def show(found: dict[str, Any], form: str) -> None:
        if form == "name":
            emit(address)
        elif form in ("table", "wide"):
            print_fields({"server": address, **_flat(found)})
        else:
            print_value(found, form)

    show_value(lambda: _status(client), show, output, every_s)


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
@with_client
def cluster_status(client: "ApiClient", output: str, every_s: float | None) -> None:
    """Say how the server is, as `chronosctl status` does, and list the nodes that share its store.

    \b
    Example:
      chronosctl cluster status
    """
    address = hide_password(client.server.url)

    def show(found: dict[str, Any], form: str) -> None:
        if form not in ("table", "wide", "name"):
            print_value(found, form)
            return
        if form != "name":
            print_fields({"server": address, **_flat(found["status"])})
            emit("")
        print_items(found["nodes"], form, NODES)

    def fetch() -> dict[str, Any]:
        return {"status": client.get("status"), "nodes": client.get("nodes")["items"]}

    show_value(fetch, show, output, every_s)


def _status(client: "ApiClient") -> dict[str, Any]:
    """The server's status. Raises ``KeyError`` for an answer of another kind of server."""
    found: dict[str, Any] = client.get("status")
    if "now" not in found:
        raise KeyError("now")
    return found


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
        "NAME": "name",
        "STATE": "state",
        "SLOTS": "slots",
        "STARTED": instant_column("started_at"),
        "LAST SEEN": instant_column("beat_at"),
    },
    wide={"NUMBER": "number", "STOPPED": instant_column("stopped_at"), "LABELS": "labels"},
    name="name",
    none="there are no nodes",
)
QUEUES = Columns(
    usual={"QUEUE": "queue", "READY": "ready", "QUEUED": "queued", "RUNNING": "running", "WAITING": "waiting"},
    wide={"LABELS": "labels", "FUNCTIONS": "functions"},
    name="queue",
    none="nothing is under way",
)
NAMESPACES = Columns(usual={"NAME": "name"}, wide={}, name="name", none="there are no jobs, and so no namespaces")
AUDIT = Columns(
    usual={"AT": instant_column("at"), "WHO": "actor", "DID": "action", "TO": _object_of},
    wide={"NAMESPACE": "namespace", "FROM": "origin", "DETAIL": "detail"},
    name="subject",
    none="nothing was changed",
)

nodes = make_listing(
    "nodes",
    "Look at the nodes.",
    NODES,
    lists="List the nodes that share the store, living or not.",
    short_help="The nodes.",
    list_help="List the nodes.",
    options=(watch_options,),
)
queues = make_listing(
    "queues",
    "Look at the queues.",
    QUEUES,
    lists="Say how much stands in each queue: ready, queued behind another, running, waiting.",
    short_help="How much stands in each queue.",
    options=(watch_options,),
)
namespaces = make_listing(
    "ns",
    "Look at the namespaces.",
    NAMESPACES,
    lists="List the namespaces that have jobs.",
    path="namespaces",
    short_help="The namespaces.",
    list_help="List the namespaces.",
)
audit = make_listing(
    "audit",
    "Look at what was changed.",
    AUDIT,
    lists="List who changed what, newest first.",
    short_help="Who changed what.",
    said=" --limit 5",
    options=(limit_option(50),),
)
