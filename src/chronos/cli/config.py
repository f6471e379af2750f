"""``chronos config``: what the server would be told, where each value came from, and what is wrong with it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from chronos.cli.output import emit, emit_json, emit_table, note, output_option

_Command = TypeVar("_Command", bound=Callable[..., Any])


def config_option(command: _Command) -> _Command:
    """``--config FILE``; the argument is called ``config``."""
    option = click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        envvar="CHRONOS_CONFIG",
        help="The configuration file.  [default: chronos.yaml, where there is one]",
    )
    return option(command)


@click.group(short_help="Show or check the configuration.")
def config() -> None:
    """Show or check what a server started here would be told.

    A file is overridden by variables (CHRONOS_SERVER__LISTEN is server.listen), which are overridden by flags.
    """


@config.command(short_help="Print every setting and where it came from.")
@config_option
@output_option
def show(config: Path | None, output: str) -> None:
    """Print every setting with its value and where that came from: default, the file, a variable.

    Passwords are not shown.

    \b
    Examples:
      chronos config show
      chronos config show --config chronos.yaml -o json
    """
    from chronos.server.config import load_config
    from chronos.server.config_display import setting_rows

    loaded = load_config(config, os.environ, {})
    _warn(loaded.warnings)
    found = setting_rows(loaded)
    if output == "table":
        emit_table(("SETTING", "VALUE", "FROM"), [(row.name, row.text, row.origin) for row in found])
    else:
        listed = [{"name": row.name, "value": row.value, "from": row.origin, "about": row.about} for row in found]
        emit_json(listed, lines=output == "jsonl")


@config.command(short_help="Check the configuration.")
@config_option
def validate(config: Path | None) -> None:
    """Check the configuration without starting anything; every problem is told, with where it is.

    \b
    Examples:
      chronos config validate
      chronos config validate --config chronos.yaml
    """
    from chronos.server.config import read_config
    from chronos.server.wiring import check_config

    _warn(check_config(read_config(config, os.environ, {})))
    emit("the configuration is right")


@config.command("hash-password", short_help="Hash a password for auth.users.")
def hash_password() -> None:
    """Ask for a password and print its hash, for auth.users in the configuration. A pipe is read up to its first line.

    \b
    Examples:
      chronos config hash-password
    """
    from chronos.api import hash_password as make
    from chronos.errors import Invalid

    if sys.stdin is not None and sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = "" if sys.stdin is None else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise Invalid("there is no password to hash; type one, or send it through a pipe")
    emit(make(password))


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        note(f"! {warning}")
