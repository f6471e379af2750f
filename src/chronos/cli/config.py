"""``chronos config``: show and check the configuration, and hash passwords for it."""

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
        help="The configuration file.  [default: chronos.yaml if it exists]",
    )
    return option(command)


@click.group(short_help="Show or check the configuration.")
def config() -> None:
    """Show or check the configuration of a server started here.

    Environment variables (CHRONOS_SERVER__LISTEN is server.listen) override the file. Flags override both.
    """


@config.command(short_help="Print every setting and its origin.")
@config_option
@output_option
def show(config: Path | None, output: str) -> None:
    """Print every setting with its value and its origin: default, the file or a variable.

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
    rows = setting_rows(loaded)
    if output == "table":
        emit_table(("SETTING", "VALUE", "FROM"), [(row.name, row.text, row.origin) for row in rows])
    else:
        items = [{"name": row.name, "value": row.value, "from": row.origin, "about": row.about} for row in rows]
        emit_json(items, lines=output == "jsonl")


@config.command(short_help="Print the settings of jobs, and the levels that may set them.")
@output_option
def settings(output: str) -> None:
    """Print every setting of jobs with its built-in default and the levels that may set it.

    The server (defaults.NAME in the configuration), the namespace, the job and the task form one cascade: a later
    level overrides an earlier one, field by field. chronosctl jobs effective NAME shows the result for one job.

    \b
    Examples:
      chronos config settings
      chronos config settings -o json
    """
    from chronos.server.cascade_table import cascade_rows

    rows = cascade_rows()
    if output == "table":
        emit_table(
            ("SETTING", "DEFAULT", "LEVELS", "MEANING"),
            [(row.name, row.default, ", ".join(row.levels), row.about) for row in rows],
        )
    else:
        items = [
            {"name": row.name, "default": row.default, "levels": list(row.levels), "about": row.about} for row in rows
        ]
        emit_json(items, lines=output == "jsonl")


@config.command(short_help="Check the configuration.")
@config_option
def validate(config: Path | None) -> None:
    """Check the configuration without starting a server. Reports every problem with its origin.

    \b
    Examples:
      chronos config validate
      chronos config validate --config chronos.yaml
    """
    from chronos.server.config import read_config
    from chronos.server.wiring import check_config

    _warn(check_config(read_config(config, os.environ, {})))
    emit("the configuration is valid")


@config.command("hash-password", short_help="Hash a password for auth.users.")
def hash_password() -> None:
    """Prompt for a password and print its hash, for auth.users in the configuration. From a pipe, read the first line.

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
        raise Invalid("no password was given; type one, or send it through a pipe")
    emit(make(password))


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        note(f"! {warning}")
