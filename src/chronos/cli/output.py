"""Output: data on stdout, messages on stderr, in characters and colours that the stream supports."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any, TypeVar

import click

FORMATS = ("table", "json", "jsonl")

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PLAIN = str.maketrans({"–": "-", "−": "-", "×": "x", "’": "'", "…": "...", "µ": "u", "✓": "ok:", "✗": "wrong:"})


def output_option(command: _Command) -> _Command:
    """``-o FORMAT``; the argument is called ``output``."""
    option = click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
    return option(command)


def emit_json(value: object, *, lines: bool) -> None:
    """Write a value as one JSON document, or with ``lines`` one line per item of a list."""
    import json

    if not lines:
        emit(json.dumps(value, indent=2))
        return
    for item in value if isinstance(value, list) else [value]:
        emit(json.dumps(item))


def emit_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, headed: bool = True) -> None:
    """Write rows in columns under a header. ``headed=False`` leaves the header out."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for number, line in enumerate(lines):
        if not number and not headed:
            continue
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        emit("  ".join(cells).rstrip(), dim=number == 0)


def emit(text: str, *, mark: str = "", **style: Any) -> None:
    """Write data. ``style`` is click's; it applies only to ``mark`` if there is one."""
    _write(sys.stdout, text, mark, style)


def note(text: str) -> None:
    """Write a message that is not an error."""
    _write(sys.stderr, text, "", {})


def emit_error(text: str) -> None:
    """Write an error, marked with ``✗``."""
    mark = "✗ " if _can_show(sys.stderr, "✗") else "error: "
    _write(sys.stderr, text, mark, {"fg": "red"})


def _write(stream: IO[str] | None, text: str, mark: str, style: dict[str, Any]) -> None:
    if stream is None:  # the parent process closed it
        return
    text = _showable(text, stream)
    colour = _in_colour(stream)
    if colour and style:
        text = click.style(mark, **style) + text if mark else click.style(text, **style)
    else:
        text = mark + text
    click.echo(text, file=stream, color=colour)


def _in_colour(stream: IO[str]) -> bool:
    """Whether to use colours. A non-empty NO_COLOR turns them off (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _showable(text: str, stream: IO[str]) -> str:
    """Escape control characters, and replace characters that the stream's encoding lacks."""
    text = "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if not _can_show(stream, text):
        encoding = _encoding(stream)
        text = text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text


def _can_show(stream: IO[str], text: str) -> bool:
    try:
        text.encode(_encoding(stream))
    except UnicodeEncodeError:
        return False
    return True


def _encoding(stream: IO[str]) -> str:
    return getattr(stream, "encoding", None) or "utf-8"
