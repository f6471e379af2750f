"""Commands that the pages only mention, in ``sh`` blocks and within sentences, exist with their options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from chronos.cli.main import chronos, chronosctl
from tests.docs.test_examples import BLOCK, PAGES, blocks, name

PROGRAMS = {"chronos": chronos, "chronosctl": chronosctl}
SPAN = re.compile(r"`((?:chronos|chronosctl) [a-z-][^`\n]*)`")


def commands(page: Path) -> Iterator[str]:
    yield from SPAN.findall(BLOCK.sub("", page.read_text()))
    for text in blocks(page, "sh"):
        yield from re.findall(r"^(?:\$ )?((?:chronos|chronosctl) .*)$", text, re.MULTILINE)


def find_fault(text: str) -> str | None:
    """What is wrong with a command; None: nothing."""
    words = shlex.split(text.replace("…", "").partition(" | ")[0], comments=True)
    command: click.Command = PROGRAMS[words.pop(0)]
    while words and isinstance(command, click.Group):
        if words[0].startswith("-"):
            break
        context = click.Context(command)
        below = command.get_command(context, words[0])
        if below is None:
            return None if command.invoke_without_command else f"{words[0]} is not a command"
        words.pop(0)
        command = below
    flags = {flag for parameter in command.params for flag in [*parameter.opts, *parameter.secondary_opts]}
    options = words[: words.index("--")] if "--" in words else words
    known = flags | {"--help", "-h", "--version"}
    return next(
        (f"{word} is not an option" for word in options if re.match("--?[a-z]", word) and word not in known), None
    )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_mentioned_commands_exist(page: Path) -> None:
    faults = {text: fault for text in commands(page) if (fault := find_fault(text))}
    assert not faults


def test_faults_are_found() -> None:
    assert find_fault("chronosctl jobs list --owner billing") is None
    assert find_fault("chronosctl jobs create … --retries 0") is None
    assert find_fault("chronosctl jobs find x") == "find is not a command"
    assert find_fault("chronos server --port 80") == "--port is not an option"
