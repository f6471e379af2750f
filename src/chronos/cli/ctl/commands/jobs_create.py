"""``chronosctl jobs create``: a job of one task, said in options."""

from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs import jobs, print_changed_job, print_dry_run
from chronos.cli.ctl.commands.jobs_actions import drop_none, new_idempotency_key
from chronos.cli.ctl.options import Json, complete_zone, dry_run_option, output_option, wait_options, with_client
from chronos.cli.ctl.tables import format_instant
from chronos.cli.output import note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

OVERLAPS = ("skip", "allow", "queue", "replace")
_WHEN = ("cron", "every", "at", "in", "schedule", "now")


@jobs.command(short_help="Create a job.", context_settings={"ignore_unknown_options": False})
@click.argument("name", metavar="NAME")
@click.argument("argv", nargs=-1, metavar="[-- ARGV...]")
@click.option("--cron", metavar="E", help="When: a cron expression.")
@click.option("--every", metavar="D", help="When: again and again after a duration such as 90s.")
@click.option("--at", metavar="T", help="When: once, at an instant.")
@click.option("--in", "in_", metavar="D", help="When: once, a while from now.")
@click.option("--now", is_flag=True, help="When: once, now.")
@click.option(
    "--schedule", metavar="TEXT", help='When: in any other way, such as words, or "manual" for never by itself.'
)
@click.option(
    "--timezone",
    metavar="Z",
    shell_complete=complete_zone,
    help="The schedule's zone, such as Europe/Paris.  [default: UTC]",
)
@click.option("--url", metavar="U", help="What: send a request there.")
@click.option("--method", metavar="M", help="With --url: the method.  [default: POST with --json, else GET]")
@click.option("--json", "json_", type=Json(), metavar="JSON", help="With --url: the body; @FILE reads a file.")
@click.option("--function", metavar="F", help="What: call a Python function that a worker knows by this name.")
@click.option("--payload", type=Json(), metavar="JSON", help="What runs are given; @FILE reads a file.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--tag", "tags", multiple=True, metavar="KEY[=VALUE]", help="A tag; may be given many times.")
@click.option("--retries", type=click.IntRange(0), metavar="N", help="How often it is tried again after a failure.")
@click.option("--task-timeout", metavar="D", help="How long one try may take.")
@click.option("--overlap", type=click.Choice(OVERLAPS), help="What to do while an earlier run is under way.")
@click.option("--disabled", is_flag=True, help="Switched off, until `jobs enable`.")
@wait_options
@dry_run_option
@output_option
@with_client
def create(
    client: "ApiClient", output: str, name: str, wait: bool, timeout: float | None, dry_run: bool, **said: Any
) -> None:
    """Create the job NAME, which runs a command, sends a request or calls a function.

    T is an RFC 3339 instant, D a duration such as 1h30m. The command comes last, after two dashes, and is run as it is,
    without a shell. With --now, --wait waits for the run.

    \b
    Examples:
      chronosctl jobs create hello --every 10s -- echo hi
      chronosctl jobs create report --cron "0 9 * * 1-5" --timezone Europe/Paris --url https://example.com/report
      chronosctl jobs create once --in 90s --dry-run -- echo later
      chronosctl jobs create greet --now --wait -- echo hi
    """
    if wait and not said["now"]:
        raise click.UsageError("--wait needs --now; another job is waited for with: chronosctl jobs run NAME --wait")
    wanted = _job(name, said)
    job = client.call(
        "POST",
        "jobs",
        query={"namespace": client.server.namespace, "dry_run": dry_run or None},
        body=wanted,
        headers={"Idempotency-Key": new_idempotency_key()},
    ).value
    if output == "table" and (said["cron"] or said["schedule"]):
        _explain(client, wanted)
    if dry_run:
        print_dry_run(job, output)
    elif wait:
        from chronos.cli.ctl.watch import wait_and_print

        wait_and_print(client, job["last_execution"]["id"], output, timeout_s=timeout)
    else:
        at = f", runs next at {format_instant(job['next_run_at'])}" if job["next_run_at"] else ""
        print_changed_job(job, output, f"created{at}")


def _explain(client: "ApiClient", job: dict[str, Any]) -> None:
    """What words were taken for, and what changes of the clocks will do to it, as far as the server can tell."""
    asked = {"schedule": job["schedule"], "key": job["name"], "count": 1, **drop_none(timezone=job.get("timezone"))}
    try:
        found = client.call("POST", "schedule", "preview", body=asked).value
    except click.ClickException:  # the job is there all the same
        return
    if isinstance(job["schedule"], str) and found.get("understood_as"):
        note(f"understood as {found['understood_as']}, {found['timezone']}")
    for warning in found["warnings"]:
        note(f"! {warning['message']}")


def _job(name: str, said: dict[str, Any]) -> dict[str, Any]:
    """The job that options mean."""
    job = {"name": name, "schedule": _schedule(said), **_target(said)}
    job |= drop_none(
        timezone=said["timezone"],
        description=said["description"],
        payload=said["payload"],
        overlap=said["overlap"],
        task_timeout=said["task_timeout"],
        max_retries=said["retries"],
        enabled=False if said["disabled"] else None,
    )
    if said["tags"]:
        job["tags"] = {key: value for key, _, value in (tag.partition("=") for tag in said["tags"])}
    return job


def _schedule(said: dict[str, Any]) -> Any:
    when = {kind: said.get(kind, said.get(f"{kind}_")) for kind in _WHEN}
    named = [kind for kind, value in when.items() if value]
    if len(named) != 1:
        problem = (
            f"{' and '.join(f'--{kind}' for kind in named)} are both given" if named else "nothing says when it runs"
        )
        raise click.UsageError(f"{problem}; give one of --cron, --every, --at, --in, --now, --schedule")
    [kind] = named
    if kind in ("now", "schedule"):
        return "now" if kind == "now" else when[kind]
    return {kind: when[kind]}


def _target(said: dict[str, Any]) -> dict[str, Any]:
    targets = [what for what in ("url", "function", "argv") if said[what]]
    if len(targets) != 1:
        problem = "more than one thing says" if targets else "nothing says"
        raise click.UsageError(f"{problem} what it does; give one of --url U, --function F, or a command: -- ARGV...")
    if (said["method"] or said["json_"] is not None) and not said["url"]:
        raise click.UsageError("--method and --json go with --url")
    if said["url"]:
        return {"http": {"url": said["url"], **drop_none(method=said["method"], json=said["json_"])}}
    if said["function"]:
        return {"python": {"name": said["function"]}}
    return {"command": {"argv": list(said["argv"])}}
