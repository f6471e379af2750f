"""``chronosctl status``, ``cluster``, ``nodes``, ``queues``, ``ns`` and ``audit``: the state of the server."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.contexts import hide_password
from chronos.cli.ctl.list_command import make_listing
from chronos.cli.ctl.options import limit_option, output_option, watch_options, with_client
from chronos.cli.ctl.status_words import describe_status
from chronos.cli.ctl.tables import Columns, instant_column, print_fields, print_items, print_value
from chronos.cli.ctl.watch import show_value
from chronos.cli.output import emit

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


@click.command(short_help="Show server status.")
@watch_options
@output_option
@with_client
def status(client: "ApiClient", output: str, every_s: float | None) -> None:
    """Show the status of the server: its jobs, its active executions and its node.

    \b
    Examples:
      chronosctl status
      chronosctl status --watch
    """
    address = hide_password(client.server.url)

    def show(status: dict[str, Any], form: str) -> None:
        if form == "name":
            emit(address)
        elif form in ("table", "wide"):
            print_fields(describe_status(address, status))
        else:
            print_value(status, form)

    show_value(lambda: _get_status(client), show, output, every_s)


@click.group(short_help="Show server status and nodes.")
def cluster() -> None:
    """Show all servers that share a store.

    \b
    Example:
      chronosctl cluster status
    """


@cluster.command("status", short_help="Show server status and nodes.")
@watch_options
@output_option
@with_client
def cluster_status(client: "ApiClient", output: str, every_s: float | None) -> None:
    """Show the status of the server, as `chronosctl status` does, and list the nodes that share its store.

    \b
    Example:
      chronosctl cluster status
    """
    address = hide_password(client.server.url)

    def show(state: dict[str, Any], form: str) -> None:
        if form not in ("table", "wide", "name"):
            print_value(state, form)
            return
        if form != "name":
            print_fields(describe_status(address, state["status"]))
            emit("")
        print_items(state["nodes"], form, NODES)

    def fetch() -> dict[str, Any]:
        return {"status": client.get("status"), "nodes": client.get("nodes")["items"]}

    show_value(fetch, show, output, every_s)


def _get_status(client: "ApiClient") -> dict[str, Any]:
    """Return the server's status. Raises ``KeyError`` if the reply is not a status."""
    status: dict[str, Any] = client.get("status")
    if "now" not in status:
        raise KeyError("now")
    return status


def _format_subject(entry: Mapping[str, Any]) -> str:
    """Return the changed resource. An entry about several dead letters shows the first id and a count."""
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
    empty="no nodes",
)
QUEUES = Columns(
    usual={"QUEUE": "queue", "READY": "ready", "QUEUED": "queued", "RUNNING": "running", "WAITING": "waiting"},
    wide={"LABELS": "labels", "FUNCTIONS": "functions"},
    name="queue",
    empty="no active executions",
)
NAMESPACES = Columns(
    usual={"NAME": "name"}, wide={}, name="name", empty="no namespaces; a namespace exists while it has jobs"
)
AUDIT = Columns(
    usual={"AT": instant_column("at"), "WHO": "actor", "DID": "action", "TO": _format_subject},
    wide={"NAMESPACE": "namespace", "FROM": "origin", "DETAIL": "detail"},
    name="subject",
    empty="no changes",
)

nodes = make_listing(
    "nodes",
    "Show the nodes.",
    NODES,
    list_text="List the nodes that share the store, alive or not.",
    short_help="Show the nodes.",
    list_help="List the nodes.",
    options=(watch_options,),
)
queues = make_listing(
    "queues",
    "Show the queues.",
    QUEUES,
    list_text="Show how many executions of each queue are ready, queued, running and waiting.",
    short_help="Show queue depths.",
    options=(watch_options,),
)
namespaces = make_listing(
    "ns",
    "Show the namespaces.",
    NAMESPACES,
    list_text="List the namespaces that have jobs.",
    path="namespaces",
    short_help="Show the namespaces.",
    list_help="List the namespaces.",
)
audit = make_listing(
    "audit",
    "Show the audit log.",
    AUDIT,
    list_text="List the changes and their authors, newest first.",
    short_help="Show who changed what.",
    example_options=" --limit 5",
    options=(limit_option(50),),
)
