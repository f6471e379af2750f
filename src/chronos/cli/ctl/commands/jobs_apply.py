"""``chronosctl jobs apply`` and ``jobs edit``: jobs as YAML, many in one change, or one in an editor."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs import READ_ONLY_FIELDS, jobs, print_changed_job, print_dry_run, print_run_changes
from chronos.cli.ctl.commands.jobs_actions import confirm
from chronos.cli.ctl.errors import CommandFailure, RequestRefused, error_for_reply
from chronos.cli.ctl.options import dry_run_option, job_argument, output_option, with_client
from chronos.cli.ctl.tables import format_instant, print_value, to_yaml
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

OWNER = "chronosctl"
_SUFFIXES = (".yaml", ".yml", ".json")


@jobs.command(short_help="Make a server's jobs what files say.")
@click.option("-f", "--file", "files", multiple=True, required=True, metavar="FILE", help="YAML; - is stdin.")
@click.argument("more", nargs=-1, metavar="[FILE...]")
@click.option("--owner", metavar="NAME", help=f"Whose jobs these are.  [default: as the files say, else {OWNER}]")
@click.option("--prune", is_flag=True, help="Delete what the same owner applied before and does not name any more.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before deleting.")
@dry_run_option
@output_option
@with_client
def apply(
    client: "ApiClient",
    *,
    output: str,
    files: tuple[str, ...],
    more: tuple[str, ...],
    owner: str | None,
    prune: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Make the jobs of an owner what FILEs say: all of them in one change, or none.

    A FILE is YAML with one job in each document, a list of jobs, or "jobs:" with a list, and perhaps their "owner:"; a
    folder stands for all YAML files in it. What would change is shown before, on a terminal, when something is to be
    deleted. Give sets of files that are pruned by themselves owners of their own.

    \b
    Examples:
      chronosctl jobs apply -f jobs.yaml --dry-run
      chronosctl jobs apply -f jobs.yaml --owner billing --prune
    """
    read = list(_read_all((*files, *more)))
    named, places = [job for job, _ in read], [place for _, place in read]
    body = {"jobs": named, "owner": _find_owner(owner, named), "prune": prune}
    query = {"namespace": client.server.namespace}
    if prune and not yes and not dry_run:
        _ask_before_pruning(client, body, query, places)
    plan = _send_plan(client, {**body, "dry_run": dry_run}, query, places)
    if output in ("table", "wide"):
        _print_plan(plan)
    elif output == "name":
        for part in ("created", "changed", "unchanged", "pruned"):
            for job in plan[part]:
                emit(job["name"])
    else:
        print_value(plan, output)


@jobs.command(short_help="Change a job in an editor.")
@job_argument
@dry_run_option
@output_option
@with_client
def edit(client: "ApiClient", output: str, name: str, dry_run: bool) -> None:
    """Open the job NAME as YAML in $EDITOR, and save what you make of it, unless somebody else changed it meanwhile.

    \b
    Example:
      EDITOR=true chronosctl jobs edit hello
    """
    query = {"namespace": client.server.namespace}
    there = client.call("GET", "jobs", name, query=query)
    before = to_yaml({key: value for key, value in there.value.items() if key not in READ_ONLY_FIELDS})
    after = click.edit(before, extension=".yaml")
    if after is None or after.strip() == before.strip():
        note("nothing changed")
        return
    try:
        [job] = _parse_jobs(after, "what you wrote")
        saved = client.call(
            "PUT",
            "jobs",
            name,
            query={**query, "dry_run": dry_run or None},
            body=job,
            headers={"If-Match": there.etag or "*"},
        ).value
    except CommandFailure:
        note(f"what you wrote is in {_save_draft(name, after)}")
        raise
    if dry_run:
        print_dry_run(saved, output)
    else:
        print_changed_job(saved, output, f"is v{saved['version']} now")


# --- files


def _read_all(names: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Every job of the files, with the file it is in."""
    for name in names:
        for path in _list_files(name):
            try:
                with click.open_file(path, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError) as error:
                raise CommandFailure(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
            place = "stdin" if path == "-" else path
            yield from ((job, place) for job in _parse_jobs(text, place))


def _list_files(name: str) -> list[str]:
    """A file; of a folder the YAML files in it."""
    folder = Path(name)
    if name == "-" or not folder.is_dir():
        return [name]
    found = sorted(str(path) for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    if not found:
        raise CommandFailure(f"{name} has no files that end in {', '.join(_SUFFIXES)}")
    return found


def _parse_jobs(text: str, where: str) -> list[dict[str, Any]]:
    """The jobs of a text: each a document, or items of a list."""
    from chronos.errors import Invalid
    from chronos.server.strict_yaml import read_yaml

    try:
        documents = read_yaml(text)
    except Invalid as error:
        raise CommandFailure(f"{where}: {error}") from None
    found: list[Any] = []
    for document in documents:
        found += _unwrap_jobs(document)
    if not found:
        raise CommandFailure(f"{where} has no jobs")
    for job in found:
        if not isinstance(job, dict):
            raise CommandFailure(
                f"{where}: {job!r} is no job; a job is a mapping with a name, a schedule and what it does"
            )
    return found


def _unwrap_jobs(document: Any) -> list[Any]:
    """The jobs of one document: a job, a list of them, the body of ``POST /apply``, or what ``jobs list`` printed."""
    owner = None
    if isinstance(document, dict) and "jobs" in document and document.keys() <= {"jobs", "owner"}:
        document, owner = document["jobs"], document.get("owner")
    elif isinstance(document, dict) and document.keys() == {"items", "next_cursor"}:
        document = document["items"]
    found = document if isinstance(document, list) else [document]
    return found if owner is None else [{"owner": owner, **job} if isinstance(job, dict) else job for job in found]


def _find_owner(said: str | None, named: Sequence[dict[str, Any]]) -> str:
    """Whose jobs they are: one owner's, who is said, or named in the files; everybody's where neither is."""
    owners = {job["owner"] for job in named if isinstance(job.get("owner"), str)} | ({said} if said else set())
    if len(owners) > 1:
        raise CommandFailure(
            f"these are jobs of {' and '.join(sorted(owners))}; apply what belongs to one owner at a time, "
            "and name it with --owner or in the files"
        )
    return next(iter(owners), OWNER)


def _save_draft(name: str, text: str) -> Path:
    """What somebody wrote is not lost because it could not be saved."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix=f"{name}.", suffix=".yaml", delete=False, encoding="utf-8") as file:
        file.write(text)
    return Path(file.name)


# --- the plan


def _ask_before_pruning(
    client: "ApiClient", body: dict[str, Any], query: dict[str, Any], places: Sequence[str]
) -> None:
    plan = _send_plan(client, {**body, "dry_run": True}, query, places)
    if plan["pruned"]:
        names = ", ".join(job["name"] for job in plan["pruned"])
        confirm(f"Delete {names}?")


def _send_plan(
    client: "ApiClient", body: dict[str, Any], query: dict[str, Any], places: Sequence[str]
) -> dict[str, Any]:
    """The server's plan. A problem of a job names the file and the job."""
    try:
        plan: dict[str, Any] = client.call("POST", "apply", query=query, body=body).value
    except RequestRefused as refused:
        problem = refused.problem
        for fault in problem.get("errors", ()):
            steps = str(fault.get("pointer", "")).split("/")
            if steps[:2] == ["", "jobs"] and len(steps) > 2 and steps[2].isdigit():
                number = int(steps[2])
                name = body["jobs"][number].get("name", f"job {number + 1}")
                fault |= {"file": places[number], "pointer": "/".join(["", str(name), *steps[3:]])}
        raise error_for_reply(refused.status, problem) from None
    return plan


def _print_plan(plan: dict[str, Any]) -> None:
    for sign, part in (("+", "created"), ("~", "changed"), ("=", "unchanged"), ("-", "pruned")):
        for job in plan[part]:
            at = job.get("next_run_at")
            emit(
                f"{sign} {job['name']} {part}" + (f", next run {format_instant(at)}" if at and part != "pruned" else "")
            )
            if job.get("diff") and part == "changed":
                print_run_changes(job["diff"], "    ")
    counts = ", ".join(f"{len(plan[part])} {part}" for part in ("created", "changed", "unchanged", "pruned"))
    note(f"{'plan' if plan['dry_run'] else 'done'}: {counts}")
