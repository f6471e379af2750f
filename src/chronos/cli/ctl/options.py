"""Options that several commands share, and the client that ``with_client`` gives to a command."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.contexts import choose_server

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from chronos.cli.ctl.client import ApiClient

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")
_SERVER_OPTIONS = ("server", "context", "store", "namespace")
_COMPLETION_TIMEOUT_S = 1.0
MAX_COMPLETIONS = 50

Command = Callable[..., Any]


def server_options(command: Command) -> Command:
    """``--server``, ``--context``, ``--store`` and ``--namespace``. They may stand before or after the command."""
    for option in (
        click.option("-n", "--namespace", metavar="NAME", help="The namespace of jobs.  [default: default]"),
        click.option("--store", metavar="URL", help="A store to look into without a server: sqlite:///app.db"),
        click.option("--context", metavar="NAME", help="A server by its context name (see `context set`)."),
        click.option("--server", metavar="URL", help="The server's URL.  [default: http://127.0.0.1:8080]"),
    ):
        command = option(command)
    return command


def with_client(command: Command) -> Command:
    """Pass a client to the command as its first argument, and add the options that choose the server."""

    @functools.wraps(command)
    def run(**arguments: Any) -> Any:
        options = {name: arguments.pop(name) for name in _SERVER_OPTIONS}
        client = make_client(click.get_current_context(), options)
        with client.explain_foreign_replies():
            return command(client, **arguments)

    return server_options(run)


def make_client(ctx: click.Context, options: dict[str, Any], *, timeout_s: float | None = None) -> "ApiClient":
    """Return a client for the server that options of the command or of the program name."""
    from chronos.cli.ctl.client import ApiClient

    program_options = ctx.find_root().params
    server, context, store, namespace = (options.get(name) or program_options.get(name) for name in _SERVER_OPTIONS)
    if store is not None:
        if server is not None or context is not None:
            raise click.UsageError("--store cannot be combined with --server or --context; leave one out", ctx)
        return _open_store(ctx, store, namespace)
    chosen = choose_server(server=server, context=context, namespace=namespace)
    return ApiClient(chosen) if timeout_s is None else ApiClient(chosen, timeout_s=timeout_s)


def _open_store(ctx: click.Context, url: str, namespace: str | None) -> "ApiClient":
    """Return a client for the API of a store within this process, until the command ends."""
    from chronos.cli.ctl.client import ApiClient
    from chronos.cli.ctl.contexts import ServerContext
    from chronos.clock import SystemClock
    from chronos.server.local_api import LocalApi

    api = ctx.with_resource(LocalApi(url, SystemClock()))
    return ApiClient(ServerContext(url=url, namespace=namespace), connect_locally=api.connect)


def output_option(command: Command) -> Command:
    """``-o FORMAT``; the argument is called ``output``."""
    option = click.option(
        "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="The output format."
    )
    return option(command)


def dry_run_option(command: Command) -> Command:
    """``--dry-run``, for every command that writes."""
    return click.option("--dry-run", is_flag=True, help="Check everything, change nothing.")(command)


def wait_options(command: Command) -> Command:
    """``--wait`` and ``--timeout``."""
    for option in (
        click.option("--timeout", type=Seconds(), metavar="D", help="With --wait: stop waiting after this long."),
        click.option("--wait", is_flag=True, help="Wait until the run ends; exit with 6 if it did not succeed."),
    ):
        command = option(command)
    return command


def replay_options(command: Command) -> Command:
    """The options of a replay; ``jobs_actions.request_replay`` takes these arguments."""
    for option in (
        dry_run_option,
        wait_options,
        click.option("--reason", metavar="TEXT", help="A reason for the history."),
        click.option("--payload", type=Json(), metavar="JSON", help="A new payload; @FILE reads a file."),
        click.option("--task", "tasks", multiple=True, metavar="NAME", help="Run only this task; may be repeated."),
        click.option("--from-failed", is_flag=True, help="Skip the tasks that succeeded."),
    ):
        command = option(command)
    return command


def update_option(command: Command) -> Command:
    """``--update POLICY``, for commands that change jobs; the argument is called ``update``."""
    return click.option(
        "--update",
        type=click.Choice(("immediate", "graceful", "windowed")),
        help="When a new schedule takes over, for this change only.  [default: the update of the job]",
    )(command)


def limit_option(default: int) -> Callable[[Command], Command]:
    """``--limit N``."""
    return click.option(
        "--limit",
        type=click.IntRange(1),
        default=default,
        show_default=True,
        metavar="N",
        help="The maximum number of items.",
    )


def all_option(command: Command) -> Command:
    """``--all``, for a list that has ``--limit``; the argument is called ``everything``."""
    return click.option("--all", "everything", is_flag=True, help="List all items.")(command)


def watch_options(command: Command) -> Command:
    """``--watch`` and ``--interval``. The argument is called ``every_s``; None means once."""

    @functools.wraps(command)
    def watched(*, watch: bool, interval: float, **arguments: Any) -> Any:
        return command(every_s=interval if watch else None, **arguments)

    for option in (
        click.option(
            "--interval",
            type=Seconds(),
            default=1.0,
            show_default="1s",
            metavar="D",
            help="With --watch: the interval.",
        ),
        click.option(
            "-w", "--watch", is_flag=True, help="Repeat: redraw on a terminal, print JSON lines of changes when piped."
        ),
    ):
        watched = option(watched)
    return watched


class Seconds(click.ParamType[float]):
    """A duration such as 1h30m; the value is in seconds."""

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
            self.fail(f'invalid duration "{value}"; use 30s, 5m or 1h30m', param, ctx)


class Text(click.ParamType[Any]):
    """A text. ``@FILE`` reads it from a file, ``@-`` from stdin."""

    name = "text"

    def read(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, or the content of the file that it names."""
        if not value.startswith("@"):
            return value
        try:
            with click.open_file(value[1:], encoding="utf-8") as file:
                return str(file.read())
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            self.fail(f"{value[1:]} cannot be read: {reason}", param, ctx)


class Secret(Text):
    """Credentials, without the line end of their file."""

    name = "secret"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.read(value, param, ctx).rstrip("\r\n")


class Json(Text):
    """A JSON value, or ``@FILE`` for one that is in a file."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        import json

        text = self.read(value, param, ctx)
        try:
            return json.loads(text)
        except ValueError as error:
            source = f"{value[1:]} is " if value.startswith("@") else ""
            self.fail(f"{source}not valid JSON: {error}", param, ctx)


def job_argument(command: Command) -> Command:
    """The argument NAME of a job, with completion."""
    return click.argument("name", metavar="NAME", shell_complete=complete_job)(command)


def complete_job(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem[Any]]":
    """Complete the name of a job, if the server can be reached."""
    from click.shell_completion import CompletionItem

    def fetch(client: "ApiClient") -> "list[CompletionItem[Any]]":
        page = client.get("jobs", prefix=incomplete, limit=MAX_COMPLETIONS, namespace=client.server.namespace)
        return [CompletionItem(job["name"], help=job.get("description")) for job in page["items"]]

    return complete_from_server(ctx, fetch)


def complete_from_server(
    ctx: click.Context, fetch: "Callable[[ApiClient], list[CompletionItem[Any]]]"
) -> "list[CompletionItem[Any]]":
    """Return what ``fetch`` returns, or nothing if it fails: a completion cannot show messages."""
    try:
        client = make_client(ctx, ctx.params, timeout_s=_COMPLETION_TIMEOUT_S)
        with client.explain_foreign_replies():
            return fetch(client)
    except click.ClickException:
        return []


def complete_zone(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem[Any]]":
    """Complete the name of a time zone."""
    from click.shell_completion import CompletionItem

    from chronos.core.schedule.timezones import zone_names

    prefix = incomplete.lower()
    return [CompletionItem(name) for name in sorted(zone_names()) if name.lower().startswith(prefix)]
