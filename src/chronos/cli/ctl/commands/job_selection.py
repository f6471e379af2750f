"""Selection of jobs: one by NAME, or many by options. ``jobs list`` takes the same options."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.errors import CommandFailure
from chronos.cli.ctl.options import complete_job
from chronos.cli.ctl.tables import Columns, print_page
from chronos.cli.output import note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

STATES = ("active", "paused", "disabled", "done")
ACTION_RESULTS = {
    "pause": "paused",
    "resume": "resumed",
    "enable": "enabled",
    "disable": "disabled",
    "trigger": "triggered",
    "delete": "deleted",
}
_SELECTION_OPTIONS = ("search", "prefix", "tags", "state", "owner", "all_namespaces")

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedJobs:
    """One job by name, or (name None) all jobs that a query finds."""

    name: str | None
    query: dict[str, Any] = field(default_factory=dict)
    everything: bool = False


def selection_options(command: Command) -> Command:
    """The options that select jobs; ``build_query`` takes these arguments."""
    for option in (
        click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces."),
        click.option("--owner", metavar="NAME", help="Only jobs of this owner."),
        click.option("--state", type=click.Choice(STATES), help="Only jobs in this state."),
        click.option(
            "-l",
            "--selector",
            "--tag",
            "tags",
            multiple=True,
            metavar="KEY[=VALUE]",
            help="Only jobs with this tag; may be repeated.",
        ),
        click.option("--prefix", metavar="TEXT", help="Only jobs whose name starts with this."),
        click.option("-q", "--search", metavar="TEXT", help="Only jobs whose name contains this."),
    ):
        command = option(command)
    return command


def build_query(client: "ApiClient", options: dict[str, Any]) -> dict[str, Any]:
    """Return the query parameters for the selection options."""
    return {
        "q": options["search"],
        "prefix": options["prefix"],
        "tag": options["tags"],
        "state": options["state"],
        "owner": options["owner"],
        "namespace": "*" if options["all_namespaces"] else client.server.namespace,
    }


def select_jobs(command: Command) -> Command:
    """Add NAME and the selection options; the argument is called ``selection``. Use it below ``with_client``."""

    @functools.wraps(command)
    def run(client: "ApiClient", *, name: str | None, everything: bool, **arguments: Any) -> Any:
        options = {option: arguments.pop(option) for option in _SELECTION_OPTIONS}
        _check_selection(name, everything, options)
        selection = SelectedJobs(name=name, query={} if name else build_query(client, options), everything=everything)
        return command(client, selection=selection, **arguments)

    name_argument = click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_job)
    every_option = click.option("--all", "everything", is_flag=True, help="All jobs of the namespace.")
    return name_argument(selection_options(every_option(run)))


def _check_selection(name: str | None, everything: bool, options: dict[str, Any]) -> None:
    narrows = any(options[option] for option in _SELECTION_OPTIONS if option != "all_namespaces")
    if name is not None and (narrows or everything or options["all_namespaces"]):
        raise click.UsageError("NAME and options that select jobs cannot be combined; leave one out")
    if everything and narrows:
        raise click.UsageError("--all and options that select jobs cannot be combined; leave one out")
    if name is None and not narrows and not everything:
        raise click.UsageError("no job is named; give a NAME, options such as --selector, or --all")


def run_bulk_action(
    client: "ApiClient",
    action: str,
    selection: SelectedJobs,
    output: str,
    *,
    dry_run: bool,
    key: str | None = None,
    confirm_count: Callable[[str], None] | None = None,
    **body: Any,
) -> None:
    """Apply one action to many jobs and print the result for each.

    ``confirm_count`` receives the number of jobs as text, and raises if the user refuses. The server then rejects the
    action if that number has changed.
    """
    from chronos.cli.ctl.commands.jobs_actions import drop_none, new_idempotency_key

    request = drop_none(action=action, all=selection.everything or None, **body)

    def send(request: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
        query = {**selection.query, "dry_run": dry_run or None}
        headers = {"Idempotency-Key": key or new_idempotency_key()}
        reply: dict[str, Any] = client.call("POST", "jobs", "actions", query=query, body=request, headers=headers).value
        return reply

    if confirm_count is not None and not dry_run:
        matched = send(request, dry_run=True)["matched"]
        if matched:
            confirm_count(_count_jobs(matched))
        request["expect"] = matched
    reply = send(request, dry_run=dry_run)
    print_page(reply, output, _columns(action, dry_run=dry_run), part="results")
    if reply["failed"]:
        raise CommandFailure(
            f"{reply['failed']} of {_count_jobs(reply['matched'])} could not be {ACTION_RESULTS[action]}; "
            f"{_summarize(reply)}"
        )
    note(_summarize(reply))


def _summarize(reply: dict[str, Any]) -> str:
    would = "would be " if reply["dry_run"] else ""
    return f"{_count_jobs(reply['done'])} {would}{ACTION_RESULTS[reply['action']]}, {reply['unchanged']} unchanged"


def _count_jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def _columns(action: str, *, dry_run: bool) -> Columns:
    words = {
        "done": f"would be {ACTION_RESULTS[action]}" if dry_run else ACTION_RESULTS[action],
        "unchanged": "unchanged",
    }
    runs = {"EXECUTION": lambda item: item.get("execution_id")} if action == "trigger" and not dry_run else {}
    return Columns(
        usual={
            "NAME": "name",
            "RESULT": lambda item: words.get(item["result"]) or f"failed: {item['message']}",
            **runs,
        },
        wide={"NAMESPACE": "namespace", "ID": "id"},
        name="name",
        empty="no job matches",
    )
