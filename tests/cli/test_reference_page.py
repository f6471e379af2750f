"""Every command and every option is on the command line's reference page."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from chronos.cli.main import chronos, chronosctl

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "cli.md"


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    path = (*path, command.name or "")
    if isinstance(command, click.Group) and command.commands:
        for below in command.commands.values():
            yield from commands(below, *path)
    else:
        yield " ".join(path), command


COMMANDS = dict([*commands(chronos), *commands(chronosctl)])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_a_section_for_every_command(name: str) -> None:
    assert re.search(rf"^#+ `{name}\b", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_option(name: str) -> None:
    page = PAGE.read_text()
    options = {
        flag
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option)
        for flag in [*parameter.opts, *parameter.secondary_opts]
    }
    assert not {flag for flag in options if not re.search(rf"`{flag}\b", page)}


def test_the_page_has_no_other_commands() -> None:
    named = re.findall(r"^#+ `([a-z -]+?)(?: [A-Z\[].*)?`$", PAGE.read_text(), re.MULTILINE)
    assert set(named) == set(COMMANDS)
