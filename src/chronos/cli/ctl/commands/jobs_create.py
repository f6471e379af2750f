"""``chronosctl jobs create``: a job with one task, from options."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.job_definition import build_job, definition_options, find_shell_hint
from chronos.cli.ctl.commands.jobs import jobs, print_changed_job, print_dry_run
from chronos.cli.ctl.commands.jobs_actions import drop_none, new_idempotency_key
from chronos.cli.ctl.options import Seconds, dry_run_option, output_option, with_client
from chronos.cli.ctl.tables import format_instant, print_value
from chronos.cli.output import note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient


@jobs.command(short_help="Create a job.", context_settings={"ignore_unknown_options": False})
@click.argument("name", metavar="NAME")
@definition_options
@click.option("--wait", is_flag=True, help="With --now: wait until the run ends; exit with 6 if it did not succeed.")
@click.option("--wait-timeout", type=Seconds(), metavar="D", help="With --wait: stop waiting after this long.")
@dry_run_option
@output_option
@with_client
def create(
    client: "ApiClient", output: str, name: str, wait: bool, wait_timeout: float | None, dry_run: bool, **options: Any
) -> None:
    """Create the job NAME, which runs a command, sends a request or calls a function.

    T is an RFC 3339 instant, D a duration such as 1h30m. The command comes last, after two dashes, and runs without a
    shell. With --dry-run, the formats yaml and json print the job as a file for `jobs apply`.

    \b
    Examples:
      chronosctl jobs create hello --every 10s -- echo hi
      chronosctl jobs create report --cron "0 9 * * 1-5" --timezone Europe/Paris --url https://example.com/report
      chronosctl jobs create once --in 90s --dry-run -- echo later
      chronosctl jobs create etl --cron @daily --retries 5 --queue data --dry-run -o yaml -- ./etl.sh
      chronosctl jobs create greet --now --wait -- echo hi
    """
    if wait and not options["now"]:
        raise click.UsageError("--wait needs --now; for other jobs use: chronosctl jobs run NAME --wait")
    if wait_timeout is not None and not wait:
        raise click.UsageError("--wait-timeout needs --wait")
    definition = build_job(name, options)
    job = client.call(
        "POST",
        "jobs",
        query={"namespace": client.server.namespace, "dry_run": dry_run or None},
        body=definition,
        headers={"Idempotency-Key": new_idempotency_key()},
    ).value
    hint = find_shell_hint(options["argv"])
    if hint is not None:
        note(f"! {hint}")
    if output == "table" and (options["cron"] or options["schedule"]):
        _explain(client, definition)
    if dry_run and output in ("json", "jsonl", "yaml"):
        print_value(definition | drop_none(namespace=client.server.namespace), output)
    elif dry_run:
        print_dry_run(job, output)
    elif wait:
        from chronos.cli.ctl.watch import wait_and_print

        wait_and_print(client, job["last_execution"]["id"], output, timeout_s=wait_timeout)
    else:
        at = f", next run {format_instant(job['next_run_at'])}" if job["next_run_at"] else ""
        print_changed_job(job, output, f"created{at}")


def _explain(client: "ApiClient", job: dict[str, Any]) -> None:
    """Print how the server reads the schedule, and its warnings about clock changes."""
    request = {"schedule": job["schedule"], "key": job["name"], "count": 1, **drop_none(timezone=job.get("timezone"))}
    try:
        preview = client.call("POST", "schedule", "preview", body=request).value
    except click.ClickException:  # the job exists; only the explanation is missing
        return
    if not isinstance(job["schedule"], dict) and preview.get("understood_as"):
        note(f"understood as {preview['understood_as']}, {preview['timezone']}")
    for warning in preview["warnings"]:
        if "at" in warning:  # of a clock change; the others come with the job
            note(f"! {warning['message']}")
