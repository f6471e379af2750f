"""``chronosctl jobs apply`` and ``jobs edit``: jobs as YAML, many from files or one in an editor."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs import (
    READ_ONLY_FIELDS,
    jobs,
    print_changed_job,
    print_dry_run,
    print_run_changes,
    print_warnings,
)
from chronos.cli.ctl.commands.jobs_actions import confirm
from chronos.cli.ctl.errors import CommandFailure, RequestRefused, error_for_reply
from chronos.cli.ctl.options import dry_run_option, job_argument, output_option, update_option, with_client
from chronos.cli.ctl.tables import format_instant, print_value, to_yaml
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

OWNER = "chronosctl"
_FILE_EXAMPLE = """write a job like this:
  name: hello
  schedule: every 10 minutes
  command:
    argv: [echo, hi]"""
_SUFFIXES = (".yaml", ".yml", ".json")


@jobs.command(short_help="Create, change and delete jobs from files.")
@click.option(
    "-f", "--file", "files", multiple=True, required=True, metavar="FILE", help="A YAML file or a folder; - is stdin."
)
@click.argument("more", nargs=-1, metavar="[FILE...]")
@click.option(
    "--owner", metavar="NAME", help=f"The owner of the jobs.  [default: the owner in the files, else {OWNER}]"
)
@click.option("--prune", is_flag=True, help="Delete jobs of the same owner that the files no longer contain.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation before deleting.")
@update_option
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
    update: str | None,
    dry_run: bool,
) -> None:
    """Make the jobs of an owner match FILEs. All changes are made together, or none.

    A FILE is YAML with one job per document, a list of jobs, or "jobs:" with a list and an optional "owner:". A folder
    means all YAML files in it. With --prune, a terminal asks before jobs are deleted. Use one owner for each set of
    files that you prune.

    \b
    Examples:
      chronosctl jobs apply -f jobs.yaml --dry-run
      chronosctl jobs apply -f jobs.yaml --owner billing --prune
    """
    jobs_and_files = list(_read_all((*files, *more)))
    definitions, sources = [job for job, _ in jobs_and_files], [source for _, source in jobs_and_files]
    body = {"jobs": definitions, "owner": _find_owner(owner, definitions), "prune": prune}
    query = {"namespace": client.server.namespace, "update": update}
    if prune and not yes and not dry_run:
        _ask_before_pruning(client, body, query, sources)
    plan = _send_plan(client, {**body, "dry_run": dry_run}, query, sources)
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
@update_option
@dry_run_option
@output_option
@with_client
def edit(client: "ApiClient", output: str, *, name: str, update: str | None, dry_run: bool) -> None:
    """Open the job NAME as YAML in $EDITOR and save your changes, unless the job changed in the meantime.

    \b
    Example:
      EDITOR=true chronosctl jobs edit hello
    """
    query = {"namespace": client.server.namespace}
    current = client.call("GET", "jobs", name, query=query)
    before = to_yaml({key: value for key, value in current.value.items() if key not in READ_ONLY_FIELDS})
    after = click.edit(before, extension=".yaml")
    if after is None or after.strip() == before.strip():
        note("nothing changed")
        return
    try:
        [job] = _parse_jobs(after, "your text")
        saved = client.call(
            "PUT",
            "jobs",
            name,
            query={**query, "update": update, "dry_run": dry_run or None},
            body=job,
            headers={"If-Match": current.etag or "*"},
        ).value
    except CommandFailure:
        note(f"your text is saved in {_save_draft(name, after)}")
        raise
    if dry_run:
        print_dry_run(saved, output)
    else:
        print_changed_job(saved, output, f"is now v{saved['version']}")


# --- files


def _read_all(names: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every job of the files with the name of its file."""
    for name in names:
        for path in _list_files(name):
            try:
                with click.open_file(path, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError) as error:
                raise CommandFailure(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
            source = "stdin" if path == "-" else path
            yield from ((job, source) for job in _parse_jobs(text, source))


def _list_files(name: str) -> list[str]:
    """Return a file, or the YAML files of a folder."""
    folder = Path(name)
    if name == "-" or not folder.is_dir():
        return [name]
    paths = sorted(str(path) for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    if not paths:
        raise CommandFailure(f"{name} has no files that end in {', '.join(_SUFFIXES)}")
    return paths


def _parse_jobs(text: str, source: str) -> list[dict[str, Any]]:
    """Return the jobs in a text. Raises ``CommandFailure`` with the source and the problem."""
    from chronos.errors import Invalid
    from chronos.server.strict_yaml import read_yaml

    try:
        documents = read_yaml(text)
    except Invalid as error:
        raise CommandFailure(f"{source}: {error}") from None
    definitions: list[Any] = []
    for document in documents:
        definitions += _unwrap_jobs(document)
    if not definitions:
        raise CommandFailure(f"{source} has no jobs")
    for definition in definitions:
        if not isinstance(definition, dict):
            raise CommandFailure(f"{source}: {definition!r} is not a job; {_FILE_EXAMPLE}")
        if {"apiVersion", "kind"} <= definition.keys():
            kind = f"a Kubernetes manifest (kind: {definition['kind']})"
            raise CommandFailure(f"{source}: this is {kind}, not a Chronos job; {_FILE_EXAMPLE}")
    return definitions


def _unwrap_jobs(document: Any) -> list[Any]:
    """Return the jobs of one document: a job, a list, the body of ``POST /apply``, or the output of ``jobs list``."""
    owner = None
    if isinstance(document, dict) and "jobs" in document and document.keys() <= {"jobs", "owner"}:
        document, owner = document["jobs"], document.get("owner")
    elif isinstance(document, dict) and document.keys() == {"items", "next_cursor"}:
        document = document["items"]
    definitions = document if isinstance(document, list) else [document]
    if owner is None:
        return definitions
    return [{"owner": owner, **job} if isinstance(job, dict) else job for job in definitions]


def _find_owner(option: str | None, definitions: Sequence[dict[str, Any]]) -> str:
    """Return the one owner of the jobs: from ``--owner``, from the files, or else the default."""
    owners = {job["owner"] for job in definitions if isinstance(job.get("owner"), str)} | (
        {option} if option else set()
    )
    if len(owners) > 1:
        raise CommandFailure(
            f"the jobs have several owners: {', '.join(sorted(owners))}; apply the jobs of one owner at a time"
        )
    return next(iter(owners), OWNER)


def _save_draft(name: str, text: str) -> Path:
    """Keep an edited text that the server rejected."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix=f"{name}.", suffix=".yaml", delete=False, encoding="utf-8") as file:
        file.write(text)
    return Path(file.name)


# --- the plan


def _ask_before_pruning(
    client: "ApiClient", body: dict[str, Any], query: dict[str, Any], sources: Sequence[str]
) -> None:
    plan = _send_plan(client, {**body, "dry_run": True}, query, sources)
    if plan["pruned"]:
        names = ", ".join(job["name"] for job in plan["pruned"])
        confirm(f"Delete {names}?")


def _send_plan(
    client: "ApiClient", body: dict[str, Any], query: dict[str, Any], sources: Sequence[str]
) -> dict[str, Any]:
    """Return the server's plan. Errors of a job name its file and the job."""
    try:
        plan: dict[str, Any] = client.call("POST", "apply", query=query, body=body).value
    except RequestRefused as refused:
        problem = refused.problem
        for error in problem.get("errors", ()):
            steps = str(error.get("pointer", "")).split("/")
            if steps[:2] == ["", "jobs"] and len(steps) > 2 and steps[2].isdigit():
                number = int(steps[2])
                name = body["jobs"][number].get("name", f"job {number + 1}")
                error |= {"file": sources[number], "pointer": "/".join(["", str(name), *steps[3:]])}
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
            print_warnings(job, indent="    ")
    counts = ", ".join(f"{len(plan[part])} {part}" for part in ("created", "changed", "unchanged", "pruned"))
    note(f"{'plan' if plan['dry_run'] else 'done'}: {counts}")
