"""Selection of dead letters: one by ID, or many by job and error; and one action on each, at a rate."""

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.errors import CommandFailure, RequestRefused, ResourceNotFound
from chronos.cli.ctl.options import MAX_COMPLETIONS, Command, complete_from_server, complete_job
from chronos.cli.ctl.tables import Columns, print_page
from chronos.cli.output import note

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from chronos.cli.ctl.client import ApiClient

DEFAULT_RATE = 10.0
_MAX_RATE = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedLetters:
    """One dead letter by id, or (id None) all that match."""

    id: str | None
    job: str | None = None
    error: str | None = None
    rate: float = DEFAULT_RATE
    yes: bool = False


def filter_options(command: Command) -> Command:
    """``--job`` and ``--error``."""
    for option in (
        click.option("--error", metavar="TEXT", help="Only dead letters whose reason contains this text."),
        click.option("--job", metavar="NAME", shell_complete=complete_job, help="Only dead letters of this job."),
    ):
        command = option(command)
    return command


def select_letters(command: Command) -> Command:
    """Add ID, the filters, ``--all``, ``--rate`` and ``--yes``; the argument is called ``selection``."""

    @functools.wraps(command)
    def run(
        client: "ApiClient",
        *,
        id_: str | None,
        everything: bool,
        job: str | None,
        error: str | None,
        rate: float | None,
        yes: bool,
        **arguments: Any,
    ) -> Any:
        if sum(map(bool, (id_, everything, job or error))) != 1:
            raise click.UsageError("give either the ID of one dead letter, or --job, --error or both, or --all")
        if id_ is not None and rate is not None:
            raise click.UsageError("--rate needs several dead letters; leave out the ID or --rate")
        selection = SelectedLetters(id=id_, job=job, error=error, rate=rate or DEFAULT_RATE, yes=yes)
        return command(client, selection=selection, **arguments)

    selected: Command = run
    for option in (
        click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation."),
        click.option(
            "--rate",
            type=click.FloatRange(0, _MAX_RATE, min_open=True),
            metavar="N",
            help=f"With several: how many per second.  [default: {DEFAULT_RATE:g}]",
        ),
        click.option("--all", "everything", is_flag=True, help="All dead letters of the namespace."),
        filter_options,
        click.argument("id_", metavar="[ID]", required=False, shell_complete=complete_letter),
    ):
        selected = option(selected)
    return selected


def complete_letter(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem[Any]]":
    """Complete the id of a dead letter, if the server can be reached; newest first."""
    from click.shell_completion import CompletionItem

    def fetch(client: "ApiClient") -> "list[CompletionItem[Any]]":
        query = {"namespace": client.server.namespace}
        letters = client.list_pages("dead-letters", limit=1000, query=query)["items"]
        found = [letter for letter in letters if letter["id"].startswith(incomplete.lower())]
        return [CompletionItem(letter["id"], help=letter["job_name"]) for letter in found[:MAX_COMPLETIONS]]

    return complete_from_server(ctx, fetch)


def list_letters(
    client: "ApiClient", *, job: str | None, error: str | None, limit: int | None = None
) -> dict[str, Any]:
    """Return the dead letters that match, newest first, in the shape of one page."""
    query = {"namespace": client.server.namespace}
    if job is None and error is None:
        return client.list_pages("dead-letters", limit=limit, query=query)
    page = client.list_pages("dead-letters", limit=None, query=query)
    items = [letter for letter in page["items"] if _matches(letter, job, error)]
    return {**page, "items": items if limit is None else items[:limit]}


def _matches(letter: dict[str, Any], job: str | None, error: str | None) -> bool:
    reason = letter["reason"]
    return (job is None or job in (letter["job_name"], letter["job_id"])) and (
        error is None or error.lower() in f"{reason['code']}\n{reason['message']}".lower()
    )


def handle_letters(
    client: "ApiClient",
    selection: SelectedLetters,
    output: str,
    handle: Callable[[str], dict[str, Any] | None],
    *,
    verbs: tuple[str, str],
    dry_run: bool,
) -> None:
    """Apply ``handle`` to the id of each selected dead letter, and print the results.

    The dead letters are those that exist when the command starts, oldest first. ``verbs`` is the action and its past
    participle. A terminal asks first and shows the progress.
    """
    from chronos.cli.ctl.commands.jobs_actions import confirm

    verb, done = verbs
    letters = list_letters(client, job=selection.job, error=selection.error)["items"][::-1]
    if letters and not dry_run and not selection.yes:
        confirm(f"{verb.capitalize()} {_count(len(letters))}?")
    results: list[dict[str, Any]] = []
    try:
        with _progress(verb, len(letters), shown=not dry_run) as advance:
            for letter in letters if dry_run else pace(letters, selection.rate):
                results.append(handle_one(letter, (lambda _: None) if dry_run else handle))
                advance(1)
    finally:
        counts = {word: sum(item["result"] == word for item in results) for word in ("done", "unchanged", "failed")}
        reply = {"dry_run": dry_run, "action": verb, "matched": len(letters), **counts, "results": results}
        print_page(reply, output, _columns(f"would be {done}" if dry_run else done), part="results")
        summary = f"{_count(counts['done'])} {'would be ' if dry_run else ''}{done}, {counts['unchanged']} unchanged"
        if len(results) < len(letters):
            summary += f"; stopped before the other {len(letters) - len(results)}"
        if not counts["failed"]:
            note(summary)
    if counts["failed"]:
        raise CommandFailure(f"{counts['failed']} of {_count(len(letters))} could not be {done}; {summary}")


def handle_one(letter: dict[str, Any], handle: Callable[[str], dict[str, Any] | None]) -> dict[str, Any]:
    """Apply ``handle`` to one dead letter and return the result. Raises if no other letter can succeed either."""
    result = {"id": letter["id"], "job_name": letter["job_name"]}
    try:
        reply = handle(letter["id"]) or {}
    except ResourceNotFound:  # another client discarded it
        return {**result, "result": "unchanged"}
    except RequestRefused as refused:
        if refused.status in (401, 403):
            raise
        return {**result, "result": "failed", "message": refused.format_message()}
    if reply.get("created") is False:  # another client replayed it
        return {**result, "result": "unchanged", "execution_id": reply["execution_id"]}
    return {**result, "result": "done", **({"execution_id": reply["execution_id"]} if reply else {})}


def pace(
    letters: Sequence[dict[str, Any]],
    rate: float,
    *,
    monotonic_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Yield the letters, at most ``rate`` per second. Time that a slow letter took is not made up for."""
    next_s = monotonic_s()
    for letter in letters:
        sleep(max(0.0, next_s - monotonic_s()))
        next_s = max(next_s, monotonic_s()) + 1 / rate
        yield letter


@contextmanager
def _progress(verb: str, length: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal; elsewhere nothing."""
    if not (shown and length and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda _: None
        return
    with click.progressbar(length=length, label=verb, show_pos=True, file=sys.stderr) as bar:
        yield bar.update


def _count(count: int) -> str:
    return f"{count} dead letter{'' if count == 1 else 's'}"


def _columns(done: str) -> Columns:
    words = {"done": done, "unchanged": "unchanged: it was replayed or discarded meanwhile"}
    return Columns(
        usual={
            "ID": "id",
            "JOB": "job_name",
            "RESULT": lambda item: words.get(item["result"]) or f"failed: {item['message']}",
            "EXECUTION": lambda item: item.get("execution_id"),
        },
        wide={},
        name="id",
        empty="no dead letter matches",
    )
