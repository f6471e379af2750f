"""What commands that ask a server share: which server, which namespace, in which format, and whether only to try."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.contexts import choose_server

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from chronos.cli.ctl.client import ApiClient

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")
_SERVER_OPTIONS = ("server", "context", "namespace")
_COMPLETION_TIMEOUT_S = 1.0
_MAX_COMPLETIONS = 50

Command = Callable[..., Any]


def server_options(command: Command) -> Command:
    """``--server``, ``--context`` and ``--namespace``: said to the program, or to any of its commands."""
    for option in (
        click.option("-n", "--namespace", metavar="NAME", help="The namespace of jobs.  [default: default]"),
        click.option("--context", metavar="NAME", help="A server by the name that `context set` gave it."),
        click.option("--server", metavar="URL", help="Which server.  [default: http://127.0.0.1:8080]"),
    ):
        command = option(command)
    return command


def with_client(command: Command) -> Command:
    """A command that asks a server: its first argument is the client."""

    @functools.wraps(command)
    def asked(**arguments: Any) -> Any:
        said = {name: arguments.pop(name) for name in _SERVER_OPTIONS}
        client = make_client(click.get_current_context(), said)
        with client.explain_foreign_replies():
            return command(client, **arguments)

    return server_options(asked)


def make_client(ctx: click.Context, said: dict[str, Any], *, timeout_s: float | None = None) -> "ApiClient":
    """The client of the server that was named, here or before the command."""
    from chronos.cli.ctl.client import ApiClient

    above = ctx.find_root().params
    server, context, namespace = (said.get(name) or above.get(name) for name in _SERVER_OPTIONS)
    chosen = choose_server(server=server, context=context, namespace=namespace)
    return ApiClient(chosen) if timeout_s is None else ApiClient(chosen, timeout_s=timeout_s)


def output_option(command: Command) -> Command:
    """``-o FORMAT``; the argument is called ``output``."""
    option = click.option(
        "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="How to print."
    )
    return option(command)


def dry_run_option(command: Command) -> Command:
    """``--dry-run``, for every command that writes."""
    return click.option("--dry-run", is_flag=True, help="Check everything, change nothing.")(command)


def wait_options(command: Command) -> Command:
    """``--wait`` and for how long."""
    for option in (
        click.option("--timeout", type=Seconds(), metavar="D", help="With --wait: give up after this long."),
        click.option("--wait", is_flag=True, help="Wait for its end; exit with 6 when it did not succeed."),
    ):
        command = option(command)
    return command


def replay_options(command: Command) -> Command:
    """What a run that is done again may be told; ``jobs_actions.print_replayed`` takes these arguments."""
    for option in (
        dry_run_option,
        wait_options,
        click.option("--reason", metavar="TEXT", help="Why, for those who look later."),
        click.option("--payload", type=Json(), metavar="JSON", help="Instead of the one it had; @FILE reads a file."),
        click.option("--from-failed", is_flag=True, help="Without the tasks that succeeded."),
    ):
        command = option(command)
    return command


def limit_option(default: int) -> Callable[[Command], Command]:
    """``--limit N``."""
    return click.option(
        "--limit", type=click.IntRange(1), default=default, show_default=True, metavar="N", help="How many at most."
    )


def all_option(command: Command) -> Command:
    """``--all``, for a list that has ``--limit``; the argument is called ``everything``."""
    return click.option("--all", "everything", is_flag=True, help="However many there are.")(command)


def watch_options(command: Command) -> Command:
    """``--watch`` and how often; the argument is called ``every_s``, and is None for once."""

    @functools.wraps(command)
    def watched(*, watch: bool, interval: float, **arguments: Any) -> Any:
        return command(every_s=interval if watch else None, **arguments)

    for option in (
        click.option(
            "--interval", type=Seconds(), default="1s", show_default=True, metavar="D", help="With --watch: how often."
        ),
        click.option("-w", "--watch", is_flag=True, help="Go on: redraw on a terminal, print JSON lines when piped."),
    ):
        watched = option(watched)
    return watched


class Seconds(click.ParamType[float]):
    """A duration such as 1h30m, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        from chronos.core.calendar import SECOND_US
        from chronos.errors import InvalidSchedule
        from chronos.service.serializers.object_reader import read_duration_us

        try:
            return read_duration_us(value) / SECOND_US
        except InvalidSchedule:
            self.fail(f"{value} is no duration; write it like 30s, 5m or 1h30m", param, ctx)


class Json(click.ParamType[Any]):
    """A value as JSON; ``@FILE`` reads it from a file, ``@-`` from stdin."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        import json

        text = value
        if value.startswith("@"):
            with click.open_file(value[1:]) as file:
                text = file.read()
        try:
            return json.loads(text)
        except ValueError as error:
            self.fail(f"it is not JSON: {error}", param, ctx)


def job_argument(command: Command) -> Command:
    """NAME of a job, completed with those that there are."""
    return click.argument("name", metavar="NAME", shell_complete=complete_job)(command)


def complete_job(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem[Any]]":
    """Names of jobs, if the server is there to tell them."""
    from click.shell_completion import CompletionItem

    try:
        client = make_client(ctx, ctx.params, timeout_s=_COMPLETION_TIMEOUT_S)
        with client.explain_foreign_replies():
            page = client.get("jobs", prefix=incomplete, limit=_MAX_COMPLETIONS, namespace=client.server.namespace)
            return [CompletionItem(job["name"], help=job.get("description")) for job in page["items"]]
    except click.ClickException:  # a shell that completes a word has no place for messages
        return []


def complete_zone(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem[Any]]":
    """Names of time zones."""
    from click.shell_completion import CompletionItem

    from chronos.core.schedule.timezones import zone_names

    wanted = incomplete.lower()
    return [CompletionItem(name) for name in sorted(zone_names()) if name.lower().startswith(wanted)]
