"""``chronosctl jobs set``: change single fields of a job."""

from typing import TYPE_CHECKING

import click

from chronos.cli.ctl.assignments import build_patch, read_assignments
from chronos.cli.ctl.commands.jobs import jobs, print_changed_job, print_dry_run
from chronos.cli.ctl.options import dry_run_option, job_argument, output_option, update_option, with_client

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


@jobs.command("set", short_help="Change fields of a job.")
@job_argument
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@update_option
@dry_run_option
@output_option
@with_client
def set_(
    client: "ApiClient", output: str, *, name: str, settings: tuple[str, ...], update: str | None, dry_run: bool
) -> None:
    """Change fields of the job NAME, unless the job changed in the meantime. KEY- removes a field.

    KEY is a field of a job; dots lead to inner fields. VALUE is JSON, or else text. In a job with several tasks, write
    tasks.TASK.KEY for a field of a task.

    \b
    Examples:
      chronosctl jobs set hello priority=8 retry.max_attempts=5 tags.team=billing
      chronosctl jobs set hello "schedule=every weekday at 9am" timezone=Europe/Paris --dry-run
      chronosctl jobs set hello 'command.argv=["echo", "ho"]' description-
    """
    assignments = read_assignments(settings)
    query = {"namespace": client.server.namespace}
    current = client.call("GET", "jobs", name, query=query)
    saved = client.call(
        "PATCH",
        "jobs",
        name,
        query={**query, "update": update, "dry_run": dry_run or None},
        body=build_patch(current.value, assignments),
        headers={"If-Match": current.etag or "*"},
    ).value
    if dry_run:
        print_dry_run(saved, output)
    else:
        is_same = saved["version"] == current.value["version"]
        print_changed_job(saved, output, "nothing changed" if is_same else f"is now v{saved['version']}")
