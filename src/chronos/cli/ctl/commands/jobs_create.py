"""``chronosctl jobs create``: a job with one task, from options."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs import jobs, print_changed_job, print_dry_run
from chronos.cli.ctl.commands.jobs_actions import drop_none, new_idempotency_key
from chronos.cli.ctl.options import Json, complete_zone, dry_run_option, output_option, wait_options, with_client
from chronos.cli.ctl.tables import format_instant
from chronos.cli.output import note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

OVERLAPS = ("skip", "allow", "queue", "replace", "forbid")
_SCHEDULE_OPTIONS = ("cron", "every", "at", "in", "schedule", "now")


@jobs.command(short_help="Create a job.", context_settings={"ignore_unknown_options": False})
@click.argument("name", metavar="NAME")
@click.argument("argv", nargs=-1, metavar="[-- ARGV...]")
@click.option("--cron", multiple=True, metavar="E", help="Run by a cron expression; by several if repeated.")
@click.option("--every", metavar="D", help="Run at an interval, such as 90s.")
@click.option("--at", metavar="T", help="Run once, at an instant.")
@click.option("--in", "in_", metavar="D", help="Run once, after a duration.")
@click.option("--now", is_flag=True, help="Run once, now.")
@click.option(
    "--schedule",
    multiple=True,
    metavar="TEXT",
    help='Run by any schedule, such as "every day at 9am", by several if repeated, or "manual" to run only when '
    "triggered.",
)
@click.option(
    "--timezone",
    metavar="Z",
    shell_complete=complete_zone,
    help="The schedule's time zone, such as Europe/Paris.  [default: UTC]",
)
@click.option("--url", metavar="U", help="Send an HTTP request to this URL.")
@click.option("--method", metavar="M", help="With --url: the HTTP method.  [default: POST with --json, else GET]")
@click.option("--json", "json_", type=Json(), metavar="JSON", help="With --url: the body; @FILE reads a file.")
@click.option("--function", metavar="F", help="Call the Python function that a worker registers under this name.")
@click.option("--payload", type=Json(), metavar="JSON", help="The payload of every run; @FILE reads a file.")
@click.option("--description", metavar="TEXT", help="A description for people.")
@click.option("--tag", "tags", multiple=True, metavar="KEY[=VALUE]", help="A tag; may be repeated.")
@click.option(
    "--retries", type=click.IntRange(0), metavar="N", help="The number of attempts after the first.  [default: 2]"
)
@click.option("--task-timeout", metavar="D", help="The time limit of one attempt.")
@click.option(
    "--overlap", type=click.Choice(OVERLAPS), help="What to do while an earlier run is active; forbid means skip."
)
@click.option("--disabled", is_flag=True, help="Create the job disabled.")
@wait_options
@dry_run_option
@output_option
@with_client
def create(
    client: "ApiClient", output: str, name: str, wait: bool, timeout: float | None, dry_run: bool, **options: Any
) -> None:
    """Create the job NAME, which runs a command, sends a request or calls a function.

    T is an RFC 3339 instant, D a duration such as 1h30m. The command comes last, after two dashes, and runs without a
    shell. --wait needs --now.

    \b
    Examples:
      chronosctl jobs create hello --every 10s -- echo hi
      chronosctl jobs create report --cron "0 9 * * 1-5" --timezone Europe/Paris --url https://example.com/report
      chronosctl jobs create once --in 90s --dry-run -- echo later
      chronosctl jobs create greet --now --wait -- echo hi
    """
    if wait and not options["now"]:
        raise click.UsageError("--wait needs --now; for other jobs use: chronosctl jobs run NAME --wait")
    definition = _build_job(name, options)
    job = client.call(
        "POST",
        "jobs",
        query={"namespace": client.server.namespace, "dry_run": dry_run or None},
        body=definition,
        headers={"Idempotency-Key": new_idempotency_key()},
    ).value
    if output == "table" and (options["cron"] or options["schedule"]):
        _explain(client, definition)
    if dry_run:
        print_dry_run(job, output)
    elif wait:
        from chronos.cli.ctl.watch import wait_and_print

        wait_and_print(client, job["last_execution"]["id"], output, timeout_s=timeout)
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


def _build_job(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the job that the options describe."""
    job = {"name": name, "schedule": _build_schedule(options), **_build_target(options)}
    job |= drop_none(
        timezone=options["timezone"],
        description=options["description"],
        payload=options["payload"],
        overlap=options["overlap"],
        task_timeout=options["task_timeout"],
        max_retries=options["retries"],
        enabled=False if options["disabled"] else None,
    )
    if options["tags"]:
        job["tags"] = {key: value for key, _, value in (tag.partition("=") for tag in options["tags"])}
    return job


def _build_schedule(options: dict[str, Any]) -> Any:
    values = {kind: options.get(kind, options.get(f"{kind}_")) for kind in _SCHEDULE_OPTIONS}
    kinds = [kind for kind, value in values.items() if value]
    if len(kinds) != 1:
        problem = (
            f"{' and '.join(f'--{kind}' for kind in kinds)} cannot be combined" if kinds else "the job has no schedule"
        )
        raise click.UsageError(f"{problem}; give one of --cron, --every, --at, --in, --now, --schedule")
    [kind] = kinds
    value = values[kind]
    if isinstance(value, tuple):  # an option that may be repeated
        value = value[0] if len(value) == 1 else list(value)
    if kind in ("now", "schedule"):
        return "now" if kind == "now" else value
    return {kind: value}


def _build_target(options: dict[str, Any]) -> dict[str, Any]:
    targets = [option for option in ("url", "function", "argv") if options[option]]
    if len(targets) != 1:
        problem = "the job has several targets" if targets else "the job has no target"
        raise click.UsageError(f"{problem}; give one of --url U, --function F, or a command: -- ARGV...")
    if (options["method"] or options["json_"] is not None) and not options["url"]:
        raise click.UsageError("--method and --json need --url")
    if options["url"]:
        return {"http": {"url": options["url"], **drop_none(method=options["method"], json=options["json_"])}}
    if options["function"]:
        return {"python": {"name": options["function"]}}
    return {"command": {"argv": list(options["argv"])}}
