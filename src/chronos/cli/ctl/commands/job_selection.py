"""Which jobs a command is about: one by its name, or all that options choose; the same options list jobs."""

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
    "trigger": "asked to run",
    "delete": "deleted",
}
_SELECTION_OPTIONS = ("search", "prefix", "tags", "state", "owner", "all_namespaces")

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedJobs:
    """One job, or (without a name) those that a query finds."""

    name: str | None
    query: dict[str, Any] = field(default_factory=dict)
    everything: bool = False


def selection_options(command: Command) -> Command:
    """The options that choose jobs; ``query_of`` takes these arguments."""
    for option in (
        click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace."),
        click.option("--owner", metavar="NAME", help="Only those that this owner applied."),
        click.option("--state", type=click.Choice(STATES), help="Only those in this state."),
        click.option(
            "-l",
            "--selector",
            "--tag",
            "tags",
            multiple=True,
            metavar="KEY[=VALUE]",
            help="Only those with this tag; may be given many times.",
        ),
        click.option("--prefix", metavar="TEXT", help="Only those whose name begins with this."),
        click.option("-q", "--search", metavar="TEXT", help="Only those with this in their name."),
    ):
        command = option(command)
    return command


def build_query(client: "ApiClient", said: dict[str, Any]) -> dict[str, Any]:
    """The parameters that options stand for."""
    return {
        "q": said["search"],
        "prefix": said["prefix"],
        "tag": said["tags"],
        "state": said["state"],
        "owner": said["owner"],
        "namespace": "*" if said["all_namespaces"] else client.server.namespace,
    }


def select_jobs(command: Command) -> Command:
    """NAME of a job, or options that choose many; the argument is called ``chosen``. It goes below ``asking``."""

    @functools.wraps(command)
    def choosing(client: "ApiClient", *, name: str | None, everything: bool, **arguments: Any) -> Any:
        said = {option: arguments.pop(option) for option in _SELECTION_OPTIONS}
        _check(name, everything, said)
        selection = SelectedJobs(name=name, query={} if name else build_query(client, said), everything=everything)
        return command(client, selection=selection, **arguments)

    named = click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_job)
    every = click.option("--all", "everything", is_flag=True, help="All jobs of the namespace.")
    return named(selection_options(every(choosing)))


def _check(name: str | None, everything: bool, said: dict[str, Any]) -> None:
    narrows = any(said[option] for option in _SELECTION_OPTIONS if option != "all_namespaces")
    if name is not None and (narrows or everything or said["all_namespaces"]):
        raise click.UsageError("NAME and options that choose jobs are both given; leave one of them out")
    if everything and narrows:
        raise click.UsageError("--all and options that choose jobs are both given; leave one of them out")
    if name is None and not narrows and not everything:
        raise click.UsageError("nothing says which jobs: give a NAME, options such as --selector, or --all")


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
    """Do the same to many jobs, and print what became of each; ``asks`` is told how many, and may refuse."""
    from chronos.cli.ctl.commands.jobs_actions import drop_none, new_idempotency_key

    said = drop_none(action=action, all=selection.everything or None, **body)

    def send(said: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
        query = {**selection.query, "dry_run": dry_run or None}
        headers = {"Idempotency-Key": key or new_idempotency_key()}
        found: dict[str, Any] = client.call("POST", "jobs", "actions", query=query, body=said, headers=headers).value
        return found

    if confirm_count is not None and not dry_run:
        seen = send(said, dry_run=True)["matched"]
        if seen:
            confirm_count(_count_jobs(seen))
        said["expect"] = seen
    found = send(said, dry_run=dry_run)
    print_page(found, output, _columns(action, dry_run=dry_run), part="results")
    if found["failed"]:
        raise CommandFailure(
            f"{found['failed']} of {_count_jobs(found['matched'])} could not be {ACTION_RESULTS[action]}; "
            f"{_summarize(found)}"
        )
    note(_summarize(found))


def _summarize(found: dict[str, Any]) -> str:
    would = "would be " if found["dry_run"] else ""
    return f"{_count_jobs(found['done'])} {would}{ACTION_RESULTS[found['action']]}, {found['unchanged']} unchanged"


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
        none="no job is meant by that",
    )
