"""Jobs and single runs from options: when they run, what they do, and their settings."""

from collections.abc import Callable, Iterable
from typing import Any

import click

from chronos.cli.ctl.assignments import assign, read_assignments
from chronos.cli.ctl.commands.jobs_actions import drop_none
from chronos.cli.ctl.options import Command, Json, Secret, complete_job, complete_zone

OVERLAPS = ("skip", "allow", "queue", "replace", "forbid")
RECOVERIES = ("last", "all", "skip", "bounded", "compressed", "SKIP_MISSED", "RUN_ONCE", "RUN_ALL")
DELIVERIES = ("at_least_once", "at_most_once")
_OUTCOMES = ("success", "failure", "completion")
_SCHEDULE_OPTIONS = ("cron", "every", "at", "in", "schedule", "now")
_HTTP_OPTIONS = ("method", "json", "body", "header", "auth")
_COMMAND_OPTIONS = ("env", "cwd", "user")
_AUTH_FORMS = "basic:USER:PASSWORD, bearer:TOKEN, api_key:VALUE or hmac:SECRET"
_SHELL_SIGNS = ("&&", "||", "|", ";", ">", "<", "$(", "`", "$")

WHEN = (
    click.option("--cron", multiple=True, metavar="E", help="Run by a cron expression; by several if repeated."),
    click.option("--every", metavar="D", help="Run at an interval, such as 90s."),
    click.option("--at", metavar="T", help="Run once, at an instant."),
    click.option("--in", "in_", metavar="D", help="Run once, after a duration."),
    click.option("--now", is_flag=True, help="Run once, now."),
    click.option(
        "--schedule",
        multiple=True,
        metavar="TEXT",
        help='Run by any schedule, such as "every day at 9am", by several if repeated, or "manual" to run only when '
        "triggered.",
    ),
    click.option(
        "--after",
        multiple=True,
        metavar="JOB[:OUTCOME]",
        shell_complete=complete_job,
        help="Run after this job; OUTCOME is success (the default), failure or completion. May be repeated.",
    ),
    click.option(
        "--timezone",
        metavar="Z",
        shell_complete=complete_zone,
        help="The schedule's time zone, such as Europe/Paris.  [default: UTC]",
    ),
    click.option("--start", metavar="T", help="The first instant at which it may run."),
    click.option("--end", metavar="T", help="The last instant at which it may run."),
    click.option("--exclude", multiple=True, metavar="E", help="Dates or a cron expression to leave out; repeatable."),
    click.option("--jitter", metavar="D", help="The maximum delay of a run, to spread the load."),
)
WHAT = (
    click.option("--shell", metavar="TEXT", help="Run this text in a shell."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of the command; may be repeated."),
    click.option("--cwd", metavar="DIR", help="The folder of the command."),
    click.option("--user", metavar="NAME", help="The user of the command."),
    click.option("--url", metavar="U", help="Send an HTTP request to this URL."),
    click.option("--method", metavar="M", help="With --url: the HTTP method.  [default: POST with a body, else GET]"),
    click.option("--json", "json_", type=Json(), metavar="JSON", help="With --url: the body; @FILE reads a file."),
    click.option("--body", metavar="TEXT", help="With --url: the body as text."),
    click.option("--header", multiple=True, metavar="NAME:VALUE", help="With --url: a header; may be repeated."),
    click.option(
        "--auth", type=Secret(), metavar="AUTH", help=f"With --url: {_AUTH_FORMS}; @FILE reads it from a file."
    ),
    click.option("--function", metavar="F", help="Call the Python function that a worker registers under this name."),
    click.option("--payload", type=Json(), metavar="JSON", help="The payload of every run; @FILE reads a file."),
)
#: Settings of a single run.
RUN_SETTINGS = (
    click.option(
        "--retries", type=click.IntRange(0), metavar="N", help="The number of attempts after the first.  [default: 2]"
    ),
    click.option("--retry-interval", metavar="D", help="The delay before the first retry."),
    click.option("--retry-on", multiple=True, metavar="NAME", help="Retry only this failure; may be repeated."),
    click.option("--timeout", "--task-timeout", "timeout", metavar="D", help="The time limit of one attempt."),
    click.option("--execution-timeout", metavar="D", help="The time limit of a run, with all attempts."),
    click.option("--delivery", type=click.Choice(DELIVERIES), help="Whether a started attempt may be repeated."),
    click.option("--queue", metavar="NAME", help="The queue: only nodes that serve it run the job."),
    click.option("--priority", type=click.IntRange(1, 10), metavar="N", help="1 to 10; higher goes first."),
    click.option("--label", multiple=True, metavar="KEY=VALUE", help="Run only on nodes with this label; repeatable."),
)
SETTINGS = (
    click.option("--description", metavar="TEXT", help="A description for people."),
    click.option("--tag", "tags", multiple=True, metavar="KEY[=VALUE]", help="A tag; may be repeated."),
    click.option("--owner", metavar="NAME", help="The owner of the job."),
    *RUN_SETTINGS,
    click.option(
        "--overlap", type=click.Choice(OVERLAPS), help="What to do while an earlier run is active; forbid means skip."
    ),
    click.option("--concurrency", type=click.IntRange(0), metavar="N", help="With --overlap allow: runs at once."),
    click.option("--concurrency-key", metavar="TEXT", help="A template; runs with equal keys share the limit."),
    click.option("--recovery", type=click.Choice(RECOVERIES), help="Which missed instants run."),
    click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Any other field of a job; repeatable."),
    click.option("--disabled", is_flag=True, help="Create the job disabled."),
)


def definition_options(command: Command) -> Command:
    """The command of a job, and the options that ``build_job`` takes."""
    return _add_options(command, *WHEN, *WHAT, *SETTINGS)


def work_options(command: Command) -> Command:
    """The command of a single run, and the options that ``build_work`` takes."""
    return _add_options(command, *WHAT, *RUN_SETTINGS)


def _add_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return click.argument("argv", nargs=-1, metavar="[-- ARGV...]")(command)


def build_job(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the job that the options describe, as ``jobs apply`` reads it. Raises ``click.UsageError``."""
    job: dict[str, Any] = {"name": name}
    job |= drop_none(description=options["description"], owner=options["owner"])
    if options["tags"]:
        job["tags"] = {key: value for key, _, value in (tag.partition("=") for tag in options["tags"])}
    job |= _build_schedule(options)
    job |= build_work(options)
    job |= drop_none(
        overlap=options["overlap"],
        concurrency=drop_none(limit=options["concurrency"], key=options["concurrency_key"]) or None,
        recovery=options["recovery"],
        enabled=False if options["disabled"] else None,
    )
    assign(job, read_assignments(options["sets"]))
    return job


def build_work(options: dict[str, Any]) -> dict[str, Any]:
    """Return a target, its payload and the settings of its runs. Raises ``click.UsageError``."""
    return _build_target(options) | drop_none(
        payload=options["payload"],
        retry=_build_retry(options),
        task_timeout=options["timeout"],
        execution_timeout=options["execution_timeout"],
        delivery=options["delivery"],
        queue=options["queue"],
        priority=options["priority"],
        placement={"labels": _read_pairs("--label", options["label"])} if options["label"] else None,
    )


def find_shell_hint(argv: Iterable[str]) -> str | None:
    """Return a hint if a command looks like text for a shell: one word with blanks, or a sign such as ``&&``."""
    import shlex

    words = list(argv)
    text = words[0] if len(words) == 1 else " ".join(words)
    is_line = len(words) == 1 and any(sign in text for sign in (" ", *_SHELL_SIGNS))
    if not is_line and not any(word in _SHELL_SIGNS for word in words[1:]):
        return None
    return f"the command runs without a shell; if it needs one, write: --shell {shlex.quote(text)}"


def _build_schedule(options: dict[str, Any]) -> dict[str, Any]:
    values = {kind: options.get(kind, options.get(f"{kind}_")) for kind in _SCHEDULE_OPTIONS}
    kinds = [kind for kind, value in values.items() if value]
    if len(kinds) > 1 or (not kinds and not options["after"]):
        problem = (
            f"{' and '.join(f'--{kind}' for kind in kinds)} cannot be combined" if kinds else "the job has no schedule"
        )
        raise click.UsageError(f"{problem}; give one of --cron, --every, --at, --in, --now, --schedule, --after")
    fields: dict[str, Any] = {}
    for kind in kinds:
        value = values[kind]
        if isinstance(value, tuple):  # an option that may be repeated
            value = value[0] if len(value) == 1 else list(value)
        fields["schedule"] = "now" if kind == "now" else value if kind == "schedule" else {kind: value}
    if options["after"]:
        fields["after"] = [_read_predecessor(text) for text in options["after"]]
    return fields | drop_none(
        timezone=options["timezone"],
        start=options["start"],
        end=options["end"],
        exclude=list(options["exclude"]) or None,
        jitter=options["jitter"],
    )


def _read_predecessor(text: str) -> str | dict[str, str]:
    """Read ``JOB`` or ``JOB:OUTCOME``. The name of a job has no colon."""
    job, separator, outcome = text.partition(":")
    if not separator:
        return job
    if outcome not in _OUTCOMES:
        raise click.UsageError(f'--after {text}: "{outcome}" is not an outcome; use {", ".join(_OUTCOMES)}')
    return {"job": job, "on": outcome}


def _build_target(options: dict[str, Any]) -> dict[str, Any]:
    targets = [option for option in ("url", "function", "shell", "argv") if options[option]]
    if len(targets) != 1:
        problem = "several targets are given" if targets else "no target is given"
        raise click.UsageError(f"{problem}; give one of --url U, --function F, --shell TEXT, or a command: -- ARGV...")
    [target] = targets
    if target != "url":
        _refuse_options(options, _HTTP_OPTIONS, "--url")
    if target not in ("shell", "argv"):
        _refuse_options(options, _COMMAND_OPTIONS, "a command or --shell")
    if target == "url":
        return {"http": _build_request(options)}
    if target == "function":
        return {"python": {"name": options["function"]}}
    work: dict[str, Any] = {"argv": list(options["argv"])}
    if target == "shell":
        work = {"shell": True, "command": options["shell"]}
    env = _read_pairs("--env", options["env"]) or None
    return {"command": work | drop_none(env=env, cwd=options["cwd"], user=options["user"])}


def _refuse_options(options: dict[str, Any], names: Iterable[str], needed: str) -> None:
    values = {name: options.get(name, options.get(f"{name}_")) for name in names}
    given = [f"--{name}" for name, value in values.items() if value is not None and value != ()]
    if given:
        raise click.UsageError(f"{' and '.join(given)} need{'s' if len(given) == 1 else ''} {needed}")


def _build_request(options: dict[str, Any]) -> dict[str, Any]:
    return {"url": options["url"]} | drop_none(
        method=options["method"],
        headers=_read_pairs("--header", options["header"], ":") or None,
        json=options["json_"],
        body=options["body"],
        auth=None if options["auth"] is None else _read_auth(options["auth"]),
    )


def _read_auth(text: str) -> dict[str, str]:
    """Read credentials. A message does not repeat them."""
    kind, _, rest = text.partition(":")
    username, separator, password = rest.partition(":")
    match kind:
        case "basic" if username and separator:
            return {"type": kind, "username": username, "password": password}
        case "bearer" if rest:
            return {"type": kind, "token": rest}
        case "api_key" if rest:
            return {"type": kind, "value": rest}
        case "hmac" if rest:
            return {"type": kind, "secret": rest}
        case _:
            raise click.UsageError(f"invalid --auth; use {_AUTH_FORMS}")


def _read_pairs(option: str, texts: Iterable[str], separator: str = "=") -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition(separator)
        name = name.strip()
        if not name or not found:
            raise click.UsageError(f'{option} "{name}" has no value; write NAME{separator}VALUE')
        if name in pairs:
            raise click.UsageError(f"{option} {name} is given twice; give it once")
        pairs[name] = value.strip() if separator == ":" else value
    return pairs


def _build_retry(options: dict[str, Any]) -> dict[str, Any] | None:
    fields = drop_none(
        max_retries=options["retries"],
        initial_interval=options["retry_interval"],
        retry_on=list(options["retry_on"]) or None,
    )
    return fields or None
