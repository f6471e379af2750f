"""``chronosctl completion``: the script that teaches a shell to complete our commands."""

import click

from chronos.cli.output import emit

SHELLS = ("bash", "fish", "zsh")


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and time zones in SHELL.

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
    found = get_completion_class(shell)
    assert found is not None
    # The base class's source: bash's own would start a bash here only to learn its version.
    emit(ShellComplete.source(found(root.command, {}, program, f"_{program.upper()}_COMPLETE")))
