"""Output formats of ``chronosctl``. JSON and YAML are exactly the server's reply; tables are for people."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronos.cli.output import emit, emit_json, emit_table, note

Item = Mapping[str, Any]
Cell = Callable[[Item], object] | str  # a str names a field of the item


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a list: the usual ones, those that ``wide`` adds, and the one that names an item."""

    usual: Mapping[str, Cell]
    wide: Mapping[str, Cell]
    name: Cell
    empty: str  # the message for an empty list

    def name_of(self, item: Item) -> str:
        return _cell_text(self.name, item)


def print_page(page: dict[str, Any], output: str, columns: Columns, *, part: str = "items") -> None:
    """Print one page of a list; say so if there are more items."""
    items = page[part]
    if output == "jsonl":
        emit_json(items, lines=True)
    elif output in ("json", "yaml"):
        print_value(page, output)
    else:
        print_items(items, output, columns)
        if page.get("next_cursor") is not None:
            note(f"… and more; showing the first {len(items)} (use --limit N or --all)")


def print_items(items: Sequence[Item], output: str, columns: Columns, *, headed: bool = True) -> None:
    """Print the rows of a list, or only their names."""
    if output == "name":
        for item in items:
            emit(columns.name_of(item))
        return
    if not items:
        note(columns.empty)
        return
    cells = {**columns.usual, **columns.wide} if output == "wide" else columns.usual
    emit_table(list(cells), [[_cell_text(cell, item) for cell in cells.values()] for item in items], headed=headed)


def print_value(value: Any, output: str) -> None:
    """Print a value as JSON or YAML."""
    if output == "yaml":
        emit(to_yaml(value).rstrip("\n"))
    else:
        emit_json(value, lines=output == "jsonl")


def print_result(reply: Any, output: str, name: str, message: str) -> None:
    """Print the name of the changed resource and a message; in JSON and YAML the server's reply."""
    if output in ("table", "wide", "name"):
        emit(name)
        note(message)
    else:
        print_value(reply, output)


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one per line. Empty values are left out."""
    cells = {
        name: format_cell(value) for name, value in fields.items() if value is not None and value not in ("", [], {})
    }
    width = max((len(name) for name in cells), default=0)
    for name, value in cells.items():
        first, *rest = value.splitlines() or [""]
        emit(f"{name.ljust(width)}  {first}".rstrip())
        for line in rest:
            emit(f"{' ' * width}  {line}")


def to_yaml(value: Any) -> str:
    """Return a value as YAML, with its fields in their order."""
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)


def format_cell(value: object) -> str:
    """Return a value as the text of a cell."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return ", ".join(f"{key}={item}" if item else str(key) for key, item in value.items())
        case list() | tuple():
            return ", ".join(format_cell(item) for item in value)
        case _:
            return str(value)


def _cell_text(cell: Cell, item: Item) -> str:
    return format_cell(item[cell] if isinstance(cell, str) else cell(item))


def format_instant(value: str | None) -> str | None:
    """Return an instant to the second: ``2027-01-01 09:00:00Z``."""
    if value is None:
        return None
    return f"{value[:19].replace('T', ' ')}Z"


def instant_column(field: str) -> Cell:
    """Return the cell that shows the instant in a field."""
    return lambda item: format_instant(item[field])


def format_milliseconds(value: float | None) -> str | None:
    """Return a duration as ``412ms`` or ``5m 58s``."""
    from chronos.core.schedule.durations import format_duration

    return None if value is None else format_duration(round(value * 1_000))


SIGNS = {
    "succeeded": "✓",
    "completed_with_errors": "✓",
    "running": "▶",
    "failed": "✕",
    "timed_out": "✕",
    "lost": "✕",
    "stale": "✕",
    "retrying": "↻",
    "missed": "!",
    "skipped": "⊘",
    "canceled": "⊘",
}


def format_status(word: str | None) -> str:
    """Return a status with its sign."""
    if word is None:
        return "–"
    return f"{SIGNS.get(word, '·')} {word.replace('_', ' ')}"
