"""The programs ``chronos`` and ``chronosctl``, and the one place where errors become messages and exit codes.

=====  ==================================================================
0      done, or the reader of the output closed the pipe (``| head``)
1      refused or failed; the message says why
2      invalid command line: an unknown option, a missing argument,
       a value out of range
3      not found
4      conflict: the resource changed, or exists already
5      no server can be reached
6      the run that the command waited for did not succeed
130    interrupted (Ctrl-C)
=====  ==================================================================
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from chronos.cli.ctl.options import server_options
from chronos.cli.lazy_commands import LazyCommands
from chronos.cli.output import emit, emit_error
from chronos.errors import ChronosError

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_COMMANDS = "chronos.cli.ctl.commands"
#: The commands of ``chronosctl`` that need a server, and where they are.
NOUNS = {
    "jobs": f"{_COMMANDS}.jobs:jobs",
    "executions": f"{_COMMANDS}.executions:executions",
    "dlq": f"{_COMMANDS}.dead_letters:dlq",
    "status": f"{_COMMANDS}.system:status",
    "cluster": f"{_COMMANDS}.system:cluster",
    "nodes": f"{_COMMANDS}.system:nodes",
    "queues": f"{_COMMANDS}.system:queues",
    "ns": f"{_COMMANDS}.system:namespaces",
    "audit": f"{_COMMANDS}.system:audit",
    "tokens": f"{_COMMANDS}.tokens:tokens",
    "users": f"{_COMMANDS}.users:users",
    "context": f"{_COMMANDS}.context:context",
    "login": f"{_COMMANDS}.login:login",
    "logout": f"{_COMMANDS}.login:logout",
}
#: The commands of ``chronosctl`` that work offline.
OFFLINE = {"schedule": f"{_COMMANDS}.schedule:schedule"}
#: The commands of ``chronos``.
SERVER_COMMANDS = {
    "server": "chronos.cli.server:server",
    "demo": "chronos.cli.demo:demo",
    "config": "chronos.cli.config:config",
    "doctor": "chronos.cli.server:doctor",
    "backup": "chronos.cli.server:backup",
    "restore": "chronos.cli.server:restore",
    "store": "chronos.cli.store:store",
}
ALIASES = {"runs": "executions"}
_MIN_SIMILARITY = 0.75  # at click's own limit, "secrets" would suggest "users"
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class BrokenOutputPipe(Exception):
    """The reader of the output closed the pipe."""


class Program(click.Group):
    """A click group with the messages and exit codes of Chronos."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises ``BrokenOutputPipe`` for a closed pipe; click would exit with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise BrokenOutputPipe from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. An unknown name gets a suggestion only if it is very similar to a known one."""
        name = args[0]
        is_unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if is_unknown and not ctx.resilient_parsing:
            from difflib import get_close_matches

            if not get_close_matches(name, self.commands, 1, _MIN_SIMILARITY):
                raise click.UsageError(f'unknown command "{name}"', ctx)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run and exit. With ``standalone_mode=False``, raise errors as click does."""
        prog_name = prog_name or self.name

        def run() -> Any:
            return super(Program, self).main(
                args, prog_name, complete_var, False, windows_expand_args=windows_expand_args, **extra
            )

        if not standalone_mode:
            return run()
        try:
            code = run()
            if sys.stdout is not None:
                sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - _report raises unknown errors again
            code = _report(error)
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: BaseException) -> int:
    """Print the error and return the exit code. Raises errors that it does not know."""
    match error:
        case click.Abort() | KeyboardInterrupt():
            if isinstance(error.__cause__ or error, KeyboardInterrupt):
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # ignore a second Ctrl-C
            return EXIT_INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return EXIT_USAGE
        case click.UsageError():
            help_hint = f"\n  {error.ctx.command_path} --help" if error.ctx else ""
            emit_error(f"{error.format_message()}{help_hint}")
            return EXIT_USAGE
        case click.ClickException():
            emit_error(error.format_message())
            return error.exit_code
        case ChronosError():
            emit_error(str(error))
            return EXIT_ERROR
        case BrokenOutputPipe() | BrokenPipeError():
            _silence_stdout()
            return 0
        case OSError():
            _silence_stdout()
            reason = error.strerror or str(error)
            emit_error(reason if error.filename is None else f"{error.filename}: {reason}")
            return EXIT_ERROR
        case _:
            raise error


def _silence_stdout() -> None:
    """Drop unwritten output, which Python would otherwise try to write again, with a warning, when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=Program, name="chronos", commands=LazyCommands(SERVER_COMMANDS), context_settings=_CONTEXT)
@click.version_option(package_name="chronos-scheduler", message="%(prog)s %(version)s")
def chronos() -> None:
    """Run Chronos, the job scheduler.

    \b
    Examples:
      chronos server
      chronos doctor
    """


class CommandGroups(Program):
    """A program whose commands may have an alias."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))


@click.group(cls=CommandGroups, name="chronosctl", commands=LazyCommands(NOUNS | OFFLINE), context_settings=_CONTEXT)
@click.version_option(package_name="chronos-scheduler", message="%(prog)s %(version)s")
@server_options
def chronosctl(**_: str | None) -> None:
    """Manage jobs on a Chronos server, or preview schedules offline.

    \b
    Examples:
      chronosctl jobs create hello --every 10s -- echo hi
      chronosctl jobs list
      chronosctl schedule next "0 9 * * 1-5" --timezone Europe/Paris
      chronosctl schedule explain "30 2 * * *" --timezone America/New_York
    """


@chronosctl.command(short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(("bash", "fish", "zsh")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, jobs, executions and time zones in SHELL.

    \b
    For bash, in ~/.bashrc:
      eval "$(chronosctl completion bash)"
    For zsh, in ~/.zshrc:
      eval "$(chronosctl completion zsh)"
    For fish:
      chronosctl completion fish > ~/.config/fish/completions/chronosctl.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    root = ctx.find_root()
    program = root.command.name or ""
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    # The source of the base class: the one for bash would start a bash to check its version.
    emit(ShellComplete.source(completion_class(root.command, {}, program, f"_{program.upper()}_COMPLETE")))
