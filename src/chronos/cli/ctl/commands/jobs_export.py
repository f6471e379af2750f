"""``chronosctl jobs export``: jobs as YAML or JSON for ``jobs apply``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.job_selection import SelectedJobs, select_jobs
from chronos.cli.ctl.commands.jobs import READ_ONLY_FIELDS, jobs
from chronos.cli.ctl.options import with_client
from chronos.cli.ctl.tables import to_yaml
from chronos.cli.output import emit, emit_json, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

_MASK = "***"  # the server shows it in place of a credential


@jobs.command(short_help="Print jobs as files for `jobs apply`.")
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)
@with_client
@select_jobs
def export(client: "ApiClient", output: str, selection: SelectedJobs) -> None:
    """Print the job NAME, or several jobs, without the fields that the server adds. `jobs apply` takes the output.

    \b
    Examples:
      chronosctl jobs export hello
      chronosctl jobs export --all -o json
    """
    if selection.name is not None:
        found = [client.get("jobs", selection.name, namespace=client.server.namespace)]
    else:
        listed = client.list_pages("jobs", limit=None, query=selection.query)["items"]
        found = [job for job in listed if "schedule" in job or job["state"] != "done"]  # these ran once and are over
        if len(found) < len(listed):
            note(f"left out, because they would run again: {len(listed) - len(found)} jobs that ran once")
    definitions = [{key: value for key, value in job.items() if key not in READ_ONLY_FIELDS} for job in found]
    if output == "json":
        emit_json({"jobs": definitions}, lines=False)
    else:
        for definition in definitions:
            emit(("---\n" if len(definitions) > 1 else "") + to_yaml(definition).rstrip("\n"))
    if not definitions:
        note("no job matches")
    masked = [job["name"] for job in definitions if any(_MASK in text for text in _texts(job))]
    if masked:
        note(f"! credentials are shown as {_MASK}: write them again before another server takes {', '.join(masked)}")


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
